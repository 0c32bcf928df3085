//! Seeded trouble: cuts, broken connections, pauses, leaving and joining under load. Whatever happens,
//! every spend is in every node's counts once when it is over.

use super::network::{Network, bucket, config};
use crate::Config;
use crate::config::{MS, SECOND};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const KEYS: u8 = 7;
const BURST: u64 = 10_000;

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
    /// Units by key.
    spent: [u64; KEYS as usize],
    seed: u64,
}

impl Storm {
    fn new(seed: u64, forget_after_ns: u64) -> Self {
        let mut net = Network::new();
        for name in NAMES {
            let config = Config { forget_after_ns, ..config(name, 4) };
            net.start(name, config, vec![bucket("l", BURST, 1)]);
        }
        net.run(1_500 * MS);
        Self { net, dice: Dice(seed), spent: [0; KEYS as usize], seed }
    }

    /// Spends for a while, on all nodes that run.
    fn load(&mut self, ms: u64) {
        for _ in 0..ms / 5 {
            let (name, key) = (self.dice.name(), self.dice.key());
            let calls = usize::try_from(self.dice.below(4)).unwrap();
            let is_ready = self.net.node(name).cluster.readiness() == crate::Readiness::Ready;
            if !self.net.node(name).paused && is_ready {
                let spent = self.net.spend_key(name, &[key], calls);
                self.spent[usize::from(key)] += spent as u64;
            }
            self.net.run(5 * MS);
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
        self.net.start(name, config(name, 4), vec![bucket("l", BURST, 1)]);
        self.load(1_000);
    }

    fn load_without(&mut self, name: &'static str, ms: u64) {
        for _ in 0..ms / 5 {
            let (at, key) = (self.dice.name(), self.dice.key());
            if at != name {
                let spent = self.net.spend_key(at, &[key], 2);
                self.spent[usize::from(key)] += spent as u64;
            }
            self.net.run(5 * MS);
        }
    }

    /// It is over: everybody knows everything.
    fn check(&mut self) {
        let seed = self.seed;
        self.net.run(3 * SECOND);
        assert!(self.spent.iter().all(|spent| *spent > 20), "seed {seed}: {:?}", self.spent);
        for name in NAMES {
            assert_eq!(self.net.members(name), (4, 4), "seed {seed}: {name}");
            assert_eq!(self.net.status(name).log_batches, 0, "seed {seed}: {name}");
            for peer in self.net.status(name).peers {
                assert!(!peer.owed, "seed {seed}: {name} owes {:?}", peer.name);
            }
        }
        for key in 0..KEYS {
            let left = NAMES.map(|name| self.net.remaining_key(name, &[key]));
            let expected = BURST - self.spent[usize::from(key)];
            assert_eq!(left, [expected; 4], "seed {seed}: key {key}");
        }
    }
}

#[test]
fn trouble_neither_loses_nor_doubles_a_spend() {
    for seed in 0..4 {
        let mut storm = Storm::new(seed, 60 * SECOND);
        for _ in 0..12 {
            storm.trouble();
        }
        storm.net.run(12 * SECOND);
        storm.check();
    }
}

#[test]
fn being_forgotten_neither_loses_nor_doubles_a_spend() {
    for seed in 200..204 {
        let mut storm = Storm::new(seed, 2 * SECOND);
        for _ in 0..6 {
            storm.absence();
        }
        storm.net.run(12 * SECOND);
        storm.check();
    }
}

#[test]
fn restarts_neither_lose_nor_double_a_spend() {
    for seed in 100..104 {
        let mut storm = Storm::new(seed, 60 * SECOND);
        for _ in 0..4 {
            storm.load(300);
            storm.restart();
        }
        storm.check();
    }
}
