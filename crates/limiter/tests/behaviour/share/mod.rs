//! One limit on several nodes: limiters that exchange by hand, without a network between them.

mod exchange;
mod parts;
mod split;
mod waiting;

use limiter::{
    Answer, Bucket, Decision, Delta, Limit, Limiter, Members, Plan, Quota, Request, ShareConfig,
    StoreConfig, Unmatched, View, ViewMember, WhenFull, member_id,
};

use crate::support::MS;

/// Names of the members, in the order of their indices on every node.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// All of the store at once.
const ALL: (limiter::StorePart, usize) = (limiter::StorePart::START, usize::MAX);
/// Time between two exchanges.
const INTERVAL: u64 = 200 * MS;

/// Nodes that reach each other, and exchange when they are told to.
struct Group {
    nodes: Vec<Limiter>,
}

impl Group {
    /// `n` nodes that hold `limit` together.
    fn of(n: u8, limit: &Limit) -> Self {
        let everyone: Members = (0..n).collect();
        let node = |me| {
            let plan = Plan::compile(vec![limit.clone()], Unmatched::Allow).unwrap();
            let store = StoreConfig {
                memory_bytes: 1 << 20,
                entries_max: None,
                when_full: WhenFull::Overflow,
                secret: [5; 16],
            };
            let view = view(n, me, everyone);
            Limiter::new_member(plan, store, ShareConfig { sync_interval_ns: INTERVAL, view })
        };
        Self { nodes: (0..n).map(node).collect() }
    }

    /// The same with one limit of `quota`.
    fn sharing(n: u8, quota: Quota) -> Self {
        Self::of(n, &Limit::new("l", quota))
    }

    /// What node `at` has to tell at its tick.
    fn due(&self, at: usize, now_ns: u64) -> Vec<Delta> {
        let mut deltas = Vec::new();
        self.nodes[at].collect_due(now_ns, Members::EMPTY, false, ALL, &mut deltas);
        deltas
    }

    /// Delivers `deltas` of node `from` to all others, and their acknowledgements back; returns what
    /// was woken. What must be published before is published before.
    fn deliver(&self, from: usize, now_ns: u64, deltas: &[Delta]) -> Vec<Bucket> {
        for to in (0..self.nodes.len()).filter(|to| *to != from) {
            let mut publish = Vec::new();
            self.nodes[to].receive(now_ns, deltas, false, &mut publish);
            let mut forced = Vec::new();
            self.nodes[to].collect_forced(now_ns, Members::EMPTY, &publish, &mut forced);
            if !forced.is_empty() {
                self.deliver(to, now_ns, &forced);
            }
        }
        let mut woken = Vec::new();
        self.nodes[from].acknowledged(now_ns, deltas, &mut woken);
        woken
    }

    /// Every node tells what it has to tell.
    fn exchange(&self, now_ns: u64) {
        for at in 0..self.nodes.len() {
            let deltas = self.due(at, now_ns);
            self.deliver(at, now_ns, &deltas);
        }
    }

    /// Units that each node says are left for `key`.
    fn left(&self, now_ns: u64, key: &str) -> Vec<u64> {
        let peek = Request::check(b"", key.as_bytes()).with_cost(0);
        let left = |node: &Limiter| node.decide(now_ns, &peek).unwrap().verdict.remaining.unwrap();
        self.nodes.iter().map(left).collect()
    }

    /// How many of `calls` checks of `key` at node `at` pass.
    fn passes(&self, at: usize, now_ns: u64, key: &str, calls: usize) -> usize {
        crate::support::passes(&self.nodes[at], now_ns, key, calls)
    }

    /// Tells every node who reaches whom: `groups` share no member.
    fn regroup(&self, now_ns: u64, groups: &[Members]) {
        let n = u8::try_from(self.nodes.len()).unwrap();
        for me in 0..n {
            let group = *groups.iter().find(|group| group.contains(me)).unwrap();
            let view = view(n, me, group);
            let loss =
                limiter::Loss { view: &view, tail: &[], fold: &[], doubtful: &[], unknown: &[] };
            self.nodes[usize::from(me)].lose(now_ns, &loss);
        }
    }
}

fn view(n: u8, me: u8, reachable: Members) -> View {
    let member = |index: u8| ViewMember { index, id: Some(member_id(NAMES[usize::from(index)])) };
    View { members: (0..n).map(member).collect(), me, reachable, isolated: false }
}

fn decided(answer: Answer<'_>) -> Decision<'_> {
    match answer {
        Answer::Decided(decision) => decision,
        Answer::Held(ticket) => panic!("held: {ticket:?}"),
    }
}

fn held(answer: Answer<'_>) -> limiter::Ticket {
    match answer {
        Answer::Held(ticket) => ticket,
        Answer::Decided(decision) => panic!("decided: {decision:?}"),
    }
}
