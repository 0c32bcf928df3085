//! Seeded trouble: cuts, broken connections, pauses, leaving and joining under load, of which a part is
//! given back. Whatever happens, and whatever counts the spends, every spend is in every node's counts
//! once when it is over.

use std::collections::BTreeMap;

use limiter::{Limit, Operation, OperationError, Quota, Rate, Request, Window};

use super::network::{Network, config};
use crate::Config;
use crate::config::{MS, SECOND};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const KEYS: u8 = 7;
const BURST: u64 = 10_000;
const HOUR: u64 = 3_600 * SECOND;
/// How far ahead the wall clock of each node is, in milliseconds.
const RIGHT: [i64; 4] = [0; 4];
const APART: [i64; 4] = [0, 100, -100, 5_000];

/// Everything that counts, over an hour each: nothing is forgotten while a storm lasts.
fn quotas() -> [Quota; 5] {
    let (limit, burst) = (BURST, BURST);
    let rate = Rate { count: 1, period_ns: HOUR };
    [
        Quota::TokenBucket { rate, burst },
        Quota::LeakyBucket { rate, burst, queue: true },
        Quota::FixedWindow { limit, window: Window::Period(HOUR) },
        Quota::SlidingWindow { limit, period_ns: HOUR },
        Quota::SlidingLog { limit, period_ns: HOUR },
    ]
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn key(&mut self) -> u8 {
        u8::try_from(self.below(u64::from(KEYS))).unwrap()
    }

    fn name(&mut self) -> &'static str {
        NAMES[usize::try_from(self.below(4)).unwrap()]
    }
}

struct Storm {
    net: Network,
    dice: Dice,
    quota: Quota,
    /// Units by key, and by the period of the wall clock of whoever spent them.
    spent: BTreeMap<(u8, u64), u64>,
    period_ms: u64,
    seed: u64,
    /// Operators act too.
    has_operators: bool,
    /// Units that operators gave back, by key.
    given: BTreeMap<u8, u64>,
    /// Units that a node may say too few are left.
    short_max: u64,
}

impl Storm {
    fn new(seed: u64, forget_after_ns: u64, quota: Quota, walls: [i64; 4]) -> Self {
        let mut net = Network::new();
        net.walls.extend(NAMES.into_iter().zip(walls));
        for name in NAMES {
            let config = Config { forget_after_ns, ..config(name, 4) };
            net.start(name, config, vec![Limit::new("l", quota.clone())]);
        }
        net.run(1_500 * MS);
        let period_ms = match quota {
            Quota::SlidingWindow { period_ns, .. } => period_ns / MS,
            _ => HOUR / MS,
        };
        let (spent, given) = (BTreeMap::new(), BTreeMap::new());
        let dice = Dice(seed);
        Self { net, dice, quota, spent, period_ms, seed, has_operators: false, given, short_max: 0 }
    }

    fn spend(&mut self, name: &'static str, key: u8, calls: usize) {
        let period = self.net.unix_ms(name) / self.period_ms;
        let mut spent = self.net.spend_key(name, &[key], calls) as u64;
        if spent > 0 && self.dice.below(3) == 0 {
            self.net.give_back(name, &[key]);
            spent -= 1;
        }
        *self.spent.entry((key, period)).or_default() += spent;
    }

    fn spent(&self, key: u8) -> u64 {
        let of_key = self.spent.iter().filter(|((of, _), _)| *of == key);
        of_key.map(|(_, spent)| spent).sum()
    }

    /// Spends for a while, on all nodes that run.
    fn load(&mut self, ms: u64) {
        for _ in 0..ms / 5 {
            let (name, key) = (self.dice.name(), self.dice.key());
            let calls = usize::try_from(self.dice.below(4)).unwrap();
            let is_ready = self.net.node(name).cluster.readiness() == crate::Readiness::Ready;
            if !self.net.node(name).paused && is_ready {
                self.spend(name, key, calls);
                if self.has_operators && self.dice.below(10) == 0 {
                    self.act(name, key);
                }
            }
            self.net.run(5 * MS);
        }
    }

    /// An operator resets the key, or gives it a little. Of one key at one node only: two who reset the same before
    /// they hear of each other give it twice.
    fn act(&mut self, name: &'static str, key: u8) {
        if NAMES[usize::from(key) % NAMES.len()] != name {
            return;
        }
        let (key_bytes, limit) = ([key], Some("l"));
        let request = Request::check(b"", &key_bytes);
        let operation = match self.dice.below(2) {
            0 => Operation::Reset { request, limit },
            _ => Operation::Grant { request, limit, units: 1 + self.dice.below(9) },
        };
        match self.net.operate(name, &operation) {
            Ok(operated) => *self.given.entry(key).or_default() += operated.units,
            // It takes the counts anew.
            Err(error) => assert_eq!(error, OperationError::Starting),
        }
    }

    fn trouble(&mut self) {
        let (one, other) = (self.dice.name(), self.dice.name());
        let ms = 50 + self.dice.below(1_500);
        match self.dice.below(5) {
            _ if one == other => self.load(ms),
            0 => {
                self.net.cut(one, other);
                self.load(ms);
                self.net.mend();
            }
            1 => {
                for name in NAMES.into_iter().filter(|name| *name != one) {
                    self.net.cut(one, name);
                }
                self.load(ms);
                self.net.mend();
            }
            2 => {
                self.net.cut(one, other);
                self.load(ms / 2);
                self.net.cut(self.dice.name(), self.dice.name());
                self.load(ms / 2);
                self.net.mend();
            }
            3 => {
                self.net.node(one).paused = true;
                self.load(ms);
                self.net.node(one).paused = false;
            }
            _ => {
                if self.net.is_linked(one, other) {
                    self.net.sever(one, other);
                }
                self.load(ms / 10);
            }
        }
    }

    /// One is gone for so long that the others may forget it.
    fn absence(&mut self) {
        let one = self.dice.name();
        let ms = 1_000 + self.dice.below(5_000);
        let is_paused = self.dice.below(3) == 0;
        if is_paused {
            self.net.node(one).paused = true;
        } else {
            for name in NAMES.into_iter().filter(|name| *name != one) {
                self.net.cut(one, name);
            }
        }
        self.load(ms);
        self.net.node(one).paused = false;
        self.net.mend();
        self.load(2_000);
    }

    /// Leaves, and starts again with nothing.
    fn restart(&mut self) {
        let name = self.dice.name();
        let now_ns = self.net.now_ns;
        self.net.node(name).cluster.leave(now_ns);
        self.net.run(1_100 * MS);
        self.net.crash(name);
        let ms = self.dice.below(1_000);
        self.load_without(name, ms);
        let limit = Limit::new("l", self.quota.clone());
        self.net.start(name, config(name, 4), vec![limit]);
        self.load(1_000);
    }

    fn load_without(&mut self, name: &'static str, ms: u64) {
        for _ in 0..ms / 5 {
            let (at, key) = (self.dice.name(), self.dice.key());
            if at != name {
                self.spend(at, key, 2);
                if self.has_operators && self.dice.below(10) == 0 {
                    self.act(at, key);
                }
            }
            self.net.run(5 * MS);
        }
    }

    /// It is over: everybody knows everything.
    fn check(&mut self) {
        let seed = format!("{} of {:?}", self.seed, self.quota);
        self.net.run(3 * SECOND);
        assert!((0..KEYS).all(|key| self.spent(key) > 20), "seed {seed}: {:?}", self.spent);
        for name in NAMES {
            assert_eq!(self.net.members(name), (4, 4), "seed {seed}: {name}");
            assert_eq!(self.net.status(name).log_batches, 0, "seed {seed}: {name}");
            for peer in self.net.status(name).peers {
                assert!(!peer.owed, "seed {seed}: {name} owes {:?}", peer.name);
            }
        }
        for key in 0..KEYS {
            let left = NAMES.map(|name| match self.has_operators {
                // What is owed in a split shrinks a little as buckets refill: so does what was given back.
                true => self.net.level_key(name, &[key]),
                false => self.net.remaining_key(name, &[key]),
            });
            let expected = BURST - self.spent(key) + self.given.get(&key).unwrap_or(&0);
            let is_right = |left: &u64| (expected - self.short_max..=expected).contains(left);
            assert!(left.iter().all(is_right), "seed {seed}: key {key}: {left:?}, {expected}");
        }
    }

    /// Everybody knows what was spent in this window, by its own clock, and in the one before.
    fn check_windows(&self) {
        for name in NAMES {
            assert_eq!(self.net.members(name), (4, 4), "seed {}: {name}", self.seed);
            let (period_ms, unix_ms) = (self.period_ms, self.net.unix_ms(name));
            let (period, rest_ms) = (unix_ms / period_ms, period_ms - unix_ms % period_ms);
            for key in 0..KEYS {
                let spent = |period| self.spent.get(&(key, period)).copied().unwrap_or(0);
                let taken = spent(period) * period_ms + spent(period - 1) * rest_ms;
                let expected = (BURST * period_ms - taken) / period_ms;
                let left = self.net.remaining_key(name, &[key]);
                assert_eq!(left, expected, "seed {}: {name}, key {key} at {unix_ms}", self.seed);
            }
        }
    }
}

/// A storm of each kind, with wall clocks that are right and with some that are not.
fn storms(seeds: std::ops::Range<u64>, forget_after_ns: u64, weather: impl Fn(&mut Storm)) {
    for quota in quotas() {
        let is_by_the_wall =
            matches!(quota, Quota::FixedWindow { .. } | Quota::SlidingWindow { .. });
        for seed in seeds.clone() {
            let walls = if is_by_the_wall && seed % 2 == 1 { APART } else { RIGHT };
            let mut storm = Storm::new(seed, forget_after_ns, quota.clone(), walls);
            weather(&mut storm);
            storm.check();
        }
    }
}

#[test]
fn trouble_neither_loses_nor_doubles_a_spend() {
    storms(0..4, 60 * SECOND, |storm| {
        for _ in 0..12 {
            storm.trouble();
        }
        storm.net.run(12 * SECOND);
    });
}

/// Whatever is lost on the way, late or told twice: what an operator gave back is given back once, and what was spent
/// and not known there counts.
#[test]
fn operators_in_the_middle_of_trouble_give_back_what_they_say() {
    storms(300..304, 60 * SECOND, |storm| {
        storm.has_operators = true;
        for _ in 0..12 {
            storm.trouble();
        }
        assert!(storm.given.values().sum::<u64>() > 100, "{:?}", storm.given);
        storm.net.run(12 * SECOND);
    });
}

#[test]
fn being_forgotten_neither_loses_nor_doubles_a_spend() {
    storms(200..204, 2 * SECOND, |storm| {
        for _ in 0..6 {
            storm.absence();
        }
        storm.net.run(12 * SECOND);
    });
}

/// Who was forgotten takes the counts anew and keeps what it owes. What was given back may be told a part of a unit too
/// small then, as it shrinks while it is owed, and never too large.
#[test]
fn operators_give_back_no_more_than_they_say_while_members_are_forgotten() {
    storms(400..403, 2 * SECOND, |storm| {
        (storm.has_operators, storm.short_max) = (true, 1);
        for _ in 0..6 {
            storm.absence();
        }
        storm.net.run(12 * SECOND);
    });
}

#[test]
fn operators_give_back_what_they_say_while_members_restart() {
    storms(500..503, 60 * SECOND, |storm| {
        storm.has_operators = true;
        for _ in 0..4 {
            storm.load(300);
            storm.restart();
        }
    });
}

#[test]
fn restarts_neither_lose_nor_double_a_spend() {
    storms(100..104, 60 * SECOND, |storm| {
        for _ in 0..4 {
            storm.load(300);
            storm.restart();
        }
    });
}

#[test]
fn the_edges_of_windows_in_the_middle_of_trouble_lose_and_double_nothing() {
    let quota = Quota::SlidingWindow { limit: BURST, period_ns: 30 * SECOND };
    for seed in 600..604 {
        let walls = if seed % 2 == 1 { APART } else { RIGHT };
        let mut storm = Storm::new(seed, 60 * SECOND, quota.clone(), walls);
        for round in 0..6 {
            // The edge comes a second later, on a clock that is right.
            let into_ms = storm.net.unix_ms("a") % storm.period_ms;
            storm.net.run((2 * storm.period_ms - 1_000 - into_ms) % storm.period_ms * MS);
            match round {
                3 => storm.restart(),
                _ => (0..3).for_each(|_| storm.trouble()),
            }
            storm.net.run(13 * SECOND);
            storm.check_windows();
        }
    }
}
