//! `RL.CHECK`, `RL.PEEK`, `RL.DEBIT` and `RL.REFUND`: questions to the limits of the file.

use std::time::Duration;

use limiter::{ATTRIBUTES_MAX, COSTS_MAX, DEFAULT_UNIT, Decision, Op, Request};
use wire::resp::RespWriter;

use super::{Call, Refusal, Reply, is_word, unsigned};
use crate::node::Node;

/// What a question says beside key and endpoint.
pub(super) struct Question<'c> {
    pub(super) request: Request<'c>,
    max_wait: Option<Duration>,
}

/// Reads `key endpoint [COST n] [UNIT name n]... [ATTR name value]... [MAXWAIT ms]`.
pub(super) fn read<'c>(
    arguments: &'c [&'c [u8]],
    name: &str,
    op: Op,
) -> Result<Question<'c>, Refusal> {
    let [key, endpoint, options @ ..] = arguments else {
        return Err(format!(
            "ERR Usage: {name} <key> <endpoint> [COST <n>] [UNIT <name> <n>]... [ATTR <name> \
             <value>]... [MAXWAIT <ms>]"
        ));
    };
    let mut question =
        Question { request: Request::check(endpoint, key).with_op(op), max_wait: None };
    let mut options = options;
    while let [option, rest @ ..] = options {
        options = question.take(option, rest)?;
    }
    Ok(question)
}

impl<'c> Question<'c> {
    /// Takes one option, and gives what follows it.
    fn take(&mut self, option: &[u8], rest: &'c [&'c [u8]]) -> Result<&'c [&'c [u8]], Refusal> {
        match rest {
            [cost, rest @ ..] if is_word(option, "COST") => {
                self.add_cost(DEFAULT_UNIT.as_bytes(), cost)?;
                Ok(rest)
            }
            [unit, cost, rest @ ..] if is_word(option, "UNIT") => {
                self.add_cost(unit, cost)?;
                Ok(rest)
            }
            [name, value, rest @ ..] if is_word(option, "ATTR") => {
                if self.request.attributes.try_push((name, value)).is_err() {
                    return Err(format!("ERR there are more than {ATTRIBUTES_MAX} attributes"));
                }
                Ok(rest)
            }
            [wait, rest @ ..] if is_word(option, "MAXWAIT") => {
                let ms = unsigned(wait).ok_or("ERR MAXWAIT is no whole number of milliseconds")?;
                self.max_wait = Some(Duration::from_millis(ms));
                Ok(rest)
            }
            _ => {
                let shown: String = option.escape_ascii().to_string().chars().take(32).collect();
                Err(format!("ERR syntax error near '{shown}'"))
            }
        }
    }

    fn add_cost(&mut self, unit: &'c [u8], cost: &[u8]) -> Result<(), Refusal> {
        let cost = unsigned(cost).ok_or("ERR a cost is no whole number from 0 to 2^64 - 1")?;
        let added = self.request.costs.try_push((unit, cost));
        added.map_err(|_| format!("ERR there are more than {COSTS_MAX} costs"))
    }
}

/// Asks, and replies with a map of the names that HTTP has.
pub(super) fn ask<'n>(call: &mut Call<'_, 'n>, name: &str, op: Op) -> Reply<'n> {
    let question = match read(call.arguments, name, op) {
        Ok(question) => question,
        Err(refusal) => return call.refuse(&refusal),
    };
    call.ask(&question.request, question.max_wait, write)
}

fn write(reply: &mut RespWriter<'_>, node: &Node, now_ns: u64, decision: &Decision<'_>) {
    let verdict = &decision.verdict;
    let number = |reply: &mut RespWriter<'_>, name: &str, number: Option<u64>| {
        reply.bulk(name.as_bytes());
        match number {
            Some(number) => reply.unsigned(number),
            None => reply.null(),
        }
    };
    reply.map(11);
    reply.bulk(b"allowed");
    reply.boolean(verdict.allowed);
    reply.bulk(b"limit_name");
    reply.bulk(verdict.limit_name.as_bytes());
    number(reply, "limit", verdict.limit);
    number(reply, "remaining", verdict.remaining);
    number(reply, "reset_after_ms", verdict.reset_after.to_ms());
    number(reply, "reset_at_ms", node.clock().unix_ms(now_ns, verdict.reset_after));
    number(reply, "retry_after_ms", verdict.retry_after.to_ms());
    number(reply, "delay_ms", verdict.delay.to_ms());
    reply.bulk(b"reason");
    reply.bulk(verdict.reason.as_str().as_bytes());
    reply.bulk(b"freshness");
    reply.bulk(decision.freshness.as_str().as_bytes());
    number(reply, "stale_ms", Some(decision.stale_ms.into()));
}
