//! A UDP relay that stands between nodes and makes trouble from a seed.
//!
//! Every node has a *front*: the address at which all others, and it itself, are told to dial it.
//! Nodes must send from the socket they listen on, so the source of a datagram says who sent it. What
//! node `a` sends to the front of `b` reaches `b` from the front of `a`, and the answer goes the same
//! way back; so the nodes cannot tell the relay from a network. Each ordered pair of nodes is a
//! *direction* with a [`Weather`] of its own, and each can be cut alone.
//!
//! Nodes tell each other where they can be dialled, and would find a way around the relay: each must
//! be told to advertise its front (`advertise` in `[node.NAME.cluster]`).
//!
//! The k-th datagram of a direction meets the same fate whenever the seed and the weather are the
//! same. What the k-th datagram *is* depends on the nodes and their timers, so a run with real
//! processes is alike, not equal.
//!
//! It does not read what it carries, and it keeps no state between two relays.

mod direction;
mod fate;
mod waiting;
mod weather;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use direction::{Direction, Passage, Verdict};
use fate::Stream;
use waiting::{Queue, Waiting};

pub use weather::{Counts, Weather};

/// Most nodes of one relay: as many as a cluster has members.
pub const NODES_MAX: usize = 64;

/// Bytes that the kernel is asked to keep for each front: what nodes send at once must not be lost
/// here, uncounted. It gives what its own bound allows.
const RECEIVE_BYTES: usize = 8 << 20;
/// The largest payload of a UDP datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// A running relay. Dropping it ends its threads and closes its sockets.
///
/// It has one thread for each node, which sleeps until a datagram comes to the front of that node, and
/// one for what waits. The methods that take a node take its place in the list of [`Relay::start`],
/// and panic when there is no such place.
#[derive(Debug)]
pub struct Relay {
    net: Arc<Net>,
    fronts: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads share.
#[derive(Debug)]
struct Net {
    begun: Instant,
    real: Vec<SocketAddr>,
    fronts: Vec<UdpSocket>,
    /// The one from `a` to `b` stands at `a * nodes + b`.
    directions: Vec<Mutex<Direction>>,
    waiting: Mutex<Queue>,
    /// Something came to wait that leaves sooner than all else, or the relay stops.
    is_sooner: Condvar,
    strangers: AtomicU64,
    is_stopping: AtomicBool,
}

impl Relay {
    /// Opens a front on loopback, at a port that the system chooses, for each node that listens for
    /// peers at an address of `real`. The weather is fair and nothing is cut.
    ///
    /// # Errors
    /// `real` has more than [`NODES_MAX`] addresses, two that are equal or two families of addresses;
    /// or the system gives no socket or no thread.
    pub fn start(seed: u64, real: &[SocketAddr]) -> io::Result<Self> {
        check_addresses(real)?;
        let sockets = real.iter().map(|address| open_front(loopback_of(*address)));
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        let fronts = sockets.iter().map(UdpSocket::local_addr).collect::<io::Result<Vec<_>>>()?;
        let nodes = 0..real.len();
        let pairs = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
        let directions =
            pairs.map(|(from, to)| Mutex::new(Direction::new(Stream::new(seed, from, to))));
        let net = Arc::new(Net {
            begun: begin(),
            real: real.to_vec(),
            fronts: sockets,
            directions: directions.collect(),
            waiting: Mutex::default(),
            is_sooner: Condvar::new(),
            strangers: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        });
        // From here on a failure drops the relay, which ends the threads that were started.
        let mut relay = Self { net, fronts, threads: Vec::new() };
        for node in nodes {
            relay.spawn(&format!("relay-{node}"), move |net| net.serve_front(node))?;
        }
        relay.spawn("relay-waiting", Net::serve_waiting)?;
        Ok(relay)
    }

    fn spawn(&mut self, name: &str, serve: impl FnOnce(&Net) + Send + 'static) -> io::Result<()> {
        let net = Arc::clone(&self.net);
        self.threads.push(Builder::new().name(name.to_owned()).spawn(move || serve(&net))?);
        Ok(())
    }

    /// Where others dial `node`.
    pub fn front(&self, node: usize) -> SocketAddr {
        self.fronts[node]
    }

    /// What happens from now on to datagrams from one node to another. Those that wait keep their
    /// times.
    pub fn set_weather(&self, from: usize, to: usize, weather: Weather) {
        self.net.direction(from, to).set_weather(weather);
    }

    /// Drops everything from one node to another that would leave while the cut lasts. The other
    /// direction stays as it is.
    pub fn cut(&self, from: usize, to: usize) {
        self.net.direction(from, to).set_cut(true);
    }

    /// Ends [`Relay::cut`]. The weather is as it was.
    pub fn mend(&self, from: usize, to: usize) {
        self.net.direction(from, to).set_cut(false);
    }

    /// Cuts both directions between `node` and every other, whatever else is cut.
    pub fn isolate(&self, node: usize) {
        self.set_isolated(node, true);
    }

    /// Ends [`Relay::isolate`]. Another node that is isolated stays so, and what is cut stays cut.
    pub fn rejoin(&self, node: usize) {
        self.set_isolated(node, false);
    }

    fn set_isolated(&self, node: usize, is_isolated: bool) {
        for other in (0..self.fronts.len()).filter(|other| *other != node) {
            self.net.direction(node, other).set_isolated(0, is_isolated);
            self.net.direction(other, node).set_isolated(1, is_isolated);
        }
    }

    /// What became of the datagrams from one node to another.
    pub fn counts(&self, from: usize, to: usize) -> Counts {
        self.net.direction(from, to).counts()
    }

    /// Datagrams that were dropped because they came from an address of no node.
    pub fn strangers(&self) -> u64 {
        self.net.strangers.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.net.is_stopping.store(true, Ordering::SeqCst);
        // Under the lock, so that the thread that waits is either before its look or at its wait.
        drop(lock(&self.net.waiting));
        self.net.is_sooner.notify_all();
        for (socket, front) in self.net.fronts.iter().zip(&self.fronts) {
            // It wakes who waits at this front. It has no room only where others wait to be read,
            // and who reads those sees the end after the first.
            let _ = socket.send_to(&[], front);
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Net {
    /// Carries what comes to the front of `to` until the relay stops.
    fn serve_front(&self, to: usize) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let received = self.fronts[to].recv_from(&mut buffer);
            if self.is_stopping.load(Ordering::SeqCst) {
                return;
            }
            // An error tells of an earlier datagram that somebody did not take.
            let Ok((length, source)) = received else { continue };
            match self.real.iter().position(|real| *real == source) {
                Some(from) => self.carry(from, to, &buffer[..length]),
                None => drop(self.strangers.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }

    fn carry(&self, from: usize, to: usize, bytes: &[u8]) {
        let mut direction = self.direction(from, to);
        match direction.handle_datagram(self.now()) {
            Verdict::Drop => {}
            Verdict::Now(passage) => {
                direction.count_passage(passage);
                self.send(&mut direction, from, to, passage, bytes);
            }
            Verdict::At(due, passage) => {
                // The direction stays locked, so that it counts the datagram before it can leave.
                // Nobody locks a direction while he holds the queue.
                let waiting = Waiting { due, from, to, passage, bytes: bytes.into() };
                let Some(is_soonest) = lock(&self.waiting).push(waiting) else {
                    return direction.count_crowded_out();
                };
                direction.count_passage(passage);
                direction.admit_waiting(due, passage);
                if is_soonest {
                    self.is_sooner.notify_one();
                }
            }
        }
    }

    /// Lets leave what waits when its time has come, until the relay stops.
    fn serve_waiting(&self) {
        let mut queue = lock(&self.waiting);
        while !self.is_stopping.load(Ordering::SeqCst) {
            let now = self.now();
            if let Some(waiting) = queue.pop_due(now) {
                drop(queue);
                self.release(&waiting);
                queue = lock(&self.waiting);
            } else if let Some(due) = queue.next_due() {
                let woken = self.is_sooner.wait_timeout(queue, due.saturating_sub(now));
                (queue, _) = woken.unwrap_or_else(PoisonError::into_inner);
            } else {
                queue = self.is_sooner.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn release(&self, waiting: &Waiting) {
        let Waiting { from, to, passage, .. } = *waiting;
        let mut direction = self.direction(from, to);
        if direction.release_waiting() {
            self.send(&mut direction, from, to, passage, &waiting.bytes);
        }
        direction.finish_waiting(passage);
    }

    fn send(
        &self,
        direction: &mut Direction,
        from: usize,
        to: usize,
        passage: Passage,
        bytes: &[u8],
    ) {
        for _ in 0..1 + usize::from(passage.is_duplicated) {
            match self.fronts[from].send_to(bytes, self.real[to]) {
                Ok(length) => direction.count_forwarded(length),
                Err(_) => direction.count_crowded_out(),
            }
        }
    }

    fn direction(&self, from: usize, to: usize) -> MutexGuard<'_, Direction> {
        assert!(to < self.real.len(), "there is no node {to}");
        lock(&self.directions[from * self.real.len() + to])
    }

    /// Time since the relay was started.
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads a clock")]
fn begin() -> Instant {
    Instant::now()
}

/// What a panic left behind is whole: no change of state is spread over several steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_front(ip: IpAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((ip, 0))?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
    Ok(socket)
}

fn loopback_of(address: SocketAddr) -> IpAddr {
    if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

fn check_addresses(real: &[SocketAddr]) -> io::Result<()> {
    let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if real.len() > NODES_MAX {
        return refuse("more nodes than a relay carries for");
    }
    if real.iter().enumerate().any(|(place, address)| real[..place].contains(address)) {
        return refuse("two nodes have one address");
    }
    if real.iter().any(|address| address.is_ipv4() != real[0].is_ipv4()) {
        return refuse("some nodes have addresses of IPv4 and some of IPv6");
    }
    Ok(())
}
