//! `CL.THROTTLE` as redis-cell answers it, `THROTTLE` as throttlecrab does: limits that the call carries.
//!
//! Both count in the carried limit: the key alone is the bucket.

use limiter::{Decision, Rate, Request, Terms, Wait};
use wire::resp::RespWriter;

use super::{Call, Refusal, Reply, integer};
use crate::node::Node;

const SECOND_NS: u64 = 1_000_000_000;
const CL_USAGE: &str =
    "ERR Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
const USAGE: &str =
    "ERR Usage: throttle <key> <max_burst> <count per period> <period> [<quantity>]";

/// The numbers of a call.
struct Numbers {
    max_burst: u64,
    rate: Rate,
    quantity: u64,
}

/// Key and numbers, or why there are none.
fn read<'c>(arguments: &'c [&'c [u8]], usage: &str) -> Result<(&'c [u8], Numbers), Refusal> {
    let (key, max_burst, count, period, quantity) = match arguments {
        [key, max_burst, count, period] => (key, max_burst, count, period, None),
        [key, max_burst, count, period, quantity] => {
            (key, max_burst, count, period, Some(quantity))
        }
        _ => return Err(usage.to_owned()),
    };
    let number = |name: &str, argument: &[u8], least: i64| {
        let number = integer(argument).filter(|number| *number >= least);
        number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| {
            let shown: String = argument.escape_ascii().to_string().chars().take(32).collect();
            format!("ERR {name} is '{shown}' and must be a whole number of at least {least}")
        })
    };
    let period_s = number("period", period, 1)?;
    let period_ns = period_s.checked_mul(SECOND_NS).ok_or("ERR period is too long")?;
    let numbers = Numbers {
        max_burst: number("max_burst", max_burst, 0)?,
        rate: Rate { count: number("count per period", count, 1)?, period_ns },
        quantity: quantity.map_or(Ok(1), |quantity| number("quantity", quantity, 0))?,
    };
    Ok((key, numbers))
}

/// `CL.THROTTLE key max_burst count period [quantity]`: limited, limit, remaining, retry after, reset after.
pub(super) fn cl_throttle<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let (key, numbers) = match read(call.arguments, CL_USAGE) {
        Ok(read) => read,
        Err(refusal) => return call.refuse(&refusal),
    };
    let terms = Terms { rate: numbers.rate, burst: numbers.max_burst.saturating_add(1) };
    let request = Request::check(b"", key).with_cost(numbers.quantity).with_terms(terms);
    call.ask(&request, None, |reply, _: &Node, _, decision| {
        let verdict = &decision.verdict;
        reply.array(5);
        reply.integer(i64::from(!verdict.allowed));
        reply.unsigned(verdict.limit.unwrap_or(0));
        reply.unsigned(verdict.remaining.unwrap_or(0));
        retry_after(reply, decision, -1);
        seconds(reply, verdict.reset_after);
    })
}

/// `THROTTLE key max_burst count period [quantity]`: allowed, limit, remaining, reset after, retry after.
pub(super) fn throttle<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let (key, numbers) = match read(call.arguments, USAGE) {
        Ok(read) => read,
        Err(refusal) => return call.refuse(&refusal),
    };
    if numbers.max_burst == 0 {
        return call.refuse("ERR max_burst is '0' and must be a whole number of at least 1");
    }
    let terms = Terms { rate: numbers.rate, burst: numbers.max_burst };
    let request = Request::check(b"", key).with_cost(numbers.quantity).with_terms(terms);
    call.ask(&request, None, |reply, _: &Node, _, decision| {
        let verdict = &decision.verdict;
        reply.array(5);
        reply.integer(i64::from(verdict.allowed));
        reply.unsigned(verdict.limit.unwrap_or(0));
        reply.unsigned(verdict.remaining.unwrap_or(0));
        seconds(reply, verdict.reset_after);
        retry_after(reply, decision, 0);
    })
}

/// Seconds to wait; `allowed` where there is nothing to wait for, and -1 where no wait helps.
fn retry_after(reply: &mut RespWriter<'_>, decision: &Decision<'_>, allowed: i64) {
    match decision.verdict.retry_after.to_secs() {
        _ if decision.verdict.allowed => reply.integer(allowed),
        Some(seconds) => reply.unsigned(seconds.max(1)),
        None => reply.integer(-1),
    }
}

fn seconds(reply: &mut RespWriter<'_>, wait: Wait) {
    match wait.to_secs() {
        Some(seconds) => reply.unsigned(seconds),
        None => reply.integer(-1),
    }
}
