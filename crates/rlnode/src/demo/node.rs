//! One node of the demo: a member of the cluster, and the callers who ask it, on a thread of their own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use limiter::{Answer, PlanError, Reason, Request};
use member::Member;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::tally::{Figures, Kind, Tally};
use super::traffic::Caller;
use super::view::NodeView;
use super::{ENDPOINT, KEY, MEMBERS_MAX, OFFER};
use crate::clock;

/// How often the callers look whether it is time for a call.
const STEP: Duration = Duration::from_millis(5);
/// How often a node is asked how it is, in nanoseconds.
const LOOK_EVERY_NS: u64 = 50_000_000;
/// How long a call is held for an acknowledgement of the peers: as for callers who say nothing.
pub(super) const HOLD_MAX: Duration = Duration::from_millis(5);
/// Bursts that a node may be behind with. More are not begun.
const BURSTS_MAX: usize = 2;

/// What all nodes write to, and the demo reads.
#[derive(Debug)]
pub(super) struct Board {
    tally: Mutex<Tally>,
    views: [Mutex<NodeView>; MEMBERS_MAX],
    alive: [AtomicBool; MEMBERS_MAX],
    /// The callers call.
    is_open: AtomicBool,
    /// Until then they rest.
    lull_until_ns: AtomicU64,
}

impl Board {
    /// A board on which nothing happened yet.
    ///
    /// # Errors
    /// The limit of the demo is none.
    pub(super) fn new() -> Result<Self, PlanError> {
        Ok(Self {
            tally: Mutex::new(Tally::new(OFFER, clock::boot_ns())?),
            views: std::array::from_fn(|_| Mutex::default()),
            alive: std::array::from_fn(|_| AtomicBool::new(false)),
            is_open: AtomicBool::new(false),
            lull_until_ns: AtomicU64::new(0),
        })
    }

    /// The calls begin, now.
    pub(super) fn open(&self) {
        self.tally.lock().begin(clock::boot_ns());
        self.is_open.store(true, Ordering::Release);
    }

    /// No call is made any more.
    pub(super) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// The callers rest until `until_ns`.
    pub(super) fn rest(&self, until_ns: u64) {
        self.lull_until_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Whether anybody calls the node `index`.
    pub(super) fn set_alive(&self, index: usize, is_alive: bool) {
        self.alive[index].store(is_alive, Ordering::Relaxed);
    }

    /// How the node `index` was when it was last asked.
    pub(super) fn view(&self, index: usize) -> NodeView {
        *self.views[index].lock()
    }

    /// Nothing is known of the node `index` any more.
    pub(super) fn forget(&self, index: usize) {
        *self.views[index].lock() = NodeView::default();
    }

    /// Does something with the count of everything, at the time that it is given: what is counted
    /// later has a later time.
    pub(super) fn with_tally<T>(&self, act: impl FnOnce(u64, &mut Tally) -> T) -> T {
        let mut tally = self.tally.lock();
        act(clock::boot_ns(), &mut tally)
    }

    /// What was counted, and the time until which it was.
    pub(super) fn figures(&self) -> (u64, Figures) {
        // Copied, so that nobody who calls waits for a terminal.
        self.with_tally(|now_ns, tally| (now_ns, tally.figures().clone()))
    }

    /// Milliseconds since the calls began.
    pub(super) fn elapsed_ms(&self) -> u64 {
        self.with_tally(|now_ns, tally| tally.figures().elapsed_ms(now_ns))
    }

    fn alive(&self) -> [bool; MEMBERS_MAX] {
        std::array::from_fn(|index| self.alive[index].load(Ordering::Relaxed))
    }

    fn is_calling(&self, now_ns: u64) -> bool {
        self.is_open.load(Ordering::Acquire) && now_ns >= self.lull_until_ns.load(Ordering::Relaxed)
    }

    fn answered(&self, index: usize, kind: Kind, reason: Reason, held: bool) {
        self.with_tally(|now_ns, tally| tally.answered(now_ns, index, kind, reason, held));
    }
}

/// A node that runs. Dropping it leaves the thread to end by itself; [`Running::kill`] gives it.
#[derive(Debug)]
pub(super) struct Running {
    bursts: mpsc::Sender<u64>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Lets `caller` call `member`, which is the node `index`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        index: usize,
        member: Member,
        caller: Caller,
        board: Arc<Board>,
    ) -> io::Result<Self> {
        let (bursts, asked) = mpsc::channel(BURSTS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let desk = Desk { index, member, caller, board };
        let thread = thread::Builder::new()
            .name(format!("demo-{index}"))
            .spawn(move || runtime.block_on(desk.serve(asked)))?;
        Ok(Self { bursts, thread })
    }

    /// Asks the node so often at once; false if it is behind with earlier bursts.
    pub(super) fn burst(&self, calls: u64) -> bool {
        self.bursts.try_send(calls).is_ok()
    }

    /// It ended although nobody killed it.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it without a goodbye. The thread that is given back has ended when its port is free.
    pub(super) fn kill(self) -> JoinHandle<()> {
        self.thread
    }
}

/// A member and its callers.
struct Desk {
    index: usize,
    member: Member,
    caller: Caller,
    board: Arc<Board>,
}

impl Desk {
    /// Calls until nobody is left who could ask for a burst.
    async fn serve(mut self, mut bursts: mpsc::Receiver<u64>) {
        let mut held = JoinSet::new();
        let mut step = interval(STEP);
        step.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut called_ns = clock::boot_ns();
        let mut looked_ns = 0;
        loop {
            tokio::select! {
                biased;
                burst = bursts.recv() => match burst {
                    Some(calls) => (0..calls).for_each(|_| self.call(Kind::Burst, &mut held)),
                    None => break,
                },
                Some(_) = held.join_next(), if !held.is_empty() => {}
                _ = step.tick() => {
                    let now_ns = clock::boot_ns();
                    let step_ns = now_ns.saturating_sub(called_ns);
                    called_ns = now_ns;
                    for _ in 0..self.calls_due(now_ns, step_ns) {
                        self.call(Kind::Steady, &mut held);
                    }
                    if now_ns.saturating_sub(looked_ns) >= LOOK_EVERY_NS {
                        looked_ns = now_ns;
                        self.look(now_ns).await;
                    }
                }
            }
        }
        // They hold the member, which is to end here.
        held.shutdown().await;
    }

    fn calls_due(&mut self, now_ns: u64, step_ns: u64) -> u64 {
        if !self.board.is_calling(now_ns) {
            return 0;
        }
        let at_ms = self.board.elapsed_ms();
        let alive = self.board.alive();
        let calls = self.caller.due(at_ms, step_ns, &alive);
        // Who starts is as good as not there: callers do without it.
        if self.member.has_started() { calls } else { 0 }
    }

    /// Makes one call. It is counted when it is made, and when it is answered.
    fn call(&self, kind: Kind, held: &mut JoinSet<()>) {
        let index = self.index;
        self.board.with_tally(|now_ns, tally| tally.asked(now_ns, index, kind));
        let request = Request::check(ENDPOINT, KEY);
        match self.member.check(clock::boot_ns(), &request, true) {
            Ok(Answer::Decided(decision)) => {
                self.board.answered(index, kind, decision.verdict.reason, false);
            }
            Ok(Answer::Held(ticket)) => {
                let (member, board) = (self.member.clone(), Arc::clone(&self.board));
                held.spawn(async move {
                    let decision = member.settle(ticket, HOLD_MAX).await;
                    board.answered(index, kind, decision.verdict.reason, true);
                });
            }
            // A request outside the bounds, which this one is not.
            Err(_) => {}
        }
    }

    /// Asks the node how it is.
    async fn look(&self, now_ns: u64) {
        let status = self.member.status_now().await;
        let peek = Request::check(ENDPOINT, KEY).with_cost(0);
        let decision = self.member.limiter().decide(now_ns, &peek);
        let level = decision.ok().and_then(|decision| decision.verdict.remaining);
        let view = NodeView::new(&status.cluster, self.member.has_started(), level);
        *self.board.views[self.index].lock() = view;
    }
}
