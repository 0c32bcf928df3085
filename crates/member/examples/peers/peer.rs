//! One process of the measurement: an endpoint, its links, frames and answers.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use member::tls::Credentials;
use member::transport::{
    CONNECTIONS_MAX, Channel, EVENTS_MAX, Endpoint, EndpointConfig, Event, Link, LinkId,
};
use rustix::time::ClockId;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::report::Report;
use crate::{Plan, WARM_UP, certificates, load, now_ns};

/// How often a frame goes out on every link, as the cluster's exchange.
const EXCHANGE_EVERY_NS: u64 = 200_000_000;
/// Mean time between frames that go out early.
const EARLY_EVERY_NS: u64 = 300_000_000;
/// How long a link may be silent, or a frame unanswered, before the cluster calls the peer lost.
const LOST_AFTER_NS: u64 = 500_000_000;
/// How often silence is looked for and absent peers are dialled.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long to wait before an address is dialled again.
const REDIAL_AFTER_NS: u64 = 200_000_000;

/// Frames of types that a node would skip: here they mean a question and its answer.
const QUESTION: u8 = 0x70;
const ANSWER: u8 = 0x71;
const HEADER_LEN: usize = 8;
/// Header, and when the question was sent.
const FRAME_LEN_MIN: usize = HEADER_LEN + 8;

/// Measures as process `index`, and prints the report as one line.
pub(crate) fn run(plan: &Plan, index: usize, folder: &Path) -> Result<(), Box<dyn Error>> {
    let credentials = Credentials::load(&certificates::files(folder, index))?;
    let plan = plan.clone();
    let processors = std::thread::available_parallelism()?.get();
    load::start(plan.load * processors as u64 / plan.peers as u64);
    let sync = std::thread::Builder::new().name("rlnode-sync".to_owned());
    let thread = sync.spawn(move || -> Result<Report, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(measure(&plan, index, &credentials)).map_err(|error| error.to_string())
    })?;
    let report = thread.join().map_err(|_| "the sync thread panicked")??;
    println!("{}", report.written());
    Ok(())
}

async fn measure(
    plan: &Plan,
    index: usize,
    credentials: &Credentials,
) -> Result<Report, Box<dyn Error>> {
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let address = |index: usize| -> Result<SocketAddr, Box<dyn Error>> {
        Ok(SocketAddr::from(([127, 0, 0, 1], plan.port + u16::try_from(index)?)))
    };
    let config = EndpointConfig {
        listen: address(index)?,
        credentials,
        connections_max: CONNECTIONS_MAX,
        now: now_ns,
    };
    let endpoint = Endpoint::bind(&config, sender)?;
    let mut peer = Peer::new(plan, index);
    for other in 0..index {
        peer.unlinked.insert(address(other)?, 0);
    }
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begins_ns = now_ns() + u64::try_from(WARM_UP.as_nanos())?;
    let ends_ns = begins_ns + plan.seconds * 1_000_000_000;
    let mut cpu_before_ns = 0;
    let mut is_warm = false;
    while now_ns() < ends_ns {
        if !is_warm && now_ns() >= begins_ns {
            is_warm = true;
            peer.report = Report::default();
            cpu_before_ns = thread_cpu_ns();
            peer.sent_before = peer.sent_bytes();
        }
        tokio::select! {
            Some(event) = events.recv() => peer.handle_event(event),
            _ = looks.tick() => peer.look(&endpoint),
            () = sleep(peer.until_send()) => peer.send_due(),
        }
    }
    peer.report.sync_cpu_ns = thread_cpu_ns() - cpu_before_ns;
    peer.report.sent_bytes = peer.sent_bytes() - peer.sent_before;
    if peer.links.len() + 1 != plan.peers {
        return Err(format!("{} links at the end", peer.links.len()).into());
    }
    // The slowest process ends before the first closes its links.
    sleep(WARM_UP).await;
    endpoint.close().await;
    Ok(peer.report)
}

/// A link and what is open on it.
struct Open {
    link: Link,
    /// When each question that has no answer was sent; the value says that it counted as lost.
    unanswered: BTreeMap<u64, bool>,
    was_silent: bool,
}

struct Peer {
    report: Report,
    links: HashMap<LinkId, Open>,
    /// Addresses to dial, with the time from which.
    unlinked: HashMap<SocketAddr, u64>,
    exchange_ns: u64,
    early_ns: u64,
    frame_len: usize,
    random: u64,
    sent_before: u64,
}

impl Peer {
    fn new(plan: &Plan, index: usize) -> Self {
        let mut peer = Self {
            report: Report::default(),
            links: HashMap::new(),
            unlinked: HashMap::new(),
            exchange_ns: 0,
            early_ns: 0,
            frame_len: plan.frame.max(FRAME_LEN_MIN),
            random: 0x9e37_79b9_7f4a_7c15 ^ (index as u64 + 1),
            sent_before: 0,
        };
        let now = now_ns();
        peer.exchange_ns = now + peer.random_below(EXCHANGE_EVERY_NS);
        peer.early_ns = now + peer.random_below(2 * EARLY_EVERY_NS);
        peer
    }

    /// Xorshift: an even spread is all that is asked of it.
    fn random_below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn sent_bytes(&self) -> u64 {
        self.links.values().map(|open| open.link.udp_bytes().0).sum()
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Connected { link, .. } => {
                if let Some(address) = link.dialed() {
                    self.unlinked.remove(&address);
                }
                let open = Open { link, unanswered: BTreeMap::new(), was_silent: false };
                // The other side does not see the stream before something is on it.
                let _ = open.link.send(Channel::Ordered, frame(ANSWER, 0, FRAME_LEN_MIN));
                self.links.insert(open.link.id(), open);
            }
            Event::Frame { link, bytes, .. } => self.handle_frame(link, &bytes),
            Event::Closed { link, .. } => {
                self.report.closed += 1;
                let open = self.links.remove(&link);
                if let Some(address) = open.and_then(|open| open.link.dialed()) {
                    self.unlinked.insert(address, now_ns());
                }
            }
            Event::NotDialed { address, .. } => {
                self.unlinked.insert(address, now_ns() + REDIAL_AFTER_NS);
            }
            Event::Datagram { .. } => {}
        }
    }

    fn handle_frame(&mut self, link: LinkId, bytes: &[u8]) {
        let Some(open) = self.links.get_mut(&link) else { return };
        let sent = bytes.get(HEADER_LEN..FRAME_LEN_MIN).and_then(|bytes| bytes.try_into().ok());
        let sent_ns = sent.map_or(0, u64::from_le_bytes);
        match bytes.first() {
            Some(&QUESTION) => {
                let _ = open.link.send(Channel::Ordered, frame(ANSWER, sent_ns, FRAME_LEN_MIN));
            }
            Some(&ANSWER) if open.unanswered.remove(&sent_ns).is_some() => {
                let taken_ns = now_ns().saturating_sub(sent_ns);
                self.report.round_trips.saturating_record(taken_ns);
            }
            _ => {}
        }
    }

    /// Dials whom it is time to dial, and looks at how long every link was silent.
    fn look(&mut self, endpoint: &Endpoint) {
        let now = now_ns();
        for (address, from_ns) in &mut self.unlinked {
            if *from_ns <= now && endpoint.dial(*address) {
                *from_ns = u64::MAX;
            }
        }
        for open in self.links.values_mut() {
            let silence_ns = now.saturating_sub(open.link.heard_ns());
            self.report.silence_max_ns = self.report.silence_max_ns.max(silence_ns);
            let is_silent = silence_ns >= LOST_AFTER_NS;
            self.report.silences += u64::from(is_silent && !open.was_silent);
            open.was_silent = is_silent;
            for (sent_ns, counted) in &mut open.unanswered {
                if !*counted && now.saturating_sub(*sent_ns) >= LOST_AFTER_NS {
                    *counted = true;
                    self.report.unanswered += 1;
                }
            }
        }
    }

    fn until_send(&self) -> Duration {
        let next_ns = self.exchange_ns.min(self.early_ns);
        Duration::from_nanos(next_ns.saturating_sub(now_ns()))
    }

    fn send_due(&mut self) {
        let now = now_ns();
        let mut length = 0;
        if now >= self.exchange_ns {
            self.exchange_ns = now + EXCHANGE_EVERY_NS;
            length = self.frame_len;
        }
        if now >= self.early_ns {
            self.early_ns = now + self.random_below(2 * EARLY_EVERY_NS);
            length = length.max(FRAME_LEN_MIN);
        }
        if length == 0 {
            return;
        }
        let question = frame(QUESTION, now, length);
        for open in self.links.values_mut() {
            if open.link.send(Channel::Ordered, question.clone()).is_ok() {
                open.unanswered.insert(now, false);
            }
        }
    }
}

fn frame(kind: u8, sent_ns: u64, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    bytes[0] = kind;
    bytes[4..HEADER_LEN].copy_from_slice(&u32::try_from(length).unwrap_or(0).to_le_bytes());
    bytes[HEADER_LEN..FRAME_LEN_MIN].copy_from_slice(&sent_ns.to_le_bytes());
    Bytes::from(bytes)
}

/// Processor time of this thread.
#[expect(clippy::disallowed_methods, reason = "what the thread used is not the time of day")]
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, ns) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + ns.unwrap_or(0)
}
