//! Those who abuse a door: connections that do nothing, and some that send garbage at a rate. A node that
//! closes one of the latter gets it back at once.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use serde::Serialize;

use super::AbuseOptions;
use crate::clock::{self, NS_PER_MS, NS_PER_S};
use crate::driver::Address;
use crate::failure::Failure;

/// How long a socket of these may wait for anything; none waits here but in its connect.
const PATIENCE: Duration = Duration::from_secs(2);
/// From one look at what is due to the next: messages come one by one, as from senders that know nothing of
/// each other, and not in handfuls that a client finds itself behind.
const EVERY_NS: u64 = NS_PER_MS / 10;
/// Answers that are read before a message is sent, each of so many bytes; who sends garbage does not care.
const READS_MAX: usize = 4;
const READ_BYTES: usize = 4096;

/// Connections that do nothing.
#[derive(Debug)]
pub(super) struct Idle(Vec<OwnedFd>);

impl Idle {
    /// Opens so many.
    ///
    /// # Errors
    /// If the node does not take one.
    pub(super) fn open(address: &Address, count: u64) -> Result<Self, Failure> {
        (0..count).map(|_| address.connect(PATIENCE)).collect::<Result<_, _>>().map(Self)
    }

    /// How many the node has closed meanwhile.
    pub(super) fn closed(&self) -> u64 {
        let mut byte = [0; 1];
        let is_closed = |socket: &&OwnedFd| {
            !matches!(
                recv(*socket, &mut byte, RecvFlags::DONTWAIT | RecvFlags::PEEK),
                Err(Errno::AGAIN) | Ok((1.., _))
            )
        };
        self.0.iter().filter(is_closed).count() as u64
    }
}

/// What senders of garbage did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Sent {
    /// Messages sent.
    pub(super) messages: u64,
    /// Messages that a socket did not take, because the node did not read.
    pub(super) refused: u64,
    /// Connections that were opened again because the node had closed them.
    pub(super) reopened: u64,
    /// Messages that were due and not sent: the sender was too slow.
    pub(super) unsent: u64,
    /// CPU time of the sender, in nanoseconds.
    pub(super) cpu_ns: u64,
}

impl Sent {
    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            refused: self.refused + other.refused,
            reopened: self.reopened + other.reopened,
            unsent: self.unsent + other.unsent,
            cpu_ns: self.cpu_ns + other.cpu_ns,
        }
    }
}

/// Sends `messages` in turn over as many connections, and as many in a second in all, as `options` say,
/// until `stop`.
///
/// # Errors
/// If a connection cannot be opened.
pub(super) fn send_garbage(
    address: &Address,
    options: &AbuseOptions,
    messages: &[Vec<u8>],
    stop: &AtomicBool,
) -> Result<Sent, Failure> {
    let AbuseOptions { garbage: connections, messages: per_s, .. } = *options;
    let cpu_before_ns = clock::thread_cpu_ns();
    let mut sockets: Vec<OwnedFd> =
        (0..connections).map(|_| open(address)).collect::<Result<_, _>>()?;
    let (mut sent, started_ns) = (Sent::default(), clock::now_ns());
    let (mut due_ns, mut next) = (started_ns, 0_usize);
    while !stop.load(Ordering::Relaxed) {
        due_ns = (due_ns + EVERY_NS).max(clock::now_ns());
        clock::wait_until(due_ns);
        let due = due_by(due_ns - started_ns, per_s);
        while sent.messages + sent.refused + sent.unsent < due {
            // What is late by more than a second is not made up for.
            if due - (sent.messages + sent.refused + sent.unsent) > per_s {
                sent.unsent += per_s;
                continue;
            }
            let count = sockets.len();
            send_one(
                address,
                &mut sockets[next % count],
                &messages[next % messages.len()],
                &mut sent,
            )?;
            next += 1;
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    sent.cpu_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    Ok(sent)
}

/// Messages that are due after this time.
fn due_by(elapsed_ns: u64, per_s: u64) -> u64 {
    let due = u128::from(elapsed_ns) * u128::from(per_s) / u128::from(NS_PER_S);
    u64::try_from(due).unwrap_or(u64::MAX)
}

/// Opens a connection that is given up without ceremony, so that the many of them leave no ports behind
/// that wait for their end.
fn open(address: &Address) -> Result<OwnedFd, Failure> {
    let socket = address.connect(PATIENCE)?;
    if matches!(address, Address::Tcp(_)) {
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))
            .map_err(|error| Failure::because("cannot set a socket's linger", error))?;
    }
    Ok(socket)
}

fn send_one(
    address: &Address,
    socket: &mut OwnedFd,
    message: &[u8],
    sent: &mut Sent,
) -> Result<(), Failure> {
    if !matches!(address, Address::Udp(_)) && is_closed(socket) {
        *socket = open(address)?;
        sent.reopened += 1;
    }
    match send(&*socket, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(_) => sent.messages += 1,
        Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
            // It was closed since it was looked at; the message goes to the next one.
            *socket = open(address)?;
            sent.reopened += 1;
        }
        Err(_) => sent.refused += 1,
    }
    if matches!(address, Address::Udp(_)) {
        is_closed(socket);
    }
    Ok(())
}

/// Reads what came; whether the other end has closed.
fn is_closed(socket: &OwnedFd) -> bool {
    let mut room = [0; READ_BYTES];
    for _ in 0..READS_MAX {
        match recv(socket, &mut room, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return true,
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Err(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn messages_are_due_by_their_rate() {
        assert_eq!(due_by(0, 10_000), 0);
        assert_eq!(due_by(NS_PER_MS, 10_000), 10);
        assert_eq!(due_by(NS_PER_S * 3600, 1_000_000), 3_600_000_000);
    }

    #[test]
    fn a_connection_that_is_closed_is_opened_again_and_counted() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let stop = AtomicBool::new(false);
        let options = AbuseOptions { garbage: 1, messages: 1000, ..AbuseOptions::of_tests() };
        let sent = thread::scope(|scope| {
            let sending = scope.spawn(|| send_garbage(&address, &options, &[vec![7; 4]], &stop));
            for _ in 0..5 {
                drop(listener.accept().unwrap());
            }
            let kept = listener.accept().unwrap();
            stop.store(true, Ordering::Relaxed);
            let sent = sending.join().unwrap().unwrap();
            drop(kept);
            sent
        });
        assert_eq!(sent.reopened, 5);
        assert_eq!(sent.refused, 0);
    }

    #[test]
    fn an_idle_connection_that_was_closed_is_noticed() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let idle = Idle::open(&address, 3).unwrap();
        let mut taken: Vec<_> = (0..3).map(|_| listener.accept().unwrap()).collect();
        assert_eq!(idle.closed(), 0);
        drop(taken.pop());
        assert_eq!(idle.closed(), 1);
    }
}
