//! A trace through every algorithm, call by call.

use std::io::{self, BufRead};

use sim::compare::{Algorithm, Call, Comparison, Lane, Numbers};

use super::trace::Trace;

/// Width of the slots of a series at first, in nanoseconds: most logs have whole seconds.
const SLOT_NS: u64 = 1_000_000_000;

/// Runs all calls of `trace` through each of `algorithms` with `numbers`, each on one exact node that
/// starts with the first call.
///
/// # Errors
/// The trace cannot be read, or has no call that can.
pub fn run_trace(
    trace: &mut Trace<impl BufRead>,
    numbers: &Numbers,
    algorithms: &[Algorithm],
) -> io::Result<Comparison> {
    let Some(first) = trace.next_call()? else { return Err(nothing_in(trace)) };
    let start_unix_ns = first.unix_ns;
    let lane = |algorithm: &Algorithm| {
        (*algorithm, Lane::new(*algorithm, numbers, start_unix_ns, SLOT_NS))
    };
    let mut lanes: Vec<_> = algorithms.iter().map(lane).collect();
    let (mut calls, mut last_unix_ns) = (0, start_unix_ns);
    let mut next = Some(first);
    while let Some(call) = next {
        let asked = Call { unix_ns: call.unix_ns, key: &call.key, cost: call.cost };
        for lane in lanes.iter_mut().filter_map(|(_, lane)| lane.as_mut().ok()) {
            // Keys are within the limiter's bounds: the trace has seen to that.
            lane.handle_call(&asked).map_err(io::Error::other)?;
        }
        calls += 1;
        last_unix_ns = call.unix_ns;
        next = trace.next_call()?;
    }
    let lanes = lanes.into_iter().map(|(algorithm, lane)| (algorithm, lane.map(Lane::finish)));
    let duration_ns = last_unix_ns - start_unix_ns;
    Ok(Comparison { start_unix_ns, duration_ns, calls, lanes: lanes.collect() })
}

/// Why there is nothing to go by in `trace`.
pub(super) fn nothing_in<R: BufRead>(trace: &Trace<R>) -> io::Error {
    let counts = trace.counts();
    let why = match counts.told.first() {
        Some((line, why)) => format!(
            "none of its {} lines is a call that can be read; line {line}: {why}",
            counts.lines
        ),
        None => "there is no call in it".to_owned(),
    };
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use limiter::Rate;

    use super::*;

    const NUMBERS: Numbers =
        Numbers { rate: Rate { count: 2, period_ns: 10_000_000_000 }, burst: 2 };

    fn run(text: &str) -> io::Result<Comparison> {
        let mut trace = Trace::new(text.as_bytes(), None);
        run_trace(&mut trace, &NUMBERS, &[Algorithm::TokenBucket])
    }

    #[test]
    fn a_trace_is_decided_in_the_order_of_time_and_by_key() {
        let found = run("100,a\n100,a\n104.9,a\n105,a\n105,b\n103,b\n").expect("calls");
        let judgement = found.lanes[0].1.as_ref().expect("a bucket");
        // Of `a`: two at once, one that is a tenth of a second too early, one in time.
        assert_eq!((judgement.allowed, judgement.denied), (5, 1));
        assert_eq!((found.calls, found.duration_ns), (6, 5_000_000_000));
        assert_eq!(judgement.worst_period.units, 3);
        assert_eq!(judgement.longest_denial_ns, 100_000_000);
    }

    #[test]
    fn a_trace_without_calls_says_why() {
        let error = run("x,y\n").expect_err("no call").to_string();
        assert!(error.contains("none of its 1 lines") && error.contains("line 1:"), "{error}");
        assert_eq!(run("").expect_err("nothing").to_string(), "there is no call in it");
    }
}
