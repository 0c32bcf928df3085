//! A node that is out of file descriptors: calm, still answering, and whole again afterwards.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::fleet::await_whole;
use crate::support::process::cpu_ms;
use crate::support::{Fleet, Node, Stopwatch, Surface, check, pause, wait_until};

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
