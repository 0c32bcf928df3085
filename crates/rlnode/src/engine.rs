//! What answers checks: a limiter of its own, or a member that shares its limits with a cluster.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use limiter::{
    Answer, Decision, Limiter, Operated, Operation, OperationError, Plan, ReplaceError, Replaced,
    Request, RequestError, Ticket,
};
use member::{ForgetFailure, Member};

use crate::proof::{Surroundings, slowest, warning_of_distance};
use crate::refusals::{Early, Refusals};

/// Time for what speaks with the peers to say how it is. If it takes longer, what it said last must
/// do: whoever watches the node needs an answer then most of all.
const STATUS_TIME: Duration = Duration::from_millis(500);

/// A decision that comes later. Dropping it gives the check up: nothing is spent for it.
pub type Settling<'n> = Pin<Box<dyn Future<Output = Decision<'n>> + Send + 'n>>;

/// What a member tells of its cluster.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// The node and its peers as it sees them.
    pub cluster: cluster::Status,
    /// Connections that were refused.
    pub refusals: Refusals,
    /// How long a member may be missing before it is forgotten, in nanoseconds.
    pub forget_after_ns: u64,
    /// Time between two exchanges, in nanoseconds.
    pub sync_interval_ns: u64,
    /// Checks that were not held because too many were on their way to be. Those that found no room
    /// where they are held stand in the counts of `cluster`.
    pub holds_refused_early: u64,
    /// When the certificate of this node ends, in seconds of Unix time.
    pub certificate_ends_s: i64,
    /// Entries of `peers` that cannot be looked up, each with the reason.
    pub unresolved: Vec<(String, String)>,
}

impl MemberStatus {
    fn new(status: &member::Status, (forget_after_ns, sync_interval_ns): (u64, u64)) -> Self {
        let transport = &status.transport;
        let early = Early {
            authority: transport.authority,
            protocol: transport.protocol,
            malformed: transport.malformed,
        };
        Self {
            cluster: status.cluster.clone(),
            refusals: Refusals::new(&status.cluster.counts, early),
            forget_after_ns,
            sync_interval_ns,
            holds_refused_early: status.holds_refused,
            certificate_ends_s: status.certificate_expiry.unix_s,
            unresolved: status.unresolved.clone(),
        }
    }

    /// What the ceiling of a limit depends on.
    pub fn surroundings(&self) -> Surroundings {
        let round_trips = self.cluster.peers.iter().filter_map(|peer| peer.rtt_us);
        Surroundings {
            members: self.cluster.members,
            sync_interval_ns: self.sync_interval_ns,
            round_trip_us: round_trips.max(),
        }
    }

    /// What is to be known of a member that is too far away for checks to wait for it.
    pub fn warning_of_distance(&self) -> Option<String> {
        let peers = self.cluster.peers.iter();
        let named = peers.filter_map(|peer| Some((peer.name.as_deref()?, peer.rtt_us)));
        warning_of_distance(slowest(named))
    }

    /// Checks that were not held because too many were, wherever they were refused.
    pub fn holds_refused(&self) -> u64 {
        self.holds_refused_early.saturating_add(self.cluster.counts.holds_refused)
    }
}

/// Why a member was not forgotten. Nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetError {
    /// The node is in no cluster.
    Alone,
    /// The cluster has a reason.
    Refused(ForgetFailure),
}

impl fmt::Display for ForgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.write_str("this node is in no cluster"),
            Self::Refused(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for ForgetError {}

/// What answers the checks of a node.
#[derive(Debug)]
pub enum Engine {
    /// There is no cluster. Nothing is ever held.
    Alone(Box<Limiter>),
    /// A member of a cluster.
    Member {
        /// The member.
        member: Member,
        /// How long another may be missing before it is forgotten, in nanoseconds.
        forget_after_ns: u64,
        /// Time between two exchanges, in nanoseconds.
        sync_interval_ns: u64,
    },
    /// A member whose peers are the test.
    #[cfg(test)]
    Scripted(std::sync::Arc<crate::scripted::Scripted>),
}

impl Engine {
    /// The limiter.
    pub fn limiter(&self) -> &Limiter {
        match self {
            Self::Alone(limiter) => limiter,
            Self::Member { member, .. } => member.limiter(),
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.limiter(),
        }
    }

    /// It knows the counts that it answers from.
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Alone(_) => true,
            Self::Member { member, .. } => member.has_started(),
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.is_ready(),
        }
    }

    /// Waits until it knows the counts, or never will.
    pub async fn started(&self) {
        if let Self::Member { member, .. } = self {
            member.ready().await;
        }
    }

    /// Waits until it is a member no more although nobody asked for it: the thread that speaks with
    /// the peers has failed. A node alone waits for ever.
    pub async fn failed(&self) {
        match self.member() {
            Some(member) => member.stopped().await,
            None => std::future::pending().await,
        }
    }

    /// Where peers reach it; none: it is alone.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.member().map(|member| member.status().listen)
    }

    /// What there was to know of its cluster a fifth of a second ago; none: it is alone.
    pub fn cluster_status(&self) -> Option<cluster::Status> {
        self.member().map(|member| member.status().cluster.clone())
    }

    /// The member, unless the node is alone.
    fn member(&self) -> Option<&Member> {
        match self {
            Self::Member { member, .. } => Some(member),
            Self::Alone(_) => None,
            #[cfg(test)]
            Self::Scripted(_) => None,
        }
    }

    /// Says goodbye to the cluster, if there is one: the members tell each other what is left to
    /// tell. It takes about a second at most.
    pub async fn leave(&self) {
        if let Some(member) = self.member() {
            member.leave().await;
        }
    }

    /// Says that the member `name` is gone for good, and gives the number of those that remain.
    ///
    /// # Errors
    /// See [`ForgetError`]; nothing is changed.
    pub async fn forget(&self, name: &str) -> Result<usize, ForgetError> {
        let member = self.member().ok_or(ForgetError::Alone)?;
        member.forget(name).await.map_err(ForgetError::Refused)?;
        Ok(member.status_now().await.cluster.members)
    }

    /// Carries out `operation` at `now_ns` and tells the peers.
    ///
    /// # Errors
    /// See [`OperationError`]; nothing is changed.
    pub async fn operate(
        &self,
        now_ns: u64,
        operation: &Operation<'_>,
    ) -> Result<Operated, OperationError> {
        match self {
            Self::Alone(limiter) => limiter.operate(now_ns, operation),
            Self::Member { member, .. } => member.operate(now_ns, operation).await,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.limiter().operate(now_ns, operation),
        }
    }

    /// Puts `plan` in force at `now_ns` and tells the peers.
    ///
    /// # Errors
    /// See [`ReplaceError`]; the old plan is in force.
    pub async fn replace(&self, now_ns: u64, plan: Plan) -> Result<Replaced, ReplaceError> {
        self.limiter().replace(now_ns, plan)
    }

    /// Looks for peers at `peers` from now on; a node alone does not.
    pub async fn set_peers(&self, peers: Vec<String>) {
        if let Some(member) = self.member() {
            // One that has left looks for nobody.
            let _is_member = member.set_peers(peers).await;
        }
    }

    /// What there is to know of its cluster now; none: it is alone.
    pub async fn member_status(&self) -> Option<MemberStatus> {
        match self {
            Self::Alone(_) => None,
            Self::Member { member, forget_after_ns, sync_interval_ns } => {
                let now = tokio::time::timeout(STATUS_TIME, member.status_now()).await;
                let status = now.unwrap_or_else(|_| member.status());
                Some(MemberStatus::new(&status, (*forget_after_ns, *sync_interval_ns)))
            }
            #[cfg(test)]
            Self::Scripted(_) => Some(crate::scripted::sample()),
        }
    }

    /// Answers `request` at `now_ns`, or holds it if `may_hold` and peers must hear of it first.
    ///
    /// # Errors
    /// The request breaks a bound; nothing is changed.
    pub fn check(
        &self,
        now_ns: u64,
        request: &Request<'_>,
        may_hold: bool,
    ) -> Result<Answer<'_>, RequestError> {
        match self {
            Self::Alone(limiter) => limiter.check(now_ns, request, false),
            Self::Member { member, .. } => member.check(now_ns, request, may_hold),
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.limiter().check(now_ns, request, may_hold),
        }
    }

    /// Decides several checks as one at `now_ns`: all are spent, or none. Nothing is held.
    ///
    /// # Errors
    /// A request breaks a bound; nothing is changed.
    pub fn check_together(
        &self,
        now_ns: u64,
        requests: &[Request<'_>],
    ) -> Result<Vec<Decision<'_>>, RequestError> {
        match self {
            Self::Alone(limiter) => limiter.decide_together(now_ns, requests),
            Self::Member { member, .. } => member.check_together(now_ns, requests),
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.limiter().decide_together(now_ns, requests),
        }
    }

    /// Waits until the held check is decided, `max_wait` at most.
    pub fn settle(&self, now_ns: u64, ticket: Ticket, max_wait: Duration) -> Settling<'_> {
        match self {
            // It holds nothing; asked nonetheless, it decides at once.
            Self::Alone(limiter) => Box::pin(std::future::ready(limiter.give_up(now_ns, ticket))),
            Self::Member { member, .. } => Box::pin(member.settle(ticket, max_wait)),
            #[cfg(test)]
            Self::Scripted(scripted) => Box::pin(scripted.settle(now_ns, ticket, max_wait)),
        }
    }
}
