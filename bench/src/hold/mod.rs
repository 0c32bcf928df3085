//! `rlbench hold`: one key under one limit, asked over every door of a node at the same time, and
//! whether more passed in any window of time than the limit lets pass.

mod picture;
mod plan;

use std::fmt;
use std::fs;
use std::panic;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::cli::HoldOptions;
use crate::clock::{self, NS_PER_S};
use crate::driver::{Answer, Driver, Shape, Tally, Until};
use crate::failure::Failure;
use crate::keys::{Keys, key_text};
use crate::procfs::Machine;
use crate::report::{self, Table};
use crate::server::{Door, Limit, NodeConfig, Server};
use crate::window::{Bucket, Passed, Window};
use picture::Picture;
use plan::{DOORS, Stretch};

/// Number of the key.
const KEY: u64 = 1;
/// Most questions in flight on each door. At an even rate there is one at most times.
const WINDOW: usize = 64;
/// Memory of the node for its tables, in MiB: there is one key.
const MEMORY_MIB: u64 = 16;
/// From opening the connections until the first question, so that every door begins in time.
const LEAD_NS: u64 = NS_PER_S / 20;

/// What came of asking.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Hold {
    machine: Machine,
    version: String,
    limit: Bucket,
    seconds: u64,
    /// Questions in a second over all doors.
    checks_per_s: u64,
    /// As [`Door::ALL`].
    doors: [OfDoor; DOORS],
    /// By the times between which each decision certainly fell; none if nothing passed.
    certain: Option<Window>,
    /// As if each decision had fallen when its answer was received.
    by_receipt: Option<Window>,
}

/// What came of asking over a door.
#[derive(Clone, Debug, Serialize)]
struct OfDoor {
    door: Door,
    allowed: u64,
    denied: u64,
    /// Answered with an error, or not at all.
    unanswered: u64,
    /// Due and not sent by the end of a stretch.
    unsent: u64,
    #[serde(skip)]
    answers: Vec<Answer>,
}

/// Asks as `options` say, and draws the picture if there is to be one.
///
/// # Errors
/// If the node does not start, ends, or does not answer; or if the picture cannot be written.
pub(crate) fn run(options: &HoldOptions) -> Result<Hold, Failure> {
    let limit = Bucket { per_s: options.rate, burst: options.burst };
    let server = start(options, limit)?;
    let version = server.version.clone();
    let stretches = plan::stretches(options.seconds, options.asked);
    let tallies = ask_all(&server, &stretches)?;
    server.stop()?;
    let mut of_doors = tallies.into_iter();
    let doors = Door::ALL.map(|door| OfDoor::new(door, of_doors.next()));
    let hold = Hold::new(version, limit, options, doors);
    if let Some(path) = &options.svg {
        fs::write(path, hold.picture().to_svg()).map_err(|error| {
            Failure::because(format!("cannot write `{}`", path.display()), error)
        })?;
    }
    Ok(hold)
}

/// Starts a node with an override for the key: a rate of its own, written as whole units in a second.
fn start(options: &HoldOptions, limit: Bucket) -> Result<Server, Failure> {
    let key = key_text(KEY);
    let overrides = format!(
        "\n[[limit.override]]\nname = 'held'\nkeys = ['{}']\nrate = '{}/s'\nburst = {}\n",
        String::from_utf8_lossy(&key),
        limit.per_s,
        limit.burst
    );
    Server::start_node(&NodeConfig {
        program: options.rlnode.as_deref(),
        cpus: None,
        limit: Limit::OF_LOAD,
        memory_mib: MEMORY_MIB,
        overrides: &overrides,
    })
}

/// Asks over every door, each from a thread and a connection of its own; by door what came of it,
/// with times from the start on.
fn ask_all(server: &Server, stretches: &[Stretch]) -> Result<Vec<Tally>, Failure> {
    let drivers = Door::ALL.map(|door| open(server, door));
    let started_ns = clock::now_ns() + LEAD_NS;
    thread::scope(|scope| {
        let asking: Vec<_> = (0..)
            .zip(drivers)
            .map(|(door, driver)| {
                scope.spawn(move || ask(server, door, driver?, stretches, started_ns))
            })
            .collect();
        let joined = asking.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|tally| tally.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
    })
}

fn open(server: &Server, door: Door) -> Result<Driver, Failure> {
    let endpoint =
        server.endpoint(door).ok_or_else(|| Failure::new("the node has no such door"))?;
    let shape = Shape { connections: 1, window: WINDOW, checks: 1, checks_per_s: Some(1) };
    let mut driver = Driver::open(&endpoint, shape, Keys::sequence(KEY, 1))?;
    driver.keep_answers();
    Ok(driver)
}

fn ask(
    server: &Server,
    door: usize,
    mut driver: Driver,
    stretches: &[Stretch],
    started_ns: u64,
) -> Result<Tally, Failure> {
    let mut sum = Tally { answers: Some(Vec::new()), ..Tally::new() };
    for stretch in stretches {
        let from_ns = started_ns + stretch.from_ns;
        server.stays_for(Duration::from_nanos(from_ns.saturating_sub(clock::now_ns())))?;
        driver.set_rate(stretch.checks_per_s[door]);
        sum.add(&driver.run(Until::Time(started_ns + stretch.to_ns))?);
    }
    for answer in sum.answers.iter_mut().flatten() {
        answer.sent_ns = answer.sent_ns.saturating_sub(started_ns);
        answer.received_ns = answer.received_ns.saturating_sub(started_ns);
    }
    Ok(sum)
}

impl OfDoor {
    fn new(door: Door, tally: Option<Tally>) -> Self {
        let tally = tally.unwrap_or_else(Tally::new);
        Self {
            door,
            allowed: tally.allowed,
            denied: tally.denied,
            unanswered: tally.failed + tally.lost,
            unsent: tally.unsent,
            answers: tally.answers.unwrap_or_default(),
        }
    }
}

impl Hold {
    fn new(version: String, limit: Bucket, options: &HoldOptions, doors: [OfDoor; DOORS]) -> Self {
        let answers = doors.iter().flat_map(|of_door| &of_door.answers);
        let allowed: Vec<&Answer> = answers.filter(|answer| answer.allowed > 0).collect();
        let between =
            |answer: &&Answer| Passed { from_ns: answer.sent_ns, to_ns: answer.received_ns };
        let received =
            |answer: &&Answer| Passed { from_ns: answer.received_ns, to_ns: answer.received_ns };
        let fullest = |units: Vec<Passed>| limit.fullest_window(&units);
        Self {
            machine: Machine::this(),
            version,
            limit,
            seconds: options.seconds,
            checks_per_s: options.asked,
            certain: fullest(allowed.iter().map(between).collect()),
            by_receipt: fullest(allowed.iter().map(received).collect()),
            doors,
        }
    }

    /// In no window more passed for certain than may, and something was asked and passed at all.
    pub(crate) fn holds(&self) -> bool {
        self.certain.is_some_and(|window| self.limit.excess(&window) <= 0)
    }

    /// What came of it as JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        report::to_json(self)
    }

    fn picture(&self) -> Picture<'_> {
        Picture {
            limit: self.limit,
            seconds: self.seconds,
            checks_per_s: self.checks_per_s,
            pause_ns: plan::pause(self.seconds),
            answers: self.doors.each_ref().map(|of_door| of_door.answers.as_slice()),
            fullest: self.certain,
            holds: self.holds(),
        }
    }

    fn doors_table(&self) -> Table {
        let headings = ["door", "answered", "allowed", "denied", "unanswered", "unsent"];
        let mut table = Table::new(1, &headings);
        let mut row = |name: &str, numbers: [u64; 5]| {
            let numbers = numbers.into_iter().map(|number| number.to_string());
            table.row(std::iter::once(name.to_owned()).chain(numbers).collect());
        };
        let mut sums = [0; 5];
        for OfDoor { door, allowed, denied, unanswered, unsent, .. } in &self.doors {
            let numbers = [allowed + denied, *allowed, *denied, *unanswered, *unsent];
            for (sum, number) in sums.iter_mut().zip(numbers) {
                *sum += number;
            }
            row(door.as_str(), numbers);
        }
        row("all", sums);
        table
    }

    fn window_cells(&self, what: &str, window: Option<Window>) -> Vec<String> {
        let Some(window) = window else {
            return vec![what.to_owned(), "nothing passed".to_owned()];
        };
        let decimal = |billionths: i128| format!("{:.3}", billionths as f64 / NS_PER_S as f64);
        let excess = self.limit.excess(&window);
        let may_pass = i128::from(window.passed) * i128::from(NS_PER_S) - excess;
        vec![
            what.to_owned(),
            decimal(window.len_ns().into()),
            window.passed.to_string(),
            decimal(may_pass),
            decimal(excess),
        ]
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rlnode {} on {}", self.version, self.machine)?;
        writeln!(
            f,
            "one key under {}/s with a burst of {}, asked {} times a second over every door at once, \
             for {} s with a pause of {} s\n",
            self.limit.per_s,
            self.limit.burst,
            self.checks_per_s,
            self.seconds,
            plan::PAUSE_NS as f64 / NS_PER_S as f64
        )?;
        writeln!(f, "{}", self.doors_table())?;
        let headings = ["fullest window", "seconds", "passed", "may pass", "excess"];
        let mut table = Table::new(1, &headings);
        table.row(self.window_cells("between sending and receipt", self.certain));
        table.row(self.window_cells("by time of receipt", self.by_receipt));
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "Of every window of time, the one with the greatest excess over burst + rate x length.\n\
             Times are the client's. A decision fell between sending and receipt, and counts in the\n\
             first line only where it fell for certain; the second has the jitter of receipt in it."
        )?;
        let holds = if self.holds() { "yes" } else { "NO" };
        write!(f, "no more passed, for certain, than the limit lets pass: {holds}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All over UDP, with the times of sending and receipt in milliseconds.
    fn hold(allowed: &[(u64, u64)]) -> Hold {
        const MS: u64 = NS_PER_S / 1000;
        let answer = |&(sent_ms, received_ms): &(u64, u64)| Answer {
            sent_ns: sent_ms * MS,
            received_ns: received_ms * MS,
            allowed: 1,
            denied: 0,
        };
        let denied = Answer { sent_ns: 0, received_ns: 1, allowed: 0, denied: 1 };
        let mut answers: Vec<Answer> = allowed.iter().map(answer).collect();
        answers.extend([denied; 5]);
        let tally = Tally {
            allowed: allowed.len() as u64,
            denied: 5,
            failed: 1,
            lost: 2,
            unsent: 4,
            answers: Some(answers),
            ..Tally::new()
        };
        let mut tally = Some(tally);
        let options = HoldOptions {
            rate: 100,
            burst: 2,
            seconds: 3,
            asked: 100,
            svg: None,
            rlnode: None,
            json: false,
        };
        let limit = Bucket { per_s: 100, burst: 2 };
        let doors = Door::ALL.map(|door| OfDoor::new(door, tally.take()));
        Hold::new("1.0.0".into(), limit, &options, doors)
    }

    fn line_of(hold: &Hold, start: &str) -> Vec<String> {
        let text = hold.to_string();
        let line = text.lines().find(|line| line.starts_with(start)).unwrap();
        line[start.len()..].split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_limit_is_held_unless_more_passed_for_certain() {
        assert!(hold(&[(0, 0), (0, 1), (10, 11)]).holds());
        // The third may have passed 10 ms after the first, though its receipt came after 7.
        let unclear = hold(&[(0, 4), (0, 4), (5, 11)]);
        assert!(unclear.holds());
        assert_eq!(line_of(&unclear, "by time of receipt"), ["0.007", "3", "2.700", "0.300"]);
        let broken = hold(&[(0, 0), (0, 1), (5, 6)]);
        assert!(!broken.holds());
        assert_eq!(
            line_of(&broken, "between sending and receipt"),
            ["0.006", "3", "2.600", "0.400"]
        );
        assert!(broken.to_string().ends_with("lets pass: NO"));
    }

    #[test]
    fn a_limit_under_which_nothing_passed_was_not_seen_to_hold() {
        assert!(!hold(&[]).holds());
        assert!(hold(&[]).to_string().contains("nothing passed"));
    }

    #[test]
    fn what_was_denied_or_not_answered_is_counted_but_fills_no_window() {
        let hold = hold(&[(0, 0)]);
        assert_eq!(hold.certain.map(|window| window.passed), Some(1));
        assert_eq!(line_of(&hold, "all"), ["6", "1", "5", "3", "4"]);
        assert_eq!(line_of(&hold, "udp"), ["6", "1", "5", "3", "4"]);
        assert_eq!(line_of(&hold, "seqpacket"), ["0"; 5]);
    }
}
