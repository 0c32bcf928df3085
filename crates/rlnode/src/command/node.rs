//! `rlnode node forget NAME`: tells a running node that a member will not come back.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Output;
use super::exchange::{Operator, Target, send_as};
use crate::config::is_node_name;
use crate::environment;
use crate::exit::Exit;

/// Tell a running node something about its cluster
#[derive(Debug, Args)]
pub struct Node {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    Forget(Forget),
}

/// Say that a member will not come back, so that the others take its part over at once
#[derive(Debug, Args)]
struct Forget {
    /// Name of the member
    name: String,
    /// Node to tell: the path of its socket, or HOST:PORT of its HTTP [default: $RLNODE_ADDR, else the
    /// default sockets]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
    /// File with the token of the node's `[admin]`; not needed at its socket for its own user
    #[arg(long, value_name = "FILE", env = "RLNODE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl Node {
    /// Tells the node and prints what it says.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let NodeCommand::Forget(forget) = self.command;
        match forget.run() {
            Ok(line) => {
                output.say(&line);
                Exit::Success
            }
            Err(error) => {
                output.complain(&error);
                Exit::Refused
            }
        }
    }
}

impl Forget {
    fn run(self) -> Result<String, String> {
        let Self { name, addr, token_file } = self;
        // A name that no node can have would be cut at its slashes on the way.
        if !is_node_name(&name) {
            return Err(format!("`{}` is no name for a node", name.escape_debug()));
        }
        let target = Target::choose(addr.as_deref(), &environment::of_process())?;
        let operator = Operator::new(target, token_file.as_deref())?;
        let path = format!("/v1/nodes/{name}/forget");
        let answer: serde_json::Value = send_as(&operator, &path, &serde_json::Value::Null)?;
        let members = answer.get("members").and_then(serde_json::Value::as_u64).unwrap_or(0);
        Ok(format!("forgot `{name}`: {members} members"))
    }
}
