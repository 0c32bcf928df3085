//! A node of the published crate `rateguard` that answers rlnode's local frame over UDP, so that one
//! and the same load can be put on both.
//!
//! `rateguard` decides everything. What is here only carries questions to it and its answers back;
//! how it is set up, and why so, is in `README.md`.

mod answer;
mod cli;
mod door;
mod member;

use std::error::Error;
use std::future::pending;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

use crate::answer::Answerer;
use crate::cli::Cli;
use crate::door::Door;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell where this cannot be written.
            let _ = writeln!(io::stderr(), "rateguard-node: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers until a signal says to stop, then leaves the cluster.
fn run(cli: &Cli) -> Result<(), Box<dyn Error>> {
    let door = Door::bind(cli.udp)
        .map_err(|error| format!("cannot answer on `{}`, see --udp: {error}", cli.udp))?;
    // One thread for the gossip. The door has its own: a check waits for no other task.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(cli, door))
}

async fn serve(cli: &Cli, door: Door) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let guard = member::start(cli)?;
    let answerer = Answerer::new(guard.clone(), cli.name.clone(), cli.members());
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let mut answering = spawn_blocking(move || door.serve(&answerer, &stops));
    let announced = async {
        member::formed(&guard, cli.members()).await;
        announce()?;
        pending::<io::Result<()>>().await
    };
    tokio::select! {
        failed = announced => failed?,
        ended = &mut answering => return Ok(ended??),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // In the order that its authors ask for: the peers take this node's share over at once, and what
    // is still asked meanwhile is answered from the floor.
    guard.leave().await;
    stop.store(true, Ordering::Relaxed);
    Ok(answering.await??)
}

/// Says that the cluster has formed.
fn announce() -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "ready")?;
    stdout.flush()
}
