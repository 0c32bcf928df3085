//! The records of an audit file: bytes to types and back. All bytes are untrusted.
//!
//! A record is the length of what follows its kind (u16, little-endian), its kind (u8), and its fields.
//! Fields that a later version appends to a record, and records of kinds that it adds, are skipped by
//! their length.

use limiter::{Spend, SpendKind};

/// Longest text in a record, in bytes; a longer one is cut.
pub const TEXT_BYTES_MAX: usize = 255;
/// Latest time that a record may carry, in nanoseconds: 292 years after the machine started.
pub const TIME_MAX_NS: u64 = i64::MAX.cast_unsigned();

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Whose file it is. In the first block of every file.
    Begin(Begin),
    /// The first record of every block: the time that it covers.
    Span(Span),
    /// A limit that is a bucket, before its first spend in the file.
    Limit(LimitRecord),
    /// Any other limit, before its first spend in the file.
    Other(OtherRecord),
    /// Units taken or given back.
    Spend(Spend),
    /// What the node knew of its cluster.
    State(State),
    /// Spends that are missing.
    Gap(Gap),
    /// Older files of the node were removed to keep within the bound.
    Removed(Removed),
    /// The node stopped in order: there is nothing more to come.
    End,
}

/// Whose file it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// Random number of this start of the process.
    pub life: u64,
    /// Number of the file among those of this life, from 1.
    pub file: u64,
    /// Names the secret of the bucket hashes: see [`limiter::Limiter::fingerprint`].
    pub fingerprint: u64,
    /// One key in so many is recorded.
    pub sample: u32,
    /// Names the start of the machine, whose clock is the same for all processes; zeros: not known.
    pub boot: [u8; 16],
    /// Time between two exchanges with peers in nanoseconds; 0: the node is in no cluster.
    pub sync_interval_ns: u64,
    /// The node's name.
    pub node: String,
    /// The cluster's name; empty: the node is in none.
    pub cluster: String,
    /// Version of the program.
    pub version: String,
}

/// The time that a block covers, and what the wall clock said at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Where it begins, in nanoseconds of the node's clock.
    pub from_ns: u64,
    /// Where it ends.
    pub until_ns: u64,
    /// Unix time at `until_ns`, in nanoseconds.
    pub wall_ns: u64,
}

/// A limit or an override as the node that recorded it had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRecord {
    /// What spends of this file call it.
    pub slot: u16,
    /// Its identity, the same on all nodes.
    pub id: u64,
    /// Units of the rate.
    pub count: u64,
    /// In so many nanoseconds.
    pub period_ns: u64,
    /// Capacity, in units.
    pub burst: u64,
    /// It decides nothing.
    pub shadow: bool,
    /// Its accuracy is `fast`.
    pub fast: bool,
    /// `name`, or `name/override`.
    pub name: String,
}

/// A limit or an override that counts by windows or a log: its spends are recorded, and have no worst
/// window above `burst + rate * t`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherRecord {
    /// What spends of this file call it.
    pub slot: u16,
    /// Its identity, the same on all nodes.
    pub id: u64,
    /// It decides nothing.
    pub shadow: bool,
    /// Its accuracy is `fast`.
    pub fast: bool,
    /// How it counts, as the configuration file says.
    pub algorithm: String,
    /// `name`, or `name/override`.
    pub name: String,
}

/// What a node knew of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When, in nanoseconds of the node's clock.
    pub at_ns: u64,
    /// When the node looked before: what is new came after that.
    pub since_ns: u64,
    /// Members, this node included.
    pub members: u16,
    /// Members that are counted, this node included.
    pub reached: u16,
    /// Steps since the start in which members were lost.
    pub splits: u64,
    /// Times since the start that the counts were given up and taken anew.
    pub joins: u64,
    /// The peers that it knows by name.
    pub peers: Vec<PeerRecord>,
}

/// A peer as a node saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerRecord {
    /// Its life.
    pub life: u64,
    /// It is counted.
    pub counted: bool,
    /// Its wall clock less this node's in milliseconds, as measured when it was linked.
    pub skew_ms: Option<i64>,
    /// Smoothed round trip in microseconds.
    pub rtt_us: Option<u64>,
    /// Its name.
    pub name: String,
}

/// Spends that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// None earlier than this is, in nanoseconds of the node's clock.
    pub from_ns: u64,
    /// Nor later than this.
    pub until_ns: u64,
    /// How many.
    pub spends: u64,
}

/// Files that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The life whose files they were.
    pub life: u64,
    /// The number of the last of them: all up to it are gone.
    pub file: u64,
}

const BEGIN: u8 = 1;
const SPAN: u8 = 2;
const LIMIT: u8 = 3;
const CHECK: u8 = 4;
const DEBIT: u8 = 5;
const REFUND: u8 = 6;
const STATE: u8 = 7;
const GAP: u8 = 8;
const REMOVED: u8 = 9;
const END: u8 = 10;
const OTHER: u8 = 11;

const IS_SHADOW: u8 = 1;
const IS_FAST: u8 = 2;
const IS_COUNTED: u8 = 1;
const HAS_SKEW: u8 = 2;
const HAS_RTT: u8 = 4;

/// Bytes of the length and the kind before the fields of a record.
const HEADER_BYTES: usize = 3;

impl Record {
    /// Appends the record to `out`.
    pub fn append(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0, 0, self.kind()]);
        match self {
            Self::Begin(begin) => append_begin(begin, out),
            Self::Span(Span { from_ns, until_ns, wall_ns }) => {
                append_numbers(out, &[*from_ns, *until_ns, *wall_ns]);
            }
            Self::Limit(limit) => append_limit(limit, out),
            Self::Other(other) => append_other(other, out),
            Self::Spend(spend) => {
                out.extend_from_slice(&spend.slot.to_le_bytes());
                append_numbers(out, &[spend.hash, spend.at_ns, spend.units]);
            }
            Self::State(state) => append_state(state, out),
            Self::Gap(Gap { from_ns, until_ns, spends }) => {
                append_numbers(out, &[*from_ns, *until_ns, *spends]);
            }
            Self::Removed(Removed { life, file }) => append_numbers(out, &[*life, *file]),
            Self::End => {}
        }
        let length = u16::try_from(out.len() - start - HEADER_BYTES);
        debug_assert!(length.is_ok(), "64 peers of 300 bytes fit");
        out[start..start + 2].copy_from_slice(&length.unwrap_or(u16::MAX).to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Begin(_) => BEGIN,
            Self::Span(_) => SPAN,
            Self::Limit(_) => LIMIT,
            Self::Other(_) => OTHER,
            Self::Spend(Spend { kind: SpendKind::Check, .. }) => CHECK,
            Self::Spend(Spend { kind: SpendKind::Debit, .. }) => DEBIT,
            Self::Spend(Spend { kind: SpendKind::Refund, .. }) => REFUND,
            Self::State(_) => STATE,
            Self::Gap(_) => GAP,
            Self::Removed(_) => REMOVED,
            Self::End => END,
        }
    }
}

fn append_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn append_text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes().get(..TEXT_BYTES_MAX).unwrap_or(text.as_bytes());
    out.push(u8::try_from(bytes.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(bytes);
}

fn append_begin(begin: &Begin, out: &mut Vec<u8>) {
    append_numbers(out, &[begin.life, begin.file, begin.fingerprint]);
    out.extend_from_slice(&begin.sample.to_le_bytes());
    out.extend_from_slice(&begin.boot);
    append_numbers(out, &[begin.sync_interval_ns]);
    for text in [&begin.node, &begin.cluster, &begin.version] {
        append_text(out, text);
    }
}

fn append_limit(limit: &LimitRecord, out: &mut Vec<u8>) {
    out.extend_from_slice(&limit.slot.to_le_bytes());
    append_numbers(out, &[limit.id, limit.count, limit.period_ns, limit.burst]);
    out.push(flags(limit.shadow, limit.fast));
    append_text(out, &limit.name);
}

fn append_other(other: &OtherRecord, out: &mut Vec<u8>) {
    out.extend_from_slice(&other.slot.to_le_bytes());
    append_numbers(out, &[other.id]);
    out.push(flags(other.shadow, other.fast));
    append_text(out, &other.algorithm);
    append_text(out, &other.name);
}

fn flags(shadow: bool, fast: bool) -> u8 {
    (u8::from(shadow) * IS_SHADOW) | (u8::from(fast) * IS_FAST)
}

fn append_state(state: &State, out: &mut Vec<u8>) {
    append_numbers(out, &[state.at_ns, state.since_ns]);
    out.extend_from_slice(&state.members.to_le_bytes());
    out.extend_from_slice(&state.reached.to_le_bytes());
    append_numbers(out, &[state.splits, state.joins]);
    let peers = state.peers.get(..usize::from(u8::MAX)).unwrap_or(&state.peers);
    out.push(u8::try_from(peers.len()).unwrap_or(u8::MAX));
    for peer in peers {
        append_numbers(out, &[peer.life]);
        let counted = u8::from(peer.counted) * IS_COUNTED;
        let skew = u8::from(peer.skew_ms.is_some()) * HAS_SKEW;
        let rtt = u8::from(peer.rtt_us.is_some()) * HAS_RTT;
        out.push(counted | skew | rtt);
        out.extend_from_slice(&peer.skew_ms.unwrap_or(0).to_le_bytes());
        append_numbers(out, &[peer.rtt_us.unwrap_or(0)]);
        append_text(out, &peer.name);
    }
}

/// The records of one block.
#[derive(Clone, Debug)]
pub struct Records<'b>(&'b [u8]);

/// A block whose checksum is right holds what is no record: another program wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'b> Records<'b> {
    /// The records in `body`, a block without its header.
    pub fn new(body: &'b [u8]) -> Self {
        Self(body)
    }

    /// The next record of a kind that this version knows; none at the end.
    ///
    /// # Errors
    /// The bytes are no record. There is nothing more to be read then.
    pub fn next_record(&mut self) -> Result<Option<Record>, Malformed> {
        while !self.0.is_empty() {
            let mut fields = Fields(std::mem::take(&mut self.0));
            let (length, kind) = (fields.u16()?, fields.u8()?);
            let payload = fields.take(usize::from(length))?;
            let record = read(kind, Fields(payload))?;
            self.0 = fields.0;
            if record.is_some() {
                return Ok(record);
            }
        }
        Ok(None)
    }
}

fn read(kind: u8, mut fields: Fields<'_>) -> Result<Option<Record>, Malformed> {
    Ok(Some(match kind {
        BEGIN => Record::Begin(read_begin(&mut fields)?),
        SPAN => Record::Span(Span {
            from_ns: fields.time()?,
            until_ns: fields.time()?,
            wall_ns: fields.time()?,
        }),
        LIMIT => Record::Limit(read_limit(&mut fields)?),
        OTHER => Record::Other(read_other(&mut fields)?),
        CHECK => Record::Spend(read_spend(SpendKind::Check, &mut fields)?),
        DEBIT => Record::Spend(read_spend(SpendKind::Debit, &mut fields)?),
        REFUND => Record::Spend(read_spend(SpendKind::Refund, &mut fields)?),
        STATE => Record::State(read_state(&mut fields)?),
        GAP => Record::Gap(Gap {
            from_ns: fields.time()?,
            until_ns: fields.time()?,
            spends: fields.u64()?,
        }),
        REMOVED => Record::Removed(Removed { life: fields.u64()?, file: fields.u64()? }),
        END => Record::End,
        _ => return Ok(None),
    }))
}

fn read_begin(fields: &mut Fields<'_>) -> Result<Begin, Malformed> {
    Ok(Begin {
        life: fields.u64()?,
        file: fields.u64()?,
        fingerprint: fields.u64()?,
        sample: fields.u32()?.max(1),
        boot: fields.array()?,
        sync_interval_ns: fields.u64()?,
        node: fields.text()?,
        cluster: fields.text()?,
        version: fields.text()?,
    })
}

fn read_limit(fields: &mut Fields<'_>) -> Result<LimitRecord, Malformed> {
    let slot = fields.u16()?;
    let [id, count, period_ns, burst] =
        [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
    let flags = fields.u8()?;
    let (shadow, fast) = (flags & IS_SHADOW != 0, flags & IS_FAST != 0);
    if count == 0 || period_ns == 0 {
        return Err(Malformed);
    }
    Ok(LimitRecord { slot, id, count, period_ns, burst, shadow, fast, name: fields.text()? })
}

fn read_other(fields: &mut Fields<'_>) -> Result<OtherRecord, Malformed> {
    let (slot, id, flags) = (fields.u16()?, fields.u64()?, fields.u8()?);
    let (shadow, fast) = (flags & IS_SHADOW != 0, flags & IS_FAST != 0);
    let (algorithm, name) = (fields.text()?, fields.text()?);
    Ok(OtherRecord { slot, id, shadow, fast, algorithm, name })
}

fn read_spend(kind: SpendKind, fields: &mut Fields<'_>) -> Result<Spend, Malformed> {
    let (slot, hash) = (fields.u16()?, fields.u64()?);
    Ok(Spend { slot, hash, at_ns: fields.time()?, units: fields.u64()?, kind })
}

fn read_state(fields: &mut Fields<'_>) -> Result<State, Malformed> {
    let mut state = State {
        at_ns: fields.time()?,
        since_ns: fields.time()?,
        members: fields.u16()?,
        reached: fields.u16()?,
        splits: fields.u64()?,
        joins: fields.u64()?,
        peers: Vec::new(),
    };
    for _ in 0..fields.u8()? {
        let (life, flags) = (fields.u64()?, fields.u8()?);
        let skew_ms = i64::from_le_bytes(fields.array()?);
        let rtt_us = fields.u64()?;
        state.peers.push(PeerRecord {
            life,
            counted: flags & IS_COUNTED != 0,
            skew_ms: (flags & HAS_SKEW != 0).then_some(skew_ms),
            rtt_us: (flags & HAS_RTT != 0).then_some(rtt_us),
            name: fields.text()?,
        });
    }
    Ok(state)
}

/// Fields that are left to be read.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], Malformed> {
        let (taken, left) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, left) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = left;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A time, at most [`TIME_MAX_NS`], so that times can be subtracted.
    fn time(&mut self) -> Result<u64, Malformed> {
        self.u64().and_then(|ns| if ns <= TIME_MAX_NS { Ok(ns) } else { Err(Malformed) })
    }

    /// Text for people. What is not UTF-8, or would move a terminal's cursor, is replaced.
    fn text(&mut self) -> Result<String, Malformed> {
        let length = usize::from(self.u8()?);
        let text = String::from_utf8_lossy(self.take(length)?);
        let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        Ok(text.chars().map(shown).collect())
    }
}
