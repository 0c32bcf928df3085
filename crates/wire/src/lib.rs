//! Bytes to types and back, for everything that rlnode says to somebody else.
//!
//! Every byte read here comes from outside and is trusted in nothing: decoding never panics, never
//! allocates by a claim of the bytes and borrows from them instead of copying. The crate owns no
//! socket, no clock and no buffer of its own; it decides nothing about a request.
//!
//! - [`frame`]: the local frame, which UDP and unix sockets carry. `docs/protocol.md` describes it
//!   for whoever writes a client in another language.
//! - [`resp`]: the Redis serialization protocol; see `docs/redis.md`.
//! - [`peer`]: what the nodes of a cluster say to each other; see `docs/peer-protocol.md`.

mod cursor;
pub mod frame;
pub mod peer;
pub mod resp;

pub use frame::{
    Answer, Answers, CHECKS_MAX, Check, Checks, Detail, Details, ERROR_BYTES, ErrorCode,
    FRAME_BYTES_MAX, FrameError, HEADER_BYTES, LIMIT_NAME_BYTES_MAX, PausedReply,
    REPLY_RECORD_BYTES_MAX, Reply, ReplyWriter, RequestFrame, RequestWriter, ServerFrame, Status,
    VERSION, WriteError, decode_reply, frame_id, frame_length, reply_bytes_max, write_error,
};
