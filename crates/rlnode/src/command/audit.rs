//! `rlnode audit FILES...`: the worst window that a fleet's records show, against the stated ceiling.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Output;
use super::audit_report::Report;
use super::audit_words::in_words;
use crate::audit::examine::{Options, examine};
use crate::audit::files::EXTENSION;
use crate::exit::Exit;

/// Most files that are read.
const FILES_MAX: usize = 65_536;
/// Most keys that are shown of a limit.
const KEYS_MAX: u64 = 1_000;

/// Merge what nodes recorded and show the worst window of each limit against its ceiling
///
/// Nodes record what they let through if their file has an `[audit]`. Bring the files of all nodes to one
/// place. Exit 0: every limit is within its ceiling; 1: one is above it; 2: nothing can be read.
#[derive(Debug, Args)]
pub struct Audit {
    /// Files of nodes, and folders with such files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only this limit, or this override as LIMIT/OVERRIDE
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// How many keys of each limit are shown, the worst first
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    keys: u64,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Audit {
    /// Reads, and prints what is found.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let report = match self.report() {
            Ok(report) => report,
            Err(error) => {
                output.complain(&error);
                return Exit::Error;
            }
        };
        if self.json {
            match serde_json::to_string_pretty(&report) {
                Ok(text) => output.say(&text),
                Err(error) => {
                    output.complain(&error);
                    return Exit::Error;
                }
            }
        } else {
            output.say(&in_words(&report).trim_end());
        }
        if report.within { Exit::Success } else { Exit::Refused }
    }

    fn report(&self) -> Result<Report, String> {
        let mut paths = Vec::new();
        for path in &self.files {
            collect(path, &mut paths)?;
        }
        let keys = usize::try_from(self.keys).unwrap_or(usize::MAX);
        let options = Options { limit: self.limit.clone(), keys };
        let findings = examine(&paths, &options)?;
        if findings.clusters.is_empty() {
            let mut message = "none of the files can be read".to_owned();
            for (path, damage) in &findings.damages {
                message.push_str(&format!("\n  {} {damage}", path.display()));
            }
            return Err(message);
        }
        Ok(Report::new(&findings))
    }
}

/// Adds `path`, or the audit files in it if it is a folder, by name.
fn collect(path: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let refuse = |error: std::io::Error| format!("`{}` cannot be read: {error}", path.display());
    if !fs::metadata(path).map_err(refuse)?.is_dir() {
        paths.push(path.to_owned());
    } else {
        let before = paths.len();
        for entry in fs::read_dir(path).map_err(refuse)? {
            let found = entry.map_err(refuse)?.path();
            if found.extension().is_some_and(|extension| extension == EXTENSION) {
                paths.push(found);
            }
            if paths.len() > FILES_MAX {
                break;
            }
        }
        if paths.len() == before {
            let folder = path.display();
            return Err(format!(
                "there is no file *.{EXTENSION} in `{folder}`; nodes write them if their file has \
                 [audit]"
            ));
        }
        paths[before..].sort();
    }
    if paths.len() > FILES_MAX {
        return Err(format!("more than {FILES_MAX} files; name fewer"));
    }
    Ok(())
}
