//! The doors by which questions come in, and what is counted at each.
//!
//! The labels of the metrics are listed here, so that there are never more than these.

/// A way to ask the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// One frame per datagram.
    Udp,
    /// Frames one after the other on a unix stream socket.
    Stream,
    /// One frame per message on a unix seqpacket socket.
    Seqpacket,
    /// HTTP/1.1 on TCP and on a unix socket.
    Http,
    /// The Redis protocol on TCP and on a unix socket.
    Redis,
    /// Envoy's rate limit service on TCP and on a unix socket.
    Envoy,
}

impl Door {
    /// Every door; the index of a door is its number.
    pub const ALL: [Self; 6] =
        [Self::Udp, Self::Stream, Self::Seqpacket, Self::Http, Self::Redis, Self::Envoy];

    /// The word used in logs, metrics and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Stream => "stream",
            Self::Seqpacket => "seqpacket",
            Self::Http => "http",
            Self::Redis => "redis",
            Self::Envoy => "envoy",
        }
    }
}

/// Where a door is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorAddress {
    /// The door.
    pub door: Door,
    /// Address or path.
    pub address: String,
}

/// How one check ended. Every check that a door hands on has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A check that may go on.
    Allowed,
    /// A check that may not.
    Denied,
    /// A peek, whichever way it went.
    Peek,
    /// A debit.
    Debit,
    /// A refund.
    Refund,
    /// A check that could not be decided, such as one with an empty key.
    Error,
}

impl Outcome {
    /// Every outcome; the index of an outcome is its number.
    pub const ALL: [Self; 6] =
        [Self::Allowed, Self::Denied, Self::Peek, Self::Debit, Self::Refund, Self::Error];

    /// The word used in metrics and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Peek => "peek",
            Self::Debit => "debit",
            Self::Refund => "refund",
            Self::Error => "error",
        }
    }
}

/// What went wrong at a door. None of these charges anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Bytes that are not a frame or not a question.
    Malformed,
    /// A frame of another version.
    Version,
    /// A frame with flags that this version does not know.
    UnknownFlags,
    /// A frame or body longer than allowed.
    TooLarge,
    /// More checks in one frame or body than allowed.
    TooManyChecks,
    /// A datagram from outside that is shorter than its reply could be.
    TooShortForReply,
    /// A refund at a door that anybody may knock at.
    Forbidden,
    /// One check of a well-formed question that cannot be decided.
    BadCheck,
    /// A check that came before the node knew the counts of its cluster.
    Starting,
    /// A held check whose caller went away before it was decided.
    Gone,
    /// A check that was denied for its node's share and not held, because as many frames of the
    /// socket waited as may.
    HoldLimit,
    /// The operating system failed a receive; the door goes on.
    Receive,
    /// The operating system failed a send, or the answer found no room; the answer is lost.
    Send,
    /// A connection could not be accepted, usually for want of file descriptors.
    Accept,
    /// A connection was closed because the door has as many as it takes.
    ConnectionLimit,
    /// A connection was closed because it was silent, or slow to finish a question.
    Timeout,
}

impl Fault {
    /// Every fault; the index of a fault is its number.
    pub const ALL: [Self; 16] = [
        Self::Malformed,
        Self::Version,
        Self::UnknownFlags,
        Self::TooLarge,
        Self::TooManyChecks,
        Self::TooShortForReply,
        Self::Forbidden,
        Self::BadCheck,
        Self::Starting,
        Self::Gone,
        Self::HoldLimit,
        Self::Receive,
        Self::Send,
        Self::Accept,
        Self::ConnectionLimit,
        Self::Timeout,
    ];

    /// The word used in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::UnknownFlags => "unknown_flags",
            Self::TooLarge => "too_large",
            Self::TooManyChecks => "too_many_checks",
            Self::TooShortForReply => "too_short_for_reply",
            Self::Forbidden => "forbidden",
            Self::BadCheck => "bad_check",
            Self::Starting => "starting",
            Self::Gone => "gone",
            Self::HoldLimit => "hold_limit",
            Self::Receive => "receive",
            Self::Send => "send",
            Self::Accept => "accept",
            Self::ConnectionLimit => "connection_limit",
            Self::Timeout => "timeout",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_each_word_is_its_number() {
        assert!(Door::ALL.iter().enumerate().all(|(i, door)| *door as usize == i));
        assert!(Outcome::ALL.iter().enumerate().all(|(i, outcome)| *outcome as usize == i));
        assert!(Fault::ALL.iter().enumerate().all(|(i, fault)| *fault as usize == i));
    }
}
