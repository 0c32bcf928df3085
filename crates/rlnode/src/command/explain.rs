//! `rlnode explain [LIMIT]`: the limits of a file in words, with live figures if a node answers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::status::{fetch, limit_in_words};
use super::{Output, load_config, words};
use crate::config;
use crate::exit::Exit;

/// Say in words what matches what, and how much it lets through
#[derive(Debug, Args)]
pub struct Explain {
    /// Name of one limit, or of an override as LIMIT/OVERRIDE
    limit: Option<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Name of the node that would read it [default: $RLNODE_NODE, else the host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Node to take live figures from: HOST:PORT of its HTTP, or the path of its socket [default:
    /// $RLNODE_ADDR, else the default sockets]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
}

impl Explain {
    /// Prints the words, and the figures if there are any.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let config = match load_config(&self.config, self.node) {
            Ok(config) => config,
            Err(errors) => {
                output.complain(&errors);
                return Exit::Refused;
            }
        };
        match config::explain(&config, self.limit.as_deref()) {
            Ok(text) => output.say(&text.trim_end()),
            Err(unknown) => {
                output.complain(&unknown);
                return Exit::Refused;
            }
        }
        match fetch(self.addr.as_deref()) {
            Ok(status) => {
                let uptime = Duration::from_millis(status.uptime_ms);
                output.say(&format_args!(
                    "\nnode {}, in {}:",
                    status.node,
                    words::wait(Some(uptime))
                ));
                let wanted = |name: &str| {
                    self.limit
                        .as_deref()
                        .is_none_or(|limit| name == limit || name.split('/').next() == Some(limit))
                };
                for limit in status.limits.iter().filter(|limit| wanted(&limit.name)) {
                    output.say(&format_args!("  {}", limit_in_words(limit)));
                }
            }
            Err(error) if self.addr.is_some() => {
                output.complain(&error);
                return Exit::Error;
            }
            // Nobody asked for a node, and none is there: the words are the answer.
            Err(_) => {}
        }
        Exit::Success
    }
}
