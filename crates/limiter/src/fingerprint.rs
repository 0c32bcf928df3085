//! What a plan says, as a number: whether two plans say the same, here or on two nodes.

use crate::identity::unkeyed_hash;
use crate::rule::Rule;
use crate::{
    Accuracy, CalendarSpan, Limit, Missing, Override, Plan, Quota, Selector, Subject, Unmatched,
    WhenIsolated, Window,
};

impl Plan {
    /// Names what the plan says: the limits and overrides with all that the file says of them, what becomes of
    /// requests that none matches, and the lists. Plans that say the same have the same, whatever the order;
    /// the carried limit is of the doors and does not count.
    pub fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| {
            let rules = self.rules().iter().zip(self.said());
            let rules = rules.filter(|(rule, _)| !rule.is_carried());
            let mut rules: Vec<_> = rules.map(|(rule, said)| (rule.id(), said)).collect();
            rules.sort_unstable();
            let mut said = Said::default();
            said.number(u64::from(self.unmatched() == Unmatched::Deny));
            for (id, of_rule) in rules {
                said.number(id);
                said.number(of_rule);
            }
            for (subject, is_banned) in self.listed.iter().flat_map(|listed| listed.in_order()) {
                said.number(u64::from(is_banned));
                said.subject(&subject);
            }
            said.hash()
        })
    }

    /// What the plan says of each rule: of a limit without its overrides, of an override with what its limit
    /// says for it.
    pub(crate) fn said(&self) -> Vec<u64> {
        let of_limit = |limit: &Limit| {
            let mut said = Said::default();
            said.limit(limit);
            said.hash()
        };
        // Each once: a limit may list many keys, and have many overrides.
        let of_limits: Vec<_> = self.limits().iter().map(of_limit).collect();
        let of_rule = |rule: &Rule| {
            let mut said = Said::default();
            let at = rule.at();
            let limit = self.limits().get(at.limit);
            said.number(of_limits.get(at.limit).copied().unwrap_or_default());
            let exception =
                at.override_index.and_then(|index| limit.and_then(|it| it.overrides.get(index)));
            match (exception, limit) {
                (Some(Override { name, selector, quota }), _) => {
                    said.bytes(name.as_deref().unwrap_or_default().as_bytes());
                    said.selector(selector);
                    said.quota(quota);
                }
                (None, Some(limit)) => said.quota(&limit.quota),
                (None, None) => {}
            }
            said.hash()
        };
        self.rules().iter().map(of_rule).collect()
    }
}

/// What is said, as bytes that say nothing else: numbers of eight bytes, and bytes after their length.
#[derive(Default)]
struct Said(Vec<u8>);

impl Said {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(bytes);
    }

    fn limit(&mut self, limit: &Limit) {
        let Limit { name, selector, key, unit, missing, ipv6_prefix, shadow, .. } = limit;
        for text in [name, key, unit] {
            self.bytes(text.as_bytes());
        }
        self.selector(selector);
        self.number(u64::from(*missing == Missing::Deny));
        self.number(u64::from(*ipv6_prefix));
        self.number(u64::from(*shadow));
        self.number(u64::from(limit.accuracy == Accuracy::Fast));
        self.number(match limit.when_isolated {
            WhenIsolated::Split => 0,
            WhenIsolated::Allow => 1,
            WhenIsolated::Deny => 2,
        });
    }

    fn selector(&mut self, selector: &Selector) {
        let Selector { endpoint, attributes, keys } = selector;
        self.number(u64::from(endpoint.is_some()));
        self.bytes(endpoint.as_deref().unwrap_or_default().as_bytes());
        let mut attributes: Vec<_> = attributes.iter().collect();
        attributes.sort_unstable();
        self.number(u64::try_from(attributes.len()).unwrap_or(u64::MAX));
        for (name, value) in attributes {
            self.bytes(name.as_bytes());
            self.bytes(value.as_bytes());
        }
        let mut keys: Vec<_> = keys.iter().collect();
        keys.sort_unstable();
        self.number(u64::try_from(keys.len()).unwrap_or(u64::MAX));
        for key in keys {
            self.bytes(key);
        }
    }

    fn quota(&mut self, quota: &Quota) {
        let (kind, numbers) = match quota {
            Quota::Deny => (0, [0; 3]),
            Quota::Unlimited => (1, [0; 3]),
            Quota::TokenBucket { rate, burst } => (2, [rate.count, rate.period_ns, *burst]),
            Quota::LeakyBucket { rate, burst, queue } => {
                (3 + u64::from(*queue), [rate.count, rate.period_ns, *burst])
            }
            Quota::FixedWindow { limit, window: Window::Period(ns) } => (5, [*limit, *ns, 0]),
            Quota::FixedWindow { limit, window: Window::Calendar(calendar) } => {
                let span = match calendar.span() {
                    CalendarSpan::Day => 0,
                    CalendarSpan::Month => 1,
                    CalendarSpan::Year => 2,
                    CalendarSpan::Week(day) => {
                        3 + u64::from(day.to_monday_zero_offset().unsigned_abs())
                    }
                };
                self.bytes(calendar.zone().as_bytes());
                (6, [*limit, span, 0])
            }
            Quota::SlidingWindow { limit, period_ns } => (7, [*limit, *period_ns, 0]),
            Quota::SlidingLog { limit, period_ns } => (8, [*limit, *period_ns, 0]),
            Quota::Carried => (9, [0; 3]),
        };
        self.number(kind);
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn subject(&mut self, subject: &Subject) {
        match subject {
            Subject::Key(key) => {
                self.number(0);
                self.bytes(key);
            }
            Subject::Network(network) => {
                self.number(1);
                self.bytes(network.to_string().as_bytes());
            }
        }
    }

    fn hash(&self) -> u64 {
        unkeyed_hash(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Calendar, Lists, Rate, Weekday};

    const RATE: Rate = Rate { count: 10, period_ns: 1_000_000_000 };

    fn bucket(burst: u64) -> Quota {
        Quota::TokenBucket { rate: RATE, burst }
    }

    fn base() -> Limit {
        let endpoint = Some("POST /a".to_owned());
        let attributes = vec![("plan".to_owned(), "pro".to_owned())];
        let keys = vec![b"k".to_vec(), b"l".to_vec()];
        let selector = Selector { endpoint, attributes, keys };
        let exception = Selector { keys: vec![b"k".to_vec()], ..Selector::default() };
        let exception = Override { name: None, selector: exception, quota: bucket(3) };
        Limit { selector, overrides: vec![exception], ..Limit::new("a", bucket(10)) }
    }

    fn plan(limits: Vec<Limit>) -> Plan {
        Plan::compile(limits, Unmatched::Allow).expect("sound limits")
    }

    /// Plans that each say something else than all others.
    fn different() -> Vec<Plan> {
        let change = |change: fn(&mut Limit)| {
            let mut limit = base();
            change(&mut limit);
            plan(vec![limit])
        };
        let quota = |quota: Quota| plan(vec![Limit::new("a", quota)]);
        let window = |window: Window| quota(Quota::FixedWindow { limit: 10, window });
        let calendar =
            |span, zone| window(Window::Calendar(Calendar::new(span, zone).expect("a zone")));
        let network = |text: &str| Subject::Network(text.parse().expect("a network"));
        let listed = |allow: Vec<Subject>, ban: Vec<Subject>| {
            plan(vec![base()]).with_lists(Lists { allow, ban }).expect("sound lists")
        };
        vec![
            plan(vec![base()]),
            plan(vec![base(), Limit::new("b", bucket(10))]),
            Plan::compile(vec![base()], Unmatched::Deny).expect("sound limits"),
            change(|it| it.name = "b".to_owned()),
            change(|it| it.unit = "bytes".to_owned()),
            change(|it| it.selector.endpoint = Some("POST /b".to_owned())),
            change(|it| it.selector.endpoint = None),
            change(|it| it.selector.attributes[0].1 = "free".to_owned()),
            change(|it| drop(it.selector.attributes.pop())),
            change(|it| it.selector.keys[1] = b"m".to_vec()),
            change(|it| drop(it.selector.keys.pop())),
            change(|it| it.shadow = true),
            change(|it| it.accuracy = Accuracy::Fast),
            change(|it| it.when_isolated = WhenIsolated::Allow),
            change(|it| it.when_isolated = WhenIsolated::Deny),
            change(|it| it.quota = bucket(11)),
            change(|it| it.overrides[0].quota = bucket(4)),
            change(|it| it.overrides[0].name = Some("o".to_owned())),
            change(|it| it.overrides[0].selector.endpoint = Some("POST /a".to_owned())),
            change(|it| drop(it.overrides.pop())),
            quota(Quota::Deny),
            quota(Quota::Unlimited),
            quota(bucket(10)),
            quota(Quota::LeakyBucket { rate: RATE, burst: 10, queue: false }),
            quota(Quota::LeakyBucket { rate: RATE, burst: 10, queue: true }),
            quota(Quota::SlidingWindow { limit: 10, period_ns: 1_000_000_000 }),
            quota(Quota::SlidingLog { limit: 10, period_ns: 1_000_000_000 }),
            window(Window::Period(1_000_000_000)),
            calendar(CalendarSpan::Day, "UTC"),
            calendar(CalendarSpan::Day, "Europe/Berlin"),
            calendar(CalendarSpan::Week(Weekday::Monday), "UTC"),
            calendar(CalendarSpan::Week(Weekday::Sunday), "UTC"),
            calendar(CalendarSpan::Month, "UTC"),
            calendar(CalendarSpan::Year, "UTC"),
            listed(vec![Subject::Key(b"x".to_vec())], Vec::new()),
            listed(Vec::new(), vec![Subject::Key(b"x".to_vec())]),
            listed(vec![Subject::Key(b"10.0.0.0/8".to_vec())], Vec::new()),
            listed(vec![network("10.0.0.0/8")], Vec::new()),
            listed(vec![network("10.0.0.0/9")], Vec::new()),
            plan(vec![Limit { key: "{ip}".to_owned(), ..Limit::new("a", bucket(10)) }]),
            plan(vec![Limit {
                key: "{ip}".to_owned(),
                ipv6_prefix: 56,
                ..Limit::new("a", bucket(10))
            }]),
            plan(vec![Limit {
                key: "{ip}".to_owned(),
                missing: Missing::Deny,
                ..Limit::new("a", bucket(10))
            }]),
        ]
    }

    #[test]
    fn plans_that_say_something_else_have_another() {
        let plans = different();
        for (index, one) in plans.iter().enumerate() {
            for (other_index, other) in plans.iter().enumerate().skip(index + 1) {
                assert_ne!(one.fingerprint(), other.fingerprint(), "{index} and {other_index}");
            }
        }
        let again = different();
        let same = plans.iter().zip(&again);
        same.for_each(|(one, other)| assert_eq!(one.fingerprint(), other.fingerprint()));
    }

    #[test]
    fn the_order_and_the_carried_limit_do_not_count() {
        let two = || [base(), Limit::new("b", bucket(10))];
        let mut turned = two();
        turned.reverse();
        turned[1].selector.keys.reverse();
        assert_eq!(plan(two().to_vec()).fingerprint(), plan(turned.to_vec()).fingerprint());
        let carried = plan(two().to_vec()).with_carried();
        assert_eq!(plan(two().to_vec()).fingerprint(), carried.fingerprint());
        let key = |key: &[u8]| Subject::Key(key.to_vec());
        let listed = |ban: Vec<Subject>| {
            plan(vec![base()]).with_lists(Lists { allow: Vec::new(), ban }).expect("sound lists")
        };
        let (one, other) = (listed(vec![key(b"x"), key(b"y")]), listed(vec![key(b"y"), key(b"x")]));
        assert_eq!(one.fingerprint(), other.fingerprint());
    }

    /// Nodes of every version show it, and are compared by it.
    #[test]
    fn the_fingerprint_is_frozen() {
        assert_eq!(format!("{:016x}", plan(vec![base()]).fingerprint()), "0d0006f7e0a85187");
    }
}
