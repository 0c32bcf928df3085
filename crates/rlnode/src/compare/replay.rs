//! Yesterday's calls through tomorrow's file: who would have been denied, by which limit, and when.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use limiter::{ATTRIBUTE_VALUE_BYTES_MAX, Counts, Reason, Request, Rule, StoreConfig};
use sim::compare::{ExactNode, Series};

use super::contest::nothing_in;
use super::trace::{Call, Trace};
use crate::config::Config;

/// Most pairs of limit and key whose denials are counted apart; of what comes later the sum is kept.
pub const DENIED_KEYS_MAX: usize = 100_000;

const HOUR_NS: u64 = 3_600_000_000_000;

/// What a file does with a trace.
#[derive(Debug)]
pub struct Replay {
    /// Unix time of the first call in nanoseconds, and of the last.
    pub from_unix_ns: u64,
    /// See `from_unix_ns`.
    pub until_unix_ns: u64,
    /// Calls that all deciding limits let through.
    pub allowed: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// Calls that no limit matched and that the file denies.
    pub unmatched_denied: u64,
    /// The limiter's own counts; of rules, by slot.
    pub counts: Counts,
    /// Names of the rules, by slot, and whether each is a shadow.
    pub rules: Vec<(String, bool)>,
    /// What was denied to whom, by the name of the rule.
    pub denials: BTreeMap<String, Denials>,
    /// Calls and those that passed, by hour.
    pub hours: Series,
    /// Calls, and those that a shadow would have denied, by hour: `asked` and `passed`.
    pub shadow_hours: Series,
}

/// What one rule denied, or as a shadow would have.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    /// When first, as Unix time in nanoseconds.
    pub first_unix_ns: u64,
    /// By key: how often, and when first.
    pub keys: BTreeMap<Vec<u8>, (u64, u64)>,
    /// Denials of keys that came when there was no room for more.
    pub of_others: u64,
}

/// Runs all calls of `trace` through the limits of `config`, on one exact node that starts with the first.
///
/// # Errors
/// The trace cannot be read, or has no call that can.
pub fn replay(trace: &mut Trace<impl BufRead>, config: Config) -> io::Result<Replay> {
    let Some(first) = trace.next_call()? else { return Err(nothing_in(trace)) };
    let memory = config.memory;
    let store = StoreConfig {
        memory_bytes: memory.max_bytes,
        entries_max: memory.max_entries,
        when_full: memory.when_full,
        secret: *b"compare, no node",
    };
    let mut node = ExactNode::new(config.plan, store, first.unix_ns);
    let hour_ns = first.unix_ns - first.unix_ns % HOUR_NS;
    let mut replay = Replay {
        from_unix_ns: first.unix_ns,
        until_unix_ns: first.unix_ns,
        allowed: 0,
        denied: 0,
        unmatched_denied: 0,
        counts: Counts::default(),
        rules: Vec::new(),
        denials: BTreeMap::new(),
        hours: Series::new(hour_ns, HOUR_NS),
        shadow_hours: Series::new(hour_ns, HOUR_NS),
    };
    let (mut pairs, mut next) = (0, Some(first));
    while let Some(call) = next {
        replay.handle_call(&mut node, &call, &mut pairs)?;
        next = trace.next_call()?;
    }
    replay.counts = node.limiter().counts();
    let plan = node.limiter().plan();
    let is_shadow = |rule: &Rule| plan.limits().get(rule.at().limit).is_some_and(|it| it.shadow);
    let rules = plan.rules().iter();
    replay.rules = rules.map(|rule| (rule.name().to_owned(), is_shadow(rule))).collect();
    Ok(replay)
}

impl Replay {
    fn handle_call(
        &mut self,
        node: &mut ExactNode,
        call: &Call,
        pairs: &mut usize,
    ) -> io::Result<()> {
        let mut request = Request::check(&call.endpoint, &call.key).with_cost(call.cost);
        request.details = true;
        if (1..=ATTRIBUTE_VALUE_BYTES_MAX).contains(&call.address.len()) {
            request = request.with_attribute(b"ip", &call.address);
        }
        let at_ns = call.unix_ns;
        // Calls are within the limiter's bounds: the trace has seen to that.
        let decision = node.decide(at_ns, &request).map_err(io::Error::other)?;
        self.until_unix_ns = at_ns;
        self.hours.asked(at_ns, 1);
        self.shadow_hours.asked(at_ns, 1);
        if decision.verdict.allowed {
            self.allowed += 1;
            self.hours.passed(at_ns, 1);
        } else {
            self.denied += 1;
            self.unmatched_denied += u64::from(decision.verdict.reason == Reason::Unmatched);
        }
        let mut by_shadow = false;
        for verdict in decision.details.iter().filter(|verdict| !verdict.allowed) {
            by_shadow |= verdict.shadow;
            if !self.denials.contains_key(verdict.limit_name) {
                let first = Denials { first_unix_ns: at_ns, ..Denials::default() };
                self.denials.insert(verdict.limit_name.to_owned(), first);
            }
            let Some(denials) = self.denials.get_mut(verdict.limit_name) else { continue };
            if let Some((count, _)) = denials.keys.get_mut(&call.key) {
                *count += 1;
            } else if *pairs < DENIED_KEYS_MAX {
                *pairs += 1;
                denials.keys.insert(call.key.clone(), (1, at_ns));
            } else {
                denials.of_others += 1;
            }
        }
        self.shadow_hours.passed(at_ns, u64::from(by_shadow));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    const FILE: &str = r#"
        unmatched = "deny"
        [[limit]]
        name = "per-key"
        endpoint = "GET /a"
        rate = "2/min"
        [[limit]]
        name = "login"
        endpoint = "POST /login"
        key = "{ip}"
        rate = "1/h"
        [[limit]]
        name = "all"
        key = "*"
        rate = "3/h"
        shadow = true
    "#;

    fn run(trace: &str) -> Replay {
        let node = config::Node {
            name: "compare".to_owned(),
            environment: crate::environment::of_process(),
        };
        let config = config::parse(FILE.as_bytes(), Path::new("t.toml"), &node).expect("a file");
        replay(&mut Trace::new(trace.as_bytes(), None), config).expect("calls")
    }

    #[test]
    fn every_limit_says_whom_it_denies_and_when_first() {
        let replay = run("0,alice,GET /a\n1,alice,GET /a\n2,alice,GET /a\n3,alice,GET /a\n\
                          4,192.0.2.1,POST /login\n5,192.0.2.1,POST /login\n\
                          6,bob,POST /login\n\
                          3600,bob,GET /else\n\
                          3601,alice,GET /a\n");
        assert_eq!((replay.allowed, replay.denied), (4, 5));
        // A login without an address meets no limit that decides, nor does `/else`.
        assert_eq!((replay.counts.unmatched, replay.unmatched_denied), (2, 2));
        assert_eq!(replay.counts.missing, 1);
        let names: Vec<_> =
            replay.rules.iter().map(|(name, shadow)| (name.as_str(), *shadow)).collect();
        assert_eq!(names, [("per-key", false), ("login", false), ("all", true)]);
        let of = |limit: &str, key: &str| {
            let denials = &replay.denials[limit];
            (denials.first_unix_ns, denials.keys[key.as_bytes()])
        };
        assert_eq!(of("per-key", "alice"), (2_000_000_000, (2, 2_000_000_000)));
        assert_eq!(of("login", "192.0.2.1"), (5_000_000_000, (1, 5_000_000_000)));
        let by_hour: Vec<_> = replay.hours.slots().iter().map(|it| (it.asked, it.passed)).collect();
        assert_eq!(by_hour, [(7, 3), (2, 1)]);
    }

    #[test]
    fn a_shadow_is_counted_and_denies_nobody() {
        let replay = run("0,a,GET /a\n0,b,GET /a\n0,c,GET /a\n1,d,GET /a\n");
        assert_eq!((replay.allowed, replay.denied), (4, 0));
        let counts = replay.counts.rules[2];
        assert_eq!((counts.allowed, counts.denied, counts.shadow_denied), (3, 0, 1));
        assert_eq!(replay.denials["all"].keys[&b"d"[..]], (1, 1_000_000_000));
        assert_eq!(replay.shadow_hours.slots()[0].passed, 1);
    }
}
