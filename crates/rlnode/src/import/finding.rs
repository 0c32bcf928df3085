//! What of an imported file could not be said in ours.

use std::fmt;

use super::Source;

/// Something that the file says and ours does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// Line in it, from 1.
    pub line: usize,
    /// The descriptor, as names and values from the outermost one; empty: none.
    pub path: String,
    /// What it is, and what became of it.
    pub message: String,
    /// Calls may be decided otherwise for it.
    pub decides: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Where a descriptor stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) path: String,
}

impl Place {
    /// Line `line` of the same descriptor.
    pub(super) fn at(&self, line: usize) -> Self {
        Self { line, ..self.clone() }
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// Something without which calls may be decided otherwise.
    pub(super) fn lose(&mut self, place: &Place, message: impl Into<String>) {
        self.add(place, message.into(), true);
    }

    /// Something that decides nothing.
    pub(super) fn drop(&mut self, place: &Place, message: impl Into<String>) {
        self.add(place, message.into(), false);
    }

    fn add(&mut self, place: &Place, message: String, decides: bool) {
        let Place { file, line, path } = place.clone();
        self.0.push(Finding { file, line, path, message, decides });
    }

    /// All, by file and line.
    pub(super) fn into_sorted(mut self, sources: &[Source<'_>]) -> Vec<Finding> {
        let at = |finding: &Finding| sources.iter().position(|source| source.name == finding.file);
        self.0.sort_by_key(|finding| (at(finding), finding.line));
        self.0
    }
}
