//! The load generator: one thread that sends what a schedule says when it is due, over a line to each
//! node, sleeps in between, and notes what came back and when. It judges nothing.

use rustix::event::{PollFd, PollFlags, poll};

use super::line::{Answered, Line, Naming};
use super::schedule::Ask;
use crate::clock::{self, NS_PER_MS, NS_PER_S};
use crate::failure::Failure;

/// Frames sent between two looks for answers: when many are due at once, answers are not left lying
/// until the last is sent.
const SENDS_IN_A_ROW: usize = 8;
/// How long answers are waited for after the last frame was sent: a check is held a second at most.
const LINGER_NS: u64 = 3 * NS_PER_S / 2;
/// What could not be sent for so long is given up.
const GIVE_UP_NS: u64 = NS_PER_S;
/// Longest sleep. Nothing depends on it.
const SLEEP_NS_MAX: u64 = 100 * NS_PER_MS;

/// What became of one frame. Times are from the start on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Just before it was sent; none: it never was.
    pub(super) sent_ns: Option<u64>,
    /// Just after its answer was received; none: there was none.
    pub(super) received_ns: Option<u64>,
    /// What the answer says.
    pub(super) answered: Answered,
}

/// Asks everything in `asks`, by node over `lines`, from `started_ns` on. Returns what was seen, by
/// ask.
///
/// # Errors
/// If a line cannot go on.
pub(super) fn run(
    asks: &[Ask],
    lines: &mut [Line],
    naming: &Naming,
    started_ns: u64,
) -> Result<Vec<Seen>, Failure> {
    let mut seen = vec![Seen::default(); asks.len()];
    let (mut next, mut open, mut sent_last_ns) = (0, 0_usize, started_ns);
    loop {
        let mut now_ns = clock::now_ns();
        let mut in_a_row = 0;
        while let Some(ask) = asks.get(next).filter(|ask| started_ns + ask.at_ns <= now_ns) {
            let sent_ns = clock::now_ns();
            if lines[ask.node].ask(next, naming, ask.key, ask.checks)? {
                seen[next].sent_ns = Some(sent_ns.saturating_sub(started_ns));
                (open, sent_last_ns) = (open + 1, sent_ns);
                next += 1;
            } else if sent_ns.saturating_sub(started_ns + ask.at_ns) > GIVE_UP_NS {
                next += 1;
            } else {
                break;
            }
            in_a_row += 1;
            if in_a_row == SENDS_IN_A_ROW {
                break;
            }
            now_ns = sent_ns;
        }
        for line in lines.iter_mut() {
            open -= take_answers(line, &mut seen, asks, started_ns)?;
        }
        now_ns = clock::now_ns();
        let due_ns = match asks.get(next) {
            Some(ask) => started_ns + ask.at_ns,
            None if open == 0 || now_ns > sent_last_ns + LINGER_NS => return Ok(seen),
            None => sent_last_ns + LINGER_NS,
        };
        if in_a_row < SENDS_IN_A_ROW {
            sleep(lines, due_ns.saturating_sub(now_ns));
        }
    }
}

/// Notes every answer that has come, and returns how many frames are no longer open.
fn take_answers(
    line: &mut Line,
    seen: &mut [Seen],
    asks: &[Ask],
    started_ns: u64,
) -> Result<usize, Failure> {
    let mut closed = 0;
    line.flush()?;
    line.receive(|mut answered| {
        let received_ns = clock::now_ns().saturating_sub(started_ns);
        let at = answered.ask;
        let (Some(seen), Some(ask)) = (seen.get_mut(at), asks.get(at)) else { return };
        if seen.sent_ns.is_none() || seen.received_ns.is_some() {
            return;
        }
        if answered.allowed + answered.denied + answered.failed == 0 {
            answered.failed = ask.checks;
        }
        seen.received_ns = Some(received_ns);
        seen.answered = answered;
        closed += 1;
    })?;
    Ok(closed)
}

/// Sleeps until something can be received or sent, or for `ns` at most.
fn sleep(lines: &[Line], ns: u64) {
    let mut ends: Vec<_> = lines
        .iter()
        .map(|line| {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, line.has_unsent());
            PollFd::from_borrowed_fd(line.fd(), flags)
        })
        .collect();
    // An interruption looks like a time-out; the caller looks again.
    let _ = poll(&mut ends, Some(&clock::timespec(ns.min(SLEEP_NS_MAX))));
}
