//! The thread that writes what is recorded. It alone waits for the disk.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use limiter::{Accuracy, Plan, Quota, Rate, Spend};
use tokio::sync::oneshot;

use super::AuditSettings;
use super::block::append_block;
use super::files::{Files, Owner};
use super::record::{Begin, Gap, LimitRecord, OtherRecord, Record, Removed, Span, State};
use super::recorder::{Counts, Order, QUEUE_LEN, Tail};
use crate::log::Throttle;

/// How often the writer looks at the queue of spends.
const WAKE_EVERY: Duration = Duration::from_millis(50);
/// A block with spends in it is written after this time at the latest: what a crash loses.
const FLUSH_AFTER_NS: u64 = 1_000_000_000;
/// A block is written after this time even if nothing was spent, so that the record says so.
const IDLE_AFTER_NS: u64 = 10_000_000_000;
/// Bytes of records after which a block is written.
const BLOCK_BYTES: usize = 32 << 10;
/// Time after a failure before a file is opened again.
const RETRY_AFTER_NS: u64 = 1_000_000_000;
/// Name of the thread, for whoever looks at the process.
const THREAD_NAME: &str = "rlnode-audit";

/// The writer's clocks: nanoseconds of the limiter's clock, and Unix time in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// See [`crate::clock::boot_ns`].
    pub now_ns: fn() -> u64,
    /// See [`crate::clock::unix_ns`].
    pub wall_ns: fn() -> u64,
}

/// Why nothing is recorded.
#[derive(Debug)]
pub struct AuditError {
    dir: PathBuf,
    error: io::Error,
}

impl AuditError {
    pub(super) fn new(settings: &AuditSettings, error: io::Error) -> Self {
        Self { dir: settings.dir.clone(), error }
    }
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, error } = self;
        write!(
            f,
            "the folder `{}` of [audit] cannot be used: {error}; make it, or name another as `dir`",
            dir.display()
        )
    }
}

impl std::error::Error for AuditError {}

/// Starts the thread that writes what `tail` brings; `begin` is whose it is, its `file` still 0. The
/// thread ends when it is told to, or when the other ends of the queues are gone.
///
/// # Errors
/// The folder cannot be made or read, or there is no thread to be had.
pub fn start(
    settings: &AuditSettings,
    begin: Begin,
    plan: &Plan,
    tail: Tail,
    clocks: Clocks,
) -> Result<(), AuditError> {
    let writer = Writer::new(settings, begin, plan, tail, clocks);
    let spawned = writer.and_then(|writer| {
        thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || writer.run())
    });
    // It ends when the queues do, and says when it has finished: nobody joins it.
    spawned.map(drop).map_err(|error| AuditError::new(settings, error))
}

/// Writes one node's files.
#[derive(Debug)]
pub(super) struct Writer {
    begin: Begin,
    /// The record of every limit that counts, by slot.
    limits: Vec<Option<Record>>,
    /// Slots whose limit stands in the file that is open.
    told: Vec<bool>,
    tail: Tail,
    clocks: Clocks,
    files: Files,
    block: Block,
    /// What is missing since the last block that was written.
    gap: Option<Gap>,
    dropped_told: u64,
    state: Option<State>,
    /// When a state was told last, whether it was written or not.
    told_ns: u64,
    /// Number of the last file of this life that was removed.
    removed_to: u64,
    retry_at_ns: u64,
    looked_ns: u64,
    throttle: Throttle,
}

/// Records that are not in a file yet.
#[derive(Debug, Default)]
struct Block {
    is_begun: bool,
    from_ns: u64,
    spends: u64,
    records: Vec<u8>,
    /// The gap that is told in it.
    gap: Option<Gap>,
}

impl Writer {
    pub(super) fn new(
        settings: &AuditSettings,
        begin: Begin,
        plan: &Plan,
        tail: Tail,
        clocks: Clocks,
    ) -> io::Result<Self> {
        let started_s = (clocks.wall_ns)() / 1_000_000_000;
        let owner = Owner { node: begin.node.clone(), started_s, life: begin.life };
        let files = Files::new(&settings.dir, owner, settings.max_bytes)?;
        let limits = limit_records(plan);
        let now_ns = (clocks.now_ns)();
        let block = Block { from_ns: now_ns, ..Block::default() };
        let begin = Begin { sample: tail.sample.to_one_in(), ..begin };
        Ok(Self {
            begin,
            told: vec![false; limits.len()],
            limits,
            tail,
            clocks,
            files,
            block,
            gap: None,
            dropped_told: 0,
            state: None,
            told_ns: now_ns,
            removed_to: 0,
            retry_at_ns: 0,
            looked_ns: now_ns,
            throttle: Throttle::default(),
        })
    }

    fn run(mut self) {
        loop {
            match self.tail.orders.recv_timeout(WAKE_EVERY) {
                Ok(Order::State(state)) => self.take_state(state),
                Ok(Order::Limits(plan)) => {
                    // What waits was spent under the limits before, but for the last moment.
                    self.look();
                    self.limits = limit_records(&plan);
                    self.told = vec![false; self.limits.len()];
                }
                Ok(Order::Finish(done)) => return self.finish(Some(done)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(None),
            }
            self.look();
        }
    }

    /// Takes what is in the queue, and writes what is due.
    pub(super) fn look(&mut self) {
        // Before the queue is read: what is decided from here on comes with the next look.
        let now_ns = (self.clocks.now_ns)();
        // As many as there may be, so that a busy node does not keep the writer from its block.
        for _ in 0..QUEUE_LEN {
            let Ok(spend) = self.tail.spends.try_recv() else { break };
            self.take_spend(spend, now_ns);
        }
        let dropped = self.tail.counts.dropped.load(Ordering::Relaxed);
        if dropped > self.dropped_told {
            self.widen_gap(self.looked_ns, now_ns, dropped - self.dropped_told);
            self.dropped_told = dropped;
        }
        self.looked_ns = now_ns;
        let age_ns = now_ns.saturating_sub(self.block.from_ns);
        let is_due = age_ns >= if self.block.spends > 0 { FLUSH_AFTER_NS } else { IDLE_AFTER_NS };
        if is_due || self.gap.is_some() {
            self.begin_block(now_ns);
            self.flush(now_ns);
        }
    }

    pub(super) fn finish(mut self, done: Option<oneshot::Sender<()>>) {
        self.look();
        let now_ns = (self.clocks.now_ns)();
        self.begin_block(now_ns);
        Record::End.append(&mut self.block.records);
        self.flush(now_ns);
        if let Some(done) = done {
            // Whoever asked and did not wait needs no answer.
            let _ = done.send(());
        }
    }

    pub(super) fn take_state(&mut self, told: State) {
        let since_ns = std::mem::replace(&mut self.told_ns, told.at_ns);
        let state = State { since_ns, ..told };
        let is_news = self.state.as_ref().is_none_or(|last| {
            (last.members, last.reached) != (state.members, state.reached)
                || (last.splits, last.joins) != (state.splits, state.joins)
                || last.peers.iter().map(|peer| peer.life).ne(state.peers.iter().map(|p| p.life))
        });
        let is_old = |last: &State| state.at_ns.saturating_sub(last.at_ns) >= IDLE_AFTER_NS;
        if (is_news || self.state.as_ref().is_some_and(is_old)) && self.begin_block(state.at_ns) {
            Record::State(state.clone()).append(&mut self.block.records);
            self.state = Some(state);
        }
    }

    fn take_spend(&mut self, spend: Spend, now_ns: u64) {
        if !self.begin_block(now_ns) {
            return self.lose(Gap { from_ns: spend.at_ns, until_ns: now_ns, spends: 1 });
        }
        let slot = usize::from(spend.slot);
        if let Some(told) = self.told.get_mut(slot)
            && !std::mem::replace(told, true)
            && let Some(limit) = &self.limits[slot]
        {
            limit.append(&mut self.block.records);
        }
        Record::Spend(spend).append(&mut self.block.records);
        self.block.spends += 1;
        if self.block.records.len() >= BLOCK_BYTES {
            self.flush(now_ns);
        }
    }

    /// Begins a block if there is none, in a new file if the last is full; false if there is no file.
    fn begin_block(&mut self, now_ns: u64) -> bool {
        if self.block.is_begun {
            return true;
        }
        if !self.files.is_open() {
            if now_ns < self.retry_at_ns {
                return false;
            }
            match self.files.open_next() {
                Ok((file, removed)) => {
                    self.told.fill(false);
                    Counts::add(&self.tail.counts.removed, removed.len() as u64);
                    Record::Begin(Begin { file, ..self.begin.clone() })
                        .append(&mut self.block.records);
                    for Removed { life, file } in removed {
                        if life == self.begin.life {
                            self.removed_to = file;
                        } else {
                            Record::Removed(Removed { life, file }).append(&mut self.block.records);
                        }
                    }
                    if self.removed_to > 0 {
                        let (life, file) = (self.begin.life, self.removed_to);
                        Record::Removed(Removed { life, file }).append(&mut self.block.records);
                    }
                    // Whoever has only this file must know what the cluster was.
                    if let Some(state) = self.state.clone() {
                        Record::State(state).append(&mut self.block.records);
                    }
                }
                Err(error) => {
                    self.fail(now_ns, &error);
                    return false;
                }
            }
        }
        self.block.is_begun = true;
        if let Some(gap) = self.gap.take() {
            Record::Gap(gap).append(&mut self.block.records);
            self.block.gap = Some(gap);
        }
        true
    }

    /// Writes the block, if there is one.
    fn flush(&mut self, now_ns: u64) {
        if !self.block.is_begun {
            return;
        }
        let next = Block { from_ns: now_ns, ..Block::default() };
        let block = std::mem::replace(&mut self.block, next);
        let wall_ns = (self.clocks.wall_ns)();
        let span = Span { from_ns: block.from_ns, until_ns: now_ns, wall_ns };
        let mut records = Vec::with_capacity(block.records.len() + 32);
        Record::Span(span).append(&mut records);
        records.extend_from_slice(&block.records);
        let mut bytes = Vec::with_capacity(records.len() + 8);
        append_block(&mut bytes, &records);
        match self.files.write(&bytes) {
            Ok(()) => Counts::add(&self.tail.counts.recorded, block.spends),
            Err(error) => {
                self.fail(now_ns, &error);
                if let Some(gap) = block.gap {
                    self.widen_gap(gap.from_ns, gap.until_ns, gap.spends);
                }
                // Empty or not, nobody can say any more what was spent in its time.
                self.lose(Gap { from_ns: block.from_ns, until_ns: now_ns, spends: block.spends });
                // What the file said is not in the next one.
                self.state = None;
            }
        }
        self.tail.counts.bytes.store(self.files.bytes(), Ordering::Relaxed);
    }

    fn lose(&mut self, gap: Gap) {
        Counts::add(&self.tail.counts.unwritten, gap.spends);
        self.widen_gap(gap.from_ns, gap.until_ns, gap.spends);
    }

    fn widen_gap(&mut self, from_ns: u64, until_ns: u64, spends: u64) {
        let gap = self.gap.unwrap_or(Gap { from_ns, until_ns, spends: 0 });
        self.gap = Some(Gap {
            from_ns: gap.from_ns.min(from_ns),
            until_ns: gap.until_ns.max(until_ns),
            spends: gap.spends.saturating_add(spends),
        });
    }

    fn fail(&mut self, now_ns: u64, error: &io::Error) {
        self.retry_at_ns = now_ns.saturating_add(RETRY_AFTER_NS);
        Counts::add(&self.tail.counts.failures, 1);
        if self.throttle.pass(now_ns).is_some() {
            tracing::warn!(%error, "the audit cannot be written: its record has a gap, and checks go on");
        }
    }
}

/// What is recorded of the rules of `plan`, by slot.
fn limit_records(plan: &Plan) -> Vec<Option<Record>> {
    let mut records = Vec::new();
    for rule in plan.rules() {
        let slot = usize::from(rule.slot());
        if records.len() <= slot {
            records.resize_with(slot + 1, || None);
        }
        records[slot] = limit_record(plan, rule);
    }
    records
}

/// What is recorded of `rule`; none: it counts nothing.
fn limit_record(plan: &Plan, rule: &limiter::Rule) -> Option<Record> {
    let slot = rule.slot();
    let (id, name) = (rule.id(), rule.name().to_owned());
    // The carried limit stands in no file.
    let limit = plan.limits().get(rule.at().limit);
    let shadow = limit.is_some_and(|limit| limit.shadow);
    let fast = limit.is_some_and(|limit| limit.accuracy == Accuracy::Fast);
    Some(match *rule.quota() {
        Quota::Deny | Quota::Unlimited => return None,
        Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. } => {
            let Rate { count, period_ns } = rate;
            Record::Limit(LimitRecord { slot, id, count, period_ns, burst, shadow, fast, name })
        }
        Quota::FixedWindow { .. }
        | Quota::SlidingWindow { .. }
        | Quota::SlidingLog { .. }
        | Quota::Carried => {
            let algorithm = rule.quota().algorithm().unwrap_or_default().to_owned();
            Record::Other(OtherRecord { slot, id, shadow, fast, algorithm, name })
        }
    })
}
