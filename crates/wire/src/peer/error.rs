//! What can be wrong with a peer's frame, or with what shall be written into one.

use std::fmt;

use super::{
    LIMITS_MAX, PEER_FRAME_BYTES_MAX, PEER_HEADER_BYTES, PEER_NAME_BYTES_MAX,
    SNAPSHOT_STANDINGS_MAX,
};

/// Why bytes are not a frame that can be read. The peer is at fault, nothing of the frame was
/// applied, and the connection must be closed: what the peer meant to say is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerFrameError {
    /// Fewer bytes than a header.
    Short,
    /// A type that this version does not know, and that says of itself that it must be understood.
    Type(u8),
    /// Flags; there are none in this version.
    Flags(u8),
    /// The reserved field is not 0.
    Reserved(u16),
    /// A length below that of the header, or not that of the bytes given.
    Length(u32),
    /// A length above what a frame of this type may have.
    TooLarge {
        /// The frame's type.
        frame_type: u8,
        /// Its length.
        length: u32,
    },
    /// The payload of a frame of this type ends too early or too late, or holds a value that its
    /// field cannot have.
    Malformed(u8),
    /// A name, a list or a count in a frame of this type is above its bound.
    Bound(u8),
}

impl PeerFrameError {
    /// The word used in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Type(_) => "type",
            Self::Flags(_) => "flags",
            Self::Reserved(_) => "reserved",
            Self::Length(_) => "length",
            Self::TooLarge { .. } => "too_large",
            Self::Malformed(_) => "malformed",
            Self::Bound(_) => "bound",
        }
    }
}

impl fmt::Display for PeerFrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => {
                write!(f, "fewer bytes than the {PEER_HEADER_BYTES} of a peer frame's header")
            }
            Self::Type(frame_type) => {
                write!(f, "a peer frame of the unknown type `{frame_type:#04x}`; run one version")
            }
            Self::Flags(flags) => write!(f, "peer frame flags `{flags:#04x}` are not known here"),
            Self::Reserved(reserved) => {
                write!(f, "the reserved field of a peer frame is `{reserved:#06x}`, not 0")
            }
            Self::Length(length) => {
                write!(f, "the peer frame's length `{length}` is not that of its bytes")
            }
            Self::TooLarge { frame_type, length } => {
                write!(f, "a peer frame of type `{frame_type:#04x}` has `{length}` bytes, too many")
            }
            Self::Malformed(frame_type) => {
                write!(f, "the payload of a peer frame of type `{frame_type:#04x}` is malformed")
            }
            Self::Bound(frame_type) => {
                write!(
                    f,
                    "a name, list or count in a peer frame of type `{frame_type:#04x}` is too long"
                )
            }
        }
    }
}

impl std::error::Error for PeerFrameError {}

/// Why a frame was not written; the buffer is as it was. The caller is at fault: a node checks what
/// it is configured with before it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerWriteError {
    /// A name is longer than [`PEER_NAME_BYTES_MAX`], or the name of a node is empty.
    Name,
    /// A list has more entries than a frame can carry.
    TooMany,
    /// A number is outside of what its field can have: a life of 0, a range that ends before it
    /// begins, more members than [`limiter::MEMBERS_MAX`].
    Number,
}

impl fmt::Display for PeerWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => write!(f, "a name is empty or longer than {PEER_NAME_BYTES_MAX} bytes"),
            Self::TooMany => write!(
                f,
                "a frame carries at most {} members, {LIMITS_MAX} limits, {SNAPSHOT_STANDINGS_MAX} \
                 standings, and {PEER_FRAME_BYTES_MAX} bytes",
                limiter::MEMBERS_MAX
            ),
            Self::Number => write!(f, "a number is outside of what its field can have"),
        }
    }
}

impl std::error::Error for PeerWriteError {}

/// What is wrong with a payload, whatever its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// See [`PeerFrameError::Malformed`].
    Malformed,
    /// See [`PeerFrameError::Bound`].
    Bound,
}

impl From<PeerWriteError> for Fault {
    fn from(error: PeerWriteError) -> Self {
        match error {
            PeerWriteError::Name | PeerWriteError::TooMany => Self::Bound,
            PeerWriteError::Number => Self::Malformed,
        }
    }
}
