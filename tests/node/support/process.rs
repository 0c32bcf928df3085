//! Running a command to its end and taking what it printed.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use super::time::PATIENCE;
use super::wait_until;

/// The program under test.
pub(crate) const RLNODE: &str = env!("CARGO_BIN_EXE_rlnode");

/// How a command ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// None if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program with these arguments, and with nothing of this process's environment but the path.
pub(crate) fn rlnode(arguments: &[&str]) -> Command {
    let mut command = Command::new(RLNODE);
    command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// Runs the program with these arguments to its end.
#[track_caller]
pub(crate) fn run(arguments: &[&str]) -> Ended {
    finish(rlnode(arguments))
}

/// Runs the program in `folder`, which also takes its temporary files.
#[track_caller]
pub(crate) fn run_in(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = rlnode(arguments);
    command.current_dir(folder).env("TMPDIR", folder);
    finish(command)
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn finish(mut command: Command) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = read_whole(child.stdout.take().expect("it is piped"));
    let stderr = read_whole(child.stderr.take().expect("it is piped"));
    let mut status = None;
    wait_until(&format!("the end of {command:?}"), PATIENCE, || {
        status = child.try_wait().expect("a child can be waited for");
        status.is_some()
    });
    let code = status.and_then(|status| status.code());
    let text = |reader: JoinHandle<String>| reader.join().expect("reading does not panic");
    Ended { code, stdout: text(stdout), stderr: text(stderr) }
}

/// Reads `source` to its end in a thread of its own, so that a full pipe stops nobody.
fn read_whole(mut source: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        source.read_to_string(&mut text).expect("commands print text");
        text
    })
}

/// A process beside the node. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Background(pub(crate) Child);

impl Background {
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child can be waited for").is_some()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Errors say that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor time that the process `id` has used, in milliseconds.
pub(crate) fn cpu_ms(id: u32) -> u64 {
    /// What Linux counts it in, whatever the machine.
    const TICKS_PER_S: u64 = 100;
    let stat = read_proc(id, "stat");
    let after_name = stat.rsplit(')').next().expect("a name in parentheses");
    let mut fields = after_name.split_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok()).expect("a number");
    (next() + next()) * 1_000 / TICKS_PER_S
}

/// Memory of the process `id` that is in use, in KiB.
pub(crate) fn memory_kib(id: u32) -> u64 {
    let status = read_proc(id, "status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line of VmRSS");
    line.split_whitespace().nth(1).and_then(|field| field.parse().ok()).expect("a number")
}

/// Open files of the process `id`.
pub(crate) fn open_files(id: u32) -> usize {
    std::fs::read_dir(format!("/proc/{id}/fd")).expect("the process runs").count()
}

/// Threads of the process `id`.
pub(crate) fn threads(id: u32) -> usize {
    std::fs::read_dir(format!("/proc/{id}/task")).expect("the process runs").count()
}

/// Whether every thread of the process `id` is stopped by a signal.
pub(crate) fn is_suspended(id: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).expect("the process runs");
    threads.map(|thread| thread.expect("an entry").path().join("stat")).all(|stat| {
        let stat = std::fs::read_to_string(stat).expect("the thread is there");
        stat.rsplit(')').next().is_some_and(|after_name| after_name.trim_start().starts_with('T'))
    })
}

fn read_proc(id: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{id}/{file}")).expect("the process runs")
}

/// Says what a test measured, to whoever reads with `--nocapture` or of a test that failed.
#[expect(clippy::print_stdout, reason = "the test harness shows it where it was asked for")]
pub(crate) fn say(what: &str) {
    println!("{what}");
}

/// Leaves a test, or a part of it, out, and says so past the test harness, which would keep it to
/// itself where nothing fails. In CI, where nobody reads it, that is a fault.
#[track_caller]
pub(crate) fn leave_out(what: &str) {
    assert!(!is_in_ci(), "left out, which in CI nothing may be: {what}");
    let _ = writeln!(std::io::stderr(), "\n*** LEFT OUT *** {what}\n");
}

#[expect(clippy::disallowed_methods, reason = "the one place of the tests that reads a variable")]
fn is_in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}
