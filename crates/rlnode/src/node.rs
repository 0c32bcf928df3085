//! What every door shares: what answers, the clock and the counts, and how a question is answered.
//!
//! It owns no socket. `frame` says how a frame of questions is answered.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use limiter::{Answer, Decision, Freshness, Limiter, Op, Request, RequestError, Wait};
use wire::Status;

use crate::admin::Admin;
use crate::audit::Audit;
use crate::clock::{self, Clock};
use crate::counters::Counters;
use crate::door::{Door, DoorAddress, Fault, Outcome};
use crate::endpoint::envoy::mapping::Mappings;
use crate::endpoint::http::Spoken;
use crate::engine::Engine;
use crate::log::ShownKey;
use crate::operation::Operations;
use crate::reload::{Reloader, Reloads};
use crate::waiting::{Waiting, Waits};

/// Longest time that a check is held where the request does not say: some round trips within a data
/// centre, and less than any caller's patience.
pub const DEFAULT_MAX_WAIT: Duration = Duration::from_millis(5);
/// Longest time that a check is held whatever the request says: half of what connections get to
/// finish when the node stops.
pub const MAX_WAIT_MAX: Duration = Duration::from_secs(1);

/// Whether the node wants to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Readiness {
    /// Not every door is open yet.
    Starting = 0,
    /// Ask.
    Ready = 1,
    /// The node is about to stop; it still answers.
    Stopping = 2,
}

impl Readiness {
    /// The word used by `/readyz` and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
        }
    }
}

/// Who asks, as far as that changes the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The door.
    pub door: Door,
    /// Anybody on a network could have sent it under anybody's address, so that an answer must not
    /// be longer than its question, and nothing may be given back.
    pub is_forgeable: bool,
    /// A check of its may be held. Otherwise it is decided at once whatever it says: as many answers
    /// as may come later do already.
    pub may_hold: bool,
}

impl Caller {
    /// A caller on this host, or one that a connection has proved to be where it says.
    pub const fn known(door: Door) -> Self {
        Self { door, is_forgeable: false, may_hold: true }
    }
}

/// One node.
#[derive(Debug)]
pub struct Node {
    name: String,
    addresses: Vec<DoorAddress>,
    engine: Engine,
    clock: Clock,
    counters: Counters,
    waiting: Waiting,
    started_ns: u64,
    readiness: AtomicU8,
    show_keys: AtomicBool,
    /// None: nothing is recorded.
    audit: Option<Audit>,
    /// None: nobody operates it from elsewhere.
    admin: Option<Admin>,
    operations: Operations,
    /// What descriptors of Envoy mean.
    mappings: ArcSwap<Mappings>,
    headers: Spoken,
    reloads: Reloads,
    /// None: it was not started from a file.
    reloader: Option<Reloader>,
    /// Hashes the keys that logs mention. Its secret is made at the start and never leaves.
    key_hasher: RandomState,
}

impl Node {
    /// A node of this name that is starting and will listen at `addresses`. `show_keys` lets logs
    /// show keys instead of hashes.
    pub fn new(name: String, addresses: Vec<DoorAddress>, engine: Engine, show_keys: bool) -> Self {
        let clock = Clock::new();
        let node = Self {
            name,
            addresses,
            engine,
            started_ns: clock.now_ns(),
            clock,
            counters: Counters::new(),
            waiting: Waiting::default(),
            readiness: AtomicU8::new(Readiness::Starting as u8),
            show_keys: show_keys.into(),
            audit: None,
            admin: None,
            operations: Operations::default(),
            mappings: ArcSwap::default(),
            headers: Spoken::default(),
            reloads: Reloads::default(),
            reloader: None,
            key_hasher: RandomState::new(),
        };
        node.refresh_clock();
        node
    }

    /// Takes over what the wall clock says, for what is shown and for the windows of the limits: at the
    /// start, and then once a [`crate::clock::REFRESH`].
    pub fn refresh_clock(&self) {
        let (now_ns, unix_ns) = self.clock.refresh();
        self.limiter().set_wall(now_ns, unix_ns);
    }

    /// The same node, what it lets through being recorded by `audit`.
    #[must_use]
    pub fn with_audit(mut self, audit: Option<Audit>) -> Self {
        self.audit = audit;
        self
    }

    /// The same node, operated from elsewhere by whoever has the token of `admin`.
    #[must_use]
    pub fn with_admin(mut self, admin: Option<Admin>) -> Self {
        self.admin = admin;
        self
    }

    /// Whether there is a token by which it is operated from elsewhere.
    pub fn has_admin_token(&self) -> bool {
        self.admin.is_some()
    }

    /// Whether `token` is that token.
    pub fn is_admin_token(&self, token: &[u8]) -> bool {
        self.admin.as_ref().is_some_and(|admin| admin.allows(token))
    }

    /// The same node, whose file is read again by `reloader`.
    #[must_use]
    pub fn with_reloader(mut self, reloader: Option<Reloader>) -> Self {
        self.reloader = reloader;
        self.reloads.begin(self.started_ns, clock::unix_ms());
        self
    }

    /// What reads its file again; none: it was not started from a file.
    pub fn reloader(&self) -> Option<&Reloader> {
        self.reloader.as_ref()
    }

    /// The headers that tell clients of gateways about their limits.
    pub fn headers(&self) -> &Spoken {
        &self.headers
    }

    /// What came of the reloads.
    pub fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// Lets logs show keys, or hashes of them.
    pub(crate) fn set_show_keys(&self, show_keys: bool) {
        self.show_keys.store(show_keys, Ordering::Relaxed);
    }

    /// What descriptors of Envoy mean.
    pub fn mappings(&self) -> Arc<Mappings> {
        self.mappings.load_full()
    }

    /// Takes over what descriptors of Envoy mean.
    pub fn set_mappings(&self, mappings: Mappings) {
        self.mappings.store(Arc::new(mappings));
    }

    /// How many operations were carried out.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[DoorAddress] {
        &self.addresses
    }

    /// The record of what it lets through; none: there is none.
    pub fn audit(&self) -> Option<&Audit> {
        self.audit.as_ref()
    }

    /// What answers the checks.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The limiter.
    pub fn limiter(&self) -> &Limiter {
        self.engine.limiter()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The counts of all doors.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the checks that are held wait for.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Nanoseconds since the node was made.
    pub fn uptime_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.started_ns)
    }

    /// Unix time in seconds at which the node was made, rounded up, by today's wall clock.
    pub fn started_unix_s(&self) -> u64 {
        self.clock.unix_ms(self.started_ns, Wait::ZERO).map_or(0, |ms| ms.div_ceil(1_000))
    }

    /// Nanoseconds since its limits were put in force, and Unix time in seconds at which they were, rounded
    /// up, by today's wall clock.
    pub fn limits_since(&self) -> (u64, u64) {
        let at_ns = self.started_ns.max(self.reloads.in_force_ns());
        let unix_s = self.clock.unix_ms(at_ns, Wait::ZERO).map_or(0, |ms| ms.div_ceil(1_000));
        (self.clock.now_ns().saturating_sub(at_ns), unix_s)
    }

    /// How well it knows the cluster's counts.
    pub fn freshness(&self) -> Freshness {
        self.limiter().freshness().0
    }

    /// Whether it wants to be asked.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::Acquire) {
            0 => Readiness::Starting,
            1 if self.engine.is_ready() => Readiness::Ready,
            1 => Readiness::Starting,
            _ => Readiness::Stopping,
        }
    }

    /// Says whether it wants to be asked. A node that knows the counts of its cluster not yet is
    /// starting all the same.
    pub fn set_readiness(&self, readiness: Readiness) {
        self.readiness.store(readiness as u8, Ordering::Release);
    }

    /// Puts one request, received at `now_ns`, and counts what comes of it. A check may be held for
    /// `max_wait`, at most [`MAX_WAIT_MAX`], none: [`DEFAULT_MAX_WAIT`].
    ///
    /// # Errors
    /// The request cannot be decided; nothing was changed.
    pub fn ask(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        door: Door,
        max_wait: Option<Duration>,
    ) -> Result<Asked<'_>, Undecided> {
        if !self.engine.is_ready() {
            self.count_undecided(door, Fault::Starting);
            return Err(Undecided::Starting);
        }
        let max_wait = max_wait.unwrap_or(DEFAULT_MAX_WAIT).min(MAX_WAIT_MAX);
        let answer = self.engine.check(now_ns, request, !max_wait.is_zero());
        match answer.inspect_err(|_| self.count_undecided(door, Fault::BadCheck))? {
            Answer::Decided(decision) => {
                self.count(door, request.op, request.is_peek(), &decision, request.key);
                Ok(Asked::Decided(decision))
            }
            Answer::Held(ticket) => {
                let waits = self.waiting.enter(ticket.bucket());
                let settling = self.engine.settle(now_ns, ticket, max_wait);
                // Made here and not in the future, which may be dropped before it ever runs.
                let mut unsettled =
                    Unsettled { node: self, door, is_settled: false, _waits: waits };
                // The key is only of use to a log.
                let is_logged = tracing::enabled!(tracing::Level::DEBUG);
                let key = if is_logged { request.key.to_vec() } else { Vec::new() };
                Ok(Asked::Held(Box::pin(async move {
                    let decision = settling.await;
                    unsettled.settle();
                    self.count(door, Op::Check, false, &decision, &key);
                    decision
                })))
            }
        }
    }

    /// Puts several checks, received at `now_ns`, that are decided as one: all are spent, or none. Nothing is
    /// held. Each is counted.
    ///
    /// # Errors
    /// A check cannot be decided; nothing was changed.
    pub fn ask_together(
        &self,
        now_ns: u64,
        requests: &[Request<'_>],
        door: Door,
    ) -> Result<Vec<Decision<'_>>, Undecided> {
        let refuse = |fault| requests.iter().for_each(|_| self.count_undecided(door, fault));
        if !self.engine.is_ready() {
            refuse(Fault::Starting);
            return Err(Undecided::Starting);
        }
        let decisions = self.engine.check_together(now_ns, requests);
        let decisions = decisions.inspect_err(|_| refuse(Fault::BadCheck))?;
        for (request, decision) in requests.iter().zip(&decisions) {
            self.count(door, Op::Check, request.is_peek(), decision, request.key);
        }
        Ok(decisions)
    }

    /// Decides one request now, and counts it: what could be held is denied.
    ///
    /// # Errors
    /// As [`Node::ask`].
    #[cfg(test)]
    pub(crate) fn decide(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        door: Door,
    ) -> Result<Decision<'_>, Undecided> {
        match self.ask(now_ns, request, door, Some(Duration::ZERO))? {
            Asked::Decided(decision) => Ok(decision),
            Asked::Held(_) => panic!("a check was held that may not be"),
        }
    }

    fn count(&self, door: Door, op: Op, is_peek: bool, decision: &Decision<'_>, key: &[u8]) {
        let outcome = match op {
            _ if is_peek => Outcome::Peek,
            Op::Check if decision.verdict.allowed => Outcome::Allowed,
            Op::Check | Op::Peek => Outcome::Denied,
            Op::Debit => Outcome::Debit,
            // No door carries a reset; like a refund, it gives units back.
            Op::Refund | Op::Reset => Outcome::Refund,
        };
        self.counters.count_check(door, outcome);
        if outcome == Outcome::Denied {
            tracing::debug!(
                door = door.as_str(),
                limit = decision.verdict.limit_name,
                reason = decision.verdict.reason.as_str(),
                key = %self.shown_key(key),
                "denied"
            );
        }
    }

    /// Counts a check that was not decided.
    pub(crate) fn count_undecided(&self, door: Door, fault: Fault) {
        self.counters.count_check(door, Outcome::Error);
        self.counters.count_fault(door, fault);
    }

    /// `key` as logs may show it.
    pub(crate) fn shown_key<'k>(&self, key: &'k [u8]) -> ShownKey<'k> {
        if self.show_keys.load(Ordering::Relaxed) {
            ShownKey::Text(key)
        } else {
            ShownKey::Hash(self.key_hasher.hash_one(key))
        }
    }
}

/// What came of a request.
pub enum Asked<'n> {
    /// The decision.
    Decided(Decision<'n>),
    /// A check that is held: its decision comes later.
    Held(Held<'n>),
}

/// A decision that comes later, already counted then. Dropping it gives the check up.
pub type Held<'n> = Pin<Box<dyn Future<Output = Decision<'n>> + Send + 'n>>;

/// Why there is no decision. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// The caller's fault: the request breaks a bound.
    Request(RequestError),
    /// The node does not know the cluster's counts yet.
    Starting,
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Starting => {
                f.write_str("the node is starting and does not know the counts of its cluster yet")
            }
        }
    }
}

impl std::error::Error for Undecided {}

impl From<RequestError> for Undecided {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<Undecided> for Status {
    fn from(undecided: Undecided) -> Self {
        match undecided {
            Undecided::Request(error) => error.into(),
            Undecided::Starting => Self::Starting,
        }
    }
}

/// A held check that is counted among those that wait; counts one whose caller goes away before it is
/// decided.
struct Unsettled<'n> {
    node: &'n Node,
    door: Door,
    is_settled: bool,
    _waits: Waits<'n>,
}

impl Unsettled<'_> {
    fn settle(&mut self) {
        self.is_settled = true;
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.node.count_undecided(self.door, Fault::Gone);
        }
    }
}

#[cfg(test)]
impl Node {
    /// A node with one limit, `per-key`: `burst` units and one more each hour.
    pub(crate) fn with_burst(burst: u64) -> Arc<Self> {
        let rate = limiter::Rate { count: 1, period_ns: 3_600 * 1_000_000_000 };
        Self::with_quota(limiter::Quota::TokenBucket { rate, burst })
    }

    /// A node with one limit, `per-key`.
    pub(crate) fn with_quota(quota: limiter::Quota) -> Arc<Self> {
        let limit = limiter::Limit::new("per-key", quota);
        let plan = limiter::Plan::compile(vec![limit], limiter::Unmatched::Allow);
        let store = limiter::StoreConfig {
            memory_bytes: 1 << 20,
            entries_max: None,
            when_full: limiter::WhenFull::Overflow,
            secret: [7; 16],
        };
        let limiter = Limiter::new(plan.expect("a sound limit"), store);
        let engine = Engine::Alone(Box::new(limiter));
        Arc::new(Self::new("test".to_owned(), Vec::new(), engine, false))
    }
}

#[cfg(test)]
mod tests {
    use limiter::Reason;

    use super::*;
    use crate::scripted::{NOW_NS, Scripted};

    fn check() -> Request<'static> {
        Request::check(b"GET /", b"alice")
    }

    #[test]
    fn a_denial_says_why_and_when() {
        let node = Node::with_burst(1);
        node.decide(NOW_NS, &check(), Door::Http).expect("a sound request");
        let denied = node.decide(NOW_NS, &check(), Door::Http).expect("a sound request");
        assert_eq!(denied.verdict.reason, Reason::Limit);
        assert_eq!(denied.verdict.retry_after.to_secs(), Some(3_600));
    }

    #[test]
    fn windows_lie_where_the_wall_clock_of_the_node_says() {
        const DAY_MS: u64 = 86_400_000;
        let window = limiter::Window::Period(DAY_MS * 1_000_000);
        let node = Node::with_quota(limiter::Quota::FixedWindow { limit: 1, window });
        let now_ns = node.clock().now_ns();
        node.decide(now_ns, &check(), Door::Http).expect("a sound request");
        let denied = node.decide(now_ns, &check(), Door::Http).expect("a sound request").verdict;
        assert_eq!(denied.reason, Reason::Limit);
        // Midnight UTC, to the millisecond that times are rounded up to.
        let at_ms = node.clock().unix_ms(now_ns, denied.retry_after).expect("a wait");
        assert_eq!(at_ms % DAY_MS, 0, "{at_ms}");
        assert_eq!(denied.window.to_ms(), Some(DAY_MS));
    }

    #[test]
    fn logs_show_a_key_only_if_they_may() {
        let node = Node::with_burst(1);
        let shown = node.shown_key(b"alice").to_string();
        assert!(shown.starts_with('#') && !shown.contains("alice"), "{shown}");
        assert_eq!(shown, node.shown_key(b"alice").to_string());
        assert_ne!(shown, node.shown_key(b"bob").to_string());
    }

    #[tokio::test]
    async fn a_held_check_is_counted_when_it_is_decided_and_only_then() {
        let (node, peer) = Scripted::node(10);
        let ask = |wait| node.ask(NOW_NS, &check(), Door::Udp, wait).expect("a sound request");
        for _ in 0..5 {
            assert!(matches!(ask(None), Asked::Decided(it) if it.verdict.allowed));
        }
        let Asked::Held(held) = ask(None) else { panic!("more than its share") };
        let allowed = || node.counters().checks(Door::Udp, Outcome::Allowed);
        assert_eq!(allowed(), 5);
        peer.acknowledge();
        let (decision, ()) = tokio::join!(held, async {
            tokio::task::yield_now().await;
            peer.acknowledge();
        });
        assert!(decision.verdict.allowed, "{decision:?}");
        assert_eq!(allowed(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_check_is_denied_when_its_wait_is_over_and_a_wait_of_0_holds_nothing() {
        let (node, _peer) = Scripted::node(10);
        let ask = |wait| node.ask(NOW_NS, &check(), Door::Udp, wait).expect("a sound request");
        for _ in 0..5 {
            ask(None);
        }
        assert!(matches!(ask(Some(Duration::ZERO)), Asked::Decided(it) if !it.verdict.allowed));
        for wait in [None, Some(Duration::from_millis(1)), Some(Duration::from_secs(3_600))] {
            let Asked::Held(held) = ask(wait) else { panic!("it may be held") };
            let bound = wait.unwrap_or(DEFAULT_MAX_WAIT).min(MAX_WAIT_MAX);
            let bound = bound + Duration::from_millis(2);
            let decision = tokio::time::timeout(bound, held).await.expect("within its wait");
            assert_eq!(decision.verdict.reason, Reason::Share);
        }
        assert_eq!(node.counters().checks(Door::Udp, Outcome::Denied), 4);
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_is_counted_and_nothing_is_spent_for_it() {
        let (node, peer) = Scripted::node(10);
        let ask = || node.ask(NOW_NS, &check(), Door::Udp, None).expect("a sound request");
        for _ in 0..5 {
            ask();
        }
        let Asked::Held(held) = ask() else { panic!("more than its share") };
        drop(held);
        peer.acknowledge();
        assert_eq!(node.counters().faults(Door::Udp, Fault::Gone), 1);
        assert_eq!(node.counters().checks(Door::Udp, Outcome::Error), 1);
        assert_eq!(node.limiter().counts().rules[0].units, 5);
    }

    #[test]
    fn a_node_that_starts_decides_nothing() {
        let (node, peer) = Scripted::node(10);
        assert_eq!(node.readiness(), Readiness::Ready);
        peer.set_ready(false);
        assert_eq!(node.readiness(), Readiness::Starting);
        let asked = node.ask(NOW_NS, &check(), Door::Udp, None);
        assert_eq!(asked.err(), Some(Undecided::Starting));
        assert_eq!(node.counters().faults(Door::Udp, Fault::Starting), 1);
        assert_eq!(node.limiter().counts().rules[0].units, 0);
    }
}
