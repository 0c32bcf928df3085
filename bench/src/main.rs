//! `rlbench`: load against a real node, and against the limiter's table. It measures and decides
//! nothing; what it finds is printed with the way it was found.
#![expect(clippy::float_arithmetic, reason = "figures for people; none decides a request")]

mod abuse;
mod added;
mod certificates;
mod cli;
mod clock;
mod driver;
mod failure;
mod flood;
mod growth;
mod hold;
mod http;
mod keys;
mod load;
mod memory;
mod overshoot;

mod picture;
mod pin;
mod process;
mod procfs;
mod report;
mod server;
mod sync;
mod window;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use failure::Failure;

/// The node's own, so that `growth` measures the limiter as it is there.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What a command came to: text for standard output, and whether every claim in it holds.
struct Outcome {
    text: String,
    holds: bool,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(Outcome { text, holds }) => {
            // A reader that closed the pipe has what it wanted.
            let _ = writeln!(io::stdout().lock(), "{}", text.trim_end());
            if holds { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(failure) => {
            let _ = writeln!(io::stderr().lock(), "rlbench: {failure}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Load(options) => {
            let is_json = options.json;
            let report = load::run(&options)?;
            let text = if is_json { report.to_json()? } else { report.to_string() };
            Ok(Outcome { text, holds: true })
        }
        Command::Growth(options) => {
            let growth = growth::run(&options)?;
            let text = if options.json { growth.to_json()? } else { growth.to_string() };
            Ok(Outcome { text, holds: growth.holds() })
        }
        Command::Memory(options) => {
            let memory = memory::run(&options)?;
            let text = if options.json { memory.to_json()? } else { memory.to_string() };
            Ok(Outcome { text, holds: memory.holds() })
        }
        Command::MemoryOf(options) => Ok(Outcome { text: memory::run_of(&options)?, holds: true }),
        Command::Flood(options) => {
            let flood = flood::run(&options)?;
            let text = if options.json { flood.to_json()? } else { flood.to_string() };
            Ok(Outcome { text, holds: flood.holds() })
        }
        Command::Hold(options) => {
            let hold = hold::run(&options)?;
            let text = if options.json { hold.to_json()? } else { hold.to_string() };
            Ok(Outcome { text, holds: hold.holds() })
        }
        Command::Overshoot(options) => {
            let overshoot = overshoot::run(&options)?;
            let text = if options.json { overshoot.to_json()? } else { overshoot.to_string() };
            Ok(Outcome { text, holds: overshoot.counts() })
        }
        Command::Sync(options) => {
            let sync = sync::run(&options)?;
            let text = if options.json { sync.to_json()? } else { sync.to_string() };
            Ok(Outcome { text, holds: sync.holds() })
        }
        Command::Added(options) => {
            let added = added::run(&options)?;
            let text = if options.json { added.to_json()? } else { added.to_string() };
            Ok(Outcome { text, holds: added.holds() })
        }
        Command::Abuse(options) => {
            let abuse = abuse::run(&options)?;
            let text = if options.json { abuse.to_json()? } else { abuse.to_string() };
            Ok(Outcome { text, holds: abuse.holds() })
        }
        Command::SyncPeers(options) => {
            sync::run_peers(&options.folder)?;
            Ok(Outcome { text: String::new(), holds: true })
        }
    }
}
