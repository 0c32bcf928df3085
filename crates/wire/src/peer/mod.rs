//! What nodes of one cluster say to each other, protocol versions [`PEER_VERSION_MIN`] to
//! [`PEER_VERSION_MAX`].
//!
//! A frame is a header of [`PEER_HEADER_BYTES`] and a payload. A transport reads the header, asks
//! [`peer_frame_length`] how much follows, and hands whole frames to [`decode_peer`]. Control messages
//! (the handshake, snapshot requests) are encoded with bincode; batches, heals, acknowledgements and
//! snapshots, which carry many buckets, are laid out by hand and read without allocating. The byte
//! tables stand in `docs/peer-protocol.md`. Nothing here decides, waits or sends, and nothing is known
//! about the order in which frames may come.

mod acts;
mod batch;
mod codec;
mod control;
mod credit;
mod error;
mod frame;
mod heal;
mod limits;
mod signal;
mod snapshot;
mod timed;
mod varint;

pub use acts::write_acts;
pub use batch::{BatchFrame, BatchWriter, Deltas};
pub use control::{
    Answer, Cursor, Done, Hello, LimitNumbers, Position, Refusal, Refused, SnapshotRequest,
    write_answer, write_done, write_hello, write_refused, write_snapshot_request,
};
pub use credit::{CREDITS_MAX, CreditsFrame, CreditsOf, write_credits};
pub use error::{PeerFrameError, PeerWriteError};
pub use frame::{PeerDecoded, PeerFrame, decode_peer, peer_frame_length};
pub use heal::{HealFrame, Sums, write_heal};
pub use limits::{LIMITS_PART_MAX, LimitsFrame, TermsFrame, write_limits, write_terms};
pub use signal::{write_ack, write_clock, write_forget, write_heal_ack, write_leave, write_ping};
pub use snapshot::{SnapshotChunk, SnapshotHead, Standings, write_snapshot_chunk};
pub use timed::{TimedStandings, TimedSums, write_timed_standings, write_timed_sums};

/// Lowest protocol version that this crate reads and writes.
pub const PEER_VERSION_MIN: u16 = 1;
/// Highest protocol version that this crate reads and writes.
pub const PEER_VERSION_MAX: u16 = 1;

/// Bytes of the header that every frame begins with.
pub const PEER_HEADER_BYTES: usize = 8;
/// Longest frame with its header: a hello with as many limits as a plan can have, or a chunk of a
/// snapshot.
pub const PEER_FRAME_BYTES_MAX: usize = 4 << 20;
/// Longest batch or heal with its header, and longest frame of an unknown type: short enough that
/// an urgent batch behind it need not wait, on a link of 100 Mbit/s, for more than about 20 ms.
pub const BATCH_BYTES_MAX: usize = 256 << 10;
/// Longest snapshot request with its header.
pub const SNAPSHOT_REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest frame, with its header, of any other type.
pub const SMALL_FRAME_BYTES_MAX: usize = 1 << 10;

/// Longest name of a node, a cluster or a region, in bytes.
pub const PEER_NAME_BYTES_MAX: usize = 255;
/// Most limits in a hello: each has a 16-bit slot.
pub const LIMITS_MAX: usize = limiter::RULES_MAX;
/// Longest text of a refusal, in bytes.
pub const REFUSED_TEXT_BYTES_MAX: usize = 256;
/// Most sums in one heal, those of the timed frames before it included: 240 kB in one frame at the most.
pub const HEAL_SUMS_MAX: usize = 12_288;
/// Most standings in one chunk of a snapshot, and in one timed frame. So many always fit in a chunk,
/// whatever its head says.
pub const SNAPSHOT_STANDINGS_MAX: usize = 65_536;
/// Largest `shift` of a demand: what a second of any limit refills, up to 2^64 units, is then counted
/// in 16 bits.
pub const SHIFT_MAX: u8 = 48;
