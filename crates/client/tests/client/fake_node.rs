//! A node for tests: a real socket and the real codec, driven by a script on a thread of its own.
//!
//! It decides nothing: the script says what is received, answered, kept back or broken.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use client::{Address, Freshness, Reason};
use limiter::{
    Decision, Limit, Limiter, Op, Plan, Quota, Rate, StoreConfig, Unmatched, Verdict, Wait,
    WhenFull,
};
use socket2::{Domain, SockAddr, Socket, Type};
use wire::{ErrorCode, FRAME_BYTES_MAX, ReplyWriter, RequestFrame, Status};

/// How long a script or a client that must be answered waits before the test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Udp,
    Stream,
    Seqpacket,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Udp, Kind::Stream, Kind::Seqpacket];

/// A folder that is removed when it is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "rlnode-client-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a folder for sockets");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A node that runs a script.
pub(crate) struct FakeNode {
    address: Address,
    script: JoinHandle<()>,
    _folder: Folder,
}

impl FakeNode {
    pub(crate) fn run(kind: Kind, script: impl FnOnce(&mut Door) + Send + 'static) -> Self {
        let folder = Folder::new();
        let (mut door, address) = Door::bind(kind, &folder);
        let script = std::thread::spawn(move || script(&mut door));
        Self { address, script, _folder: folder }
    }

    pub(crate) fn address(&self) -> Address {
        self.address.clone()
    }

    /// Waits for the end of the script, and fails if it failed.
    pub(crate) fn finish(self) {
        if let Err(panic) = self.script.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The node's side of a socket, with one client at a time.
pub(crate) struct Door {
    socket: Listener,
    client: Option<Socket>,
    received: Vec<u8>,
}

enum Listener {
    Udp(UdpSocket, Option<SocketAddr>),
    Unix(Socket, Kind),
}

impl Door {
    pub(crate) fn bind(kind: Kind, folder: &Folder) -> (Self, Address) {
        let path = folder.0.join("node.sock");
        let (socket, address) = match kind {
            Kind::Udp => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
                socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
                let bound = socket.local_addr().expect("a port").to_string();
                (Listener::Udp(socket, None), bound.parse().expect("an address"))
            }
            Kind::Stream => (listen(kind, Type::STREAM, &path), Address::Stream(path)),
            Kind::Seqpacket => (listen(kind, Type::SEQPACKET, &path), Address::Seqpacket(path)),
        };
        (Self { socket, client: None, received: Vec::new() }, address)
    }

    /// The next frame, from the client that is connected or the next one that connects.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        self.try_receive().expect("a frame, not the end of the connection")
    }

    /// The next frame; none at the end of the connection.
    pub(crate) fn try_receive(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        let (listener, kind) = match &mut self.socket {
            Listener::Udp(socket, client) => {
                let (len, from) = socket.recv_from(&mut buffer).expect("a datagram");
                *client = Some(from);
                buffer.truncate(len);
                return Some(buffer);
            }
            Listener::Unix(listener, kind) => (listener, *kind),
        };
        let client = self.client.get_or_insert_with(|| {
            let (client, _) = listener.accept().expect("a client");
            client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            client
        });
        loop {
            let length = wire::frame_length(&self.received).expect("a frame of the client");
            if let Some(length) = length.filter(|length| *length <= self.received.len()) {
                let rest = self.received.split_off(length);
                return Some(std::mem::replace(&mut self.received, rest));
            }
            let len = client.read(&mut buffer).expect("a readable socket");
            self.received.extend_from_slice(&buffer[..len]);
            if len == 0 {
                return None;
            }
            if kind == Kind::Seqpacket {
                assert_eq!(wire::frame_length(&buffer[..len]), Ok(Some(len)), "one frame each");
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        match (&self.socket, &mut self.client) {
            (Listener::Udp(socket, client), _) => {
                let client = client.expect("a client that asked");
                socket.send_to(bytes, client).expect("a datagram sent");
            }
            (Listener::Unix(..), client) => {
                let client = client.as_mut().expect("a client that asked");
                client.write_all(bytes).expect("bytes sent");
            }
        }
    }

    /// Answers the next frame with a reply that allows everything.
    pub(crate) fn serve_one(&mut self) {
        let frame = self.receive();
        self.send(&allow(&frame));
    }

    /// Closes the connection.
    pub(crate) fn hang_up(&mut self) {
        self.client = None;
        self.received.clear();
    }
}

fn listen(kind: Kind, socket_type: Type, path: &Path) -> Listener {
    let socket = Socket::new(Domain::UNIX, socket_type, None).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.bind(&SockAddr::unix(path).expect("a short path")).expect("a free path");
    socket.listen(16).expect("a listener");
    Listener::Unix(socket, kind)
}

/// The keys that a frame asks about.
pub(crate) fn keys(frame: &[u8]) -> Vec<String> {
    let request = RequestFrame::decode(frame).expect("a sound frame");
    let key = |check: Result<wire::Check<'_>, _>| {
        String::from_utf8(check.expect("a sound check").request.key.to_vec()).expect("text")
    };
    request.checks().map(key).collect()
}

/// The operations of a frame.
pub(crate) fn ops(frame: &[u8]) -> Vec<Op> {
    let request = RequestFrame::decode(frame).expect("a sound frame");
    request.checks().map(|check| check.expect("a sound check").request.op).collect()
}

/// A reply that allows every check of `frame`. What remains is the number that the key is, so that
/// an answer can be told from its neighbours.
pub(crate) fn allow(frame: &[u8]) -> Vec<u8> {
    answer(frame, |key| decision(true, key.parse().ok(), Wait::ZERO))
}

/// A reply that denies every check of `frame`.
pub(crate) fn deny(frame: &[u8], retry_after: Wait) -> Vec<u8> {
    answer(frame, |_| decision(false, Some(0), retry_after))
}

pub(crate) fn answer(frame: &[u8], decide: impl Fn(&str) -> Decision<'static>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = ReplyWriter::new(&mut out, wire::frame_id(frame));
    for key in keys(frame) {
        reply.decision(&decide(&key), Some(1_700_000_000_123));
    }
    reply.finish();
    out
}

/// A reply that gives every check of `frame` a status.
pub(crate) fn refuse(frame: &[u8], status: Status) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = ReplyWriter::new(&mut out, wire::frame_id(frame));
    for _ in keys(frame) {
        reply.status(status);
    }
    reply.finish();
    out
}

/// An error frame in answer to `frame`.
pub(crate) fn reject(frame: &[u8], code: ErrorCode) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write_error(&mut out, wire::frame_id(frame), code);
    out
}

/// `reply`, in answer to a frame with another id.
pub(crate) fn with_id(mut reply: Vec<u8>, id: u64) -> Vec<u8> {
    reply[8..16].copy_from_slice(&id.to_le_bytes());
    reply
}

pub(crate) fn decision(
    allowed: bool,
    remaining: Option<u64>,
    retry_after: Wait,
) -> Decision<'static> {
    Decision {
        verdict: Verdict {
            limit_name: "per-key/pro",
            allowed,
            reason: if allowed { Reason::Ok } else { Reason::Limit },
            shadow: false,
            limit: Some(100),
            remaining,
            reset_after: Wait::from_ns(1_500_000),
            retry_after,
            delay: Wait::ZERO,
            window: Wait::from_ns(10_000_000_000),
        },
        freshness: Freshness::Alone,
        stale_ms: 7,
        details: Vec::new(),
    }
}

/// A fallback limit of `burst` checks and then no more for a year.
pub(crate) fn local_limit(burst: u64) -> Box<Limiter> {
    const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;
    let rate = Rate { count: 1, period_ns: YEAR_NS };
    let limit = Limit::new("local", Quota::TokenBucket { rate, burst });
    let plan = Plan::compile(vec![limit], Unmatched::Allow).expect("a sound limit");
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [0; 16],
    };
    Box::new(Limiter::new(plan, store))
}
