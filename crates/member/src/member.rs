//! The handle of a member: what a program asks.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use cluster::{ForgetError, Readiness};
use limiter::{
    Answer, Decision, Limiter, Operated, Operation, OperationError, Plan, Request, RequestError,
    StoreConfig, Ticket, Witness,
};
use tokio::sync::{mpsc, oneshot};

use crate::settings::{Clock, Settings, StartError};
use crate::settle;
use crate::status::Status;
use crate::sync::{self, Giving, Hold, Order, Shared};

/// A running member of a cluster. Cheap to clone. When the last clone is dropped the member stops as
/// if it had crashed; [`Member::leave`] is how it says goodbye.
#[derive(Clone, Debug)]
pub struct Member(Arc<Inner>);

/// The thread ends when both queues have ended, so they are dropped, in this order, before it is
/// waited for.
#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    orders: mpsc::Sender<Order>,
    holds: mpsc::Sender<Hold>,
    _thread: Joined,
}

/// A thread that is waited for when this is dropped.
#[derive(Debug)]
struct Joined(Option<JoinHandle<()>>);

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // It ends within a fraction of a second, and gives the port back before.
            let _ = thread.join();
        }
    }
}

/// Why a check has no decision. Nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// The request breaks a bound.
    Request(RequestError),
    /// The node does not know the fleet's counts yet: treat it as one that is not there.
    Starting,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Starting => f.write_str("the node does not know the fleet's counts yet"),
        }
    }
}

impl std::error::Error for CheckError {}

/// Why a member was not forgotten. Nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetFailure {
    /// The cluster has a reason.
    Refused(ForgetError),
    /// This node is no member any more.
    Stopped,
}

impl fmt::Display for ForgetFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Stopped => f.write_str("this node is no member any more"),
        }
    }
}

impl std::error::Error for ForgetFailure {}

impl Member {
    /// Starts a member on a thread of its own, `rlnode-sync`, and returns when the peer port is bound
    /// and the names in `peers` were looked up, which takes three seconds at most. The secret in
    /// `store` is replaced by the cluster's.
    ///
    /// # Errors
    /// The credentials, the port or the thread; nothing is left running.
    pub fn start(
        settings: Settings,
        plan: Plan,
        store: StoreConfig,
        clock: Clock,
    ) -> Result<Self, StartError> {
        Self::start_with(settings, plan, store, clock, None)
    }

    /// The same, with somebody who is told of every spend.
    ///
    /// # Errors
    /// As [`Member::start`].
    pub fn start_with(
        settings: Settings,
        plan: Plan,
        store: StoreConfig,
        clock: Clock,
        witness: Option<Arc<dyn Witness>>,
    ) -> Result<Self, StartError> {
        let (orders, orders_end) = mpsc::channel(sync::ORDERS_MAX);
        let (holds, holds_end) = mpsc::channel(sync::HOLDS_MAX);
        let asked = sync::Asked { orders: orders_end, holds: holds_end };
        let (shared, thread) = sync::start(settings, plan, store, witness, clock, asked)?;
        Ok(Self(Arc::new(Inner { shared, orders, holds, _thread: Joined(Some(thread)) })))
    }

    /// The limiter that answers.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.0.shared.limiter
    }

    /// Whether one request of `key` at `endpoint` is let through. Never waits: a check that peers
    /// would have to hear of first is denied for the reason `share`.
    ///
    /// # Errors
    /// As [`Member::decide`].
    pub fn allow(&self, key: &[u8], endpoint: &[u8]) -> Result<Decision<'_>, CheckError> {
        self.decide(&Request::check(endpoint, key))
    }

    /// Decides a request. Never waits, as [`Member::allow`].
    ///
    /// # Errors
    /// See [`CheckError`].
    pub fn decide(&self, request: &Request<'_>) -> Result<Decision<'_>, CheckError> {
        self.started()?;
        let now_ns = (self.0.shared.clock.now_ns)();
        let decision = self.limiter().decide(now_ns, request).map_err(CheckError::Request)?;
        self.0.shared.wake_if_wanted();
        Ok(decision)
    }

    /// Decides a request, and waits where peers must hear of it first: `max_wait` at most, then it is
    /// denied. Needs a tokio runtime with timers. Dropping the future gives the check up; nothing is
    /// spent for it then.
    ///
    /// # Errors
    /// See [`CheckError`].
    pub async fn acquire(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
    ) -> Result<Decision<'_>, CheckError> {
        self.started()?;
        let now_ns = (self.0.shared.clock.now_ns)();
        let may_hold = !max_wait.is_zero();
        match self.check(now_ns, request, may_hold).map_err(CheckError::Request)? {
            Answer::Decided(decision) => Ok(decision),
            Answer::Held(ticket) => Ok(self.settle(ticket, max_wait).await),
        }
    }

    /// Decides a request at `now_ns`, or holds it if `may_hold` and peers must hear of it first. It
    /// answers while the node starts too; [`Member::readiness`] says whether that is meant.
    ///
    /// # Errors
    /// The request breaks a bound; nothing is changed.
    pub fn check(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        may_hold: bool,
    ) -> Result<Answer<'_>, RequestError> {
        let answer = self.limiter().check(now_ns, request, may_hold);
        self.0.shared.wake_if_wanted();
        answer
    }

    /// Decides several checks as one at `now_ns`: see [`Limiter::decide_together`].
    ///
    /// # Errors
    /// A request breaks a bound; nothing is changed.
    pub fn check_together(
        &self,
        now_ns: u64,
        requests: &[Request<'_>],
    ) -> Result<Vec<Decision<'_>>, RequestError> {
        let decisions = self.limiter().decide_together(now_ns, requests);
        self.0.shared.wake_if_wanted();
        decisions
    }

    /// Waits until a held check is decided, `max_wait` at most. Needs a tokio runtime with timers.
    /// Dropping the future gives the check up, whether it ever ran or not.
    pub fn settle(
        &self,
        ticket: Ticket,
        max_wait: Duration,
    ) -> impl Future<Output = Decision<'_>> + Send {
        settle::settle(&self.0.shared, &self.0.holds, ticket, max_wait)
    }

    /// Whether the node may be asked.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        *self.0.shared.readiness().borrow()
    }

    /// Whether the node may be asked, or might before it left. Cheap enough for every check.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.0.shared.has_started()
    }

    /// Waits until the node may be asked, or never will be.
    pub async fn ready(&self) -> Readiness {
        let mut readiness = self.0.shared.readiness();
        // The sender is in `shared`, which lives as long as this member.
        let _ = readiness.wait_for(|now| *now != Readiness::Starting).await;
        self.readiness()
    }

    /// Waits until this node is no member any more: it has left, or the thread behind it has failed.
    pub async fn stopped(&self) {
        self.0.orders.closed().await;
    }

    /// The node and its peers as they were at most a fifth of a second ago.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        self.0.shared.status()
    }

    /// The node and its peers as they are now.
    pub async fn status_now(&self) -> Arc<Status> {
        let (answer, answered) = oneshot::channel();
        if self.order(Order::Status { answer }).await
            && let Ok(status) = answered.await
        {
            return status;
        }
        self.status()
    }

    /// Says that the member `node` is gone for good; its part goes to the others. A name that no
    /// member has stands for one that was expected and never met.
    ///
    /// # Errors
    /// See [`ForgetFailure`].
    pub async fn forget(&self, node: &str) -> Result<(), ForgetFailure> {
        let (answer, answered) = oneshot::channel();
        if !self.order(Order::Forget { node: node.to_owned(), answer }).await {
            return Err(ForgetFailure::Stopped);
        }
        let answer = answered.await.map_err(|_| ForgetFailure::Stopped)?;
        answer.map_err(ForgetFailure::Refused)
    }

    /// Looks for peers at `peers` (as [`Settings::peers`]) from now on. Who was found at a name that is gone
    /// stays a member until it leaves or is forgotten; whoever is new counts from when it is met. False: this
    /// node is no member any more.
    pub async fn set_peers(&self, peers: Vec<String>) -> bool {
        let (answer, answered) = oneshot::channel();
        self.order(Order::SetPeers { peers, answer }).await && answered.await.is_ok()
    }

    /// Carries out an operation of an operator here, and tells the peers.
    ///
    /// # Errors
    /// See [`OperationError`]; nothing is changed.
    pub async fn operate(
        &self,
        now_ns: u64,
        operation: &Operation<'_>,
    ) -> Result<Operated, OperationError> {
        let Some(giving) = Giving::of(operation) else {
            // Peers are told by the sync thread, which sees that there is something to tell.
            return self.limiter().operate(now_ns, operation);
        };
        let (answer, answered) = oneshot::channel();
        if self.order(Order::Give { giving, answer }).await
            && let Ok(result) = answered.await
        {
            return result;
        }
        // It has left, and tells nobody any more.
        self.limiter().operate(now_ns, operation)
    }

    /// Stops being a member: tells the peers what is left to tell, says goodbye, and closes the port,
    /// within about a second. The limiter goes on answering, on this node's part.
    pub async fn leave(&self) {
        let (answer, answered) = oneshot::channel();
        if self.order(Order::Leave { answer }).await {
            // An error: the thread has ended, which is what is waited for.
            let _ = answered.await;
        }
    }

    fn started(&self) -> Result<(), CheckError> {
        if self.0.shared.has_started() { Ok(()) } else { Err(CheckError::Starting) }
    }

    async fn order(&self, order: Order) -> bool {
        self.0.orders.send(order).await.is_ok()
    }
}
