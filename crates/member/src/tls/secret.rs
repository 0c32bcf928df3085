//! The secret of a cluster: 128 bits that key the hashes of buckets, the same on every node.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Label of the PEM block that holds the secret, beside the private key or in a file of its own.
pub const SECRET_LABEL: &str = "RLNODE SECRET";

/// The secret. It is never shown, sent or logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// A secret of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for keying hashes.
    #[must_use]
    pub fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// The secret as a PEM block, ending in a line feed.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let body = STANDARD.encode(self.0);
        format!("-----BEGIN {SECRET_LABEL}-----\n{body}\n-----END {SECRET_LABEL}-----\n")
    }

    /// Finds the block in a PEM file: none when there is none.
    ///
    /// # Errors
    /// The block has no end, or is not 128 bits of base64.
    pub(super) fn find(pem: &str) -> Result<Option<Self>, ()> {
        let (begin, end) =
            (format!("-----BEGIN {SECRET_LABEL}-----"), format!("-----END {SECRET_LABEL}-----"));
        let Some((_, rest)) = pem.split_once(&begin) else { return Ok(None) };
        let (body, _) = rest.split_once(&end).ok_or(())?;
        let digits: String = body.split_ascii_whitespace().collect();
        let bytes = STANDARD.decode(digits).map_err(|_| ())?;
        bytes.try_into().map(|bytes| Some(Self(bytes))).map_err(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_found_again_between_other_blocks() {
        let secret = Secret::from_bytes([7; 16]);
        let file = format!("-----BEGIN X-----\nAAAA\n-----END X-----\n{}tail", secret.to_pem());
        assert_eq!(Secret::find(&file), Ok(Some(secret)));
    }

    #[test]
    fn is_none_where_there_is_no_block() {
        assert_eq!(Secret::find("-----BEGIN PRIVATE KEY-----"), Ok(None));
    }

    #[test]
    fn is_refused_when_cut_short_or_of_another_size() {
        let whole = Secret::from_bytes([7; 16]).to_pem();
        assert_eq!(Secret::find(&whole[..50]), Err(()));
        assert_eq!(Secret::find(&whole.replace("BwcH", "")), Err(()));
        assert_eq!(Secret::find(&whole.replace("BwcH", "B!!H")), Err(()));
    }

    #[test]
    fn is_not_shown() {
        assert_eq!(format!("{:?}", Secret::from_bytes([7; 16])), "Secret(..)");
    }
}
