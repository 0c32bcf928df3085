//! Files of other limiters, turned into ours: what they decide, and what of it could not be said.
//!
//! Nothing here reads or writes a file.

mod compile;
mod finding;
mod reference;
#[cfg(test)]
mod tests;
mod write;
mod yaml;

pub use finding::Finding;

use finding::Findings;

/// A file of the rate limit service that Envoy's project keeps.
#[derive(Clone, Copy, Debug)]
pub struct Source<'t> {
    /// Its name, for messages.
    pub name: &'t str,
    /// Its text.
    pub text: &'t str,
}

/// What became of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// A configuration file of a node.
    pub file: String,
    /// Limits in it; without one it is no file that a node takes.
    pub limits: usize,
    /// What it does not say, in the order of the files.
    pub findings: Vec<Finding>,
}

impl Imported {
    /// Whether it decides as the files did.
    pub fn is_whole(&self) -> bool {
        !self.findings.iter().any(|finding| finding.decides)
    }
}

/// Turns the files of Envoy's reference service, one for each domain, into one of a node.
///
/// # Errors
/// A file is not YAML or names no domain, a domain stands in two of them, or it takes more mappings
/// than a file may have.
pub fn envoy(sources: &[Source<'_>]) -> Result<Imported, String> {
    let mut findings = Findings::default();
    let mut domains: Vec<reference::Domain> = Vec::with_capacity(sources.len());
    for source in sources {
        let domain = reference::read(source, &mut findings)?;
        if let Some(other) = domains.iter().find(|other| other.name == domain.name) {
            return Err(format!(
                "{}: the domain `{}` stands in {} too; put its descriptors in one file",
                source.name,
                domain.name.escape_debug(),
                other.file
            ));
        }
        domains.push(domain);
    }
    let compiled = compile::compile(&domains, &mut findings)?;
    let findings = findings.into_sorted(sources);
    let names: Vec<&str> = sources.iter().map(|source| source.name).collect();
    let file = write::write(&compiled, &names, &findings);
    Ok(Imported { file, limits: compiled.limits.len(), findings })
}
