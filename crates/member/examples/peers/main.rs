//! Measures the runtime under the cluster: how long a peer takes to acknowledge, and whether one
//! ever falls silent, between real processes that are idle or share a loaded machine.
//!
//! `peers --peers 10 --seconds 600 --load 70` starts ten processes on loopback, each linked to all
//! others as members are. Each sends a small frame on every link each 200 ms, and some at random in
//! between; the owner of the peer's event queue answers each with a frame of its own. It prints the
//! round trips, the longest time for which a link was silent, and how often one was silent, or left
//! a frame unanswered, for 500 ms: the time after which the cluster calls a peer lost.
#![expect(clippy::print_stdout, reason = "a command that prints what it measured")]

mod certificates;
mod load;
mod peer;
mod report;

use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::time::ClockId;

/// What the command line says.
#[derive(Clone, Debug)]
struct Plan {
    /// Processes.
    peers: usize,
    /// How long to measure, in seconds.
    seconds: u64,
    /// How much of the machine the load takes, in percent, all processes together.
    load: u64,
    /// Length of the frame that goes out each 200 ms, in bytes. The answers are small.
    frame: usize,
    /// Port of the first process; the others follow.
    port: u16,
}

/// Nanoseconds of the clock that the machine's processes share.
#[expect(clippy::disallowed_methods, reason = "the one place of this program that reads a clock")]
fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Boottime);
    let (seconds, ns) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + ns.unwrap_or(0)
}

/// How long processes get to link before anything counts.
const WARM_UP: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| -> Result<u64, Box<dyn Error>> {
        let at = words.iter().position(|word| word == name);
        let text = at.and_then(|at| words.get(at + 1));
        text.map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name} `{text}`").into()))
    };
    let plan = Plan {
        peers: usize::try_from(number("--peers", 3)?)?,
        seconds: number("--seconds", 60)?,
        load: number("--load", 0)?,
        frame: usize::try_from(number("--frame", 64)?)?,
        port: u16::try_from(number("--port", 17_400)?)?,
    };
    let child = words.iter().position(|word| word == "--folder").and_then(|at| words.get(at + 1));
    match child {
        Some(folder) => {
            let index = usize::try_from(number("--index", 0)?)?;
            peer::run(&plan, index, Path::new(folder))
        }
        None => start(&plan),
    }
}

/// Starts the processes, waits for them, and prints what they measured.
fn start(plan: &Plan) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("rlnode-peers-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    certificates::write(&folder, plan.peers)?;
    let mut children = Vec::new();
    for index in 0..plan.peers {
        children.push(child(plan, index, &folder)?);
    }
    let machine = report::Machine::watch();
    let mut total = report::Report::default();
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("a peer failed: {}", output.status).into());
        }
        total.add(&report::Report::read(&String::from_utf8(output.stdout)?)?);
    }
    std::fs::remove_dir_all(&folder)?;
    println!("{}", total.text(plan, &machine.finish()));
    Ok(())
}

fn child(plan: &Plan, index: usize, folder: &Path) -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.stdout(Stdio::piped()).arg("--folder").arg(folder);
    let numbers = [
        ("--peers", plan.peers.to_string()),
        ("--seconds", plan.seconds.to_string()),
        ("--load", plan.load.to_string()),
        ("--frame", plan.frame.to_string()),
        ("--port", plan.port.to_string()),
        ("--index", index.to_string()),
    ];
    for (name, value) in numbers {
        command.arg(name).arg(value);
    }
    Ok(command.spawn()?)
}
