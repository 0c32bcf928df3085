//! What a certificate proves about its holder: one name, or membership of the fleet.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Longest name of a node, in bytes: what fits a label of DNS, with room for a short domain.
pub const NAME_LEN_MAX: usize = 128;

/// Begins the URI that names a node in a certificate.
const URI_PREFIX: &str = "rlnode:node:";

/// Stands in the place of a name where the holder may choose its own.
const FLEET: &str = "*";

/// What a verified certificate proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The holder is this node and no other.
    Named(String),
    /// The holder belongs to the cluster and names itself.
    Fleet,
}

impl Identity {
    /// Reads the names of a certificate: the URI `rlnode:node:NAME`, else the first DNS
    /// name. None when it has neither, or a name that no node may have.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        let named = certificate.valid_uri_names().find_map(|uri| uri.strip_prefix(URI_PREFIX));
        if let Some(name) = named {
            return match name {
                FLEET => Some(Self::Fleet),
                name => is_name(name).then(|| Self::Named(name.to_owned())),
            };
        }
        let host = certificate.valid_dns_names().find(|name| is_name(name));
        host.map(|name| Self::Named(name.to_owned()))
    }

    /// The holder may call itself `name`.
    #[must_use]
    pub fn permits(&self, name: &str) -> bool {
        match self {
            Self::Named(own) => own == name,
            Self::Fleet => true,
        }
    }
}

/// A name that can be shown and compared: not empty, bounded, and no wildcard of DNS.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_LEN_MAX
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*')
}
