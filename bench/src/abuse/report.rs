//! What abuse came to, in words and as JSON.

use std::fmt;

use serde::Serialize;

use super::crowd::Sent;
use super::door::AbusedDoor;
use super::{AbuseOptions, Phase, Round, Seen};
use crate::clock::NS_PER_S;
use crate::driver::Tally;
use crate::failure::Failure;
use crate::procfs::{Machine, MachineTime};
use crate::report::{self, Table, decimals, median};

/// By how much abuse may lengthen the client's p99.
const RATIO_MAX: f64 = 2.0;
const NS_PER_US: f64 = 1e3;

/// What abuse of every door came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Abuse {
    machine: Machine,
    idle: u64,
    garbage: u64,
    messages_per_s: u64,
    checks_per_s: u64,
    rounds: u64,
    phase_seconds: f64,
    /// CPUs of node and bench; none: all.
    pin: Option<String>,
    doors: Vec<DoorFigures>,
}

/// One side of a door: all phases without abuse, all with abuse of another node, or all with it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Side {
    answered: u64,
    /// Answered with an error, or not at all.
    errors: u64,
    /// Due and not sent.
    unsent: u64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    /// How late 99 in 100 checks were sent, which is part of their time.
    late_p99_us: f64,
    idle_percent: f64,
    /// Hundredths of one CPU.
    node_cpu_percent: f64,
    /// Of client and abuse together.
    bench_cpu_percent: f64,
}

/// A door.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DoorFigures {
    door: AbusedDoor,
    /// p99 of each round without, with abuse of another node, and with abuse, in microseconds.
    rounds_p99_us: Vec<[f64; 3]>,
    without: Side,
    aside: Side,
    with: Side,
    /// p99 with abuse by p99 without: median, least and most of the rounds, and of all together.
    ratio_median: f64,
    ratio_least: f64,
    ratio_most: f64,
    ratio_in_all: f64,
    /// p99 with abuse by p99 with the same abuse of another node: what of it is the door's.
    own_ratio_median: f64,
    own_ratio_in_all: f64,
    #[serde(flatten)]
    sent: Sent,
    /// Of the sender of garbage, in hundredths of one CPU, the idle time before its phases included.
    abuse_cpu_percent: f64,
    /// Fewest connections that were open at the end of a phase.
    open_min: u64,
    /// Errors that the node counted at the door.
    node_errors: u64,
    idle_closed: u64,
    /// Resident memory of the node for each idle connection when they first came.
    bytes_per_idle: u64,
}

impl Side {
    fn new<'p>(phases: impl Iterator<Item = &'p Phase>) -> Self {
        let (mut tally, mut machine) = (Tally::new(), MachineTime::default());
        let (mut elapsed_ns, mut node_ns, mut bench_ns) = (0_u64, 0_u64, 0_u64);
        for phase in phases {
            tally.add(&phase.tally);
            machine = machine.plus(phase.machine);
            elapsed_ns += phase.elapsed_ns;
            node_ns += phase.node_ns;
            bench_ns += phase.bench_ns;
        }
        let us = |quantile| tally.latency.at(quantile) as f64 / NS_PER_US;
        let percent = |ns: u64| ns as f64 * 100.0 / elapsed_ns.max(1) as f64;
        Self {
            answered: tally.answered,
            errors: tally.failed + tally.lost,
            unsent: tally.unsent,
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: us(1.0),
            late_p99_us: tally.lateness.at(0.99) as f64 / NS_PER_US,
            idle_percent: machine.idle_permille() as f64 / 10.0,
            node_cpu_percent: percent(node_ns),
            bench_cpu_percent: percent(bench_ns),
        }
    }
}

impl DoorFigures {
    /// The figures of these rounds.
    pub(super) fn new(door: AbusedDoor, rounds: &[Round], seen: &[Seen]) -> Self {
        let p99 = |phase: &Phase| phase.tally.latency.at(0.99) as f64 / NS_PER_US;
        let of = |round: &Round| [&round.without, &round.aside, &round.with].map(p99);
        let rounds_p99_us: Vec<[f64; 3]> = rounds.iter().map(of).collect();
        let ratios = || rounds_p99_us.iter().map(|[without, _, with]| with / without.max(0.001));
        let own_ratios = || rounds_p99_us.iter().map(|[_, aside, with]| with / aside.max(0.001));
        let without = Side::new(rounds.iter().map(|round| &round.without));
        let aside = Side::new(rounds.iter().map(|round| &round.aside));
        let with = Side::new(rounds.iter().map(|round| &round.with));
        let sent = seen.iter().fold(Sent::default(), |sum, seen| sum.plus(seen.sent));
        let abused_ns = rounds.iter().fold(0, |sum, round| sum + round.with.elapsed_ns)
            + seen.len() as u64 * NS_PER_S / 2;
        // Of the first round alone: later ones find memory that was given back to the allocator only.
        let bytes_per_idle = seen.first().map_or(0, |seen| seen.idle_bytes);
        Self {
            door,
            ratio_median: median(ratios()).unwrap_or(0.0),
            ratio_least: ratios().reduce(f64::min).unwrap_or(0.0),
            ratio_most: ratios().reduce(f64::max).unwrap_or(0.0),
            ratio_in_all: with.p99_us / without.p99_us.max(0.001),
            own_ratio_median: median(own_ratios()).unwrap_or(0.0),
            own_ratio_in_all: with.p99_us / aside.p99_us.max(0.001),
            rounds_p99_us,
            without,
            aside,
            with,
            sent,
            abuse_cpu_percent: sent.cpu_ns as f64 * 100.0 / abused_ns.max(1) as f64,
            open_min: seen.iter().map(|seen| seen.open).min().unwrap_or(0),
            node_errors: seen.iter().map(|seen| seen.errors).sum(),
            idle_closed: seen.iter().map(|seen| seen.idle_closed).sum(),
            bytes_per_idle,
        }
    }

    /// By the median of the rounds and in all.
    fn holds(&self) -> bool {
        self.ratio_median <= RATIO_MAX && self.ratio_in_all <= RATIO_MAX && self.with.errors == 0
    }
}

impl Abuse {
    /// Nothing yet.
    pub(super) fn new(options: &AbuseOptions) -> Self {
        Self {
            machine: Machine::this(),
            idle: options.idle,
            garbage: options.garbage,
            messages_per_s: options.messages,
            checks_per_s: options.rate,
            rounds: options.rounds,
            phase_seconds: options.phase.as_secs_f64(),
            pin: options.pin.as_ref().map(|pins| format!("{}:{}", pins.server, pins.client)),
            doors: Vec::new(),
        }
    }

    /// With the figures of a further door; those of its idle connections by each of them.
    pub(super) fn push(&mut self, mut door: DoorFigures) {
        door.bytes_per_idle /= self.idle.max(1);
        self.doors.push(door);
    }

    /// The client keeps its p99, and every answer, at every door.
    pub(crate) fn holds(&self) -> bool {
        !self.doors.is_empty() && self.doors.iter().all(DoorFigures::holds)
    }

    /// All of it as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        report::to_json(self)
    }

    fn ratios(&self) -> Table {
        let headings = [
            "door",
            "p99 us without",
            "at another",
            "with",
            "with / without: median",
            "least",
            "most",
            "in all",
            "holds",
            "with / at another: median",
            "in all",
        ];
        let mut table = Table::new(1, &headings);
        for door in &self.doors {
            let figures = [
                door.without.p99_us,
                door.aside.p99_us,
                door.with.p99_us,
                door.ratio_median,
                door.ratio_least,
                door.ratio_most,
                door.ratio_in_all,
            ];
            let holds = if door.holds() { "yes" } else { "NO" };
            let cells = std::iter::once(door.door.to_string()).chain(figures.map(decimals));
            let own = [door.own_ratio_median, door.own_ratio_in_all].map(decimals);
            table.row(cells.chain([holds.to_owned()]).chain(own).collect());
        }
        table
    }

    fn sides(&self) -> Table {
        let headings = [
            "door",
            "abuse",
            "p50 us",
            "p99.9 us",
            "max us",
            "late p99 us",
            "answered",
            "errors",
            "unsent",
            "idle %",
            "node CPU %",
            "bench CPU %",
        ];
        let mut table = Table::new(2, &headings);
        for door in &self.doors {
            let sides =
                [("without", &door.without), ("another", &door.aside), ("with", &door.with)];
            for (name, side) in sides {
                let times = [side.p50_us, side.p999_us, side.max_us, side.late_p99_us];
                let counts = [side.answered, side.errors, side.unsent];
                let shares = [side.idle_percent, side.node_cpu_percent, side.bench_cpu_percent];
                let cells = [door.door.as_str(), name].map(str::to_owned).into_iter();
                let cells = cells.chain(times.map(decimals));
                let cells = cells.chain(counts.map(|count| count.to_string()));
                table.row(cells.chain(shares.map(decimals)).collect());
            }
        }
        table
    }

    fn abuse(&self) -> Table {
        let headings = [
            "door",
            "messages",
            "refused",
            "unsent",
            "reopened",
            "abuse CPU %",
            "open at least",
            "node's errors",
            "idle closed",
            "B/idle",
        ];
        let mut table = Table::new(1, &headings);
        for door in &self.doors {
            let Sent { messages, refused, reopened, unsent, .. } = door.sent;
            let sent = [messages, refused, unsent, reopened].map(|count| count.to_string());
            let seen = [door.open_min, door.node_errors, door.idle_closed, door.bytes_per_idle];
            let cells = std::iter::once(door.door.to_string()).chain(sent);
            let cells = cells.chain([decimals(door.abuse_cpu_percent)]);
            table.row(cells.chain(seen.map(|count| count.to_string())).collect());
        }
        table
    }
}

impl fmt::Display for Abuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { idle, garbage, messages_per_s, checks_per_s, rounds, phase_seconds, .. } = self;
        let pin = self.pin.as_ref().map_or_else(String::new, |pin| format!(", pinned {pin}"));
        writeln!(f, "rlnode {} on {}{pin}", env!("CARGO_PKG_VERSION"), self.machine)?;
        writeln!(
            f,
            "{idle} idle connections and {garbage} that send {messages_per_s} messages/s of garbage, beside a \
             client of {checks_per_s} checks/s; {rounds} rounds of {phase_seconds} s each without, with the abuse at another node, and with it"
        )?;
        for table in [self.ratios(), self.sides(), self.abuse()] {
            writeln!(f, "\n{}", table.to_string().trim_end())?;
        }
        writeln!(
            f,
            "\nmedian, least, most: of the ratios round by round; in all: of all phases together.\n\
             at another: with the same abuse at another node, which nobody asks: what two nodes on one machine\n\
             cost each other. with / at another: what of it is the door's.\n\
             reopened: connections that the node closed and that were opened again. abuse CPU: of the\n\
             sender of garbage, which is on the same machine and in the bench's.\n\
             udp has no connections: garbage only."
        )?;
        let holds = if self.holds() { "yes" } else { "NO" };
        write!(f, "the client keeps its p99 within {RATIO_MAX}x and loses no answer: {holds}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(ns: u64, lost: u64) -> Phase {
        let mut tally = Tally { answered: 10, lost, ..Tally::new() };
        tally.latency.record(ns);
        let machine = MachineTime { idle: 1, total: 2 };
        Phase { tally, elapsed_ns: NS_PER_S, node_ns: NS_PER_S / 4, bench_ns: 1, machine }
    }

    fn abuse(doors: Vec<DoorFigures>) -> Abuse {
        Abuse {
            machine: Machine::this(),
            idle: 10,
            garbage: 2,
            messages_per_s: 100,
            checks_per_s: 50,
            rounds: 1,
            phase_seconds: 1.0,
            pin: None,
            doors,
        }
    }

    #[test]
    fn it_holds_where_p99_is_at_most_doubled_and_nothing_is_lost() {
        let figures = |with_ns, lost| {
            let (without, aside) = (phase(100_000, 0), phase(150_000, 0));
            let rounds = [Round { without, aside, with: phase(with_ns, lost) }];
            DoorFigures::new(AbusedDoor::Stream, &rounds, &[Seen::default()])
        };
        assert!(abuse(vec![figures(199_000, 0)]).holds());
        assert!(!abuse(vec![figures(202_000, 0)]).holds());
        assert!(!abuse(vec![figures(100_000, 1)]).holds());
        assert!(!abuse(Vec::new()).holds());
        let text = abuse(vec![figures(300_000, 0)]).to_string();
        assert!(text.ends_with("loses no answer: NO"), "{text}");
    }

    #[test]
    fn memory_is_that_of_the_first_round_by_connection() {
        let round = || Round { without: phase(1, 0), aside: phase(2, 0), with: phase(6, 0) };
        let rounds = [round(), round()];
        let seen = [
            Seen { idle_bytes: 40_960, open: 12, ..Seen::default() },
            Seen { open: 9, ..Seen::default() },
        ];
        let mut abuse = abuse(Vec::new());
        abuse.push(DoorFigures::new(AbusedDoor::Http, &rounds, &seen));
        let json: serde_json::Value = serde_json::from_str(&abuse.to_json().unwrap()).unwrap();
        assert_eq!(json["doors"][0]["bytes_per_idle"], 4_096);
        assert_eq!(json["doors"][0]["open_min"], 9);
        assert_eq!(json["doors"][0]["door"], "http");
        assert_eq!(json["doors"][0]["with"]["node_cpu_percent"], 25.0);
        assert_eq!(json["doors"][0]["ratio_median"], 6.0);
        assert_eq!(json["doors"][0]["own_ratio_median"], 3.0);
    }
}
