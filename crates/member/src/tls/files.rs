//! Reading the files of a node's credentials, and saying what is wrong with them.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsFiles;
use super::expiry::Expiry;
use super::identity::Identity;
use super::secret::{SECRET_LABEL, Secret};

/// Largest file that is read: a chain of certificates is a few kilobytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Permission bits that let others than owner and group read or write.
const OTHERS: u32 = 0o007;

/// A file that cannot be used: which, why, and what to do.
#[derive(Debug)]
pub struct CredentialsError {
    file: PathBuf,
    fault: Fault,
}

impl CredentialsError {
    pub(super) fn new(file: &Path, fault: Fault) -> Self {
        Self { file: file.to_owned(), fault }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What is wrong with it.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.file.display(), self.fault)
    }
}

impl std::error::Error for CredentialsError {}

/// What is wrong with a file of credentials.
#[derive(Debug)]
pub enum Fault {
    /// It cannot be read.
    Read(io::Error),
    /// It is larger than any file of certificates.
    TooLarge,
    /// It is not text.
    NotText,
    /// It holds no certificate, or one that is damaged.
    NoCertificate,
    /// It holds no private key, or one that is damaged.
    NoKey,
    /// It holds no secret.
    NoSecret,
    /// The block of the secret is damaged.
    BadSecret,
    /// The certificate names no node.
    NoName,
    /// The certificate is not X.509 as it is meant for the internet.
    NotX509,
    /// TLS cannot be made of certificate and key, for this reason.
    Unusable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(
                f,
                "cannot be read ({error}); make it with `rlnode cert init` and `rlnode cert issue`, \
                 or correct `tls` in `[cluster]`"
            ),
            Self::TooLarge => f.write_str("is larger than 1 MiB; name a PEM file"),
            Self::NotText => f.write_str("is not text; convert it to PEM"),
            Self::NoCertificate => {
                f.write_str("holds no whole block `CERTIFICATE`; name a PEM file with one")
            }
            Self::NoKey => {
                f.write_str("holds no whole block `PRIVATE KEY`; name the PEM file with the key")
            }
            Self::NoSecret => write!(
                f,
                "holds no block `{SECRET_LABEL}`; issue the key with `rlnode cert issue`, or name a \
                 file with the block as `secret` in `[cluster]`, the same on every node"
            ),
            Self::BadSecret => {
                write!(f, "has a damaged block `{SECRET_LABEL}`; copy it again from another node")
            }
            Self::NoName => f.write_str(
                "names no node; give it the URI `rlnode:node:NAME` or a DNS name as subject \
                 alternative name",
            ),
            Self::NotX509 => f.write_str("holds a certificate that cannot be read; issue it anew"),
            Self::Unusable(reason) => {
                write!(f, "cannot be used ({reason}); issue certificate and key anew, together")
            }
        }
    }
}

/// What the files hold.
pub(super) struct Read {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) secret: Secret,
    pub(super) warnings: Vec<String>,
}

/// Reads all files.
pub(super) fn read(files: &TlsFiles) -> Result<Read, CredentialsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.ca)? {
        roots.add(authority).map_err(|_| CredentialsError::new(&files.ca, Fault::NotX509))?;
    }
    let chain = certificates(&files.cert)?;
    let text = read_text(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|_| CredentialsError::new(&files.key, Fault::NoKey))?;
    let mut warnings = Vec::new();
    warnings.extend(warning_of(&files.key));
    let secret = match &files.secret {
        Some(file) => {
            warnings.extend(warning_of(file));
            secret(file, &read_text(file)?)?
        }
        None => secret(&files.key, &text)?,
    };
    Ok(Read { roots: Arc::new(roots), chain, key, secret, warnings })
}

/// Who a chain of certificates is, and until when all of it is valid.
pub(super) fn describe(
    file: &Path,
    chain: &[CertificateDer<'_>],
) -> Result<(Identity, Expiry), CredentialsError> {
    let fault = |fault| CredentialsError::new(file, fault);
    let own = chain.first().ok_or_else(|| fault(Fault::NoCertificate))?;
    let expiries: Option<Vec<_>> = chain.iter().map(Expiry::of).collect();
    let expiry = expiries.and_then(|all| all.into_iter().min());
    let expiry = expiry.ok_or_else(|| fault(Fault::NotX509))?;
    let identity = Identity::of(own).ok_or_else(|| fault(Fault::NoName))?;
    Ok((identity, expiry))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let text = read_text(file)?;
    let fault = || CredentialsError::new(file, Fault::NoCertificate);
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let certificates = certificates.map_err(|_| fault())?;
    if certificates.is_empty() { Err(fault()) } else { Ok(certificates) }
}

fn secret(file: &Path, text: &str) -> Result<Secret, CredentialsError> {
    let found = Secret::find(text).map_err(|()| CredentialsError::new(file, Fault::BadSecret))?;
    found.ok_or_else(|| CredentialsError::new(file, Fault::NoSecret))
}

fn read_text(file: &Path) -> Result<String, CredentialsError> {
    let fault = |fault| CredentialsError::new(file, fault);
    let size = std::fs::metadata(file).map_err(|error| fault(Fault::Read(error)))?.len();
    if size > FILE_LEN_MAX {
        return Err(fault(Fault::TooLarge));
    }
    let bytes = std::fs::read(file).map_err(|error| fault(Fault::Read(error)))?;
    String::from_utf8(bytes).map_err(|_| fault(Fault::NotText))
}

/// A secret file that everybody may read works, and should not stay so.
fn warning_of(file: &Path) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.mode();
    let shown = file.display();
    (mode & OTHERS != 0).then(|| {
        format!("`{shown}` is open to every user of this machine; run `chmod 600 {shown}`")
    })
}
