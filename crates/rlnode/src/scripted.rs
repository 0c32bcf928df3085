//! A member for the tests of the doors: its limiter is real, and its only peer acknowledges when the
//! test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::PeerState;
use limiter::{
    Answer, Decision, Freshness, Limit, Limiter, Members, Plan, Quota, Rate, Request, ShareConfig,
    ShareCounts, StoreConfig, Ticket, Unmatched, View, ViewMember, WhenFull, member_id,
};
use tokio::sync::Notify;
use wire::RequestWriter;

use crate::engine::{Engine, MemberStatus};
use crate::node::{Node, Readiness};
use crate::refusals::{Early, Refusals};

/// The time of everything here.
pub(crate) const NOW_NS: u64 = 1_000_000_000_000;

/// One of two members that reach each other.
#[derive(Debug)]
pub struct Scripted {
    limiter: Limiter,
    is_ready: AtomicBool,
    woken: Notify,
}

impl Scripted {
    /// A node with one limit `per-key` of `burst` units, half of which an idle key may spend at once.
    pub(crate) fn node(burst: u64) -> (Arc<Node>, Arc<Self>) {
        let rate = Rate { count: 1, period_ns: 3_600 * 1_000_000_000 };
        let limit = Limit::new("per-key", Quota::TokenBucket { rate, burst });
        let plan = Plan::compile(vec![limit], Unmatched::Allow).expect("a sound limit");
        let store = StoreConfig {
            memory_bytes: 1 << 20,
            entries_max: None,
            when_full: WhenFull::Overflow,
            secret: [7; 16],
        };
        let member = |index, name| ViewMember { index, id: Some(member_id(name)) };
        let view = View {
            members: vec![member(0, "a"), member(1, "b")],
            me: 0,
            reachable: Members::only(0).with(1),
            isolated: false,
        };
        let share = ShareConfig { sync_interval_ns: 200_000_000, view };
        let limiter = Limiter::new_member(plan, store, share);
        limiter.set_alive_until(u64::MAX);
        let scripted =
            Arc::new(Self { limiter, is_ready: AtomicBool::new(true), woken: Notify::new() });
        let engine = Engine::Scripted(Arc::clone(&scripted));
        let node = Node::new("test".to_owned(), Vec::new(), engine, false);
        node.set_readiness(Readiness::Ready);
        (Arc::new(node), scripted)
    }

    pub(crate) fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }

    /// The peer hears of everything and says so.
    pub(crate) fn acknowledge(&self) {
        let (mut deltas, mut woken) = (Vec::new(), Vec::new());
        self.limiter.collect_early(NOW_NS, Members::EMPTY, &mut deltas);
        self.limiter.acknowledged(NOW_NS, &deltas, &mut woken);
        self.woken.notify_waiters();
    }

    pub(crate) fn settle(
        &self,
        now_ns: u64,
        ticket: Ticket,
        max_wait: Duration,
    ) -> impl Future<Output = Decision<'_>> {
        let mut waiting = Waiting { limiter: &self.limiter, now_ns, ticket: Some(ticket) };
        async move {
            let deadline = tokio::time::sleep(max_wait);
            let mut deadline = std::pin::pin!(deadline);
            loop {
                let is_last = tokio::select! {
                    () = self.woken.notified() => false,
                    () = deadline.as_mut() => true,
                };
                let ticket = waiting.ticket.take().expect("one is there until it is decided");
                if is_last {
                    return self.limiter.give_up(now_ns, ticket);
                }
                match self.limiter.retry(now_ns, ticket, false) {
                    Answer::Decided(decision) => return decision,
                    Answer::Held(again) => waiting.ticket = Some(again),
                }
            }
        }
    }
}

/// Gives a check up when nobody waits for it any more.
struct Waiting<'l> {
    limiter: &'l Limiter,
    now_ns: u64,
    ticket: Option<Ticket>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.limiter.abandon(self.now_ns, ticket);
        }
    }
}

/// A peer, missing for 20 s if it is not linked.
pub(crate) fn peer(name: Option<&str>, state: PeerState) -> cluster::PeerStatus {
    let is_linked = matches!(state, PeerState::Linked | PeerState::Counted);
    cluster::PeerStatus {
        name: name.map(ToOwned::to_owned),
        region: "eu".into(),
        state,
        life: 5,
        synced: true,
        heard_ms: is_linked.then_some(12),
        missing_ms: (!is_linked).then_some(20_000),
        unacknowledged: 1,
        lag_ms: 3,
        rtt_us: Some(400),
        skew_ms: Some(-7),
        linked_skew_ms: Some(-8),
        clock_off: false,
        drift: vec!["per-key".into()],
        unknown_there: vec!["login".into()],
        unknown_here: 1,
        owed: false,
        flapping: false,
    }
}

/// A node `b` of three: `a` is counted, `c` is missing.
pub(crate) fn sample() -> MemberStatus {
    let cluster = cluster::Status {
        node: "b".into(),
        cluster: "edge".into(),
        region: String::new(),
        life: 0xab,
        members: 3,
        reached: 2,
        isolated: false,
        readiness: cluster::Readiness::Ready,
        freshness: Freshness::Split,
        stale_ms: 0,
        peers: vec![peer(Some("a"), PeerState::Counted), peer(Some("c"), PeerState::Missing)],
        held: 2,
        log_batches: 0,
        log_bytes: 0,
        handshakes: 0,
        credits: 0,
        counts: cluster::Counts { splits: 1, holds_refused: 3, ..cluster::Counts::default() },
        shares: ShareCounts::default(),
    };
    let refusals = Refusals::new(&cluster.counts, Early { authority: 3, ..Early::default() });
    MemberStatus {
        cluster,
        refusals,
        forget_after_ns: 60_000_000_000,
        sync_interval_ns: 200_000_000,
        holds_refused_early: 4,
        certificate_ends_s: 1_800_000_000,
        unresolved: vec![("edge-9:7401".into(), "no such name".into())],
    }
}

/// A frame of `checks` checks of `key`, each of which waits up to a second if it is held. Of a node that
/// [`Scripted::node`] made with ten units, five checks pass at once, and the sixth is held.
pub(crate) fn patient_frame(id: u64, key: &str, checks: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut writer = RequestWriter::new(&mut frame, id);
    for _ in 0..checks {
        let check = Request::check(b"GET /", key.as_bytes());
        writer.check(&check, Some(1_000_000)).expect("room");
    }
    writer.finish();
    frame
}
