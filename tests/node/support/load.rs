//! Load on every node of a fleet while trouble goes on, and what became of each question.
//!
//! One client for each node asks over its unix socket, one question after the other. It goes on
//! through restarts of its node: a connection that breaks is made anew.

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use wire::{ServerFrame, Status};

use super::caller::{frame_of, read_frame};
use super::fleet::{SOON, await_left, await_reached, left};
use super::time::PATIENCE;
use super::{Node, Place, Stopwatch, check, pause, process, wait_until};

/// The endpoint of [`limits`] that is loaded.
const HOT: &str = "GET /hot";
/// The key that is loaded.
pub(crate) const KEY: &str = "alice";
/// Units a second of the limit that is loaded, and its burst.
pub(crate) const RATE: u64 = 200;
/// Units of the limit that keeps the account: more than any test spends, and none comes back while a
/// test runs.
pub(crate) const LEDGER: u64 = 1_000_000;

/// Two limits: one that denies most of the load, and one that counts, to the unit, what passed. A peek
/// elsewhere than at the hot endpoint reads that account alone.
pub(crate) fn limits() -> String {
    format!(
        "[[limit]]\nname = \"hot\"\nendpoint = \"/hot\"\nrate = \"{RATE}/s\"\n\
         [[limit]]\nname = \"per-key\"\nrate = \"1/h\"\nburst = {LEDGER}\n"
    )
}

/// What each client waits between an answer and its next question: three of them ask for about three
/// times the limit.
pub(crate) const OFTEN: Duration = Duration::from_millis(5);

/// What one of three nodes may have in flight of a full bucket when all have a like demand, rounded
/// up. It is what a cut costs until it is noticed, and what a crash forgets.
pub(crate) const SHARE: i64 = 67;
/// The worst excess of three nodes that nothing happened to: 7.9 % of a burst (docs/simulation.md).
pub(crate) const FAULT_FREE: i64 = 16;
/// Least part of what an exact limiter would have let through. It is low because all tests share the
/// machine; a fleet that stood still, or fell back to the part of one node, would be below.
const USED_PERCENT_MIN: u64 = 50;

/// Clients that ask without end.
#[derive(Debug)]
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Answers>>,
}

/// One question that was decided. Times are from the start of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decided {
    asked: Duration,
    answered: Duration,
    is_allowed: bool,
}

/// What one client heard.
#[derive(Clone, Debug, Default)]
struct Answers {
    decided: Vec<Decided>,
    /// Questions to a node that was not ready yet.
    starting: u64,
    /// Connections that broke under a question, which was never answered.
    broken: u64,
}

/// What all clients heard.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    clients: Vec<Answers>,
    began_and_ended: (Duration, Duration),
}

impl Load {
    /// Asks each of these nodes a question, waits for the answer and `between`, and asks again. A
    /// node need not run yet.
    pub(crate) fn start(places: &[Arc<Place>], between: Duration) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let clock = Stopwatch::start();
        let clients = places.iter().map(|place| {
            let mut client =
                Client { path: place.socket_path(), clock, answers: Answers::default() };
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    client.connect_and_ask(&is_over, between);
                    pause(between);
                }
                client.answers
            })
        });
        let clients = clients.collect();
        Self { is_over, clients }
    }

    /// Load on the nodes of a fleet, in order.
    pub(crate) fn on(nodes: &[Node], between: Duration) -> Self {
        let places: Vec<_> = nodes.iter().map(|node| Arc::clone(node.place())).collect();
        Self::start(&places, between)
    }

    /// Stops asking, and gives what was heard.
    #[track_caller]
    pub(crate) fn stop(self) -> Outcome {
        self.is_over.store(true, Ordering::SeqCst);
        let clients = self.clients.into_iter();
        let clients: Vec<_> = clients.map(|it| it.join().expect("every answer is one")).collect();
        let times = || clients.iter().flat_map(|it| &it.decided);
        let began = times().map(|it| it.asked).min().unwrap_or_default();
        let ended = times().map(|it| it.answered).max().unwrap_or_default();
        Outcome { clients, began_and_ended: (began, ended) }
    }
}

struct Client {
    path: PathBuf,
    clock: Stopwatch,
    answers: Answers,
}

impl Client {
    /// Asks until the end or until the connection breaks.
    fn connect_and_ask(&mut self, is_over: &AtomicBool, between: Duration) {
        let Ok(mut stream) = UnixStream::connect(&self.path) else { return };
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time");
        while !is_over.load(Ordering::SeqCst) {
            let asked = self.clock.elapsed();
            let frame = frame_of(1, &[check(HOT, KEY)]);
            let answer = stream.write_all(&frame).and_then(|()| read_frame(&mut stream));
            let Ok(bytes) = answer else {
                // A node that lives answers: one that took its patience is as good as dead.
                assert!(self.clock.elapsed() < asked + PATIENCE, "a question was not answered");
                self.answers.broken += 1;
                return;
            };
            self.take(asked, &bytes);
            pause(between);
        }
    }

    fn take(&mut self, asked: Duration, bytes: &[u8]) {
        let answered = self.clock.elapsed();
        let Ok(ServerFrame::Reply(reply)) = wire::decode_reply(bytes) else {
            panic!("no reply: {bytes:?}");
        };
        for answer in reply.answers() {
            match answer {
                Ok(answer) => {
                    let is_allowed = answer.allowed;
                    self.answers.decided.push(Decided { asked, answered, is_allowed });
                }
                Err(Status::Starting) => self.answers.starting += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

impl Outcome {
    fn decided(&self) -> impl Iterator<Item = &Decided> {
        self.clients.iter().flat_map(|client| &client.decided)
    }

    /// Checks that passed.
    pub(crate) fn allowed(&self) -> u64 {
        count(self.decided().filter(|it| it.is_allowed))
    }

    /// What holds at the end of every trouble: no window is above its allowance by more than this, and
    /// the limit was used.
    #[track_caller]
    pub(crate) fn assert_held(&self, excess_max: i64) {
        process::say(&format!("{self} at most {excess_max} may be in excess"));
        assert!(self.excess() <= excess_max, "{self}");
        assert!(self.used_percent() >= USED_PERCENT_MIN, "{self}");
    }

    /// Every node has charged every unit that passed, once, and holds nobody up.
    #[track_caller]
    pub(crate) fn assert_accounts(&self, nodes: &[Node]) {
        for node in nodes {
            await_reached(node, nodes.len());
            await_left(node, KEY, LEDGER - self.allowed());
            assert_eq!(node.metrics().sum("rlnode_cluster_holding", &[]), 0);
        }
    }

    /// After crashes every node has charged what passed, but for at most so many units that died with
    /// their nodes. A check is charged before it is answered, so an answer may have died instead.
    #[track_caller]
    pub(crate) fn assert_forgotten(&self, nodes: &[Node], units_max: u64) {
        let exact = LEDGER - self.allowed();
        let known = exact - self.broken()..=exact + units_max;
        for node in nodes {
            await_reached(node, nodes.len());
            // Levels may differ for good in what a crash told to some only.
            wait_until(&format!("{known:?} left"), SOON, || known.contains(&left(node, KEY)));
        }
    }

    /// Every node that was asked answered every question, and lived all the time.
    #[track_caller]
    pub(crate) fn assert_answered(&self) {
        assert_eq!(self.broken(), 0, "{self}");
        assert!(self.clients.iter().all(|client| !client.decided.is_empty()), "{self}");
    }

    /// What holds where no node ended: see [`Outcome::assert_held`], every question was answered, and
    /// every node has the same account.
    #[track_caller]
    pub(crate) fn assert_sound(&self, nodes: &[Node], excess_max: i64) {
        self.assert_held(excess_max);
        self.assert_answered();
        self.assert_accounts(nodes);
    }

    /// Questions whose connection broke before the answer came: their nodes ended, or were about to.
    pub(crate) fn broken(&self) -> u64 {
        self.clients.iter().map(|client| client.broken).sum()
    }

    /// Units above burst + rate * t that passed for sure in the worst window of length t. A check was
    /// decided between question and answer, so a window must hold both for the check to count in it.
    pub(crate) fn excess(&self) -> i64 {
        let mut allowed: Vec<_> = self.decided().filter(|it| it.is_allowed).copied().collect();
        allowed.sort_by_key(|it| it.answered);
        let mut asked: Vec<_> =
            allowed.iter().enumerate().map(|(place, it)| (it.asked, place)).collect();
        asked.sort_unstable();
        // Windows begin at a question, the latest first, and end at an answer. The tree has the answers
        // in order as its leaves, and above each part of them what passed in it and its best end.
        let leaves = allowed.len().next_power_of_two();
        let (mut passed, mut best) = (vec![0; 2 * leaves], vec![i64::MIN / 2; 2 * leaves]);
        let mut worst = i64::MIN / 2;
        for (begin, place) in asked.into_iter().rev() {
            let mut part = leaves + place;
            passed[part] = UNIT;
            best[part] = UNIT - refilled(allowed[place].answered);
            while part > 1 {
                part /= 2;
                let (early, late) = (2 * part, 2 * part + 1);
                passed[part] = passed[early] + passed[late];
                best[part] = best[early].max(passed[early] + best[late]);
            }
            worst = worst.max(best[1] + refilled(begin));
        }
        (worst - signed(RATE) * UNIT).div_euclid(UNIT)
    }

    /// What one exact bucket that was asked the same questions at the same times lets through.
    pub(crate) fn central(&self) -> u64 {
        let mut asked: Vec<_> = self.decided().map(|it| it.asked).collect();
        asked.sort_unstable();
        let full = signed(RATE) * UNIT;
        let (mut level, mut last, mut passed) = (full, Duration::ZERO, 0);
        for now in asked {
            level = (level + refilled(now - last)).min(full);
            last = now;
            if level >= UNIT {
                level -= UNIT;
                passed += 1;
            }
        }
        passed
    }

    /// What passed, in hundredths of what the exact bucket would have let through.
    pub(crate) fn used_percent(&self) -> u64 {
        self.allowed() * 100 / self.central().max(1)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (began, ended) = self.began_and_ended;
        write!(
            f,
            "{} of {} passed in {:?}: excess {} of a burst of {RATE}, {} % of {} used;",
            self.allowed(),
            self.decided().count(),
            ended - began,
            self.excess(),
            self.used_percent(),
            self.central(),
        )?;
        for (place, client) in self.clients.iter().enumerate() {
            let allowed = client.decided.iter().filter(|it| it.is_allowed).count();
            let Answers { decided, starting, broken } = client;
            let asked = decided.len();
            write!(f, " {place}: {allowed}/{asked}, {starting} starting, {broken} broken;")?;
        }
        Ok(())
    }
}

/// Of a unit, so that what a nanosecond refills is whole.
const UNIT: i64 = 1_000_000_000;

/// What the hot limit refills in this time, in parts of a unit.
fn refilled(time: Duration) -> i64 {
    let ns = i64::try_from(time.as_nanos()).expect("a test ends within 64 bits of time");
    ns * signed(RATE)
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).expect("few units")
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    u64::try_from(items.count()).expect("few items")
}

/// An outcome of one client, whose checks passed at these times, in milliseconds.
fn passed_at(times_ms: impl Iterator<Item = (u64, u64)>) -> Outcome {
    let ms = Duration::from_millis;
    let decided = times_ms
        .map(|(asked, answered)| Decided {
            asked: ms(asked),
            answered: ms(answered),
            is_allowed: true,
        })
        .collect();
    let client = Answers { decided, ..Answers::default() };
    Outcome { clients: vec![client], began_and_ended: (ms(0), ms(0)) }
}

/// The measure measures: a burst and the refill are no excess, one more is, and slow answers excuse
/// only what they may explain.
#[test]
fn the_excess_is_what_is_above_burst_and_refill_in_the_worst_window() {
    let even = |times: u64| (0..times).map(|it| (it * 5, it * 5));
    assert_eq!(passed_at(even(1_000)).excess(), 1 - 200);
    let burst = (0..200).map(|_| (0, 0));
    let with_burst = passed_at(burst.clone().chain(even(400)));
    assert_eq!((with_burst.excess(), with_burst.central()), (1, 599));
    let late_burst = passed_at(even(400).chain((0..230).map(|_| (1_000, 1_000))));
    assert_eq!(late_burst.excess(), 31);
    let slow = passed_at((0..230).map(|_| (0, 100)));
    assert_eq!(slow.excess(), 10);
}
