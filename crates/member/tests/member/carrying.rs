//! The transport alone: what it carries, and what happens when there is too much of it.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::Bytes;
use member::tls::Credentials;
use member::transport::{
    CONNECTIONS_MAX, Channel, CloseCode, EVENTS_MAX, Endpoint, EndpointConfig, Event, Failure,
    Link, SendError,
};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::fleet::{Authority, now_ns};

const LONG: Duration = Duration::from_secs(20);

/// Frames of types that this version skips, with `length` bytes in all and `number` as the content.
fn frame(length: usize, number: u32) -> Bytes {
    let mut bytes = vec![0; length];
    bytes[0] = 0x7f;
    bytes[4..8].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    Bytes::from(bytes)
}

/// The longest frame of an unknown type.
const LONG_FRAME: usize = 256 << 10;

fn number_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[8..12].try_into().unwrap())
}

struct Side {
    endpoint: Endpoint,
    events: mpsc::Receiver<Event>,
}

impl Side {
    fn new(authority: &Authority, name: &str) -> Self {
        Self::bounded(authority, name, CONNECTIONS_MAX)
    }

    fn bounded(authority: &Authority, name: &str, connections_max: usize) -> Self {
        let credentials = Credentials::load(&authority.issue(name, name)).unwrap();
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config =
            EndpointConfig { listen, credentials: &credentials, connections_max, now: now_ns };
        Self { endpoint: Endpoint::bind(&config, sender).unwrap(), events }
    }

    async fn next(&mut self) -> Event {
        timeout(LONG, self.events.recv()).await.unwrap().unwrap()
    }

    async fn connected(&mut self) -> Link {
        match self.next().await {
            Event::Connected { link, .. } => link,
            other => panic!("{other:?}"),
        }
    }

    async fn frame(&mut self) -> Bytes {
        match self.next().await {
            Event::Frame { bytes, .. } => bytes,
            other => panic!("{other:?}"),
        }
    }

    async fn closed(&mut self) -> Failure {
        loop {
            if let Event::Closed { why, .. } = self.next().await {
                return why;
            }
        }
    }
}

/// Two sides, connected, with one frame carried.
async fn pair(authority: &Authority) -> ((Side, Link), (Side, Link)) {
    let (mut a, mut b) = (Side::new(authority, "a"), Side::new(authority, "b"));
    assert!(a.endpoint.dial(b.endpoint.local()));
    let from_a = a.connected().await;
    from_a.send(Channel::Ordered, frame(12, 0)).unwrap();
    let from_b = b.connected().await;
    assert_eq!(b.frame().await, frame(12, 0));
    ((a, from_a), (b, from_b))
}

#[tokio::test]
async fn frames_arrive_whole_and_in_order_in_both_directions() {
    let authority = Authority::new();
    let ((mut a, from_a), (mut b, from_b)) = pair(&authority).await;
    assert_eq!(from_a.dialed(), Some(b.endpoint.local()));
    assert_eq!((from_b.dialed(), from_b.remote()), (None, a.endpoint.local()));
    for number in 1..200 {
        let length = 12 + 997 * usize::try_from(number).unwrap();
        from_a.send(Channel::Ordered, frame(length, number)).unwrap();
        from_b.send(Channel::Bulk, frame(length, number)).unwrap();
    }
    for number in 1..200 {
        assert_eq!(number_of(&b.frame().await), number);
        assert_eq!(number_of(&a.frame().await), number);
    }
}

#[tokio::test]
async fn what_was_sent_before_a_close_arrives() {
    let authority = Authority::new();
    let ((mut a, from_a), (mut b, _)) = pair(&authority).await;
    from_a.send(Channel::Ordered, frame(LONG_FRAME, 1)).unwrap();
    from_a.close(CloseCode { number: 300, word: "refused" });
    assert_eq!(number_of(&b.frame().await), 1);
    assert_eq!(b.closed().await, Failure::Closed(300, "refused".to_owned()));
    assert_eq!(a.closed().await, Failure::ByUs);
    assert_eq!(from_a.send(Channel::Ordered, frame(12, 2)), Err(SendError::Closed));
}

#[tokio::test]
async fn an_owner_that_is_slow_does_not_look_silent() {
    let authority = Authority::new();
    let ((_a, from_a), (mut b, from_b)) = pair(&authority).await;
    // More than b's queue takes: reading stops until b takes events again.
    let frames = 500;
    for number in 0..frames {
        for channel in [Channel::Ordered, Channel::Bulk] {
            from_a.send(channel, frame(100_000, number)).unwrap();
        }
    }
    let carried = || from_b.udp_bytes().1;
    let mut before = carried();
    loop {
        sleep(Duration::from_millis(300)).await;
        let after = carried();
        // Pings alone are a few hundred bytes.
        if after - std::mem::replace(&mut before, after) < 10_000 {
            break;
        }
    }
    let begun_ns = now_ns();
    let mut silence_max_ns = 0;
    while now_ns() - begun_ns < 1_500_000_000 {
        for link in [&from_a, &from_b] {
            silence_max_ns = silence_max_ns.max(now_ns().saturating_sub(link.heard_ns()));
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert!(silence_max_ns < 500_000_000, "silent for {silence_max_ns} ns");
    let mut arrived = 0;
    while arrived < 2 * frames {
        b.frame().await;
        arrived += 1;
    }
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_closed_when_too_much_waits() {
    let authority = Authority::new();
    let ((mut a, from_a), _b) = pair(&authority).await;
    let mut sent = 0;
    let error = loop {
        match from_a.send(Channel::Ordered, frame(LONG_FRAME, 0)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        if sent % 64 == 0 {
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(error, SendError::Full);
    assert!(sent * LONG_FRAME <= (member::transport::OUTGOING_BYTES_MAX + (128 << 20)));
    assert_eq!(a.closed().await, Failure::Full);
    assert_eq!(a.endpoint.counts().snapshot().full, 1);
}

#[tokio::test]
async fn too_many_small_frames_close_a_link_too() {
    let authority = Authority::new();
    let ((mut a, from_a), _b) = pair(&authority).await;
    // Nothing runs in between, so that nothing is taken from the queue.
    let errors = (0..10_000).filter(|_| from_a.send(Channel::Bulk, frame(12, 0)).is_err()).count();
    assert_eq!(errors, 10_000 - member::transport::OUTGOING_FRAMES_MAX);
    assert_eq!(a.closed().await, Failure::Full);
}

#[tokio::test]
async fn datagrams_arrive_and_are_dropped_when_nobody_takes_them() {
    let authority = Authority::new();
    let ((_a, from_a), (mut b, _)) = pair(&authority).await;
    assert!(from_a.send_datagram(Bytes::from_static(b"news")));
    match b.next().await {
        Event::Datagram { bytes, .. } => assert_eq!(&bytes[..], b"news"),
        other => panic!("{other:?}"),
    }
    let counts = std::sync::Arc::clone(b.endpoint.counts());
    while counts.snapshot().datagrams_dropped == 0 {
        from_a.send_datagram(Bytes::from_static(b"news"));
        tokio::task::yield_now().await;
    }
    assert!(!from_a.send_datagram(Bytes::from(vec![0; 2_000])), "too long for a datagram");
}

#[tokio::test]
async fn a_dial_of_nobody_ends_after_a_second() {
    let authority = Authority::new();
    let mut a = Side::new(&authority, "a");
    let nobody = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let address = nobody.local_addr().unwrap();
    assert!(a.endpoint.dial(address));
    match a.next().await {
        Event::NotDialed { address: dialed, why } => {
            assert_eq!((dialed, why), (address, Failure::Timeout));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_peer_that_comes_while_it_is_dialled_is_reached() {
    let authority = Authority::new();
    let mut a = Side::new(&authority, "a");
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let address = socket.local_addr().unwrap();
    assert!(a.endpoint.dial(address));
    sleep(Duration::from_millis(50)).await;
    drop(socket);
    let credentials = Credentials::load(&authority.issue("b", "b")).unwrap();
    let (sender, _events) = mpsc::channel(EVENTS_MAX);
    let config = EndpointConfig {
        listen: address,
        credentials: &credentials,
        connections_max: CONNECTIONS_MAX,
        now: now_ns,
    };
    let _b = Endpoint::bind(&config, sender).unwrap();
    a.connected().await;
}

#[tokio::test]
async fn more_dials_than_may_wait_are_not_taken() {
    let authority = Authority::new();
    let a = Side::new(&authority, "a");
    let taken = (0..400).filter(|_| a.endpoint.dial(a.endpoint.local())).count();
    assert_eq!(taken, 256);
}

#[tokio::test]
async fn more_connections_than_there_may_be_are_turned_away() {
    let authority = Authority::new();
    let victim = Side::bounded(&authority, "victim", 4);
    let mut a = Side::new(&authority, "a");
    for _ in 0..12 {
        assert!(a.endpoint.dial(victim.endpoint.local()));
    }
    let (mut reached, mut refused) = (0, 0);
    while reached + refused < 12 {
        match a.next().await {
            Event::Connected { link, .. } => {
                link.send(Channel::Ordered, frame(12, 0)).unwrap();
                reached += 1;
            }
            Event::NotDialed { .. } => refused += 1,
            _ => {}
        }
    }
    assert!(reached <= 4, "{reached} were taken");
    assert!(victim.endpoint.counts().snapshot().over_handshakes > 0);
}
