//! `rlnode demo`: a fleet in this process that holds one limit, in front of your eyes.

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use super::Output;
use crate::demo::{self, DemoError, FaceKind, Interrupt, MEMBERS_MAX, MEMBERS_MIN, Options};
use crate::environment;
use crate::exit::Exit;

/// Show nodes in this process that hold one limit while the network is cut and they crash
///
/// Starts real nodes with throw-away certificates on loopback, calls them unevenly at half more than
/// the limit, and draws what they let through, with the limit as a line. It needs no file and leaves
/// none. At a terminal keys make things happen; elsewhere it writes a line for each second and event.
#[derive(Debug, Args)]
pub struct Demo {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse_members)]
    members: usize,
    /// What happens: `auto`, `none`, or steps such as `2s burst, 4s cut c, 8s heal c, 10s kill b,
    /// 13s join b, 15s lull, 16s quit`
    #[arg(long, value_name = "STEPS", default_value = "auto")]
    script: String,
    /// When it ends [default: after the script, or at a terminal when told to]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
    /// Decides who calls where and when
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the picture as it is at the end to a file, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Write lines although this is a terminal
    #[arg(long)]
    plain: bool,
}

fn parse_members(text: &str) -> Result<usize, String> {
    let members = text.parse().ok().filter(|it| (MEMBERS_MIN..=MEMBERS_MAX).contains(it));
    members.ok_or_else(|| format!("give a number from {MEMBERS_MIN} to {MEMBERS_MAX}"))
}

impl Demo {
    /// Shows the demo to its end.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let is_terminal = stdout().is_terminal() && stdin().is_terminal();
        let colours = environment::text(environment::NO_COLOR).is_none();
        let face =
            if is_terminal && !self.plain { FaceKind::Screen { colours } } else { FaceKind::Lines };
        let options = Options {
            members: self.members,
            seed: self.seed,
            seconds: self.seconds,
            script: self.script,
            face,
            picture: self.picture,
        };
        let interrupt = Arc::new(Interrupt::default());
        let result = end_on_signals(&interrupt)
            .map_err(|error| DemoError::System("way to hear of signals", error))
            .and_then(|_signals| demo::run(&options, output.out, &interrupt));
        match result {
            Ok(()) => Exit::Success,
            Err(error @ DemoError::Script(_)) => {
                output.complain(&error);
                Exit::Error
            }
            Err(error) => {
                output.complain(&error);
                Exit::Refused
            }
        }
    }
}

/// Tells `interrupt` of the signals that end a process, as long as what is given back lives.
fn end_on_signals(interrupt: &Arc<Interrupt>) -> std::io::Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let context = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signal = signal(kind)?;
        let interrupt = Arc::clone(interrupt);
        runtime.spawn(async move {
            signal.recv().await;
            interrupt.tell();
        });
    }
    drop(context);
    Ok(runtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two_nodes_to_five() {
        assert_eq!(["2", "5"].map(parse_members), [Ok(2), Ok(5)]);
        for text in ["1", "6", "x", "-3", ""] {
            let error = parse_members(text).expect_err(text);
            assert_eq!(error, "give a number from 2 to 5");
        }
    }
}
