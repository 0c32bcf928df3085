//! An authority and a certificate for each process, made for one run.

use std::error::Error;
use std::path::Path;

use member::tls::{Secret, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

/// The name of a process.
pub(crate) fn name(index: usize) -> String {
    format!("peer-{index}")
}

/// Where [`write`] puts what a process needs.
pub(crate) fn files(folder: &Path, index: usize) -> TlsFiles {
    TlsFiles {
        ca: folder.join("ca.pem"),
        cert: folder.join(format!("{}.pem", name(index))),
        key: folder.join(format!("{}.key", name(index))),
        secret: None,
    }
}

/// Writes the files of `peers` processes.
pub(crate) fn write(folder: &Path, peers: usize) -> Result<(), Box<dyn Error>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?;
    std::fs::write(folder.join("ca.pem"), authority.pem())?;
    let issuer = Issuer::new(params, key);
    let secret = Secret::from_bytes([7; 16]).to_pem();
    for index in 0..peers {
        let mut params = CertificateParams::new(Vec::new())?;
        let uri = format!("rlnode:node:{}", name(index));
        params.subject_alt_names.push(SanType::URI(uri.try_into()?));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let files = files(folder, index);
        std::fs::write(files.cert, params.signed_by(&key, &issuer)?.pem())?;
        std::fs::write(files.key, format!("{}{secret}", key.serialize_pem()))?;
    }
    Ok(())
}
