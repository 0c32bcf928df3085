//! How checks and their answers are written on each door: a codec turns keys into the bytes of one
//! question and bytes back into the count of its answers. It sends nothing and reads no clock.

mod frame;
mod get;
pub(crate) mod grpc;
mod http;
mod redis;
pub(crate) mod resp;
mod throttle;

use std::fmt;

pub(crate) use get::Page;
pub(crate) use redis::Bucket;

use crate::keys::Keys;

/// The endpoint that every check names.
pub(crate) const ENDPOINT: &str = "GET /";

/// One way to ask.
#[derive(Clone, Debug)]
pub(crate) enum Codec {
    /// The frame of rlnode. `is_padded`: requests are as long as their reply, which a node beyond
    /// loopback asks of UDP.
    Frame {
        /// Whether requests are padded.
        is_padded: bool,
    },
    /// `POST /v1/check` of rlnode.
    Http,
    /// `GET` of a page, one for each check, pipelined: what a gateway in front of rlnode is asked.
    Get(Page),
    /// A token bucket in redis, one `EVALSHA` for each check, pipelined.
    Redis(Bucket),
    /// `CL.THROTTLE` of rlnode, one for each check, pipelined.
    Throttle,
    /// `ShouldRateLimit` of rlnode, one check in a call.
    Grpc,
}

/// The answer to one question, which asked some checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Bytes that it took.
    pub(crate) bytes: usize,
    /// The id of the question; none where answers come in the order of the questions.
    pub(crate) id: Option<u64>,
    /// Checks allowed.
    pub(crate) allowed: u64,
    /// Checks denied.
    pub(crate) denied: u64,
    /// Checks answered with an error.
    pub(crate) failed: u64,
}

/// Bytes that are no answer. The connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodecError {
    /// Not a frame of rlnode.
    Frame(wire::FrameError),
    /// Not an HTTP response as rlnode or a gateway gives it; what is wrong with it.
    Http(&'static str),
    /// Not a reply of redis; what is wrong with it.
    Resp(&'static str),
    /// Not an answer of a gRPC service; what is wrong with it.
    Grpc(&'static str),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => write!(f, "no frame came back: {error}"),
            Self::Http(what) => write!(f, "no HTTP response as expected came back: {what}"),
            Self::Resp(what) => write!(f, "no redis reply as expected came back: {what}"),
            Self::Grpc(what) => write!(f, "no answer to a call as expected came back: {what}"),
        }
    }
}

impl Codec {
    /// Appends a question of `checks` checks, of the next keys, at `now_ms`.
    pub(crate) fn ask(
        &self,
        out: &mut Vec<u8>,
        id: u64,
        keys: &mut Keys,
        checks: usize,
        now_ms: u64,
    ) {
        match self {
            Self::Frame { is_padded } => frame::ask(out, id, keys, checks, *is_padded),
            Self::Http => http::ask(out, keys, checks),
            Self::Get(page) => page.ask(out, keys, checks),
            Self::Redis(bucket) => bucket.ask(out, keys, checks, now_ms),
            Self::Throttle => throttle::ask(out, keys, checks),
            Self::Grpc => grpc::ask(out, id, keys),
        }
    }

    /// Reads the answer to a question of `checks` checks from the front of `bytes`; none if it is not
    /// complete.
    ///
    /// # Errors
    /// If it is no answer.
    pub(crate) fn read(&self, bytes: &[u8], checks: usize) -> Result<Option<Answered>, CodecError> {
        match self {
            Self::Frame { .. } => frame::read(bytes, checks).map_err(CodecError::Frame),
            Self::Http => http::read(bytes, checks).map_err(CodecError::Http),
            Self::Get(page) => page.read(bytes, checks).map_err(CodecError::Http),
            Self::Redis(_) => redis::read(bytes, checks).map_err(CodecError::Resp),
            Self::Throttle => throttle::read(bytes, checks).map_err(CodecError::Resp),
            Self::Grpc => grpc::read(bytes).map_err(CodecError::Grpc),
        }
    }
}
