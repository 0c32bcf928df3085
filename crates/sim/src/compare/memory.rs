//! How much memory an algorithm takes for a key, as the limiter itself counts it.

use limiter::{Request, Usage};

use super::Algorithm;
use super::exact_node::ExactNode;
use super::lane::store;
use super::numbers::Numbers;
use crate::workload::Arrival;

/// Keys that make the same calls when the memory of a key is measured: a table of 2,048 places is then
/// about as full as tables are on average. A quarter of them, and so on, fill smaller tables as much.
const KEYS: usize = 1_500;
/// Fewest keys.
const KEYS_MIN: usize = 20;
/// Most decisions for one measurement; with more calls there are fewer keys.
const DECISIONS_MAX: usize = 100_000;

/// The memory of the tables when they were largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of the tables.
    pub bytes: u64,
    /// Keys that they held then.
    pub keys: u64,
    /// Calls whose key found no room: they shared one bucket.
    pub overflowed: u64,
}

impl Memory {
    /// Bytes for a key, rounded up.
    pub fn bytes_per_key(&self) -> u64 {
        self.bytes.div_ceil(self.keys.max(1))
    }

    /// Takes `usage` over if it is more, or as much for more keys.
    pub(super) fn look(&mut self, usage: Usage) {
        if (usage.table_bytes, usage.entries) > (self.bytes, self.keys) {
            (self.bytes, self.keys) = (usage.table_bytes, usage.entries);
        }
    }
}

/// Measures with the fullest period of `arrivals`, made by many keys at once: tables have a smallest size,
/// so that one key would tell nothing.
pub(super) fn measure(
    algorithm: Algorithm,
    numbers: &Numbers,
    start_unix_ns: u64,
    arrivals: &[Arrival],
) -> Result<Memory, String> {
    let arrivals = fullest(arrivals, numbers.rate.period_ns);
    let mut keys = KEYS;
    while keys > KEYS_MIN && keys * arrivals.len() > DECISIONS_MAX {
        keys /= 4;
    }
    let names: Vec<String> = (0..keys).map(|key| format!("client-{key}")).collect();
    let store = store(keys as u64 * 2);
    let mut node = ExactNode::new(numbers.plan(algorithm)?, store, start_unix_ns);
    let mut memory = Memory::default();
    for arrival in arrivals {
        let unix_ns = start_unix_ns.saturating_add(arrival.at_ns);
        for name in &names {
            let request = Request::check(b"", name.as_bytes()).with_cost(arrival.cost);
            node.decide(unix_ns, &request).map_err(|error| error.to_string())?;
        }
        memory.look(node.limiter().usage());
    }
    Ok(memory)
}

/// Those of the period in which there are most.
fn fullest(arrivals: &[Arrival], period_ns: u64) -> &[Arrival] {
    let (mut first, mut fullest) = (0, 0..0);
    for (place, arrival) in arrivals.iter().enumerate() {
        while arrival.at_ns - arrivals[first].at_ns >= period_ns {
            first += 1;
        }
        if place + 1 - first > fullest.len() {
            fullest = first..place + 1;
        }
    }
    &arrivals[fullest]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_period_is_found() {
        let arrival = |at_ns| Arrival { at_ns, node: 0, key: 0, cost: 1 };
        let arrivals = [0, 10, 12, 19, 20, 31].map(arrival);
        assert_eq!(fullest(&arrivals, 10), &[10, 12, 19].map(arrival));
        assert!(fullest(&[], 10).is_empty());
    }

    #[test]
    fn the_largest_tables_count() {
        let usage = |entries, table_bytes| Usage { entries, entries_max: 9, table_bytes };
        let mut memory = Memory::default();
        for seen in [usage(1, 100), usage(3, 100), usage(2, 100), usage(2, 80)] {
            memory.look(seen);
        }
        assert_eq!((memory.bytes, memory.keys, memory.bytes_per_key()), (100, 3, 34));
    }
}
