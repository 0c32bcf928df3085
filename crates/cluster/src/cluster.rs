//! The public face of a node's state machine.

use std::sync::Arc;

use limiter::{Bucket, Limiter, Operated, Operation, OperationError, View};

use crate::hold::Held;
use crate::member::Table;
use crate::node::Node;
use crate::output::{Effect, Output};
use crate::{Config, ForgetError, Identity, LinkId, Readiness, Status};

/// One node's view of its cluster, and what it has to tell.
///
/// `W` wakes a held check: the caller keeps a check that the limiter holds and gives this in its
/// place. Every method takes the time first, in nanoseconds of one monotonic clock. After every call
/// [`Cluster::poll`] is called, or at least no later than it last said, and soon after the limiter
/// said that an early flush is wanted; then [`Cluster::output`] is drained.
#[derive(Debug)]
pub struct Cluster<W> {
    node: Node,
    held: Held<W>,
}

impl<W> Cluster<W> {
    /// A node that starts at `now_ns`. `life` is a random number, never 0, of this start of the
    /// process; `limiter` was made with [`Cluster::initial_view`].
    pub fn new(config: Config, limiter: Arc<Limiter>, life: u64, now_ns: u64) -> Self {
        Self { node: Node::new(config, limiter, life.max(1), now_ns), held: Held::new() }
    }

    /// The members as a node that starts sees them: itself, reachable, and `expect - 1` that were
    /// never met.
    pub fn initial_view(config: &Config) -> View {
        Table::new(&config.node, config.expect, 0).view()
    }

    /// What the wall clock says, in milliseconds of Unix time. Peers show the difference to theirs;
    /// nothing is decided by it. Said every second, a step of it shows a few seconds later; never said,
    /// no difference is shown.
    pub fn set_wall_clock(&mut self, now_ns: u64, unix_ms: u64) {
        self.node.wall = Some((now_ns, unix_ms));
    }

    /// A connection is there: this node dialled, or accepted it. `identity` is what the other's
    /// certificate proves.
    pub fn connected(&mut self, now_ns: u64, link: LinkId, dialed: bool, identity: Identity) {
        if !self.node.has_left {
            self.node.run(now_ns);
            self.node.handle_connected(now_ns, link, dialed, identity);
        }
    }

    /// Exactly one frame with its header arrived, on whichever stream of `link`.
    pub fn received(&mut self, now_ns: u64, link: LinkId, frame: &[u8]) {
        if !self.node.has_left {
            self.node.run(now_ns);
            self.node.handle_frame(now_ns, link, frame);
        }
    }

    /// A ping, or any byte, arrived on `link` at `now_ns`.
    pub fn heard(&mut self, now_ns: u64, link: LinkId) {
        self.node.run(now_ns);
        self.node.handle_sign(now_ns, link);
    }

    /// The connection is gone. Not needed after [`Output::Close`], and harmless then.
    pub fn closed(&mut self, now_ns: u64, link: LinkId) {
        if !self.node.has_left {
            self.node.run(now_ns);
            self.node.handle_closed(now_ns, link);
        }
    }

    /// Does what is due, and says when to call next, at the latest.
    pub fn poll(&mut self, now_ns: u64) -> u64 {
        if self.node.has_left {
            return u64::MAX;
        }
        self.node.run(now_ns);
        self.node.poll(now_ns)
    }

    /// Keeps `waiter` until every reachable peer acknowledged the bucket, and then gives
    /// [`Output::Wake`].
    ///
    /// # Errors
    /// `waiter` itself when [`crate::HELD_MAX`] wait already: the check is to be denied. Nothing is
    /// kept.
    pub fn hold(&mut self, bucket: Bucket, waiter: W) -> Result<(), W> {
        let kept = self.held.keep(bucket, waiter);
        self.node.counts.holds_refused += u64::from(kept.is_err());
        kept
    }

    /// Stops being a member: tells what is left to tell, at most a second long, says so to the peers,
    /// and gives [`Output::Left`]. The caller has decided what it held, and asks the limiter nothing more.
    pub fn leave(&mut self, now_ns: u64) {
        if !self.node.has_left {
            self.node.run(now_ns);
            self.node.begin_leaving(now_ns);
        }
    }

    /// An operator says that the member `name` is gone for good; the peers hear of it. A name that no
    /// member has stands for one that was expected and never met.
    ///
    /// # Errors
    /// When there is no such member, or it is not missing; nothing is changed.
    pub fn forget(&mut self, now_ns: u64, name: &str) -> Result<(), ForgetError> {
        self.node.run(now_ns);
        self.node.forget_by_name(now_ns, name)
    }

    /// An operator acts on a key, here and on every node.
    ///
    /// # Errors
    /// See [`OperationError`]; nothing is changed.
    pub fn operate(
        &mut self,
        now_ns: u64,
        operation: &Operation<'_>,
    ) -> Result<Operated, OperationError> {
        self.node.run(now_ns);
        self.node.operate(now_ns, operation)
    }

    /// The next thing to do; none: wait for what comes.
    pub fn output(&mut self) -> Option<Output<W>> {
        loop {
            if let Some(waiter) = self.held.next_woken() {
                return Some(Output::Wake(waiter));
            }
            return Some(match self.node.poll_effect()? {
                Effect::Woken(bucket) => {
                    self.held.wake(bucket);
                    continue;
                }
                Effect::Send { link, channel, frame } => Output::Send { link, channel, frame },
                Effect::Close { link, refusal } => Output::Close { link, refusal },
                Effect::Ready => Output::Ready,
                Effect::Left => Output::Left,
                Effect::Note(note) => Output::Note(note),
            });
        }
    }

    /// Everything that an operator may want to know.
    pub fn status(&self, now_ns: u64) -> Status {
        self.node.status(now_ns, self.held.len())
    }

    /// Whether the node may be asked.
    pub fn readiness(&self) -> Readiness {
        self.node.readiness()
    }
}

#[cfg(test)]
impl<W> Cluster<W> {
    /// Bounds the log of batches, so that a test can meet the bound.
    pub(crate) fn bound_log(&mut self, bytes_max: usize) {
        self.node.log.bytes_max = bytes_max;
    }

    /// Gives every member that was never met a name.
    pub(crate) fn fill_table(&mut self) {
        while self.node.table.some_unmet().is_some() {
            let name = format!("peer-{}", self.node.table.names().len());
            assert!(self.node.table.admit(&name, 0).is_ok());
        }
    }

    /// The connection to the peer `name`, if it is linked.
    pub(crate) fn link_to(&self, name: &str) -> Option<LinkId> {
        let index = self.node.table.index_of(name)?;
        self.node.table.link(index).map(|link| link.id)
    }
}
