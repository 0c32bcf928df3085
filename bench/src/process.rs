//! A server that the bench starts, watches and stops, and the folder that it works in.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::clock;
use crate::failure::Failure;
use crate::pin::CpuList;

/// How long a server may take to answer for the first time.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two questions whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(2);
/// How long a server may take to stop when told to, before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(6);
/// Lines of a server's log that are shown when it fails.
const LOG_LINES_SHOWN: usize = 12;

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    pid: Pid,
    pidfd: OwnedFd,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in a file of `folder`. With `cpus` it never runs anywhere
    /// else, so that it sizes itself for them.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(
        name: &str,
        command: &mut Command,
        folder: &Folder,
        cpus: Option<&CpuList>,
    ) -> Result<Self, Failure> {
        let program = command.get_program().display().to_string();
        let fail = |error: io::Error| Failure::because(format!("cannot start `{program}`"), error);
        let log = folder.path().join(format!("{name}.log"));
        let output = File::create(&log).map_err(fail)?;
        command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(fail)?)
            .stderr(output);
        let child = spawn_on(command, cpus)?.map_err(fail)?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| fail(error.into()))?;
        Ok(Self { name: name.to_owned(), child, pid, pidfd, log })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for as long as `timeout`; true as soon as the process has ended.
    pub(crate) fn has_ended_within(&self, timeout: Duration) -> bool {
        let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = clock::now_ns().saturating_add(ns);
        loop {
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            let mut ends = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut ends, Some(&clock::timespec(left_ns))) {
                // A signal cut the wait short.
                Err(_) => {}
                Ok(0) => return false,
                Ok(_) => return true,
            }
        }
    }

    /// Asks `is_ready` until it says so.
    ///
    /// # Errors
    /// If the process ends or is not ready in time; with the end of its log.
    pub(crate) fn wait_until(&self, mut is_ready: impl FnMut() -> bool) -> Result<(), Failure> {
        let deadline_ns = clock::now_ns() + READY_WITHIN.as_secs() * clock::NS_PER_S;
        while !is_ready() {
            if self.has_ended_within(ASK_EVERY) {
                return Err(self.failed("ended before it was ready"));
            }
            if clock::now_ns() > deadline_ns {
                let seconds = READY_WITHIN.as_secs();
                return Err(self.failed(&format!("is not ready after {seconds} s")));
            }
        }
        Ok(())
    }

    /// What is wrong with the process, with the end of its log.
    pub(crate) fn failed(&self, what: &str) -> Failure {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines = last_lines(&log, LOG_LINES_SHOWN);
        Failure::new(format!("{} {what}\n{}", self.name, lines.trim_end()))
    }

    /// Whether it has written this.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        fs::read_to_string(&self.log).is_ok_and(|log| log.contains(text))
    }

    /// Ends it as a crash does: it gets no time for anything.
    pub(crate) fn kill(mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Halts it where it stands, so that it uses no CPU while another is measured.
    pub(crate) fn pause(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        self.resume()?;
        self.signal(Signal::TERM)?;
        if !self.has_ended_within(STOP_WITHIN) {
            let seconds = STOP_WITHIN.as_secs();
            return Err(self.failed(&format!("did not stop within {seconds} s")));
        }
        let status = self.child.wait().map_err(|error| Failure::because(&self.name, error))?;
        if status.success() { Ok(()) } else { Err(self.failed(&format!("stopped with {status}"))) }
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(self.pid, signal).map_err(|_| self.failed("has ended"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Spawns from a thread that is confined to `cpus`: a child inherits where its parent thread runs.
fn spawn_on(command: &mut Command, cpus: Option<&CpuList>) -> Result<io::Result<Child>, Failure> {
    let Some(cpus) = cpus else { return Ok(command.spawn()) };
    thread::scope(|scope| {
        let spawned = scope.spawn(|| cpus.pin_this_thread().map(|()| command.spawn())).join();
        spawned.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(count);
    lines[first..].iter().map(|line| format!("  {line}\n")).collect()
}

/// A private folder for temporary files, removed with all that is in it when dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new folder that only this user can enter.
    pub(crate) fn new() -> Result<Self, Failure> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("rlbench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            Failure::because(format!("cannot make `{}`", path.display()), error)
        })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it, and returns where that is.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.0.join(name);
        File::create(&path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(
            |error| Failure::because(format!("cannot write `{}`", path.display()), error),
        )?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A TCP port on loopback that nobody has now.
pub(crate) fn free_tcp_port() -> Result<u16, Failure> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    port.map(|address| address.port()).map_err(|error| Failure::because("no free port", error))
}

/// A UDP port on loopback that nobody has now.
pub(crate) fn free_udp_port() -> Result<u16, Failure> {
    let port = UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    port.map(|address| address.port()).map_err(|error| Failure::because("no free port", error))
}

/// So many ports on loopback that nobody has now, all different, each found by `free`.
///
/// # Errors
/// If there are none.
pub(crate) fn ports(count: usize, free: fn() -> Result<u16, Failure>) -> Result<Vec<u16>, Failure> {
    let mut ports = BTreeSet::new();
    while ports.len() < count {
        ports.insert(free()?);
    }
    Ok(ports.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ() {
        let found = ports(10, free_udp_port).unwrap();
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 10);
    }

    #[test]
    fn a_process_that_ends_before_it_is_ready_is_told_with_its_last_words() {
        let folder = Folder::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo started; echo port taken >&2; exit 3"]);
        let process = Process::start("server", &mut command, &folder, None).unwrap();
        let failure = process.wait_until(|| false).unwrap_err().to_string();
        assert!(failure.contains("server ended before it was ready"), "{failure}");
        assert!(failure.contains("port taken"), "{failure}");
    }

    #[test]
    fn a_paused_process_is_stopped_like_any_other() {
        let folder = Folder::new().unwrap();
        let mut command = Command::new("sleep");
        command.arg("60");
        let process = Process::start("server", &mut command, &folder, None).unwrap();
        process.pause().unwrap();
        let failure = process.stop().unwrap_err().to_string();
        assert!(failure.contains("stopped with signal: 15"), "{failure}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let folder = Folder::new().unwrap();
        let mut command = Command::new("/nonexistent/rlnode");
        let failure = Process::start("node", &mut command, &folder, None).unwrap_err();
        assert!(failure.to_string().contains("`/nonexistent/rlnode`"), "{failure}");
    }

    #[test]
    fn a_folder_is_private_and_goes_with_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        folder.write("file", "text").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn only_the_last_lines_are_shown() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "  b\n  c\n");
        assert_eq!(last_lines("a", 2), "  a\n");
        assert_eq!(last_lines("", 2), "");
    }
}
