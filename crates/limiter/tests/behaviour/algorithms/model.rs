//! The obvious algorithms that the real ones are held against: fractions, lists, and waits that are found
//! by trying.

use limiter::{Op, Quota, Window};

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ns: u64,
    pub(crate) unix_ns: u64,
}

/// What one limit says to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// None for never.
    pub(crate) retry_after_ns: Option<u64>,
    pub(crate) reset_after_ns: u64,
    pub(crate) delay_ns: u64,
    pub(crate) window_ns: u64,
}

/// One bucket of one limit.
#[derive(Clone)]
pub(crate) struct Model {
    state: State,
    limit: i128,
    /// What a unit weighs in what is missing.
    unit: i128,
}

#[derive(Clone)]
enum State {
    /// What is in it, in units times the period of the rate, when it was last changed.
    Leaky { content: i128, read_ns: u64, count: i128, is_queue: bool },
    /// The window that was last written, if any.
    Windows { cut: Cut, is_sliding: bool, window: Option<Counted> },
    /// When each unit was accepted.
    Log { times: Vec<u64>, period_ns: u64 },
}

/// How time is cut.
#[derive(Clone)]
enum Cut {
    Period(u64),
    /// The beginnings of all windows, in ns of Unix time.
    Beginnings(Vec<u64>),
}

/// A window that has begun.
#[derive(Clone, Copy)]
struct Counted {
    ends_ns: u64,
    length_ns: u64,
    before: i128,
    here: i128,
}

impl Model {
    /// A full bucket of `quota`. The windows of a calendar begin at `beginnings`.
    pub(crate) fn new(quota: &Quota, beginnings: &[u64]) -> Self {
        let windows = |cut, is_sliding| State::Windows { cut, is_sliding, window: None };
        let (state, limit, unit) = match quota {
            Quota::TokenBucket { rate, burst } => {
                (leaky(rate.count, false), *burst, rate.period_ns)
            }
            Quota::LeakyBucket { rate, burst, queue } => {
                (leaky(rate.count, *queue), *burst, rate.period_ns)
            }
            Quota::FixedWindow { limit, window: Window::Period(period_ns) } => {
                (windows(Cut::Period(*period_ns), false), *limit, 1)
            }
            Quota::FixedWindow { limit, window: Window::Calendar(_) } => {
                (windows(Cut::Beginnings(beginnings.to_vec()), false), *limit, 1)
            }
            Quota::SlidingWindow { limit, period_ns } => {
                (windows(Cut::Period(*period_ns), true), *limit, period_ns / 1_000_000)
            }
            Quota::SlidingLog { limit, period_ns } => {
                (State::Log { times: Vec::new(), period_ns: *period_ns }, *limit, 1)
            }
            Quota::Deny | Quota::Unlimited | Quota::Carried => panic!("nothing is counted"),
        };
        Self { state, limit: limit.into(), unit: unit.into() }
    }

    /// The wait that a call of `cost` units is told: nothing if it fits, none if it never does.
    pub(crate) fn wait(&self, now: Moment, cost: u64) -> Option<u64> {
        let room = self.limit - i128::from(cost);
        (room >= 0).then(|| self.until(now, room * self.unit))
    }

    /// Does what `op` does, of a check that all limits let pass.
    pub(crate) fn change(&mut self, now: Moment, op: Op, cost: u64) {
        let missing = self.missing(now);
        let (cost, unit, full) = (i128::from(cost), self.unit, self.limit * self.unit);
        // A debt is at most the limit once more.
        let bounded = cost.min((2 * full - missing) / unit);
        match &mut self.state {
            State::Leaky { content, read_ns, .. } => {
                *content = match op {
                    Op::Peek => return,
                    Op::Check | Op::Debit => (missing + cost * unit).min(2 * full),
                    Op::Refund => (missing - cost * unit).max(0),
                    Op::Reset => 0,
                };
                *read_ns = now.ns;
            }
            State::Windows { cut, is_sliding, window } => {
                let mut counted = rolled(cut, *window, now);
                match op {
                    Op::Peek => return,
                    Op::Check | Op::Debit => counted.here += bounded,
                    Op::Refund => {
                        let from_here = cost.min(counted.here);
                        counted.here -= from_here;
                        if *is_sliding {
                            counted.before -= (cost - from_here).min(counted.before);
                        }
                    }
                    Op::Reset => {}
                }
                // What changes nothing writes nothing.
                if cost > 0 {
                    *window = (op != Op::Refund || window.is_some()).then_some(counted);
                }
                if op == Op::Reset {
                    *window = None;
                }
            }
            State::Log { times, .. } => match op {
                Op::Peek => {}
                Op::Check | Op::Debit => times.extend((0..bounded).map(|_| now.ns)),
                Op::Refund => {
                    let kept =
                        times.len().saturating_sub(usize::try_from(cost).unwrap_or(usize::MAX));
                    times.truncate(kept);
                }
                Op::Reset => times.clear(),
            },
        }
    }

    /// What the limit says, with the numbers of now, to a call that was told `wait` and before which so
    /// much was missing.
    pub(crate) fn answer(
        &self,
        now: Moment,
        op: Op,
        wait: Option<u64>,
        missing_before: i128,
    ) -> Answer {
        let allowed = wait == Some(0);
        let delay_ns = match &self.state {
            State::Leaky { count, is_queue: true, .. }
                if allowed && matches!(op, Op::Check | Op::Peek) =>
            {
                to_u64((missing_before + count - 1) / count)
            }
            _ => 0,
        };
        let full = self.limit * self.unit;
        Answer {
            allowed,
            limit: to_u64(self.limit),
            remaining: to_u64((full - self.missing(now)).max(0) / self.unit),
            retry_after_ns: wait,
            reset_after_ns: self.until(now, 0),
            delay_ns,
            window_ns: match &self.state {
                State::Leaky { count, .. } => to_u64((full + count - 1) / count),
                State::Windows { cut, window, .. } => rolled(cut, *window, now).length_ns,
                State::Log { period_ns, .. } => *period_ns,
            },
        }
    }

    /// What is missing at `now`.
    pub(crate) fn missing(&self, now: Moment) -> i128 {
        match &self.state {
            State::Windows { cut, is_sliding, window } => {
                missing_in(rolled(cut, *window, now), *is_sliding, now.ns)
            }
            State::Leaky { .. } | State::Log { .. } => self.missing_after(now, 0),
        }
    }

    /// What will be missing after a wait, if nobody else calls and nobody sets the wall clock: windows
    /// follow each other without a gap.
    fn missing_after(&self, now: Moment, wait_ns: u64) -> i128 {
        let then_ns = now.ns.saturating_add(wait_ns);
        match &self.state {
            State::Leaky { content, read_ns, count, .. } => {
                (content - i128::from(then_ns - read_ns) * count).max(0)
            }
            State::Windows { cut, is_sliding, window } => {
                let mut counted = rolled(cut, *window, now);
                // Two windows on nothing counts, so two rounds find what there is.
                for _ in 0..2 {
                    if then_ns >= counted.ends_ns {
                        let ends_ns = counted.ends_ns.saturating_add(counted.length_ns);
                        counted = Counted { before: counted.here, here: 0, ends_ns, ..counted };
                    }
                }
                if then_ns >= counted.ends_ns {
                    0
                } else {
                    missing_in(counted, *is_sliding, then_ns)
                }
            }
            State::Log { times, period_ns } => {
                let counts =
                    |at: &&u64| i128::from(**at) > i128::from(then_ns) - i128::from(*period_ns);
                i128::try_from(times.iter().filter(counts).count()).unwrap()
            }
        }
    }

    /// The smallest wait after which at most `most` is missing.
    fn until(&self, now: Moment, most: i128) -> u64 {
        let fits = |wait_ns: &u64| self.missing_after(now, *wait_ns) <= most;
        if fits(&0) {
            return 0;
        }
        let (mut too_short, mut enough) = (0, 1);
        while !fits(&enough) {
            (too_short, enough) = (enough, enough * 2);
        }
        while enough - too_short > 1 {
            let middle = too_short + (enough - too_short) / 2;
            if fits(&middle) { enough = middle } else { too_short = middle }
        }
        enough
    }
}

fn leaky(count: u64, is_queue: bool) -> State {
    State::Leaky { content: 0, read_ns: 0, count: count.into(), is_queue }
}

/// What is missing of windows at `now_ns`, which lies in the one that has begun.
fn missing_in(counted: Counted, is_sliding: bool, now_ns: u64) -> i128 {
    if !is_sliding {
        return counted.here;
    }
    let period_ms = counted.length_ns / 1_000_000;
    let left_ms = (counted.ends_ns - now_ns).div_ceil(1_000_000).min(period_ms);
    counted.here * i128::from(period_ms) + counted.before * i128::from(left_ms)
}

/// The window at `now`: the one that has begun, as long as it lasts, then the one of the wall clock; or the
/// one after that, if the one that has ended took more than half of it. The one that has ended is the one
/// before if less than half a window lies between them and it ended less than a window ago.
fn rolled(cut: &Cut, window: Option<Counted>, now: Moment) -> Counted {
    let (begins, ends) = cut.window(now.unix_ns);
    let wall = |begins: u64, ends: u64| Counted {
        ends_ns: now.ns + (ends - now.unix_ns),
        length_ns: ends - begins,
        before: 0,
        here: 0,
    };
    let fresh = wall(begins, ends);
    let Some(old) = window else { return fresh };
    if now.ns < old.ends_ns {
        return old;
    }
    let half_is_gone = |window: Counted| (window.ends_ns - old.ends_ns) * 2 < window.length_ns;
    let next = if half_is_gone(fresh) {
        let (begins, ends) = cut.window(ends);
        wall(begins, ends)
    } else {
        fresh
    };
    let begins_ns = i128::from(next.ends_ns) - i128::from(next.length_ns);
    let gap_ns = begins_ns - i128::from(old.ends_ns);
    let follows = gap_ns * 2 < i128::from(next.length_ns) && now.ns - old.ends_ns < next.length_ns;
    Counted { before: if follows { old.here } else { 0 }, ..next }
}

impl Cut {
    /// Where the window of a Unix time begins and ends.
    fn window(&self, unix_ns: u64) -> (u64, u64) {
        match self {
            Self::Period(period_ns) => {
                let begins = unix_ns / period_ns * period_ns;
                (begins, begins + period_ns)
            }
            Self::Beginnings(beginnings) => {
                let next = beginnings.iter().position(|begins| *begins > unix_ns).unwrap();
                (beginnings[next - 1], beginnings[next])
            }
        }
    }
}

fn to_u64(n: i128) -> u64 {
    u64::try_from(n).unwrap()
}
