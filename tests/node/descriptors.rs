//! A node that is out of file descriptors: calm, still answering, and whole again afterwards.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::fleet::await_whole;
use crate::support::process::cpu_ms;
use crate::support::{Config, Fleet, Node, Place, Stopwatch, Surface, check, pause, wait_until};

/// PR-10: with 64 open files and 500 connections the node neither spins nor floods its log, UDP is
/// answered, its peer stays linked, and a second after they are gone there is room again.
#[test]
fn out_of_file_descriptors_the_node_stays_calm_and_recovers() {
    let limit = "[[limit]]\nname = \"per-key\"\nrate = \"1/h\"\nburst = 1000000\n";
    let fleet = Fleet::new(&["a", "b"], limit);
    let place = fleet.place("a");
    let command = place.command_after("ulimit -n 64");
    let pair = [Node::spawn_unready(place, command), fleet.spawn("b")].map(Node::await_ready);
    await_whole(&pair);
    let node = &pair[0];
    let lines_before = node.log().lines().len();
    let connections: Vec<_> = (0..250)
        .flat_map(|_| {
            let stream = UnixStream::connect(node.stream_path()).expect("a place in the queue");
            let http = std::net::TcpStream::connect(node.http()).expect("a place in the queue");
            [Box::new(stream) as Box<dyn Send>, Box::new(http)]
        })
        .collect();
    let mut udp = node.caller(Surface::Udp);
    wait_until("the first connection that cannot be accepted", Duration::from_secs(5), || {
        node.log().count("cannot be accepted") > 0
    });

    let stopwatch = Stopwatch::start();
    let cpu_before_ms = cpu_ms(node.id());
    while stopwatch.elapsed() < Duration::from_secs(3) {
        assert!(udp.decide(&check("GET /", "alice")).allowed);
        pause(Duration::from_millis(100));
    }
    let cpu_share = (cpu_ms(node.id()) - cpu_before_ms) * 100 / stopwatch.elapsed_ms();
    assert!(cpu_share < 20, "{cpu_share} % of a core while nothing can be accepted");
    let lines = node.log().lines().len() - lines_before;
    assert!(lines < 20, "{lines} lines:\n{}", node.log().text());

    drop(connections);
    let stopwatch = Stopwatch::start();
    for surface in Surface::ALL {
        assert!(node.caller(surface).decide(&check("GET /", "alice")).allowed, "{surface:?}");
    }
    assert!(stopwatch.elapsed() < Duration::from_secs(1), "{:?}", stopwatch.elapsed());
    assert!(node.metrics().sum("rlnode_errors_total", &[("kind", "accept")]) > 0);
    for node in &pair {
        let cluster = node.cluster();
        assert_eq!((&cluster["splits"], &cluster["reached"]), (&0.into(), &2.into()), "{cluster}");
    }
}

/// The soft limit becomes the hard one; one that is below what the doors may take is told with both numbers.
#[test]
fn open_files_are_raised_to_the_hard_limit_and_too_few_are_told() {
    let place = Place::new(&Config::new("[[limit]]\nname = \"per-key\"\nrate = \"1/h\"\n"));
    let command = place.command_after("ulimit -Sn 256; ulimit -Hn 3000");
    let node = Node::spawn_unready(place, command).await_ready();
    let limits = fs::read_to_string(format!("/proc/{}/limits", node.id())).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let numbers: Vec<_> = line.split_whitespace().filter_map(|it| it.parse::<u64>().ok()).collect();
    assert_eq!(numbers, [3000, 3000], "{line}");
    let log = node.log().text();
    // Stream, seqpacket, HTTP over TCP and over its unix socket.
    let needed = 4 * 16_384 + 1_024;
    assert!(log.contains("open_files_max=3000"), "{log}");
    assert!(log.contains(&format!("needed={needed}")), "{log}");
}

/// A door takes more connections than a proxy of many workers opens, and answers on the last of them.
#[test]
fn a_door_takes_thousands_of_idle_connections_beside_one_that_asks() {
    const IDLE: usize = 6_000;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("the hard limit may always be had");
    assert!(
        limit.maximum.is_none_or(|maximum| maximum > 8_000),
        "raise the hard limit of open files"
    );
    let node =
        Node::start(&Config::new("[[limit]]\nname = \"per-key\"\nrate = \"1/h\"\nburst = 9\n"));
    let connections: Vec<_> =
        (0..IDLE).map(|_| UnixStream::connect(node.stream_path()).expect("a place")).collect();
    assert!(node.caller(Surface::Stream).decide(&check("GET /", "alice")).allowed);
    let open = || node.metrics().sum("rlnode_connections", &[("door", "stream")]);
    assert!(open() >= IDLE as u64, "{} connections are open", open());
    assert_eq!(node.metrics().sum("rlnode_errors_total", &[("door", "stream")]), 0);
    drop(connections);
    wait_until("the connections are gone", Duration::from_secs(10), || open() == 0);
}
