//! What an exchange came to.

use std::fmt;

use serde::Serialize;

use super::marker::{Spent, Told};
use super::sender::{IDLE, WARM_UP};
use crate::cli::SyncOptions;
use crate::clock;
use crate::driver::Times;
use crate::failure::Failure;
use crate::procfs::Machine;
use crate::report::{self, Table, decimals};

const BYTES_PER_KB: f64 = 1e3;

/// All numbers of peers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Exchange {
    machine: Machine,
    keys: u64,
    interval_ms: u128,
    /// For which the cost was measured, and as long the delivery.
    seconds: f64,
    cells: Vec<Cell>,
}

/// One number of peers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    pub(super) peers: usize,
    /// Under the load.
    #[serde(flatten)]
    pub(super) cost: Cost,
    /// Before it, when there were only the links.
    pub(super) idle: Cost,
    pub(super) delivery: [Way; 3],
    pub(super) faults: Faults,
}

/// What was told for some time, and what it took.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    /// Units spent at the sender in a second.
    pub(super) spends_per_s: f64,
    /// Batches that the sender wrote in a second; each goes to every peer.
    pub(super) batches_per_s: f64,
    /// Buckets in them in a second.
    pub(super) deltas_per_s: f64,
    /// Bytes of all frames that the sender sent in a second, by peer; without what QUIC adds.
    pub(super) bytes_per_s_and_peer: f64,
    /// CPU time of the sender's sync thread, in hundredths of one CPU.
    pub(super) sender_cpu_percent: f64,
    /// CPU time of the process of the peers, by peer.
    pub(super) peer_cpu_percent: f64,
}

impl Cell {
    /// CPU time, in nanoseconds, that the load adds at the sender for each bucket told to each peer,
    /// and at a peer for each bucket that it hears of.
    fn ns_per_delta(&self) -> [f64; 2] {
        const NS_PER_PERCENT_AND_S: f64 = clock::NS_PER_S as f64 / 100.0;
        let (loaded, idle) = (&self.cost, &self.idle);
        let sender = (loaded.sender_cpu_percent - idle.sender_cpu_percent) / self.peers as f64;
        let peer = loaded.peer_cpu_percent - idle.peer_cpu_percent;
        [sender, peer].map(|percent| percent * NS_PER_PERCENT_AND_S / loaded.deltas_per_s)
    }
}

/// What must not have happened, at any member, for the figures to be of what was meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Faults {
    /// Checks of the load that were denied.
    pub(super) denied: u64,
    /// Buckets that found no room to be in motion.
    pub(super) rows_full: u64,
    /// Spends heard of that found no room.
    pub(super) dropped: u64,
    /// Times that peers were lost.
    pub(super) splits: u64,
}

/// A stretch of a spend's way to a peer, and how long it took.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Way {
    what: &'static str,
    /// How many there were, of every peer.
    deliveries: u64,
    p50_ms: f64,
    p99_ms: f64,
    longest_ms: f64,
}

/// How long spends were on their way.
pub(super) struct Delivery {
    early: Counted,
    with_wait: Counted,
    from_tick: Counted,
}

struct Counted {
    count: u64,
    times: Times,
}

impl Counted {
    fn new() -> Self {
        Self { count: 0, times: Times::new() }
    }

    fn record(&mut self, ns: u64) {
        self.count += 1;
        self.times.record(ns);
    }

    fn way(&self, what: &'static str) -> Way {
        let ms = |quantile| self.times.at(quantile) as f64 / clock::NS_PER_MS as f64;
        let (p50_ms, p99_ms, longest_ms) = (ms(0.5), ms(0.99), ms(1.0));
        Way { what, deliveries: self.count, p50_ms, p99_ms, longest_ms }
    }
}

impl Delivery {
    pub(super) fn new() -> Self {
        Self { early: Counted::new(), with_wait: Counted::new(), from_tick: Counted::new() }
    }

    /// A marker that was `spent` was first seen at a peer at `seen_ns`.
    pub(super) fn note(&mut self, told: Told, spent: Spent, seen_ns: u64) {
        let taken_ns = seen_ns.saturating_sub(spent.at_ns);
        match told {
            Told::Early => self.early.record(taken_ns),
            Told::AtTick => {
                self.with_wait.record(taken_ns);
                // One that was spent while a tick was being told knows only of the next.
                if let Some(taken_ns) = seen_ns.checked_sub(spent.tick_ns) {
                    self.from_tick.record(taken_ns);
                }
            }
        }
    }

    pub(super) fn ways(&self) -> [Way; 3] {
        [
            self.early.way("early flush: from the spend"),
            self.from_tick.way("tick: from when it is due"),
            self.with_wait.way("tick: from the spend"),
        ]
    }
}

impl Exchange {
    pub(super) fn new(options: &SyncOptions, cells: Vec<Cell>) -> Self {
        Self {
            machine: Machine::this(),
            keys: options.keys,
            interval_ms: options.interval.as_millis(),
            seconds: options.duration.as_secs_f64(),
            cells,
        }
    }

    /// Everything that was spent was told to all, so that the figures are of what was meant.
    pub(crate) fn holds(&self) -> bool {
        self.cells.iter().all(|cell| cell.faults == Faults::default())
    }

    /// The exchange as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        report::to_json(self)
    }

    fn cost(&self) -> Table {
        let headings = [
            "peers",
            "spends/s",
            "batches/s",
            "deltas/s",
            "kB/s to each",
            "sender CPU %",
            "idle",
            "ns/delta to each",
            "peer CPU %",
            "idle",
            "ns/delta",
        ];
        let mut table = Table::new(1, &headings);
        for cell in &self.cells {
            let (cost, [sender_ns, peer_ns]) = (&cell.cost, cell.ns_per_delta());
            let figures = [
                cost.spends_per_s,
                cost.batches_per_s,
                cost.deltas_per_s,
                cost.bytes_per_s_and_peer / BYTES_PER_KB,
                cost.sender_cpu_percent,
                cell.idle.sender_cpu_percent,
                sender_ns,
                cost.peer_cpu_percent,
                cell.idle.peer_cpu_percent,
                peer_ns,
            ];
            let mut row = vec![cell.peers.to_string()];
            row.extend(figures.map(decimals));
            table.row(row);
        }
        table
    }

    fn delivery(&self) -> Table {
        let headings =
            ["peers", "until a peer knows", "p50 ms", "p99 ms", "longest ms", "deliveries"];
        let mut table = Table::new(2, &headings);
        for cell in &self.cells {
            for way in &cell.delivery {
                let mut row = vec![cell.peers.to_string(), way.what.to_owned()];
                row.extend([way.p50_ms, way.p99_ms, way.longest_ms].map(decimals));
                row.push(way.deliveries.to_string());
                table.row(row);
            }
        }
        table
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, keys, interval_ms, seconds, .. } = self;
        writeln!(f, "members on {machine}")?;
        writeln!(
            f,
            "{keys} keys, a unit of each spent at one member every {interval_ms} ms: idle for {} s, \
             warm-up {} s, the cost for {seconds} s, the delivery for {seconds} s\n",
            IDLE.as_secs(),
            WARM_UP.as_secs(),
        )?;
        writeln!(f, "{}", self.cost())?;
        writeln!(f, "{}", self.delivery())?;
        let sum = |count: fn(&Faults) -> u64| -> u64 {
            self.cells.iter().map(|cell| count(&cell.faults)).sum()
        };
        write!(
            f,
            "denied {}, without a row {}, dropped {}, splits {}: {}",
            sum(|faults| faults.denied),
            sum(|faults| faults.rows_full),
            sum(|faults| faults.dropped),
            sum(|faults| faults.splits),
            if self.holds() { "as meant" } else { "NOT WHAT WAS MEANT" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = clock::NS_PER_MS;

    #[test]
    fn a_tick_is_told_with_its_wait_and_without() {
        let spent = Spent { at_ns: 100 * MS, tick_ns: 150 * MS };
        let mut delivery = Delivery::new();
        delivery.note(Told::AtTick, spent, 153 * MS);
        delivery.note(Told::Early, spent, 101 * MS);
        let ways = delivery.ways();
        let p50_ms = ways.each_ref().map(|way| way.p50_ms.round());
        assert_eq!(p50_ms.map(|ms| format!("{ms}")), ["1", "3", "53"]);
        assert!(ways.iter().all(|way| way.deliveries == 1));
    }

    #[test]
    fn a_delta_costs_what_the_load_adds_to_the_links() {
        let idle = Cost {
            spends_per_s: 0.0,
            batches_per_s: 0.0,
            deltas_per_s: 0.0,
            bytes_per_s_and_peer: 0.0,
            sender_cpu_percent: 1.0,
            peer_cpu_percent: 2.0,
        };
        let cost =
            Cost { deltas_per_s: 50_000.0, sender_cpu_percent: 3.0, peer_cpu_percent: 2.5, ..idle };
        let delivery = Delivery::new().ways();
        let cell = Cell { peers: 4, cost, idle, delivery, faults: Faults::default() };
        assert_eq!(cell.ns_per_delta().map(|ns| ns.round().to_string()), ["100", "100"]);
    }

    #[test]
    fn what_came_before_the_tick_that_was_waited_for_says_nothing_of_it() {
        let mut delivery = Delivery::new();
        delivery.note(Told::AtTick, Spent { at_ns: 100 * MS, tick_ns: 300 * MS }, 101 * MS);
        let [_, from_tick, with_wait] = delivery.ways();
        assert_eq!((from_tick.deliveries, with_wait.deliveries), (0, 1));
    }
}
