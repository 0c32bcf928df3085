//! The commands: each a file of one shape, `run(self, output) -> Exit`, listed in `cli`.
//!
//! They alone write to standard output.

pub mod audit;
mod audit_report;
mod audit_words;
pub mod cert;
pub mod check;
mod cluster_words;
pub mod compare;
pub mod completions;
pub mod demo;
mod exchange;
pub mod explain;
pub mod import;
pub mod key;
pub mod man;
pub mod node;
pub mod reload;
pub mod run;
pub mod status;
pub mod validate;
pub mod why;
mod why_words;
pub(crate) mod words;

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use crate::config::{self, Config};
use crate::environment;
use crate::exit::Exit;

/// Where a command writes.
pub struct Output<'w> {
    /// What was asked for.
    pub out: &'w mut dyn Write,
    /// What went wrong.
    pub err: &'w mut dyn Write,
}

impl Output<'_> {
    /// Writes a line of what was asked for. A reader that is gone wants no more: that is no error.
    pub fn say(&mut self, line: &dyn Display) {
        let _ = writeln!(self.out, "{line}");
    }

    /// Writes a document of what was asked for, as it is.
    pub fn print(&mut self, document: &[u8]) {
        let _ = self.out.write_all(document);
    }

    /// Writes the text that a question was answered with, or why it was not.
    fn tell(&mut self, told: Result<String, String>) -> Exit {
        match told {
            Ok(text) => {
                self.say(&text.trim_end());
                Exit::Success
            }
            Err(error) => {
                self.complain(&error);
                Exit::Error
            }
        }
    }

    /// Writes what went wrong, after the program's name.
    pub fn complain(&mut self, error: &dyn Display) {
        let _ = writeln!(self.err, "rlnode: {error}");
    }
}

/// Reads the file at `path` as the node `node`, by default the one that the environment or the host
/// names.
///
/// # Errors
/// What is wrong with the file, or that the host has no name.
fn load_config(path: &Path, node: Option<String>) -> Result<Config, String> {
    config::load(path, &host(node)?).map_err(|errors| errors.to_string())
}

/// Who reads a file as the node `node`, by default the one that the environment or the host names.
///
/// # Errors
/// The host has no name.
fn host(node: Option<String>) -> Result<config::Node, String> {
    let name = node
        .or_else(|| environment::text(environment::NODE))
        .or_else(environment::host_name)
        .ok_or_else(|| {
            format!("this host has no name; give --node NAME or {}", environment::NODE)
        })?;
    Ok(config::Node { name, environment: environment::of_process() })
}
