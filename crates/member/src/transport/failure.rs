//! Why a connection ended or never came about, in the few kinds that differ for an operator.

use std::fmt;

use quinn::{ConnectionError, VarInt};

/// TLS alerts that say something about a certificate (RFC 8446, 6.2).
const CERTIFICATE_ALERTS: [u8; 8] = [42, 43, 44, 45, 46, 48, 51, 116];
/// TLS alerts that say that the two sides speak different protocols.
const PROTOCOL_ALERTS: [u8; 2] = [70, 120];
/// Codes of QUIC's transport errors that carry a TLS alert in their low byte (RFC 9001, 4.8).
const CRYPTO_ERRORS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;

/// Why a connection ended or never came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// One side did not accept the other's certificate.
    Authority(String),
    /// The certificate is good but names no node.
    Nameless,
    /// The two sides speak different protocols.
    Protocol(String),
    /// Nothing was heard for too long.
    Timeout,
    /// The other side closed the connection, with this code and these words.
    Closed(u64, String),
    /// This side closed the connection.
    ByUs,
    /// The other side broke the rules of the frame or of the streams.
    Malformed(&'static str),
    /// More waited to be sent, or to begin, than there may be.
    Full,
    /// Anything else, in the words of the library that met it.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority(text) => write!(f, "certificate refused: {text}"),
            Self::Nameless => f.write_str("the certificate names no node"),
            Self::Protocol(text) => write!(f, "another protocol: {text}"),
            Self::Timeout => f.write_str("nothing was heard for too long"),
            Self::Closed(code, text) => write!(f, "closed by the peer ({code}): {text}"),
            Self::ByUs => f.write_str("closed by this node"),
            Self::Malformed(what) => write!(f, "malformed: {what}"),
            Self::Full => f.write_str("a queue is full"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Self {
        let text = error.to_string();
        match error {
            ConnectionError::TransportError(error) => of_code(error.code.into(), text),
            ConnectionError::ConnectionClosed(close) => of_code(close.error_code.into(), text),
            ConnectionError::ApplicationClosed(close) => {
                let reason = String::from_utf8_lossy(&close.reason).into_owned();
                Self::Closed(VarInt::into_inner(close.error_code), reason)
            }
            ConnectionError::TimedOut => Self::Timeout,
            ConnectionError::LocallyClosed => Self::ByUs,
            ConnectionError::VersionMismatch => Self::Protocol(text),
            ConnectionError::Reset | ConnectionError::CidsExhausted => Self::Other(text),
        }
    }
}

/// What a code of QUIC's own says.
fn of_code(code: u64, text: String) -> Failure {
    let alert = u8::try_from(code & 0xff).ok().filter(|_| CRYPTO_ERRORS.contains(&code));
    match alert {
        Some(alert) if CERTIFICATE_ALERTS.contains(&alert) => Failure::Authority(text),
        Some(alert) if PROTOCOL_ALERTS.contains(&alert) => Failure::Protocol(text),
        _ => Failure::Other(text),
    }
}
