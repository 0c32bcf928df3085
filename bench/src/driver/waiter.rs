//! How a driver of several connections, or of an open loop, waits: for any of its sockets, or for the
//! next question to be due. It neither sends nor receives.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::connection::Connection;
use crate::clock;
use crate::failure::Failure;

/// Events that one wait brings; the others come with the next.
const EVENTS_MAX: usize = 64;
/// What an event of the timer carries: no index of a connection.
const TIMER: u64 = u64::MAX;

/// Waits for the sockets of connections, and for a time.
#[derive(Debug)]
pub(super) struct Waiter {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// By connection: it also waits until its socket takes more.
    waits_to_write: Vec<bool>,
}

impl Waiter {
    /// A waiter for these connections, which are known by their index from now on.
    pub(super) fn new(connections: &[Connection]) -> Result<Self, Failure> {
        let open = || -> Result<Self, Errno> {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
            epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
            for (index, connection) in connections.iter().enumerate() {
                let data = EventData::new_u64(index as u64);
                epoll::add(&epoll, connection.fd(), data, EventFlags::IN)?;
            }
            Ok(Self { epoll, timer, waits_to_write: vec![false; connections.len()] })
        };
        open().map_err(|error| Failure::because("epoll", error))
    }

    /// Waits for the connection at `index` to be writable as long as it has something unsent.
    pub(super) fn settle(&mut self, index: usize, connection: &Connection) -> Result<(), Failure> {
        if self.waits_to_write[index] == connection.has_unsent() {
            return Ok(());
        }
        self.waits_to_write[index] = connection.has_unsent();
        let mut events = EventFlags::IN;
        events.set(EventFlags::OUT, connection.has_unsent());
        epoll::modify(&self.epoll, connection.fd(), EventData::new_u64(index as u64), events)
            .map_err(|error| Failure::because("epoll", error))
    }

    /// Wakes the next wait at `due_ns`, or never. Setting it also takes back that it went off.
    pub(super) fn set_timer(&self, due_ns: Option<u64>) -> Result<(), Failure> {
        let spec = Itimerspec {
            it_interval: clock::timespec(0),
            it_value: clock::timespec(due_ns.unwrap_or(0)),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)
            .map(|_| ())
            .map_err(|error| Failure::because("timerfd", error))
    }

    /// Waits for as long as `timeout_ns`, and puts the connections that are ready into `ready`.
    pub(super) fn wait(&self, timeout_ns: u64, ready: &mut Vec<usize>) -> Result<(), Failure> {
        ready.clear();
        let mut room = [MaybeUninit::uninit(); EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut room, Some(&clock::timespec(timeout_ns))) {
            Ok((events, _)) => {
                let indices = events.iter().map(|event| event.data.u64());
                let of_connections = indices.filter(|&index| index != TIMER);
                ready.extend(of_connections.filter_map(|index| usize::try_from(index).ok()));
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::because("epoll", error)),
        }
    }
}
