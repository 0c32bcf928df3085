//! One algorithm on one exact node, asked call by call.

use limiter::{Request, RequestError, StoreConfig, WhenFull};

use super::Algorithm;
use super::exact_node::ExactNode;
use super::judge::{Judge, Judgement};
use super::numbers::Numbers;
use super::series::Series;

/// Most keys at a time whose windows and denials are measured.
pub const MEASURED_KEYS_MAX: usize = 200_000;

/// Bounds of the tables: a million keys in more memory than they take with any algorithm but the log.
const MEMORY_BYTES: u64 = 1 << 30;
const ENTRIES_MAX: u64 = 1_000_000;

/// Calls between two looks at the memory.
const USAGE_EVERY: u64 = 1_024;

/// A call that somebody makes.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// When, as Unix time in nanoseconds.
    pub unix_ns: u64,
    /// Who calls.
    pub key: &'a [u8],
    /// What it costs, in units.
    pub cost: u64,
}

/// One algorithm under way.
#[derive(Debug)]
pub struct Lane {
    node: ExactNode,
    judge: Judge,
    calls: u64,
}

impl Lane {
    /// A node that has just started, at `start_unix_ns`. Its series begins with slots of `slot_ns`.
    ///
    /// # Errors
    /// Numbers that this algorithm cannot have, and what to do.
    pub fn new(
        algorithm: Algorithm,
        numbers: &Numbers,
        start_unix_ns: u64,
        slot_ns: u64,
    ) -> Result<Self, String> {
        let node = ExactNode::new(numbers.plan(algorithm)?, store(ENTRIES_MAX), start_unix_ns);
        let series = Series::new(start_unix_ns, slot_ns);
        let judge = Judge::new(numbers.rate.period_ns, MEASURED_KEYS_MAX, series);
        Ok(Self { node, judge, calls: 0 })
    }

    /// Asks for `call`; calls come in the order of their time, and one that does not is decided at the time
    /// of the last. True if it passes.
    ///
    /// # Errors
    /// A key outside the limiter's bounds; the call counts nowhere.
    pub fn handle_call(&mut self, call: &Call<'_>) -> Result<bool, RequestError> {
        let Call { unix_ns, key, cost } = *call;
        let request = Request::check(b"", key).with_cost(cost);
        let decision = self.node.decide(unix_ns, &request)?;
        self.judge.handle(unix_ns, key, cost, &decision.verdict);
        let allowed = decision.verdict.allowed;
        if self.calls.is_multiple_of(USAGE_EVERY) {
            self.look_at_memory();
        }
        self.calls += 1;
        Ok(allowed)
    }

    /// What it came to.
    pub fn finish(mut self) -> Judgement {
        self.look_at_memory();
        self.judge.memory().overflowed = self.node.limiter().counts().full;
        self.judge.finish()
    }

    fn look_at_memory(&mut self) {
        self.judge.memory().look(self.node.limiter().usage());
    }
}

/// Tables of at most so many entries; keys beyond share one bucket.
pub(super) fn store(entries_max: u64) -> StoreConfig {
    StoreConfig {
        memory_bytes: MEMORY_BYTES,
        entries_max: Some(entries_max),
        when_full: WhenFull::Overflow,
        secret: *b"compare, no node",
    }
}
