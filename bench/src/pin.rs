//! Which CPUs the server and the load generator run on. Placement decides a round trip more than
//! any code does, so comparisons are made pinned.

use std::fmt;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;

use crate::failure::Failure;

/// Highest number of a CPU plus one: what the system's set of CPUs holds.
const CPUS_MAX: usize = CpuSet::MAX_CPU;

/// A set of CPUs, written as the kernel writes it: `0`, `0-3`, `0,2-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(Vec<usize>);

impl CpuList {
    /// Confines the calling thread, and what it starts from now on, to these CPUs.
    ///
    /// # Errors
    /// If the machine has none of them.
    pub(crate) fn pin_this_thread(&self) -> Result<(), Failure> {
        let mut set = CpuSet::new();
        for &cpu in &self.0 {
            set.set(cpu);
        }
        sched_setaffinity(None, &set)
            .map_err(|error| Failure::because(format!("cannot run on cpu `{self}`"), error))
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail =
            || format!("`{text}` is no list of cpus below {CPUS_MAX}; write `0`, `0-3` or `0,2`");
        let number = |digits: &str| {
            digits.parse::<usize>().ok().filter(|&cpu| cpu < CPUS_MAX).ok_or_else(fail)
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(fail());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..).take_while(|(cpu, at)| *cpu == at).count();
            match run {
                1 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{}", first + run - 1)?,
            }
            rest = &rest[run..];
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where both sides run, written `SERVER:CLIENT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pins {
    /// CPUs of the servers, from before their first instruction.
    pub(crate) server: CpuList,
    /// CPUs of the load generator.
    pub(crate) client: CpuList,
}

impl FromStr for Pins {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (server, client) = text
            .split_once(':')
            .ok_or_else(|| format!("`{text}` is not SERVER:CLIENT; write `0:1` or `0-3:4,5`"))?;
        Ok(Self { server: server.parse()?, client: client.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_lists_as_the_kernel_does() {
        for (text, cpus, written) in [
            ("0", vec![0], "0"),
            ("0-3", vec![0, 1, 2, 3], "0-3"),
            ("3,0-1,1", vec![0, 1, 3], "0-1,3"),
        ] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!(list.0, cpus);
            assert_eq!(list.to_string(), written);
        }
    }

    #[test]
    fn refuses_what_is_no_list_of_cpus() {
        let beyond = CPUS_MAX.to_string();
        for text in ["", "a", "3-1", "1,", "-1", &beyond] {
            let error = text.parse::<CpuList>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn pins_name_both_sides() {
        let pins: Pins = "0,2:1".parse().unwrap();
        assert_eq!((pins.server.to_string(), pins.client.to_string()), ("0,2".into(), "1".into()));
        assert!("0".parse::<Pins>().unwrap_err().contains("SERVER:CLIENT"));
    }
}
