//! Who this node is, and whom it believes: certificates, the private key, the cluster's secret.
//!
//! Every connection between peers is TLS 1.3 with a certificate on both sides, and both are verified
//! against one authority. Host names play no part: a node is who its certificate says, wherever it
//! was reached. There is no 0-RTT and no resumption, so that every connection is verified anew.

mod expiry;
mod files;
mod identity;
mod secret;
mod verifier;

use std::path::PathBuf;
use std::sync::Arc;

use quinn::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

pub use expiry::Expiry;
pub use files::{CredentialsError, Fault};
pub use identity::{Identity, NAME_LEN_MAX};
pub use secret::{SECRET_LABEL, Secret};

/// What peers say they speak inside TLS; one that says nothing of the kind is refused by rustls.
pub const ALPN: &[u8] = b"rlnode/1";

/// The files of a node's credentials, as the configuration names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authority, PEM. More than one while an authority is being replaced.
    pub ca: PathBuf,
    /// This node's certificate, PEM, followed by those that lead to the authority.
    pub cert: PathBuf,
    /// Its private key, PEM, with the cluster's secret as a second block.
    pub key: PathBuf,
    /// A file with the block of the cluster's secret, for keys that come without it.
    pub secret: Option<PathBuf>,
}

/// Everything that proves who this node is and tells who others are.
pub struct Credentials {
    identity: Identity,
    secret: Secret,
    expiry: Expiry,
    warnings: Vec<String>,
    client: Arc<QuicClientConfig>,
    server: Arc<QuicServerConfig>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the files and checks that they belong together.
    ///
    /// # Errors
    /// The first file that cannot be used: which, why, and what to do about it.
    pub fn load(files: &TlsFiles) -> Result<Self, CredentialsError> {
        let read = files::read(files)?;
        let (identity, expiry) = files::describe(&files.cert, &read.chain)?;
        let (client, server) = configs(&read.roots, &read.chain, &read.key)
            .map_err(|error| CredentialsError::new(&files.cert, Fault::Unusable(error)))?;
        let secret = read.secret;
        Ok(Self { identity, secret, expiry, warnings: read.warnings, client, server })
    }

    /// Who the certificate says this node is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The secret that the whole cluster shares.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// When the first certificate of the chain stops being valid.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// What an operator should know although it works, in whole sentences.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn client(&self) -> Arc<QuicClientConfig> {
        Arc::clone(&self.client)
    }

    pub(crate) fn server(&self) -> Arc<QuicServerConfig> {
        Arc::clone(&self.server)
    }
}

/// The two sides of TLS as every node of a cluster has them.
fn configs(
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<(Arc<QuicClientConfig>, Arc<QuicServerConfig>), String> {
    // The provider is named here: an embedding program may have installed another as its default.
    let provider = Arc::new(ring::default_provider());
    let client = client_config(&provider, roots, chain, key).map_err(|e| e.to_string())?;
    let server = server_config(&provider, roots, chain, key).map_err(|e| e.to_string())?;
    let text = |error: NoInitialCipherSuite| error.to_string();
    let client = QuicClientConfig::try_from(client).map_err(text)?;
    let server = QuicServerConfig::try_from(server).map_err(text)?;
    Ok((Arc::new(client), Arc::new(server)))
}

fn client_config(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<ClientConfig, rustls::Error> {
    let verifier = verifier::ServerVerifier::new(provider, roots);
    let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(chain.to_vec(), key.clone_key())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    Ok(config)
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let (own_roots, own_provider) = (Arc::clone(roots), Arc::clone(provider));
    let verifier = WebPkiClientVerifier::builder_with_provider(own_roots, own_provider)
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.to_vec(), key.clone_key())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}
