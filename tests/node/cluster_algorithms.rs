//! Every algorithm on several real nodes: counted once, known everywhere, divided in a cut, and not
//! forgotten by restarts.

use std::time::Duration;

use relay::Weather;

use crate::support::algorithm::Algorithm;
use crate::support::fleet::{
    await_apart, await_left, await_reached, await_whole, drain, left, spend,
};
use crate::support::time::unix_ms;
use crate::support::{Fleet, Node, Surface, check, pause};

const NAMES: [&str; 3] = ["a", "b", "c"];
const CLUSTER: &str = "name = \"test\"";
/// So long that nothing comes back, and no window ends, while a test runs.
const LONG: &str = "30d";
/// Twice that.
const LONGEST_MS: u64 = 2 * 30 * 86_400_000;
/// Some exchanges in which nothing is spent.
const QUIET: Duration = Duration::from_secs(2);

/// Spends a unit by every algorithm on this node, so many times, some milliseconds apart: over several
/// exchanges.
#[track_caller]
fn spend_by_each(node: &Node, units: usize) {
    for _ in 0..units {
        for algorithm in Algorithm::ALL {
            assert_eq!(spend(node, algorithm.name(), 1), 1, "{algorithm:?}");
        }
        pause(Duration::from_millis(40));
    }
}

#[track_caller]
fn await_left_by_each(nodes: &[Node], units: u64) {
    for node in nodes {
        for algorithm in Algorithm::ALL {
            await_left(node, algorithm.name(), units);
        }
    }
}

#[track_caller]
fn assert_left_by_each(nodes: &[Node], units: u64) {
    for node in nodes {
        let left = Algorithm::ALL.map(|it| (it, left(node, it.name())));
        assert_eq!(left, Algorithm::ALL.map(|it| (it, units)), "`{}`", node.place().node());
    }
}

/// PE-01: thirty calls at one node are thirty on all, and stay thirty, by every algorithm; also when a
/// fifth of what the nodes say to each other is doubled, a fifth comes in another order, and they lose
/// each other in the middle of it.
#[test]
fn what_was_spent_is_counted_once_on_every_node() {
    let limits = Algorithm::key_of_each(100, LONG);
    let (fleet, relay) = Fleet::behind_relay(&NAMES, CLUSTER, &limits, 31);
    let nodes = fleet.start();
    spend_by_each(&nodes[0], 30);
    await_left_by_each(&nodes, 70);
    pause(QUIET);
    assert_left_by_each(&nodes, 70);

    let rough = Weather {
        delay: Duration::from_millis(1),
        jitter: Duration::from_millis(1),
        loss_ppm: 0,
        duplicate_ppm: 200_000,
        reorder_ppm: 200_000,
    };
    let pairs = || (0..3).flat_map(|from| (0..3).map(move |to| (from, to)));
    pairs().for_each(|(from, to)| relay.set_weather(from, to, rough));
    spend_by_each(&nodes[0], 5);
    relay.isolate(0);
    await_apart(&nodes, 0);
    spend_by_each(&nodes[0], 5);
    relay.rejoin(0);
    await_whole(&nodes);
    spend_by_each(&nodes[0], 5);
    await_left_by_each(&nodes, 55);
    let met = pairs().map(|(from, to)| relay.counts(from, to));
    let met = met.fold((0, 0), |sum, it| (sum.0 + it.duplicated, sum.1 + it.reordered));
    assert!(met.0 > 0 && met.1 > 0, "the weather was fair: {met:?}");
    pairs().for_each(|(from, to)| relay.set_weather(from, to, Weather::default()));
    pause(QUIET);
    assert_left_by_each(&nodes, 55);
}

/// PE-02: what one of two nodes has let through the other denies, by every algorithm, and both tell how
/// long it still lasts, ever less.
#[test]
fn a_node_that_saw_nothing_denies_like_the_one_that_saw_it() {
    let fleet = Fleet::new(&["a", "b"], &Algorithm::key_of_each(1, LONG));
    let nodes = fleet.start();
    for algorithm in Algorithm::ALL {
        // One unit of one: it passes at the member whose turn it is, and the other knows.
        let at = usize::from(spend(&nodes[0], algorithm.name(), 1) == 0);
        assert!(at == 0 || spend(&nodes[1], algorithm.name(), 1) == 1, "{algorithm:?}");
    }
    await_left_by_each(&nodes, 0);
    let mut callers = [0, 1].map(|node| nodes[node].caller(Surface::Http));
    for algorithm in Algorithm::ALL {
        let mut last_ms = u64::MAX;
        for call in 0..30 {
            let answer = callers[call % 2].decide(&check("GET /", algorithm.name()));
            assert!(!answer.allowed, "{algorithm:?}, call {call}: {answer:?}");
            let wait_ms = answer.retry_after_ms.expect("a wait helps");
            // Nodes count what they heard by their own clocks; a sliding window may wait for two.
            assert!(wait_ms <= LONGEST_MS && wait_ms <= last_ms.saturating_add(250), "{answer:?}");
            last_ms = wait_ms;
        }
    }
}

/// PE-07: in a cut that lasts over the end of a window, each side has its part of the whole next window,
/// and the parts sum to the limit.
#[test]
fn both_sides_of_a_cut_have_their_part_of_the_next_window() {
    const WINDOW_MS: u64 = 4_000;
    let limit = "[[limit]]\nname = \"per-key\"\nalgorithm = \"fixed-window\"\n\
                 limit = \"90 per 4s\"\n";
    let (fleet, relay) = Fleet::behind_relay(&NAMES, CLUSTER, limit, 7);
    let nodes = fleet.start();
    relay.isolate(2);
    await_apart(&nodes, 2);
    let freshness = |node: &Node| node.caller(Surface::Http).decide(&check("GET /", "x")).freshness;
    assert_eq!([0, 1, 2].map(|node| freshness(&nodes[node])), ["split"; 3]);
    // Just after the beginning of a window that nobody has used.
    pause(Duration::from_millis(WINDOW_MS - unix_ms() % WINDOW_MS + 50));
    let began = unix_ms() / WINDOW_MS;
    let (rest, apart) = (drain(&[&nodes[0], &nodes[1]], "alice"), drain(&[&nodes[2]], "alice"));
    if unix_ms() / WINDOW_MS == began {
        assert_eq!((rest, apart), (60, 30));
    } else {
        // The machine took longer than a window: no more than two of them.
        assert!(rest + apart <= 180, "{rest} and {apart}");
    }
    relay.rejoin(2);
    await_whole(&nodes);
    assert_eq!([0, 1, 2].map(|node| freshness(&nodes[node])), ["synced"; 3]);
}

/// RS-01: each of three nodes is restarted, one after the other, and nothing of what was spent by any
/// algorithm is forgotten.
#[test]
fn a_rolling_restart_forgets_nothing_by_any_algorithm() {
    let fleet = Fleet::new(&NAMES, &Algorithm::key_of_each(10, LONG));
    let mut nodes = fleet.start();
    spend_by_each(&nodes[0], 4);
    for _ in 0..3 {
        let again = fleet.spawn_after(nodes.remove(0), Node::stop).await_ready();
        await_reached(&again, 3);
        nodes.push(again);
    }
    await_left_by_each(&nodes, 6);
    let all: Vec<_> = nodes.iter().collect();
    for algorithm in Algorithm::ALL {
        assert_eq!(drain(&all, algorithm.name()), 6, "{algorithm:?}");
    }
}

/// RS-04: a node that joins knows what was spent by every algorithm from the moment that it is ready.
#[test]
fn a_node_denies_what_is_spent_from_its_first_answer() {
    let limits = Algorithm::key_of_each(10, LONG);
    let fleet = Fleet::with(&NAMES, &format!("{CLUSTER}\nexpect = 2"), &limits);
    let pair = ["a", "b"].map(|name| fleet.spawn(name)).map(Node::await_ready);
    await_whole(&pair);
    for algorithm in Algorithm::ALL {
        assert_eq!(drain(&[&pair[0], &pair[1]], algorithm.name()), 10, "{algorithm:?}");
    }
    let third = fleet.spawn("c").await_ready();
    let mut caller = third.caller(Surface::Stream);
    for algorithm in Algorithm::ALL {
        let answer = caller.decide(&check("GET /", algorithm.name()));
        assert_eq!((answer.allowed, answer.remaining), (false, Some(0)), "{algorithm:?}");
    }
}
