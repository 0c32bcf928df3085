//! Control messages: the handshake and the request for a snapshot. `codec.rs` turns them into bytes.

use super::codec;
use super::error::PeerWriteError;
use super::frame::FrameType;
use super::{PEER_VERSION_MAX, PEER_VERSION_MIN, REFUSED_TEXT_BYTES_MAX};

/// Who a node is and what it counts: the first message of whoever dialled.
///
/// Every version of the protocol can read the hello of every other: fields are only ever appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Lowest protocol version that the node speaks.
    pub protocol_min: u16,
    /// Highest protocol version that the node speaks, not below the lowest.
    pub protocol_max: u16,
    /// What the node can do beyond its version, one bit each; none is assigned yet. Unknown bits are
    /// ignored.
    pub capabilities: u64,
    /// Name of the cluster, at most [`PEER_NAME_BYTES_MAX`](super::PEER_NAME_BYTES_MAX) bytes.
    pub cluster: String,
    /// Name of the region, as long as that; empty: none.
    pub region: String,
    /// Name of the node, 1 to [`PEER_NAME_BYTES_MAX`](super::PEER_NAME_BYTES_MAX) bytes.
    pub node: String,
    /// Random number of this start of the process, never 0.
    pub life: u64,
    /// The node knows the counts; a node that does not asks for a snapshot.
    pub synced: bool,
    /// Names of the members that the node counts and knows by name, at most
    /// [`limiter::MEMBERS_MAX`]. Read: strictly ascending by bytes. Written: in any order; doubles go.
    pub members: Vec<String>,
    /// Version of that list, chosen by the node: it grows with each change.
    pub members_version: u64,
    /// The node's limits by slot, at most [`LIMITS_MAX`](super::LIMITS_MAX).
    pub limits: Vec<LimitNumbers>,
    /// Digest, keyed with the cluster's secret, that proves that the node has the same secret.
    pub digest: [u8; 16],
    /// The node's wall clock in milliseconds of Unix time: shown as skew, decides nothing.
    pub unix_ms: u64,
    /// Members that the node expects or counts, itself included, at most [`limiter::MEMBERS_MAX`].
    pub size: u32,
}

impl Hello {
    /// The highest protocol version that the node and this program speak; none: they cannot talk, and
    /// the hello is refused with [`Refusal::Protocol`].
    pub fn common_protocol(&self) -> Option<u16> {
        let highest = self.protocol_max.min(PEER_VERSION_MAX);
        (highest >= self.protocol_min.max(PEER_VERSION_MIN)).then_some(highest)
    }
}

/// What a limit is called and what it counts in, on the node that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitNumbers {
    /// The limit's identity, the same on every node that has it.
    pub id: u64,
    /// Capacity in units; 0, like the two others, for a limit that counts nothing.
    pub burst: u64,
    /// Ticks in a nanosecond.
    pub per_ns: u64,
    /// Ticks in a unit.
    pub per_unit: u64,
}

/// What a node has received of the one that it tells this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The life of the other node that this counts in; 0: nothing was ever received.
    pub life: u64,
    /// Number of the next batch or heal that is expected: all below were received.
    pub next: u64,
}

/// The answer to a hello, by whoever was dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who answers.
    pub hello: Hello,
    /// What it has received of the dialler.
    pub cursor: Cursor,
}

/// The end of the handshake, by whoever dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What it has received of the one it dialled.
    pub cursor: Cursor,
}

/// Why a node will not talk to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The other belongs to another cluster. 1.
    Cluster,
    /// The other has another secret. 2.
    Secret,
    /// There is no protocol version that both speak. 3.
    Protocol,
    /// The name is not the one that the certificate proves. 4.
    Identity,
    /// The other is this very process. 5.
    Itself,
    /// Another process of that name is linked. 6.
    DuplicateName,
    /// The two are linked already, or are becoming so by another connection. 7.
    Busy,
    /// The cluster has as many members as it can have. 8.
    TooManyMembers,
    /// What the other said could not be read, or came at the wrong time. 9.
    Malformed,
    /// This node is leaving. 10.
    Leaving,
    /// A reason newer than this program; never one of the numbers above.
    Unknown(u8),
}

impl Refusal {
    /// Every refusal that this version knows.
    pub const ALL: [Self; 10] = [
        Self::Cluster,
        Self::Secret,
        Self::Protocol,
        Self::Identity,
        Self::Itself,
        Self::DuplicateName,
        Self::Busy,
        Self::TooManyMembers,
        Self::Malformed,
        Self::Leaving,
    ];

    /// The refusal of this number.
    pub fn from_u8(number: u8) -> Self {
        let known = Self::ALL.into_iter().find(|refusal| refusal.to_u8() == number);
        known.unwrap_or(Self::Unknown(number))
    }

    /// The number of this refusal.
    pub fn to_u8(self) -> u8 {
        match self {
            Self::Cluster => 1,
            Self::Secret => 2,
            Self::Protocol => 3,
            Self::Identity => 4,
            Self::Itself => 5,
            Self::DuplicateName => 6,
            Self::Busy => 7,
            Self::TooManyMembers => 8,
            Self::Malformed => 9,
            Self::Leaving => 10,
            Self::Unknown(number) => number,
        }
    }

    /// The word used in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Secret => "secret",
            Self::Protocol => "protocol",
            Self::Identity => "identity",
            Self::Itself => "itself",
            Self::DuplicateName => "duplicate_name",
            Self::Busy => "busy",
            Self::TooManyMembers => "too_many_members",
            Self::Malformed => "malformed",
            Self::Leaving => "leaving",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// The last frame of a connection that a node will not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// The same for a person to read, with the values that differ, at most
    /// [`REFUSED_TEXT_BYTES_MAX`] bytes.
    pub text: String,
}

/// How far a node had read another when it said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Name of the node that was read, 1 to [`PEER_NAME_BYTES_MAX`](super::PEER_NAME_BYTES_MAX)
    /// bytes.
    pub name: String,
    /// Its life.
    pub life: u64,
    /// Number of its next batch or heal: all below were read.
    pub next: u64,
}

/// Asks for a snapshot that contains everything before these positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// One for each node that the asker is linked to, at most [`limiter::MEMBERS_MAX`].
    pub positions: Vec<Position>,
}

/// Appends a hello to `out`.
///
/// # Errors
/// When a name, list or number is not what its field can have; see [`PeerWriteError`].
pub fn write_hello(out: &mut Vec<u8>, hello: &Hello) -> Result<(), PeerWriteError> {
    codec::append(out, FrameType::Hello, codec::HelloBytes::of(hello)?)
}

/// Appends an answer to `out`.
///
/// # Errors
/// As [`write_hello`].
pub fn write_answer(out: &mut Vec<u8>, answer: &Answer) -> Result<(), PeerWriteError> {
    codec::append(out, FrameType::Answer, codec::AnswerBytes::of(answer)?)
}

/// Appends the end of a handshake to `out`.
pub fn write_done(out: &mut Vec<u8>, done: Done) {
    // Two numbers: nothing of them can be refused.
    let written = codec::append(out, FrameType::Done, codec::CursorBytes::of(done.cursor));
    debug_assert!(written.is_ok(), "a cursor is always written");
}

/// Appends a refusal to `out`. A text above [`REFUSED_TEXT_BYTES_MAX`] bytes is cut.
pub fn write_refused(out: &mut Vec<u8>, refusal: Refusal, text: &str) {
    let text = &text[..text.floor_char_boundary(REFUSED_TEXT_BYTES_MAX)];
    let written = codec::append(out, FrameType::Refused, codec::RefusedBytes::of(refusal, text));
    debug_assert!(written.is_ok(), "a bounded text is always written");
}

/// Appends a request for a snapshot to `out`.
///
/// # Errors
/// When there are too many positions, or one has no proper name.
pub fn write_snapshot_request(
    out: &mut Vec<u8>,
    request: &SnapshotRequest,
) -> Result<(), PeerWriteError> {
    let bytes = codec::SnapshotRequestBytes::of(request)?;
    codec::append(out, FrameType::SnapshotRequest, bytes)
}
