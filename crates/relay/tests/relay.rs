//! The relay between real sockets: who hears whom, from where, and in what weather.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use relay::{Counts, Relay, Weather};

/// How long a datagram may take that must come. It only ends a test that has failed.
const PATIENCE: Duration = Duration::from_secs(9);

/// As many ends as a cluster has nodes, and a relay between them.
struct Ends {
    sockets: Vec<UdpSocket>,
    relay: Relay,
}

impl Ends {
    fn new(seed: u64, count: usize) -> Self {
        let sockets: Vec<_> = (0..count).map(|_| socket()).collect();
        let real: Vec<_> = sockets.iter().map(address_of).collect();
        let relay = Relay::start(seed, &real).expect("a relay");
        Self { sockets, relay }
    }

    fn send(&self, from: usize, to: usize, bytes: &[u8]) {
        self.sockets[from].send_to(bytes, self.relay.front(to)).expect("it is sent");
    }

    fn receive(&self, at: usize) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 2_000];
        let (length, source) = self.sockets[at].recv_from(&mut buffer).expect("it comes");
        (buffer[..length].to_vec(), source)
    }

    /// Numbers of the datagrams that come before the one that says `end`.
    fn receive_numbers(&self, at: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        loop {
            let (bytes, _) = self.receive(at);
            match <[u8; 4]>::try_from(bytes.as_slice()) {
                Ok(number) => numbers.push(u32::from_be_bytes(number)),
                Err(_) => return numbers,
            }
        }
    }

    /// Sends this many numbers one way, few enough at a time for the system's buffers, and says which
    /// arrived.
    fn send_numbers(&self, from: usize, to: usize, count: u32, weather: Weather) -> Vec<u32> {
        let mut arrived = Vec::new();
        for number in 0..count {
            self.relay.set_weather(from, to, weather);
            self.send(from, to, &number.to_be_bytes());
            if number % 50 == 49 {
                self.await_carried(from, to, u64::from(number) + 1 + u64::from(number / 50));
                self.relay.set_weather(from, to, Weather::default());
                self.send(from, to, b"end");
                arrived.extend(self.receive_numbers(to));
            }
        }
        arrived
    }

    /// Waits until the relay has decided about this many datagrams.
    fn await_carried(&self, from: usize, to: usize, count: u64) {
        let decided = || {
            let counts = self.relay.counts(from, to);
            counts.forwarded - counts.duplicated + counts.lost + counts.cut
        };
        while decided() < count {
            std::thread::yield_now();
        }
        assert_eq!(decided(), count);
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    socket
}

fn address_of(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}

#[test]
fn each_hears_from_the_front_of_the_sender_and_can_answer_there() {
    let ends = Ends::new(1, 3);
    ends.send(0, 1, b"question");
    let (bytes, source) = ends.receive(1);
    assert_eq!((bytes.as_slice(), source), (&b"question"[..], ends.relay.front(0)));
    ends.sockets[1].send_to(b"answer", source).unwrap();
    let (bytes, source) = ends.receive(0);
    assert_eq!((bytes.as_slice(), source), (&b"answer"[..], ends.relay.front(1)));
    // Who dials his own front meets himself.
    ends.send(2, 2, b"me");
    assert_eq!(ends.receive(2), (b"me".to_vec(), ends.relay.front(2)));
    let once = |bytes| Counts { forwarded: 1, bytes, ..Counts::default() };
    assert_eq!((ends.relay.counts(0, 1), ends.relay.counts(1, 0)), (once(8), once(6)));
    assert_eq!(ends.relay.counts(0, 2), Counts::default());
}

#[test]
fn an_empty_and_a_large_datagram_pass_as_they_are() {
    let ends = Ends::new(1, 2);
    ends.send(0, 1, b"");
    assert_eq!(ends.receive(1).0, b"");
    let large = vec![7; 1_472];
    ends.send(0, 1, &large);
    assert_eq!(ends.receive(1).0, large);
}

#[test]
fn a_cut_is_one_way_and_is_mended() {
    let ends = Ends::new(1, 2);
    ends.relay.cut(0, 1);
    ends.send(0, 1, b"unheard");
    ends.await_carried(0, 1, 1);
    ends.send(1, 0, b"heard");
    assert_eq!(ends.receive(0).0, b"heard");
    ends.relay.mend(0, 1);
    ends.send(0, 1, b"again");
    assert_eq!(ends.receive(1).0, b"again");
    assert_eq!(ends.relay.counts(0, 1).cut, 1);
    assert_eq!(ends.relay.counts(1, 0).cut, 0);
}

#[test]
fn who_is_isolated_neither_hears_nor_is_heard_and_the_rest_goes_on() {
    let ends = Ends::new(1, 3);
    ends.relay.isolate(2);
    for (from, to) in [(0, 2), (2, 0), (1, 2), (2, 1)] {
        ends.send(from, to, b"unheard");
        ends.await_carried(from, to, 1);
        assert_eq!(ends.relay.counts(from, to).cut, 1);
    }
    for (from, to) in [(0, 1), (1, 0), (2, 2)] {
        ends.send(from, to, b"heard");
        assert_eq!(ends.receive(to).0, b"heard");
    }
    ends.relay.rejoin(2);
    for (from, to) in [(0, 2), (2, 0), (1, 2), (2, 1)] {
        ends.send(from, to, b"again");
        assert_eq!(ends.receive(to).0, b"again");
    }
}

#[test]
fn who_comes_back_ends_neither_anothers_isolation_nor_a_cut() {
    let ends = Ends::new(1, 4);
    ends.relay.isolate(2);
    ends.relay.isolate(3);
    ends.relay.cut(3, 0);
    ends.relay.rejoin(3);
    for (from, to) in [(2, 3), (3, 2), (3, 0)] {
        ends.send(from, to, b"unheard");
        ends.await_carried(from, to, 1);
        assert_eq!(ends.relay.counts(from, to).cut, 1, "{from} to {to}");
    }
    ends.send(0, 3, b"heard");
    assert_eq!(ends.receive(3).0, b"heard");
}

#[test]
fn a_stranger_is_dropped_and_counted() {
    let ends = Ends::new(1, 2);
    let stranger = socket();
    stranger.send_to(b"let me in", ends.relay.front(1)).unwrap();
    while ends.relay.strangers() == 0 {
        std::thread::yield_now();
    }
    ends.send(0, 1, b"known");
    assert_eq!(ends.receive(1).0, b"known");
    assert_eq!(ends.relay.strangers(), 1);
}

#[test]
fn what_is_lost_is_the_same_for_the_same_seed_and_about_its_share() {
    let weather = Weather { loss_ppm: 200_000, ..Weather::default() };
    let arrived = |seed| {
        let ends = Ends::new(seed, 2);
        let arrived = ends.send_numbers(0, 1, 2_000, weather);
        let lost = 2_000 - u64::try_from(arrived.len()).unwrap();
        assert_eq!(ends.relay.counts(0, 1).lost, lost);
        assert!(arrived.is_sorted());
        arrived
    };
    let first = arrived(7);
    assert_eq!(first, arrived(7));
    assert_ne!(first, arrived(8));
    // Six standard deviations.
    assert!((1_493..=1_707).contains(&first.len()), "{}", first.len());
}

#[test]
fn copies_follow_and_are_counted() {
    let ends = Ends::new(1, 2);
    let weather = Weather { duplicate_ppm: 1_000_000, ..Weather::default() };
    let arrived = ends.send_numbers(0, 1, 100, weather);
    let twice: Vec<_> = (0..100).flat_map(|number| [number, number]).collect();
    assert_eq!(arrived, twice);
    let counts = ends.relay.counts(0, 1);
    assert_eq!((counts.duplicated, counts.forwarded), (100, 202));
}

#[test]
fn order_is_kept_through_delay_and_jitter_and_lost_where_asked_for() {
    let delay = Duration::from_millis(2);
    let jitter = Weather { delay, jitter: delay, ..Weather::default() };
    let ends = Ends::new(1, 2);
    let sent = (0..500).collect::<Vec<_>>();
    assert_eq!(ends.send_numbers(0, 1, 500, jitter), sent);
    assert_eq!(ends.relay.counts(0, 1).reordered, 0);
    let reordered = Weather { delay, reorder_ppm: 200_000, ..Weather::default() };
    let mut arrived = ends.send_numbers(1, 0, 500, reordered);
    assert!(!arrived.is_sorted());
    arrived.sort_unstable();
    assert_eq!(arrived, sent);
    assert!(ends.relay.counts(1, 0).reordered > 0);
}

/// A delay without end fills the queue; what finds no room is dropped and counted, and the relay
/// still ends.
#[test]
fn a_full_queue_drops_and_counts() {
    const ROOM: u64 = 16_384;
    let ends = Ends::new(1, 2);
    let stuck = Weather { delay: Duration::MAX, ..Weather::default() };
    ends.relay.set_weather(0, 1, stuck);
    let mut sent = 0;
    while ends.relay.counts(0, 1).crowded_out == 0 {
        ends.send(0, 1, b"late");
        sent += 1;
    }
    assert!(sent > ROOM);
    assert_eq!(ends.relay.counts(0, 1).forwarded, 0);
    // The other direction needs no place in the queue.
    ends.send(1, 0, b"in time");
    assert_eq!(ends.receive(0).0, b"in time");
}

#[test]
fn a_relay_that_is_dropped_has_ended_its_threads_and_closed_its_fronts() {
    let ends = Ends::new(1, 3);
    let fronts = [0, 1, 2].map(|node| ends.relay.front(node));
    ends.relay.set_weather(0, 1, Weather { delay: Duration::MAX, ..Weather::default() });
    ends.send(0, 1, b"late");
    drop(ends.relay);
    for front in fronts {
        UdpSocket::bind(front).expect("nobody holds the address");
    }
}

#[test]
fn addresses_that_it_cannot_tell_apart_or_serve_are_refused() {
    let refused = |addresses: &[&str]| {
        let real: Vec<SocketAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
        Relay::start(1, &real).expect_err("it is refused").kind()
    };
    let invalid = io::ErrorKind::InvalidInput;
    assert_eq!(refused(&["127.0.0.1:1", "127.0.0.1:1"]), invalid);
    assert_eq!(refused(&["127.0.0.1:1", "[::1]:1"]), invalid);
    let many: Vec<_> = (1..=65).map(|port| format!("127.0.0.1:{port}")).collect();
    assert_eq!(refused(&many.iter().map(String::as_str).collect::<Vec<_>>()), invalid);
    assert!(Relay::start(1, &[]).is_ok());
}
