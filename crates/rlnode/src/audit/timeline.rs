//! The spends of several lives, merged in the order of one clock.
//!
//! It holds some blocks of each life at a time, however long the files are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use limiter::{Spend, SpendKind};

use super::clocks::Alignment;
use super::reader::BlockReader;
use super::record::Record;
use super::survey::{Life, next_records, open};

/// A thread may be so late to hand over what it decided, in nanoseconds: what comes within this time
/// after a spend is put before it if it was earlier.
const LATE_NS: u64 = 1_000_000_000;
/// Spends of one life that wait to be put in order, at most.
const WAITING_MAX: usize = 1 << 18;

/// A spend in the common clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When, in nanoseconds of the common clock. Never before the last event.
    pub at_ns: i64,
    /// Index of the life among those merged.
    pub life: usize,
    /// Identity of the limit.
    pub limit: u64,
    /// The bucket.
    pub hash: u64,
    /// Units; negative: they were given back.
    pub units: i64,
    /// An allowed check.
    pub is_check: bool,
}

/// The merged spends.
#[derive(Debug)]
pub struct Timeline<'a> {
    alignment: &'a Alignment,
    streams: Vec<Stream>,
    /// The earliest spend of each stream that has any.
    heads: BinaryHeap<Reverse<Event>>,
    last_ns: i64,
    late: u64,
}

impl<'a> Timeline<'a> {
    /// The spends of `lives`, whose clocks are put into one by `alignment`.
    pub fn new(lives: &[&Life], alignment: &'a Alignment) -> Self {
        let streams = lives.iter().map(|life| Stream::new(life)).collect();
        let mut timeline =
            Self { alignment, streams, heads: BinaryHeap::new(), last_ns: i64::MIN, late: 0 };
        (0..lives.len()).for_each(|life| timeline.pull(life));
        timeline
    }

    /// Spends that came too late to be put where they belong; they count at the time of the one before.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn pull(&mut self, life: usize) {
        if let Some((limit, spend)) = self.streams[life].next() {
            let units = i64::try_from(spend.units).unwrap_or(i64::MAX);
            self.heads.push(Reverse(Event {
                at_ns: self.alignment.common(life, spend.at_ns),
                life,
                limit,
                hash: spend.hash,
                units: if spend.kind == SpendKind::Refund { -units } else { units },
                is_check: spend.kind == SpendKind::Check,
            }));
        }
    }
}

impl Iterator for Timeline<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Reverse(mut event) = self.heads.pop()?;
        self.pull(event.life);
        if event.at_ns < self.last_ns {
            self.late += 1;
            event.at_ns = self.last_ns;
        }
        self.last_ns = event.at_ns;
        Some(event)
    }
}

/// A spend that waits to be put in order, after its time.
#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    limit: u64,
    spend: Spend,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // The heap gives the largest first. Between equal times order means nothing.
        let key = |it: &Self| (it.spend.at_ns, it.limit, it.spend.hash);
        key(other).cmp(&key(self))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The spends of one life.
#[derive(Debug)]
struct Stream {
    files: VecDeque<PathBuf>,
    reader: Option<BlockReader<BufReader<File>>>,
    /// Identities of limits by slot, in the file that is read.
    limits: HashMap<u16, u64>,
    waiting: BinaryHeap<Waiting>,
    read_until_ns: u64,
}

impl Stream {
    fn new(life: &Life) -> Self {
        Self {
            files: life.files.iter().map(|file| file.path.clone()).collect(),
            reader: None,
            limits: HashMap::new(),
            waiting: BinaryHeap::new(),
            read_until_ns: 0,
        }
    }

    fn next(&mut self) -> Option<(u64, Spend)> {
        let is_settled = |stream: &Self| {
            stream.waiting.len() >= WAITING_MAX
                || stream.waiting.peek().is_some_and(|first| {
                    first.spend.at_ns.saturating_add(LATE_NS) < stream.read_until_ns
                })
        };
        while !is_settled(self) && self.read_block() {}
        self.waiting.pop().map(|waiting| (waiting.limit, waiting.spend))
    }

    /// Reads one block more; false if there is none. What is damaged was told by the survey.
    fn read_block(&mut self) -> bool {
        loop {
            if self.reader.is_none() {
                let Some(path) = self.files.pop_front() else { return false };
                self.reader = open(&path).ok();
                self.limits.clear();
            }
            let Some(reader) = &mut self.reader else { continue };
            if let Ok(Some(records)) = next_records(reader) {
                records.into_iter().for_each(|record| self.take(record));
                return true;
            }
            self.reader = None;
        }
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Span(span) => self.read_until_ns = self.read_until_ns.max(span.until_ns),
            Record::Limit(limit) => drop(self.limits.insert(limit.slot, limit.id)),
            Record::Spend(spend) => {
                if let Some(limit) = self.limits.get(&spend.slot) {
                    self.waiting.push(Waiting { limit: *limit, spend });
                }
            }
            _ => {}
        }
    }
}
