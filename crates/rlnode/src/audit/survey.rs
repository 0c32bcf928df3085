//! The first reading of a fleet's files: whose they are, what they cover, what is damaged.
//!
//! It keeps nothing of the single spends.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use limiter::SpendKind;

use super::reader::{BlockReader, Damage, Fault};
use super::record::{
    Begin, Gap, LimitRecord, OtherRecord, PeerRecord, Record, Records, Removed, Span, State,
};

/// Most starts of nodes whose records are merged: their clocks are compared in pairs.
pub const LIVES_MAX: usize = 4_096;
/// Most spans of time that are told apart for one life; later ones are taken together.
const SPANS_MAX: usize = 4_096;
/// A state may be so much older than it says, and a change so much earlier than it was told.
const STATE_MARGIN_NS: u64 = 1_000_000_000;
/// Blocks that are further apart than this have something missing between them.
const CONTINUOUS_NS: u64 = 1_000_000;

/// Spans of time in order, each from and until; what touches is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// Adds a span that does not begin before those that were added.
    pub fn push(&mut self, from_ns: u64, until_ns: u64) {
        let is_full = self.0.len() >= SPANS_MAX;
        match self.0.last_mut() {
            Some(last) if is_full || from_ns <= last.1.saturating_add(CONTINUOUS_NS) => {
                last.1 = last.1.max(until_ns);
            }
            _ => self.0.push((from_ns, until_ns.max(from_ns))),
        }
    }

    /// The spans.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Nanoseconds in all.
    pub fn total_ns(&self) -> u64 {
        self.iter().map(|(from, until)| until - from).sum()
    }

    /// Where the first begins and the last ends.
    pub fn ends(&self) -> Option<(u64, u64)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }
}

/// What a life measured of the wall clock of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The other's wall clock less this life's clock, in nanoseconds, if the hello took no time: the
    /// least and the most that was measured.
    pub least_ns: i64,
    /// See `least_ns`.
    pub most_ns: i64,
    /// Longest round trip that was measured between the two, in nanoseconds.
    pub rtt_ns: Option<u64>,
}

/// One file that can be read, from its start to where it is damaged.
#[derive(Clone, Debug)]
pub struct AuditFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its number among the files of its life.
    pub number: u64,
}

/// One start of a node.
#[derive(Clone, Debug)]
pub struct Life {
    /// What its first file says.
    pub begin: Begin,
    /// Its files by number.
    pub files: Vec<AuditFile>,
    /// What the files cover, in nanoseconds of its clock.
    pub covered: Spans,
    /// Its wall clock less its clock at the start, in nanoseconds.
    pub wall_offset_ns: i64,
    /// By how much that changed later, at most: the wall clock was set.
    pub wall_step_ns: u64,
    /// It stopped in order, and said so.
    pub has_end: bool,
    /// Spends in the files.
    pub spends: u64,
    /// The limits among them that are no buckets, by identity. They are not judged.
    pub unjudged: BTreeMap<u64, Unjudged>,
    /// Spends that are missing, and when.
    pub gaps: Vec<Gap>,
    /// Number of its last file that was removed to keep within the bound; 0: none was.
    pub removed: u64,
    /// When members were missing, or may have been.
    pub unsettled: Spans,
    /// Most members that it counted; 0: it is in no cluster, or said nothing.
    pub members: u16,
    /// The starts of peers that it knew, by name and life, and from when to when it counted them, in
    /// nanoseconds of its clock.
    pub peers: BTreeMap<(String, u64), (u64, u64)>,
    /// What it measured, by the name and the life of the peer.
    pub measures: BTreeMap<(String, u64), Measure>,
}

/// A limit that is not judged, and its spends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unjudged {
    /// `name`, or `name/override`.
    pub name: String,
    /// How it counts.
    pub algorithm: String,
    /// Spends.
    pub spends: u64,
    /// Units of allowed checks.
    pub admitted: u64,
}

/// What a fleet's files are.
#[derive(Debug, Default)]
pub struct Survey {
    /// Every start of a node, by cluster, secret, node and time.
    pub lives: Vec<Life>,
    /// The limits by their identity. Where nodes disagree, the more generous numbers.
    pub limits: BTreeMap<u64, LimitRecord>,
    /// Identities of limits that had several numbers.
    pub differing: HashSet<u64>,
    /// What cannot be read.
    pub damages: Vec<(PathBuf, Damage)>,
    /// Files that are another's copy, and were left out.
    pub copies: Vec<PathBuf>,
    /// The last file that was removed, by node and life.
    removed: HashMap<(String, u64), u64>,
}

impl Survey {
    /// Reads the files at `paths`.
    ///
    /// # Errors
    /// There are more lives than can be merged.
    pub fn of(paths: &[PathBuf]) -> Result<Self, String> {
        let mut survey = Self::default();
        let mut begins = Vec::new();
        for path in paths {
            match read_begin(path) {
                Ok(begin) => begins.push((begin, path)),
                Err(damage) => survey.damages.push((path.clone(), damage)),
            }
        }
        let key = |begin: &Begin| {
            let Begin { cluster, fingerprint, node, life, .. } = begin;
            (cluster.clone(), *fingerprint, node.clone(), *life)
        };
        begins.sort_by_key(|(begin, _)| (key(begin), begin.file));
        let mut at = HashMap::new();
        for (begin, path) in begins {
            let index = *at.entry(key(&begin)).or_insert_with(|| {
                survey.lives.push(Life::new(begin.clone()));
                survey.lives.len() - 1
            });
            let life = &mut survey.lives[index];
            if life.files.iter().any(|file| file.number == begin.file) {
                survey.copies.push(path.clone());
                continue;
            }
            life.files.push(AuditFile { path: path.clone(), number: begin.file });
        }
        if survey.lives.len() > LIVES_MAX {
            return Err(format!("more than {LIVES_MAX} starts of nodes; name fewer files"));
        }
        let mut lives = std::mem::take(&mut survey.lives);
        for life in &mut lives {
            survey.read(life);
        }
        for life in &mut lives {
            let key = (life.begin.node.clone(), life.begin.life);
            life.removed = survey.removed.get(&key).copied().unwrap_or(0);
        }
        survey.lives = lives;
        Ok(survey)
    }

    fn read(&mut self, life: &mut Life) {
        let mut reading = Reading::default();
        for file in life.files.clone() {
            // Slots mean nothing in another file.
            reading.others.clear();
            let read = for_each_block(&file.path, |records| {
                for record in records {
                    self.take(life, &mut reading, record);
                }
            });
            if let Err(damage) = read {
                self.damages.push((file.path, damage));
            }
        }
        let Some((from_ns, until_ns)) = life.covered.ends() else { return };
        let unsettled_from_ns = match &reading.state {
            Some(last) if last.reached == last.members => return,
            Some(last) => last.at_ns,
            None if life.begin.cluster.is_empty() => return,
            None => from_ns,
        };
        life.unsettled.push(unsettled_from_ns, until_ns.saturating_add(STATE_MARGIN_NS));
    }

    fn take(&mut self, life: &mut Life, reading: &mut Reading, record: &Record) {
        match record {
            Record::Span(span) => life.take_span(reading, *span),
            Record::Limit(limit) => self.take_limit(limit),
            Record::Other(other) => {
                reading.others.insert(other.slot, other.id);
                let OtherRecord { name, algorithm, .. } = other.clone();
                let unjudged = Unjudged { name, algorithm, ..Unjudged::default() };
                life.unjudged.entry(other.id).or_insert(unjudged);
            }
            Record::Spend(spend) => {
                life.spends += 1;
                let other = reading.others.get(&spend.slot);
                if let Some(unjudged) = other.and_then(|id| life.unjudged.get_mut(id)) {
                    unjudged.spends += 1;
                    let is_check = spend.kind == SpendKind::Check;
                    let units = if is_check { spend.units } else { 0 };
                    unjudged.admitted = unjudged.admitted.saturating_add(units);
                }
            }
            Record::State(state) => life.take_state(reading, state),
            Record::Gap(gap) => life.take_gap(*gap),
            Record::Removed(Removed { life: of, file }) => {
                let last = self.removed.entry((life.begin.node.clone(), *of)).or_default();
                *last = (*last).max(*file);
            }
            Record::End => life.has_end = true,
            Record::Begin(_) => {}
        }
    }

    fn take_limit(&mut self, limit: &LimitRecord) {
        let known = self.limits.entry(limit.id).or_insert_with(|| limit.clone());
        let rate = |limit: &LimitRecord| (limit.count, limit.period_ns);
        let (known_rate, new_rate) = (rate(known), rate(limit));
        if (known_rate, known.burst, known.fast) != (new_rate, limit.burst, limit.fast) {
            self.differing.insert(limit.id);
            known.burst = known.burst.max(limit.burst);
            known.fast |= limit.fast;
            let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
            if product(new_rate.0, known_rate.1) > product(known_rate.0, new_rate.1) {
                (known.count, known.period_ns) = new_rate;
            }
        }
    }
}

/// What is known in the middle of a life's files.
#[derive(Debug, Default)]
struct Reading {
    wall_offset_ns: Option<i64>,
    state: Option<State>,
    /// Identities of the limits of the file that are not judged, by slot.
    others: HashMap<u16, u64>,
}

impl Life {
    fn new(begin: Begin) -> Self {
        Self {
            begin,
            files: Vec::new(),
            covered: Spans::default(),
            wall_offset_ns: 0,
            wall_step_ns: 0,
            has_end: false,
            spends: 0,
            unjudged: BTreeMap::new(),
            gaps: Vec::new(),
            removed: 0,
            unsettled: Spans::default(),
            members: 0,
            peers: BTreeMap::new(),
            measures: BTreeMap::new(),
        }
    }

    fn take_span(&mut self, reading: &mut Reading, span: Span) {
        self.covered.push(span.from_ns, span.until_ns);
        let offset = signed(span.wall_ns) - signed(span.until_ns);
        if reading.wall_offset_ns.is_none() {
            self.wall_offset_ns = offset;
            if !self.begin.cluster.is_empty() {
                // Until it says what it knows of its cluster, nobody knows it.
                self.unsettled.push(span.from_ns, span.from_ns);
            }
        }
        reading.wall_offset_ns = Some(offset);
        self.wall_step_ns = self.wall_step_ns.max(offset.abs_diff(self.wall_offset_ns));
    }

    fn take_state(&mut self, reading: &mut Reading, state: &State) {
        self.members = self.members.max(state.members);
        let is_whole = |state: &State| state.reached == state.members;
        let last = reading.state.as_ref();
        let is_quiet = last.is_some_and(|last| {
            is_whole(last) && (last.splits, last.joins) == (state.splits, state.joins)
        });
        if !(is_quiet && is_whole(state)) {
            let start = self.covered.ends().map_or(state.at_ns, |(start, _)| start);
            let from = match last {
                Some(last) if is_whole(last) => state.since_ns.saturating_sub(STATE_MARGIN_NS),
                Some(last) => last.at_ns,
                None => start,
            };
            self.unsettled.push(from, state.at_ns.saturating_add(STATE_MARGIN_NS));
        }
        self.take_peers(last, state);
        for peer in &state.peers {
            let Some(skew_ms) = peer.skew_ms else { continue };
            let offset = reading.wall_offset_ns.unwrap_or(0);
            let at_ns = skew_ms.saturating_mul(1_000_000).saturating_add(offset);
            let new = Measure { least_ns: at_ns, most_ns: at_ns, rtt_ns: None };
            let key = (peer.name.clone(), peer.life);
            let measure = self.measures.entry(key).or_insert(new);
            measure.least_ns = measure.least_ns.min(at_ns);
            measure.most_ns = measure.most_ns.max(at_ns);
            let rtt_ns = peer.rtt_us.map(|us| us.saturating_mul(1_000));
            measure.rtt_ns = measure.rtt_ns.max(rtt_ns);
        }
        reading.state = Some(state.clone());
    }

    fn take_peers(&mut self, last: Option<&State>, state: &State) {
        let key = |peer: &PeerRecord| (peer.name.clone(), peer.life);
        for peer in state.peers.iter().filter(|peer| peer.life != 0) {
            let seen = self.peers.entry(key(peer)).or_insert((state.at_ns, state.at_ns));
            seen.0 = seen.0.min(state.at_ns);
            if peer.counted {
                seen.1 = seen.1.max(state.at_ns);
            }
        }
        // Who was counted in the state before was so until the look before this one.
        for peer in last.iter().flat_map(|last| &last.peers).filter(|peer| peer.counted) {
            if let Some(seen) = self.peers.get_mut(&key(peer)) {
                seen.1 = seen.1.max(state.since_ns);
            }
        }
    }

    fn take_gap(&mut self, gap: Gap) {
        let is_full = self.gaps.len() >= SPANS_MAX;
        match self.gaps.last_mut() {
            Some(last) if is_full => {
                last.until_ns = last.until_ns.max(gap.until_ns);
                last.spends = last.spends.saturating_add(gap.spends);
            }
            _ => self.gaps.push(gap),
        }
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Whose the file at `path` is.
fn read_begin(path: &Path) -> Result<Begin, Damage> {
    let mut reader = open(path)?;
    let damage = |what| Damage { at_byte: 8, what };
    let Some(block) = reader.next_block()? else { return Err(damage(Fault::NoBegin)) };
    let mut records = Records::new(block);
    loop {
        match records.next_record() {
            Ok(Some(Record::Begin(begin))) => return Ok(begin),
            Ok(Some(_)) => {}
            Ok(None) => return Err(damage(Fault::NoBegin)),
            Err(_) => return Err(damage(Fault::Malformed)),
        }
    }
}

/// Opens the file at `path` for reading.
///
/// # Errors
/// It cannot be opened, or is no audit file.
pub fn open(path: &Path) -> Result<BlockReader<BufReader<File>>, Damage> {
    let file = File::open(path)
        .map_err(|error| Damage { at_byte: 0, what: Fault::System(error.to_string()) })?;
    BlockReader::new(BufReader::with_capacity(64 << 10, file))
}

/// The records of the next block of `reader`; none at the end. A block counts as a whole or not at all.
///
/// # Errors
/// It is damaged.
pub fn next_records(
    reader: &mut BlockReader<impl std::io::Read>,
) -> Result<Option<Vec<Record>>, Damage> {
    let at_byte = reader.at_byte();
    let Some(block) = reader.next_block()? else { return Ok(None) };
    let (mut records, mut read) = (Records::new(block), Vec::new());
    loop {
        match records.next_record() {
            Ok(Some(record)) => read.push(record),
            Ok(None) => return Ok(Some(read)),
            Err(_) => return Err(Damage { at_byte, what: Fault::Malformed }),
        }
    }
}

fn for_each_block(path: &Path, mut take: impl FnMut(&[Record])) -> Result<(), Damage> {
    let mut reader = open(path)?;
    while let Some(records) = next_records(&mut reader)? {
        take(&records);
    }
    Ok(())
}
