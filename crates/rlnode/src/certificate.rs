//! Certificates: an authority, and what it signs for the nodes of its cluster.
//!
//! It makes and reads the text of the files and touches no file itself. The time and the secret are
//! handed in; private keys are random by their nature.

use std::fmt;
use std::ops::Range;

use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use time::{Duration, OffsetDateTime};

/// Days for which an authority is valid: longer than anybody wants to change it on every host.
pub const AUTHORITY_DAYS: u32 = 3_650;
/// Days for which a node's certificate is valid unless somebody says otherwise.
pub const DEFAULT_NODE_DAYS: u32 = 365;
/// Bytes of a cluster's secret.
pub const SECRET_BYTES: usize = 16;
/// The name that stands for any node: who has such a certificate names itself.
pub const ANY_NODE: &str = "*";

const CERTIFICATE_TAG: &str = "CERTIFICATE";
const PRIVATE_KEY_TAG: &str = "PRIVATE KEY";
/// The block of PEM that carries the secret, beside a private key.
const SECRET_TAG: &str = "RLNODE SECRET";
/// Subject of every authority, which is the issuer in what it signs.
const AUTHORITY_NAME: &str = "rlnode authority";
/// How a certificate says that it is an authority's, for nodes and not for further authorities: the
/// extension "basic constraints" in DER. A node's certificate says otherwise.
const IS_AUTHORITY: [u8; 18] = [
    0x06, 0x03, 0x55, 0x1d, 0x13, 0x01, 0x01, 0xff, 0x04, 0x08, 0x30, 0x06, 0x01, 0x01, 0xff, 0x02,
    0x01, 0x00,
];
/// How a node's name stands in its certificate, as a URI.
const NAME_URI_PREFIX: &str = "rlnode:node:";
/// Certificates begin to be valid this much before they are made, for hosts whose clocks are late.
const EARLIER: Duration = Duration::hours(1);
/// Longest label of a name in the domain name system, in bytes.
const DNS_LABEL_BYTES_MAX: usize = 63;

/// The text of two files that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, for anybody to see.
    pub certificate: String,
    /// The private key and the secret, for one owner alone.
    pub key: String,
}

/// Why there is no certificate. Each is about what was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// The authority's certificate cannot be read.
    Certificate,
    /// The authority's key cannot be read.
    Key,
    /// The authority's key file has no secret, or one that is not of [`SECRET_BYTES`].
    Secret,
    /// Certificate and key of the authority do not belong together.
    Pair,
    /// The time or the days are beyond what a certificate can say.
    Time,
    /// It could not be made or signed.
    Signing(String),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate => f.write_str("there is no certificate of `rlnode cert init` in it"),
            Self::Key => f.write_str("there is no private key in it that can sign"),
            Self::Secret => write!(
                f,
                "there is no block `{SECRET_TAG}` of {SECRET_BYTES} bytes in it; the file of \
                 `rlnode cert init` has one"
            ),
            Self::Pair => f.write_str("it is not the key of that certificate"),
            Self::Time => f.write_str("the certificate would end after the year 9999"),
            Self::Signing(why) => write!(f, "the certificate cannot be made: {why}"),
        }
    }
}

impl std::error::Error for CertificateError {}

/// A new authority that is valid from about `unix_s`, Unix time in seconds, for [`AUTHORITY_DAYS`],
/// with the cluster's secret beside its key.
///
/// # Errors
/// [`CertificateError::Time`] and [`CertificateError::Signing`].
pub fn new_authority(unix_s: i64, secret: [u8; SECRET_BYTES]) -> Result<Files, CertificateError> {
    let key = KeyPair::generate().map_err(signing)?;
    let params = authority(validity(unix_s, AUTHORITY_DAYS)?);
    let certificate = params.self_signed(&key).map_err(signing)?;
    Ok(Files { certificate: certificate.pem(), key: key_file(&key, &secret) })
}

/// An authority that signs for nodes.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads the text of an authority's two files.
    ///
    /// # Errors
    /// Everything but [`CertificateError::Time`] and [`CertificateError::Signing`].
    pub fn read(certificate: &str, key: &str) -> Result<Self, CertificateError> {
        let certificate =
            block(certificate, CERTIFICATE_TAG).ok_or(CertificateError::Certificate)?;
        let pair = block(key, PRIVATE_KEY_TAG)
            .and_then(|block| KeyPair::try_from(block.contents()).ok())
            .ok_or(CertificateError::Key)?;
        let secret = block(key, SECRET_TAG)
            .and_then(|block| block.contents().try_into().ok())
            .ok_or(CertificateError::Secret)?;
        // A certificate carries all of these as they are. So a dozen crates that read certificates
        // are not needed for the one kind that `new_authority` makes.
        let holds =
            |bytes: &[u8]| certificate.contents().windows(bytes.len()).any(|at| at == bytes);
        if !holds(&IS_AUTHORITY) || !holds(AUTHORITY_NAME.as_bytes()) {
            return Err(CertificateError::Certificate);
        }
        if !holds(&pair.subject_public_key_info()) {
            return Err(CertificateError::Pair);
        }
        // The dates of an issuer do not get into what it signs.
        let params = authority(OffsetDateTime::UNIX_EPOCH..OffsetDateTime::UNIX_EPOCH);
        Ok(Self { issuer: Issuer::new(params, pair), secret })
    }

    /// Files for the node `name`, or for any node that [`ANY_NODE`] stands for, valid from about
    /// `unix_s`, Unix time in seconds, for `days`. The secret stands beside the key.
    ///
    /// # Errors
    /// [`CertificateError::Time`] and [`CertificateError::Signing`].
    pub fn issue(&self, name: &str, unix_s: i64, days: u32) -> Result<Files, CertificateError> {
        let ia5 = |text: &str| Ia5String::try_from(text).map_err(signing);
        let mut params = named(name, validity(unix_s, days)?);
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Every node both calls its peers and is called by them.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![SanType::URI(ia5(&format!("{NAME_URI_PREFIX}{name}"))?)];
        if is_dns_name(name) {
            params.subject_alt_names.push(SanType::DnsName(ia5(name)?));
        }
        let key = KeyPair::generate().map_err(signing)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(signing)?;
        Ok(Files { certificate: certificate.pem(), key: key_file(&key, &self.secret) })
    }
}

fn authority(validity: Range<OffsetDateTime>) -> CertificateParams {
    let mut params = named(AUTHORITY_NAME, validity);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str, validity: Range<OffsetDateTime>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = validity.start;
    params.not_after = validity.end;
    params
}

fn validity(unix_s: i64, days: u32) -> Result<Range<OffsetDateTime>, CertificateError> {
    let now = OffsetDateTime::from_unix_timestamp(unix_s).map_err(|_| CertificateError::Time)?;
    let start = now.checked_sub(EARLIER).ok_or(CertificateError::Time)?;
    let end = now.checked_add(Duration::days(days.into())).ok_or(CertificateError::Time)?;
    Ok(start..end)
}

fn signing(error: rcgen::Error) -> CertificateError {
    CertificateError::Signing(error.to_string())
}

/// The text of a file with a private key and the secret.
fn key_file(key: &KeyPair, secret: &[u8; SECRET_BYTES]) -> String {
    let blocks =
        [Pem::new(PRIVATE_KEY_TAG, key.serialized_der()), Pem::new(SECRET_TAG, secret.as_slice())];
    pem::encode_many_config(&blocks, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

/// The first block of `text` under `tag`.
fn block(text: &str, tag: &str) -> Option<Pem> {
    pem::parse_many(text).ok()?.into_iter().find(|block| block.tag() == tag)
}

/// Whether a host could be called `name`: then a certificate of the usual kind can say it too.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_known = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (1..=DNS_LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(is_known)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name that ends in a number is an address, or would be taken for one.
    let is_number = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    name.split('.').all(is_label) && !name.rsplit('.').next().is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_796_000_000;
    const SECRET: [u8; SECRET_BYTES] = *b"sixteen bytes!!!";

    fn new() -> (Files, Authority) {
        let files = new_authority(NOW_S, SECRET).expect("an authority");
        let authority = Authority::read(&files.certificate, &files.key).expect("its own files");
        (files, authority)
    }

    fn holds(files: &Files, text: &[u8]) -> bool {
        let der = block(&files.certificate, CERTIFICATE_TAG).expect("a certificate");
        der.contents().windows(text.len()).any(|part| part == text)
    }

    #[test]
    fn a_node_has_its_name_twice_and_the_secret_beside_its_key() {
        let (_, authority) = new();
        let files = authority.issue("edge-1", NOW_S, DEFAULT_NODE_DAYS).expect("a certificate");
        assert!(holds(&files, b"\x86\x12rlnode:node:edge-1"), "no URI");
        assert!(holds(&files, b"\x82\x06edge-1"), "no DNS name");
        let secret = block(&files.key, SECRET_TAG).expect("a secret");
        assert_eq!(secret.contents(), SECRET);
        assert!(files.key.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{}", files.key);
        assert!(files.key.contains("-----BEGIN RLNODE SECRET-----\n"), "{}", files.key);
    }

    #[test]
    fn a_name_that_no_host_can_have_is_a_uri_alone() {
        let (_, authority) = new();
        for name in [ANY_NODE, "edge_1", "10.0.0.7", "a-"] {
            let files = authority.issue(name, NOW_S, 1).expect("a certificate");
            assert!(holds(&files, format!("{NAME_URI_PREFIX}{name}").as_bytes()), "{name}");
            let dns_name = [&[0x82, u8::try_from(name.len()).expect("short")], name.as_bytes()];
            assert!(!holds(&files, &dns_name.concat()), "{name}");
        }
        for name in ["a", "edge-1.example.com", "7a", "x--y"] {
            assert!(is_dns_name(name), "{name}");
        }
    }

    #[test]
    fn validity_begins_an_hour_early_and_lasts_for_the_days() {
        let validity = validity(NOW_S, 2).expect("a time");
        assert_eq!(validity.start.unix_timestamp(), NOW_S - 3_600);
        assert_eq!(validity.end.unix_timestamp(), NOW_S + 2 * 86_400);
        let (_, authority) = new();
        assert_eq!(authority.issue("a", NOW_S, u32::MAX), Err(CertificateError::Time));
        assert_eq!(authority.issue("a", i64::MAX, 1), Err(CertificateError::Time));
    }

    #[test]
    fn files_that_are_no_authority_are_refused_with_what_is_missing() {
        let (files, authority) = new();
        let other = new_authority(NOW_S, SECRET).expect("another");
        let node = authority.issue("a", NOW_S, 1).expect("a certificate");
        let key_alone = files.key.split("-----BEGIN RLNODE").next().expect("a key").to_owned();
        let short = files.key.replace("c2l4dGVlbiBieXRlcyEhIQ==", "c2l4dGVlbg==");
        assert_ne!(short, files.key);
        let cases = [
            ("", files.key.as_str(), CertificateError::Certificate),
            ("nothing", &files.key, CertificateError::Certificate),
            (&files.certificate, "", CertificateError::Key),
            (&files.certificate, &files.certificate, CertificateError::Key),
            (&files.certificate, &key_alone, CertificateError::Secret),
            (&files.certificate, &short, CertificateError::Secret),
            (&files.certificate, &other.key, CertificateError::Pair),
            (&node.certificate, &node.key, CertificateError::Certificate),
        ];
        for (certificate, key, want) in cases {
            assert_eq!(Authority::read(certificate, key).map(drop), Err(want));
        }
    }
}
