//! What can be wrong with a frame, with a check in it, or with what shall be written into one.

use std::fmt;

use super::header::{Kind, header_bytes};
use super::{CHECKS_MAX, ERROR_BYTES, FRAME_BYTES_MAX, HEADER_BYTES, VERSION};

/// Why bytes are not a frame that can be read. Their sender is at fault, and nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Fewer bytes than a header.
    Short,
    /// The bytes do not begin as a frame does.
    Magic,
    /// A kind of frame that the reader does not take.
    Kind(u8),
    /// A version that the reader does not speak.
    Version(u8),
    /// Flags that the reader does not know.
    Flags(u16),
    /// A length below [`HEADER_BYTES`], or not that of the message.
    Length(u32),
    /// A length above [`FRAME_BYTES_MAX`].
    TooLarge(u32),
    /// No record, or more than [`CHECKS_MAX`].
    Count(u16),
    /// The record at this index, or a part of it, does not fit where its lengths say.
    Record(u16),
}

impl FrameError {
    /// The code to answer with. None: a datagram with this fault gets no answer, because its sender
    /// may be no client at all; a stream is told [`ErrorCode::Malformed`] before it is closed.
    pub fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Short | Self::Magic | Self::Kind(_) => None,
            Self::Version(_) => Some(ErrorCode::Version),
            Self::Flags(_) => Some(ErrorCode::UnknownFlags),
            Self::TooLarge(_) => Some(ErrorCode::TooLarge),
            Self::Count(1..) => Some(ErrorCode::TooManyChecks),
            Self::Length(_) | Self::Count(0) | Self::Record(_) => Some(ErrorCode::Malformed),
        }
    }

    /// After this fault the start of the next frame on a stream is not known, or means nothing.
    pub fn closes_stream(self) -> bool {
        match self {
            Self::Short
            | Self::Magic
            | Self::Kind(_)
            | Self::Version(_)
            | Self::Length(_)
            | Self::TooLarge(_) => true,
            Self::Flags(_) | Self::Count(_) | Self::Record(_) => false,
        }
    }

    /// The word used in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Magic => "magic",
            Self::Kind(_) => "kind",
            Self::Version(_) => "version",
            Self::Flags(_) => "flags",
            Self::Length(_) => "length",
            Self::TooLarge(_) => "too_large",
            Self::Count(_) => "count",
            Self::Record(_) => "record",
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "fewer bytes than the {HEADER_BYTES} of a frame's header"),
            Self::Magic => write!(f, "not a frame: it does not begin with `RL`"),
            Self::Kind(kind) => write!(f, "a frame of kind `{kind}` is not taken here"),
            Self::Version(version) => {
                write!(f, "frame version `{version}` is not spoken here; speak {VERSION}")
            }
            Self::Flags(flags) => write!(f, "frame flags `{flags:#06x}` are not known here"),
            Self::Length(length) => {
                write!(f, "the frame's length `{length}` is not that of the message")
            }
            Self::TooLarge(length) => {
                write!(f, "the frame's length `{length}` is above {FRAME_BYTES_MAX}")
            }
            Self::Count(count) => {
                write!(f, "the frame has `{count}` records; send 1 to {CHECKS_MAX}")
            }
            Self::Record(index) => {
                write!(f, "record `{index}` does not fit where its lengths say")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// What an error frame says. It answers a whole frame, none of whose checks was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The frame's lengths and counts do not add up. Code 1.
    Malformed,
    /// The node does not speak the frame's version. Code 2.
    Version,
    /// The node does not know the frame's flags. Code 3.
    UnknownFlags,
    /// The frame is longer than [`FRAME_BYTES_MAX`]. Code 4.
    TooLarge,
    /// The frame has more than [`CHECKS_MAX`] checks. Code 5.
    TooManyChecks,
    /// UDP beyond loopback: the request is shorter than its reply can be; pad it. Code 6.
    ReplyTooLong,
    /// The node has too much to do. Code 7.
    Busy,
    /// A code newer than this program.
    Unknown(u16),
}

impl ErrorCode {
    /// The code of this number.
    pub fn from_u16(code: u16) -> Self {
        match code {
            1 => Self::Malformed,
            2 => Self::Version,
            3 => Self::UnknownFlags,
            4 => Self::TooLarge,
            5 => Self::TooManyChecks,
            6 => Self::ReplyTooLong,
            7 => Self::Busy,
            other => Self::Unknown(other),
        }
    }

    /// The number of this code.
    pub fn to_u16(self) -> u16 {
        match self {
            Self::Malformed => 1,
            Self::Version => 2,
            Self::UnknownFlags => 3,
            Self::TooLarge => 4,
            Self::TooManyChecks => 5,
            Self::ReplyTooLong => 6,
            Self::Busy => 7,
            Self::Unknown(other) => other,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => write!(f, "the node found the frame malformed"),
            Self::Version => write!(f, "the node does not speak version {VERSION} of the frame"),
            Self::UnknownFlags => write!(f, "the node does not know the frame's flags"),
            Self::TooLarge => write!(f, "the frame is longer than {FRAME_BYTES_MAX} bytes"),
            Self::TooManyChecks => write!(f, "the frame has more than {CHECKS_MAX} checks"),
            Self::ReplyTooLong => {
                write!(f, "the reply would be longer than the request; pad the request")
            }
            Self::Busy => write!(f, "the node is busy; ask again later"),
            Self::Unknown(code) => write!(f, "the node answered with the unknown error `{code}`"),
        }
    }
}

impl std::error::Error for ErrorCode {}

/// Why one check of a frame has no decision; the others of its frame are decided. Nothing was
/// charged for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The node has no such operation. Status 1.
    UnsupportedOp,
    /// The node does not know the check's flags. Status 2.
    UnknownFlags,
    /// [`limiter::RequestError::KeyEmpty`]. Status 3.
    KeyEmpty,
    /// [`limiter::RequestError::KeyTooLong`]. Status 4.
    KeyTooLong,
    /// [`limiter::RequestError::EndpointTooLong`]. Status 5.
    EndpointTooLong,
    /// [`limiter::RequestError::Attribute`]. Status 6.
    BadAttribute,
    /// [`limiter::RequestError::Cost`]. Status 7.
    BadCost,
    /// The node does not know the fleet's counts yet; treat it as no node. Status 8.
    Starting,
    /// The door that the check came through does not do this. Status 9.
    Forbidden,
    /// A status newer than this program; never 0.
    Unknown(u8),
}

impl Status {
    /// The status of this number; none for 0, which says that a decision follows.
    pub fn from_u8(status: u8) -> Option<Self> {
        Some(match status {
            0 => return None,
            1 => Self::UnsupportedOp,
            2 => Self::UnknownFlags,
            3 => Self::KeyEmpty,
            4 => Self::KeyTooLong,
            5 => Self::EndpointTooLong,
            6 => Self::BadAttribute,
            7 => Self::BadCost,
            8 => Self::Starting,
            9 => Self::Forbidden,
            other => Self::Unknown(other),
        })
    }

    /// The number of this status.
    pub fn to_u8(self) -> u8 {
        match self {
            Self::UnsupportedOp => 1,
            Self::UnknownFlags => 2,
            Self::KeyEmpty => 3,
            Self::KeyTooLong => 4,
            Self::EndpointTooLong => 5,
            Self::BadAttribute => 6,
            Self::BadCost => 7,
            Self::Starting => 8,
            Self::Forbidden => 9,
            Self::Unknown(other) => other,
        }
    }

    /// The word used in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnsupportedOp => "unsupported_op",
            Self::UnknownFlags => "unknown_flags",
            Self::KeyEmpty => "key_empty",
            Self::KeyTooLong => "key_too_long",
            Self::EndpointTooLong => "endpoint_too_long",
            Self::BadAttribute => "bad_attribute",
            Self::BadCost => "bad_cost",
            Self::Starting => "starting",
            Self::Forbidden => "forbidden",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl From<limiter::RequestError> for Status {
    fn from(error: limiter::RequestError) -> Self {
        use limiter::RequestError;
        match error {
            RequestError::KeyEmpty => Self::KeyEmpty,
            RequestError::KeyTooLong => Self::KeyTooLong,
            RequestError::EndpointTooLong => Self::EndpointTooLong,
            RequestError::Attribute => Self::BadAttribute,
            // No frame carries terms.
            RequestError::Cost | RequestError::Terms => Self::BadCost,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use limiter::RequestError;
        match self {
            Self::UnsupportedOp => write!(f, "the node has no such operation"),
            Self::UnknownFlags => write!(f, "the node does not know the check's flags"),
            Self::KeyEmpty => RequestError::KeyEmpty.fmt(f),
            Self::KeyTooLong => RequestError::KeyTooLong.fmt(f),
            Self::EndpointTooLong => RequestError::EndpointTooLong.fmt(f),
            Self::BadAttribute => RequestError::Attribute.fmt(f),
            Self::BadCost => RequestError::Cost.fmt(f),
            Self::Starting => write!(f, "the node is starting; ask again, or another node"),
            Self::Forbidden => write!(f, "the operation is not allowed on this door"),
            Self::Unknown(status) => {
                write!(f, "the node answered with the unknown status `{status}`")
            }
        }
    }
}

impl std::error::Error for Status {}

/// Why a request was not written; the frame is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The frame has [`CHECKS_MAX`] checks or no room left: the next frame will take the request.
    Full,
    /// A part of the request is longer than a frame can say: no frame will take it.
    TooLong,
    /// The operation is an operator's, which no frame carries.
    Op,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "the frame is full; send it and begin another"),
            Self::TooLong => {
                write!(f, "a key, endpoint, attribute or unit is too long for a frame")
            }
            Self::Op => write!(f, "frames do not carry this operation; use the admin interface"),
        }
    }
}

impl std::error::Error for WriteError {}

/// Appends an error frame of [`ERROR_BYTES`] to `out`. `id` is [`frame_id`](super::frame_id) of the
/// bytes that it answers.
pub fn write_error(out: &mut Vec<u8>, id: u64, code: ErrorCode) {
    let [low, high] = code.to_u16().to_le_bytes();
    out.extend_from_slice(&header_bytes(Kind::Error, ERROR_BYTES, id));
    out.extend_from_slice(&[low, high, VERSION, VERSION]);
}
