//! Making every key before the first run, and what memory that takes.

use serde::Serialize;

use crate::driver::{Driver, Shape, Until};
use crate::failure::Failure;
use crate::keys::Keys;
use crate::server::Server;

/// Checks in each question.
const BATCH: u64 = 64;
/// Questions in flight.
const WINDOW: usize = 8;
/// Looks at the memory on the way, so that one falls near each growth of a table.
const STEPS: u64 = 64;
/// Looks that do not count for the worst: with few keys it is the server's fixed part that shows.
const STEPS_SKIPPED: u64 = STEPS / 4;

/// What the keys took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Memory {
    /// Keys made.
    pub(crate) keys: u64,
    /// Physical memory before the first, in bytes.
    pub(crate) rss_before_bytes: u64,
    /// After the last.
    pub(crate) rss_after_bytes: u64,
    /// What came in between, for each key.
    pub(crate) bytes_per_key: f64,
    /// The most that it was at any look from a quarter of the keys on: just after a table grew.
    pub(crate) worst_bytes_per_key: f64,
}

/// Asks `server` about each of `keys` keys once; none if its process is not known.
///
/// # Errors
/// If it does not answer, or denies.
pub(super) fn preload(server: &Server, keys: u64) -> Result<Option<Memory>, Failure> {
    let checks = BATCH.min(keys);
    let shape = Shape {
        connections: 1,
        window: WINDOW,
        checks: usize::try_from(checks).unwrap_or(1),
        checks_per_s: None,
    };
    let endpoint = server.endpoint_for_preload();
    let mut driver = Driver::open(&endpoint, shape, Keys::sequence(0, keys))?;
    let before = server.rss_bytes()?;
    // The last question may ask about some keys twice.
    let questions = keys.div_ceil(checks);
    let (mut asked, mut worst) = (0, 0.0_f64);
    for step in 1..=STEPS {
        let goal = questions * step / STEPS;
        let tally = driver.run(Until::Asked(goal - asked))?;
        if tally.failed > 0 || tally.denied > 0 {
            return Err(Failure::new(format!(
                "{} denied {} checks and failed {} while keys were made; start it afresh",
                server.name, tally.denied, tally.failed
            )));
        }
        asked = goal;
        if let (Some(before), Some(now), true) =
            (before, server.rss_bytes()?, step > STEPS_SKIPPED && asked > 0)
        {
            worst = worst.max(per_key(before, now, asked * checks));
        }
    }
    let (Some(before), Some(after)) = (before, server.rss_bytes()?) else { return Ok(None) };
    Ok(Some(Memory {
        keys,
        rss_before_bytes: before,
        rss_after_bytes: after,
        bytes_per_key: per_key(before, after, keys),
        worst_bytes_per_key: worst,
    }))
}

/// Growth of the memory by key; 0 if it did not grow.
fn per_key(before_bytes: u64, after_bytes: u64, keys: u64) -> f64 {
    after_bytes.saturating_sub(before_bytes) as f64 / keys as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_by_key_is_what_was_added() {
        assert!((per_key(1_000, 51_000, 1_000) - 50.0).abs() < 1e-9);
        assert!(per_key(1_000, 900, 1_000).abs() < 1e-9);
    }
}
