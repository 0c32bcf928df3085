//! What the kernel tells about a process: CPU time used, memory held. And about the machine.

use std::fs;

use rustix::process::Pid;
use serde::Serialize;

use crate::failure::Failure;

const BYTES_PER_KIB: u64 = 1024;

/// CPU time that all threads of `pid` have used, in nanoseconds. A thread that ended takes its time
/// with it, so that only deltas over a time in which none ends mean anything.
///
/// # Errors
/// If the process is gone, or the kernel keeps no `schedstat`.
pub(crate) fn cpu_ns(pid: Pid) -> Result<u64, Failure> {
    let tasks = format!("/proc/{pid}/task");
    let listing = fs::read_dir(&tasks).map_err(|error| Failure::because(&tasks, error))?;
    let mut total_ns = 0_u64;
    for entry in listing {
        let path = entry.map_err(|error| Failure::because(&tasks, error))?.path().join("schedstat");
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let ns = parse_schedstat(&text).ok_or_else(|| {
            Failure::new(format!("`{}` is not as expected: `{text}`", path.display()))
        })?;
        total_ns = total_ns.saturating_add(ns);
    }
    if total_ns == 0 {
        return Err(Failure::new(format!("{tasks}/*/schedstat tells nothing; enable SCHED_INFO")));
    }
    Ok(total_ns)
}

/// CPU time that the threads of `pid` that are called `name` have used, in nanoseconds.
///
/// # Errors
/// If there is none, or the kernel keeps no `schedstat`.
pub(crate) fn thread_cpu_ns(pid: Pid, name: &str) -> Result<u64, Failure> {
    let tasks = format!("/proc/{pid}/task");
    let listing = fs::read_dir(&tasks).map_err(|error| Failure::because(&tasks, error))?;
    // A thread may end between the listing and the reading.
    let read_ns = |entry: fs::DirEntry| {
        let comm = fs::read_to_string(entry.path().join("comm")).ok()?;
        let schedstat = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        (comm.trim_end() == name).then(|| parse_schedstat(&schedstat)).flatten()
    };
    let total_ns = listing.flatten().filter_map(read_ns).reduce(u64::saturating_add);
    total_ns.ok_or_else(|| Failure::new(format!("{tasks} tells of no thread `{name}`")))
}

/// Physical memory that `pid` holds, in bytes.
///
/// # Errors
/// If the process is gone.
pub(crate) fn rss_bytes(pid: Pid) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(|error| Failure::because(&path, error))?;
    parse_rss(&text).ok_or_else(|| Failure::new(format!("`{path}` has no VmRSS: it has ended")))
}

/// How the CPUs of the machine spent their time since it started, in the kernel's ticks over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineTime {
    /// With nothing to do.
    pub(crate) idle: u64,
    /// In all: also what a hypervisor gave to other machines.
    pub(crate) total: u64,
}

impl MachineTime {
    /// Up to now.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn now() -> Result<Self, Failure> {
        let path = "/proc/stat";
        let text = fs::read_to_string(path).map_err(|error| Failure::because(path, error))?;
        parse_stat(&text).ok_or_else(|| Failure::new(format!("`{path}` is not as expected")))
    }

    /// What passed since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            idle: self.idle.saturating_sub(before.idle),
            total: self.total.saturating_sub(before.total),
        }
    }

    /// Both times together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            idle: self.idle.saturating_add(other.idle),
            total: self.total.saturating_add(other.total),
        }
    }

    /// Time with nothing to do, in thousandths of all; 0 where no time passed.
    pub(crate) fn idle_permille(self) -> u64 {
        self.idle.saturating_mul(1000) / self.total.max(1)
    }
}

/// The machine that figures were taken on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    /// Name of the processor.
    pub(crate) processor: String,
    /// CPUs of the machine.
    pub(crate) cpus: usize,
    /// Release of the kernel.
    pub(crate) kernel: String,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, cpus, kernel } = self;
        write!(f, "{processor}, {cpus} cpus, Linux {kernel}")
    }
}

impl Machine {
    /// This machine. What it does not tell is called unknown.
    pub(crate) fn this() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self::parse(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default(), &kernel)
    }

    fn parse(cpuinfo: &str, kernel: &str) -> Self {
        let unknown = |text: &str| match text.trim() {
            "" => "unknown".to_owned(),
            known => known.to_owned(),
        };
        let values = |name: &'static str| {
            cpuinfo.lines().filter_map(move |line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then_some(value)
            })
        };
        Self {
            processor: unknown(values("model name").next().unwrap_or_default()),
            cpus: values("processor").count(),
            kernel: unknown(kernel),
        }
    }
}

/// The first number of a `schedstat`: nanoseconds on a CPU.
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The first line of `/proc/stat`. The times are those of user, nice, system, idle, iowait, irq,
/// softirq, steal; those of guests, which follow, are in user and nice already.
fn parse_stat(text: &str) -> Option<MachineTime> {
    const COLUMNS: usize = 8;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let columns = line.split_ascii_whitespace().take(COLUMNS).map(str::parse);
    let times: Vec<u64> = columns.collect::<Result<_, _>>().ok()?;
    let [_, _, _, idle, iowait, ..] = *times.as_slice() else { return None };
    let total = times.iter().fold(0, |sum: u64, time| sum.saturating_add(*time));
    Some(MachineTime { idle: idle.saturating_add(iowait), total })
}

/// `VmRSS` of a `status`, in bytes.
fn parse_rss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(BYTES_PER_KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_the_first_number_of_a_schedstat() {
        assert_eq!(parse_schedstat("1234567 89 10\n"), Some(1_234_567));
        assert_eq!(parse_schedstat("\n"), None);
        assert_eq!(parse_schedstat("-1 0 0"), None);
    }

    #[test]
    fn resident_memory_is_read_from_a_status() {
        let status = "Name:\trlnode\nVmPeak:\t  999999 kB\nVmRSS:\t   12345 kB\nThreads:\t3\n";
        assert_eq!(parse_rss(status), Some(12345 * 1024));
        assert_eq!(parse_rss("Name:\tzombie\nThreads:\t1\n"), None);
        assert_eq!(parse_rss("VmRSS:\t 12 pages\n"), None);
    }

    #[test]
    fn a_machine_is_idle_where_nothing_runs_or_only_a_disk_is_waited_for() {
        let stat = "cpu  10 5 20 100 7 1 2 55 10 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n";
        let time = parse_stat(stat).unwrap();
        assert_eq!(time, MachineTime { idle: 107, total: 200 });
        let later = MachineTime { idle: 137, total: 300 }.since(time);
        assert_eq!(later.idle_permille(), 300);
        assert_eq!(later.plus(time).total, 300);
        assert_eq!(MachineTime::default().idle_permille(), 0);
        assert_eq!(parse_stat("cpu  1 2\n"), None);
        assert_eq!(parse_stat("cpu  1 2 3 x 5\n"), None);
        assert_eq!(parse_stat(""), None);
        assert!(MachineTime::now().unwrap().total > 0);
    }

    #[test]
    fn a_machine_tells_its_processor_and_counts_its_cpus() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU\n\nprocessor\t: 1\n\
                       model name\t: Some CPU\n";
        let machine = Machine::parse(cpuinfo, "6.1.0\n");
        assert_eq!(machine.processor, "Some CPU");
        assert_eq!(machine.cpus, 2);
        assert_eq!(machine.kernel, "6.1.0");
        assert_eq!(Machine::parse("", "").processor, "unknown");
    }

    #[test]
    fn this_process_uses_cpu_and_holds_memory() {
        let pid = rustix::process::getpid();
        assert!(cpu_ns(pid).unwrap() > 0);
        let spun = std::thread::Builder::new().name("spinner".into()).spawn(move || {
            while thread_cpu_ns(pid, "spinner").unwrap() == 0 {}
            thread_cpu_ns(pid, "spinner").unwrap() <= cpu_ns(pid).unwrap()
        });
        assert!(spun.unwrap().join().unwrap());
        assert!(thread_cpu_ns(pid, "nobody").unwrap_err().to_string().contains("`nobody`"));
        assert!(rss_bytes(pid).unwrap() > 0);
    }
}
