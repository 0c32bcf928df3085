//! `rlnode validate FILE`: what the node would say to a file, without running it.

use std::path::PathBuf;

use clap::Args;

use super::{Output, load_config};
use crate::exit::Exit;

/// Check a configuration file; exit 0 if the node would take it, else 1
#[derive(Debug, Args)]
pub struct Validate {
    /// Configuration file
    file: PathBuf,
    /// Name of the node that would read it [default: $RLNODE_NODE, else the host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

impl Validate {
    /// Reads the file and says what is wrong, or that nothing is.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        match load_config(&self.file, self.node) {
            Ok(config) => {
                for warning in &config.warnings {
                    output.complain(&format_args!("warning: {warning}"));
                }
                let cluster = config
                    .cluster
                    .as_ref()
                    .map_or_else(String::new, |cluster| format!(" of cluster `{}`", cluster.name));
                output.say(&format_args!(
                    "{}: valid for node `{}`{cluster}, {} limits and overrides{}",
                    self.file.display(),
                    config.node,
                    config.plan.rules().iter().filter(|rule| !rule.is_carried()).count(),
                    lists_in_words(&config.lists)
                ));
                Exit::Success
            }
            Err(errors) => {
                output.complain(&errors);
                Exit::Refused
            }
        }
    }
}

/// How many the lists name; empty where there is none.
fn lists_in_words(lists: &limiter::Lists) -> String {
    match (lists.allow.len(), lists.ban.len()) {
        (0, 0) => String::new(),
        (allow, ban) => format!(", {allow} always allowed and {ban} banned"),
    }
}
