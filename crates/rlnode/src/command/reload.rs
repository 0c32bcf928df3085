//! `rlnode reload`: tells a running node to read its file again.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::Output;
use super::exchange::{Operator, Target, send_as};
use crate::environment;
use crate::exit::Exit;

/// Tell a running node to read its file again and to put it in force; a file with a fault changes nothing
#[derive(Debug, Args)]
pub struct Reload {
    /// Node to tell: the path of its socket, or HOST:PORT of its HTTP [default: $RLNODE_ADDR, else the
    /// default sockets]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
    /// File with the token of the node's `[admin]`; not needed at its socket for its own user
    #[arg(long, value_name = "FILE", env = "RLNODE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl Reload {
    /// Tells the node and prints what it says.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        match self.tell() {
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

    fn tell(self) -> Result<String, String> {
        let target = Target::choose(self.addr.as_deref(), &environment::of_process())?;
        let operator = Operator::new(target, self.token_file.as_deref())?;
        let answer: Value = send_as(&operator, "/v1/reload", &Value::Null)?;
        let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
        let mut line = format!(
            "in force: {} limits and overrides kept, {} changed, {} added, {} removed",
            number("kept"),
            number("changed"),
            number("added"),
            number("removed")
        );
        let names = |field: &str| {
            let names = answer.get(field).and_then(Value::as_array);
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            names.collect::<Vec<_>>().join(", ")
        };
        let (changed, waiting) = (names("also_changed"), names("needs_restart"));
        if !changed.is_empty() {
            line.push_str(&format!("; also changed: {changed}"));
        }
        if !waiting.is_empty() {
            line.push_str(&format!("; until a restart as before: {waiting}"));
        }
        Ok(line)
    }
}
