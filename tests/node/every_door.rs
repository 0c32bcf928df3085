//! The doors that speak another's protocol beside our own: one bucket, one answer, and nothing lost at the end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::grpc::{Descriptor, GrpcClient, call};
use crate::support::resp::{RespClient, Value};
use crate::support::{Caller, Config, Node, Surface, check, wait_until};

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Own(Surface),
    Envoy,
    Redis,
}

impl Door {
    fn all() -> Vec<Self> {
        Surface::ALL.map(Self::Own).into_iter().chain([Self::Envoy, Self::Redis]).collect()
    }
}

/// A client at one of them.
enum Client {
    Own(Caller),
    Envoy(Box<GrpcClient>),
    Redis(RespClient),
}

impl Client {
    #[track_caller]
    fn connect(node: &Node, door: Door) -> Self {
        match door {
            Door::Own(surface) => Self::Own(node.caller(surface)),
            Door::Envoy => Self::Envoy(Box::new(GrpcClient::connect(node))),
            Door::Redis => Self::Redis(RespClient::connect(node)),
        }
    }

    /// Whether `cost` units of `key` pass, and what is left.
    #[track_caller]
    fn ask(&mut self, key: &str, cost: u64) -> (bool, u64) {
        match self {
            Self::Own(caller) => {
                let answer = caller.decide(&check("", key).with_cost(cost));
                (answer.allowed, answer.remaining.expect("a count"))
            }
            Self::Envoy(client) => {
                let mut descriptor = Descriptor::of(&[("user", key)]);
                descriptor.hits = Some(cost);
                let reply = client.ask(&call("edge", &[descriptor])).expect("an answer");
                (!reply.is_over, u64::from(reply.statuses[0].remaining))
            }
            Self::Redis(client) => {
                let words = ["RL.CHECK", key, "", "COST", &cost.to_string()];
                let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
                let body: String = words.into_iter().map(word).collect();
                client.send(format!("*{}\r\n{body}", words.len()).as_bytes());
                let reply = client.receive().pairs();
                let remaining = u64::try_from(reply["remaining"].integer()).expect("a count");
                (reply["allowed"] == Value::Integer(1), remaining)
            }
        }
    }
}

fn node(config: Config) -> Node {
    Node::start(&config.listen("envoy = \"127.0.0.1:0\"\nredis = \"127.0.0.1:0\"\n"))
}

/// KY-07: a key is the same bucket whoever asks for it.
#[test]
fn a_key_is_the_same_bucket_for_envoy_and_redis_too() {
    const KEY: &str = "a:b c+d%2F";
    let doors = Door::all();
    let node = node(Config::of_rate(&format!("{}/h", doors.len())));
    let everywhere = || {
        let ask = |door: &Door| Client::connect(&node, *door).ask(KEY, 1);
        doors.iter().map(ask).collect::<Vec<_>>()
    };
    let left = (0..doors.len()).rev().map(|left| (true, left as u64)).collect::<Vec<_>>();
    assert_eq!(everywhere(), left);
    assert_eq!(everywhere(), vec![(false, 0); doors.len()]);
}

/// CC-01: a check and its count are one step, across 64 connections over every door.
#[test]
fn of_64_connections_over_all_protocols_exactly_100_checks_pass() {
    const CONNECTIONS: usize = 64;
    let node = node(Config::of_rate("100/h"));
    let (barrier, passed) = (Barrier::new(CONNECTIONS), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for door in Door::all().into_iter().cycle().take(CONNECTIONS) {
            let (node, barrier, passed) = (&node, &barrier, &passed);
            scope.spawn(move || {
                let mut client = Client::connect(node, door);
                barrier.wait();
                for _ in 0..100 {
                    match client.ask("alice", 1) {
                        (true, left) => passed.lock().expect("no panic").push(left),
                        (false, left) => assert_eq!(left, 0, "{door:?}"),
                    }
                }
            });
        }
    });
    let mut passed = passed.into_inner().expect("no panic");
    passed.sort_unstable();
    assert_eq!(passed, (0..100).collect::<Vec<_>>());
}

/// PR-16: what is denied is denied, and looks so, whatever it cost.
#[test]
fn a_denial_looks_like_one_to_envoy_and_redis() {
    let node = node(Config::of_rate("5/h"));
    for (cost, expected) in [(1, 5), (2, 2), (6, 0)] {
        for door in Door::all() {
            let mut client = Client::connect(&node, door);
            let key = format!("{door:?} {cost}");
            let told: Vec<bool> = (0..10).map(|_| client.ask(&key, cost).0).collect();
            let pattern: Vec<bool> = (0..10).map(|call| call < expected).collect();
            assert_eq!(told, pattern, "{door:?}, cost {cost}");
        }
    }
    let checks = |door: &str, outcome: &str| node.metrics().checks(door, outcome);
    for door in ["envoy", "redis"] {
        assert_eq!((checks(door, "allowed"), checks(door, "denied")), (7, 23), "{door}");
    }
}

/// SD-01: under load readiness goes first while Envoy and Redis are still answered, and then the process ends
/// with 0 in time.
#[test]
fn readiness_goes_first_and_envoy_and_redis_are_answered() {
    let mut node = node(Config::with_plenty());
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for door in [Door::Envoy, Door::Redis] {
            let (node, is_over, asked) = (&node, &is_over, &asked);
            scope.spawn(move || {
                let mut client = Client::connect(node, door);
                while !is_over.load(Ordering::Relaxed) {
                    assert!(client.ask("load", 1).0, "{door:?}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_until("some load", GRACE, || asked.load(Ordering::Relaxed) > 200);
        node.signal(Signal::TERM);
        wait_until("readiness to go", Duration::from_millis(500), || {
            node.connection().get("/readyz").status == 503
        });
        for door in [Door::Envoy, Door::Redis] {
            assert!(Client::connect(&node, door).ask("late", 1).0, "{door:?}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(node.wait(GRACE).code(), Some(0));
}

/// SD-01: no call that was sent is lost when the node stops: Envoy is told to send no more, and what it sent
/// before is answered.
#[test]
fn calls_of_envoy_under_way_are_answered_before_the_end() {
    let mut node = node(Config::with_plenty());
    let mut client = GrpcClient::connect(&node);
    let question = call("edge", &[Descriptor::of(&[("user", "way")])]);
    assert!(!client.ask(&question).expect("an answer").is_over);
    node.signal(Signal::TERM);
    let mut answered = 0;
    let refused = loop {
        let replies = client.ask_at_once(&question, 50);
        let (done, failed): (Vec<_>, Vec<_>) = replies.into_iter().partition(Result::is_ok);
        answered += done.len();
        if !failed.is_empty() {
            break failed;
        }
    };
    for failure in refused.into_iter().map(|it| it.expect_err("failed")) {
        assert!(failure.is_unsent(), "a call was sent and not answered: {failure}");
    }
    assert!(answered >= 50, "{answered}");
    assert_eq!(node.wait(GRACE).code(), Some(0));
}
