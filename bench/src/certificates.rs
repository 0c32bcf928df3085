//! An authority and a certificate for each member, made for one measurement and gone with its folder.
//! A daemon finds them as `ca.pem`, `{node}.pem` and `{node}.key`.

use std::path::Path;

use member::tls::{Secret, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

use crate::failure::Failure;
use crate::process::Folder;

const CA: &str = "ca.pem";
const SECRET: [u8; 16] = *b"rlbench's secret";

/// Where [`issue`] puts what the member `name` needs.
pub(crate) fn files(folder: &Path, name: &str) -> TlsFiles {
    TlsFiles {
        ca: folder.join(CA),
        cert: folder.join(cert(name)),
        key: folder.join(key(name)),
        secret: None,
    }
}

fn cert(name: &str) -> String {
    format!("{name}.pem")
}

fn key(name: &str) -> String {
    format!("{name}.key")
}

/// Writes the files of the members `names` into `folder`.
///
/// # Errors
/// If one cannot be written.
pub(crate) fn issue(folder: &Folder, names: &[String]) -> Result<(), Failure> {
    let made = make(names).map_err(|error| Failure::because("no certificates", error))?;
    for (file, text) in made {
        folder.write(&file, &text)?;
    }
    Ok(())
}

/// The files by name, and what is in them.
fn make(names: &[String]) -> Result<Vec<(String, String)>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let authority = params.self_signed(&authority_key)?;
    let mut made = vec![(CA.to_owned(), authority.pem())];
    let issuer = Issuer::new(params, authority_key);
    let secret = Secret::from_bytes(SECRET).to_pem();
    for name in names {
        let mut params = CertificateParams::new(Vec::new())?;
        let uri = format!("rlnode:node:{name}");
        params.subject_alt_names.push(SanType::URI(uri.try_into()?));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let pair = KeyPair::generate()?;
        made.push((cert(name), params.signed_by(&pair, &issuer)?.pem()));
        made.push((key(name), format!("{}{secret}", pair.serialize_pem())));
    }
    Ok(made)
}
