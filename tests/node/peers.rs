//! Peers that come again and again, all at once, from elsewhere, or never finish: who is counted, what
//! is left of them, and that nobody waits for them.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use member::tls::{Credentials, TlsFiles};
use member::transport::{CONNECTIONS_MAX, EVENTS_MAX, Endpoint, EndpointConfig, Event};
use rustix::process::Signal;

use crate::support::config::PLENTY;
use crate::support::fleet::{
    HUNDRED_PER_HOUR, await_cluster, await_left, await_reach, await_reached, await_whole, drain,
    left, spend,
};
use crate::support::process::{self, memory_kib, open_files, threads};
use crate::support::time::PATIENCE;
use crate::support::{Fleet, Node, Surface, check, pause, wait_until};

/// The address of a node in the file, with another last part.
fn elsewhere(fleet: &Fleet, node: &str, from: u8, to: u8) {
    let path = fleet.folder().join("cluster.toml");
    let text = fs::read_to_string(&path).expect("the file");
    let listen = |host| format!("[node.{node}.cluster]\nlisten = \"127.{host}:7401\"");
    let ip = fleet.at(0).ip().to_string();
    let network = ip.strip_prefix("127.").and_then(|it| it.rsplit_once('.')).expect("loopback").0;
    let (old, new) = (listen(format!("{network}.{from}")), listen(format!("{network}.{to}")));
    assert_eq!(text.matches(&old).count(), 1, "{text}");
    fs::write(path, text.replace(&old, &new)).expect("our own file");
}

/// PE-13: a node that is gone is forgotten and stays forgotten; when it comes back, each time at an
/// address where it never was, it is one member and not one more.
#[test]
fn a_node_that_comes_back_elsewhere_is_the_same_member() {
    let lines = "name = \"test\"\nforget_after = \"2s\"";
    let fleet = Fleet::with(&["a", "b", "c"], lines, HUNDRED_PER_HOUR);
    let mut nodes = fleet.start();
    assert_eq!(spend(&nodes[0], "alice", 40), 40);
    nodes.pop().expect("c").crash();
    for node in &nodes {
        await_reached(node, 2);
    }
    assert_eq!(drain(&[&nodes[0], &nodes[1]], "alice"), 60, "two have the limit of three");
    for host in 3..6 {
        assert!(nodes.iter().all(|node| node.cluster()["members"] == 2));
        elsewhere(&fleet, "c", host, host + 1);
        let c = fleet.spawn("c").await_ready();
        for node in nodes.iter().chain([&c]) {
            await_cluster(node, "reaches all three", |cluster| {
                assert!(cluster["members"].as_u64().is_some_and(|it| it <= 3), "{cluster}");
                cluster["members"] == 3 && cluster["reached"] == 3
            });
            await_left(node, "alice", 0);
        }
        // It leaves, so that nobody has to wait until it is forgotten.
        c.stop();
        for node in &nodes {
            await_reached(node, 2);
        }
    }
}

/// A limit of which nothing comes back while a test runs.
const EIGHTY: &str = "[[limit]]\nname = \"per-key\"\nrate = \"80/30d\"\n";

/// PE-08: of four nodes each half counts the other, so that both together spend one limit.
#[test]
fn both_halves_of_four_spend_one_limit() {
    let (fleet, relay) = Fleet::behind_relay(&["a", "b", "c", "d"], "name = \"test\"", EIGHTY, 8);
    let nodes = fleet.start();
    let between = || [0, 1].into_iter().flat_map(|one| [(one, 2), (one, 3), (2, one), (3, one)]);
    between().for_each(|(from, to)| relay.cut(from, to));
    for node in &nodes {
        await_reach(node, 2);
    }
    assert_eq!(drain(&[&nodes[0], &nodes[1]], "alice"), 40);
    assert_eq!(drain(&[&nodes[2], &nodes[3]], "alice"), 40);
    between().for_each(|(from, to)| relay.mend(from, to));
    await_whole(&nodes);
    for node in &nodes {
        await_left(node, "alice", 0);
    }
}

/// PE-08: two of four that stay when the others have crashed have their half, and the whole once the
/// others are forgotten.
#[test]
fn two_of_four_have_the_whole_limit_when_the_others_are_forgotten() {
    let lines = "name = \"test\"\nforget_after = \"3s\"";
    let fleet = Fleet::with(&["a", "b", "c", "d"], lines, EIGHTY);
    let mut nodes = fleet.start();
    nodes.drain(2..).for_each(Node::crash);
    for node in &nodes {
        await_reach(node, 2);
        assert_eq!(left(node, "alice"), 40);
    }
    for node in &nodes {
        await_reached(node, 2);
    }
    assert_eq!(drain(&[&nodes[0], &nodes[1]], "alice"), 80);
}

/// What a node holds that peers could make it hold more of.
fn held(node: &Node) -> (usize, usize) {
    (open_files(node.id()), threads(node.id()))
}

/// Ends a peer and starts it again, so many times, by turns as an operator and as a crash would, and
/// expects the other to hold no more than after the first time.
#[track_caller]
fn restart_peer(times: usize) {
    let fleet = Fleet::new(&["a", "b"], HUNDRED_PER_HOUR);
    let mut nodes = fleet.start();
    let (mut before, mut grown_kib) = (None, 0);
    for time in 0..times {
        let end = if time % 2 == 0 { Node::stop } else { Node::crash };
        let again = fleet.spawn_after(nodes.pop().expect("b"), end);
        nodes.push(again.await_ready());
        await_whole(&nodes);
        let a = &nodes[0];
        let (before, memory_before_kib) = *before.get_or_insert((held(a), memory_kib(a.id())));
        // What belonged to the last connection goes with it, a little later.
        wait_until("as many files and threads as after the first", PATIENCE, || {
            let now = held(a);
            now.0 <= before.0 && now.1 <= before.1
        });
        grown_kib = memory_kib(a.id()).saturating_sub(memory_before_kib);
        assert!(grown_kib < 8 * 1024, "{grown_kib} KiB after {} restarts of a peer", time + 1);
        assert_eq!(a.cluster()["members"], 2);
    }
    process::say(&format!("{grown_kib} KiB more after {times} restarts than after one"));
}

/// PE-21: a peer that ends and starts again, six times, leaves nothing behind at the other.
#[test]
fn restarts_of_a_peer_leave_nothing_behind() {
    restart_peer(6);
}

#[test]
#[ignore = "some minutes: scripts/long restarts"]
fn fifty_restarts_of_a_peer_leave_nothing_behind() {
    restart_peer(50);
}

/// Ends what runs beside a test, also when the test fails.
struct EndsAtDrop<'t>(&'t AtomicBool);

impl Drop for EndsAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// PE-16: six nodes join one at once that has the counts of many keys and goes on answering. Each
/// takes them from one peer, and has them when it is ready.
#[test]
fn six_that_join_at_once_have_all_counts_when_they_are_ready() {
    const KEYS: usize = 20_000;
    let names = ["s", "a", "b", "c", "d", "e", "f"];
    let fleet = Fleet::new(&names, HUNDRED_PER_HOUR);
    // It waits for the others for three seconds, and then begins with its part.
    let seed = fleet.spawn("s").await_ready();
    let keys: Vec<_> = (0..KEYS).map(|number| format!("key-{number}")).collect();
    let mut caller = seed.caller(Surface::Stream);
    for keys in keys.chunks(250) {
        let checks: Vec<_> = keys.iter().map(|key| check("GET /", key)).collect();
        assert!(caller.ask_all(&checks).iter().all(|it| it.as_ref().is_ok_and(|it| it.allowed)));
    }
    let (is_over, probed) = (AtomicBool::new(false), AtomicU64::new(0));
    let joined = std::thread::scope(|scope| {
        let _ends_the_probe = EndsAtDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                caller.decide(&check("GET /", "probe"));
                probed.fetch_add(1, Ordering::Relaxed);
                pause(Duration::from_millis(1));
            }
        });
        let starting: Vec<_> = names[1..].iter().map(|name| fleet.spawn(name)).collect();
        let joined: Vec<_> = starting.into_iter().map(Node::await_ready).collect();
        for node in &joined {
            for key in keys.iter().step_by(KEYS / 20) {
                assert_eq!(left(node, key), 99, "`{key}` on `{}`", node.place().node());
            }
        }
        for node in joined.iter().chain([&seed]) {
            await_reached(node, names.len());
        }
        joined
    });
    assert!(probed.into_inner() > 100, "the seed answered while they joined");
    for node in &joined {
        let log = node.log();
        assert_eq!(log.count("took the counts of"), 1, "{}", log.text());
    }
    drop(joined);
}

/// TM-04: a node that stood still sends what it has to tell once, and not once for every exchange
/// that it missed.
#[test]
fn the_exchanges_of_a_pause_are_not_made_up_for() {
    /// The interval of exchanges is 200 ms.
    const ROUNDS_MAX: u64 = 1 + 1_000 / 200;
    let limit = format!("[[limit]]\nname = \"per-key\"\nrate = \"1/h\"\nburst = {PLENTY}\n");
    let fleet = Fleet::new(&["a", "b", "c"], &limit);
    let nodes = fleet.start();
    assert_eq!(spend(&nodes[2], "alice", 5), 5);
    await_left(&nodes[0], "alice", PLENTY - 5);
    nodes[2].suspend();
    pause(Duration::from_secs(3));
    let sent = || {
        let labels = [("direction", "sent")];
        nodes[2].metrics().sum("rlnode_cluster_batches_total", &labels)
    };
    nodes[2].signal(Signal::CONT);
    let before = sent();
    let mut caller = nodes[2].caller(Surface::Stream);
    for _ in 0..50 {
        assert!(caller.decide(&check("GET /", "alice")).allowed);
        pause(Duration::from_millis(20));
    }
    let rounds = (sent() - before) / 2;
    // One more for a second that took longer on a busy machine.
    assert!(rounds <= ROUNDS_MAX + 1, "{rounds} rounds in a second");
    await_whole(&nodes);
    await_left(&nodes[0], "alice", PLENTY - 55);
}

/// PE-20: hundreds of handshakes that begin and never go on hold up no node that joins, and nothing is
/// left of them.
#[test]
fn stalled_handshakes_hold_up_nobody() {
    let (fleet, relay) =
        Fleet::behind_relay(&["a", "b", "x"], "name = \"test\"", HUNDRED_PER_HOUR, 20);
    // Whatever is sent to `x` is lost, so that none of its handshakes gets any further.
    [0, 1].iter().for_each(|other| relay.cut(*other, 2));
    let a = fleet.spawn("a").await_ready();
    let files_before = open_files(a.id());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = fleet.folder();
    let files = TlsFiles {
        ca: folder.join("ca.pem"),
        cert: folder.join("x.pem"),
        key: folder.join("x.key"),
        secret: None,
    };
    let credentials = Credentials::load(&files).expect("files of the fleet");
    let mut gone = 0;
    let entered = runtime.enter();
    let (sender, mut events) = tokio::sync::mpsc::channel(EVENTS_MAX);
    let config = EndpointConfig {
        listen: fleet.at(2),
        credentials: &credentials,
        connections_max: CONNECTIONS_MAX,
        now: rlnode::clock::boot_ns,
    };
    let x = Endpoint::bind(&config, sender).expect("a free address");
    let begin = |count: usize| (0..count).filter(|_| x.dial(relay.front(0))).count();
    assert_eq!(begin(200), 200);
    // They arrive, and `a` turns away what is too many.
    wait_until("handshakes arrive", PATIENCE, || relay.counts(2, 0).forwarded >= 200);
    let b = fleet.spawn("b").await_ready();
    for node in [&a, &b] {
        await_cluster(node, "reaches the other", |cluster| cluster["reached"] == 2);
    }
    assert_eq!(spend(&b, "alice", 10), 10);
    // Three times as many, again and again.
    for _ in 0..2 {
        while let Ok(event) = events.try_recv() {
            assert!(matches!(event, Event::NotDialed { .. }), "{event:?}");
            gone += 1;
        }
        begin(200);
        pause(Duration::from_millis(1_100));
        assert_eq!(spend(&a, "alice", 1), 1);
    }
    assert!(gone > 0);
    drop(x);
    drop(entered);
    assert!(a.cluster()["peers"].as_array().expect("a list").iter().all(|it| it["name"] != "x"));
    wait_until("as few open files as before", PATIENCE, || open_files(a.id()) <= files_before);
    runtime.shutdown_background();
}

/// PE-03: a node alone with the load has the whole limit, not a third; and what it has used the others
/// have not.
#[test]
fn a_healthy_fleet_does_not_divide_by_its_size() {
    let limit = "[[limit]]\nname = \"per-key\"\nrate = \"1/60s\"\nburst = 90\n";
    let fleet = Fleet::new(&["a", "b", "c"], limit);
    let nodes = fleet.start();
    let alone = spend(&nodes[0], "alice", 100);
    // The last units, fewer than there are members, pass where it is their turn.
    assert!((88..=90).contains(&alone), "{alone}");
    assert_eq!(alone + drain(&[&nodes[1], &nodes[2], &nodes[0]], "alice"), 90);
    for (node, passed, rest) in [(0, 34, 56), (1, 34, 22)] {
        assert_eq!(spend(&nodes[node], "bob", 34), passed);
        for node in &nodes {
            await_left(node, "bob", rest);
        }
    }
    let last = spend(&nodes[2], "bob", 34);
    assert!((20..=22).contains(&last), "{last}");
    assert_eq!(last + drain(&[&nodes[0], &nodes[1], &nodes[2]], "bob"), 22);
}
