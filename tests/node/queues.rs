//! A leaky bucket that is a queue: every door tells a call its turn.

use serde_json::Value;

use crate::support::{Config, Node, Stopwatch, Surface, check, run};

/// One call an hour, so that no turn comes while a test runs.
const QUEUE: &str = "[[limit]]\nname = \"queue\"\nalgorithm = \"leaky-bucket\"\nrate = \"1/h\"\n\
                     burst = 3\nqueue = true\n";
const HOUR_MS: u64 = 3_600_000;

/// The turn of a call with `ahead` before it, a moment of the test later or earlier.
#[track_caller]
fn assert_turn(delay_ms: Option<u64>, ahead: u64, stopwatch: &Stopwatch) {
    let (delay_ms, turn_ms) = (delay_ms.expect("a delay"), ahead * HOUR_MS);
    let least_ms = turn_ms.saturating_sub(stopwatch.elapsed_ms() + 1);
    assert!((least_ms..=turn_ms).contains(&delay_ms), "{delay_ms} of {turn_ms}");
}

#[test]
fn every_door_tells_a_call_its_turn_and_denies_what_finds_no_place() {
    let node = Node::start(&Config::new(QUEUE));
    for surface in Surface::ALL {
        let (key, stopwatch) = (format!("{surface:?}"), Stopwatch::start());
        let mut caller = node.caller(surface);
        for ahead in 0..3 {
            let answer = caller.decide(&check("", &key));
            assert!(answer.allowed, "{surface:?}: {answer:?}");
            assert_turn(answer.delay_ms, ahead, &stopwatch);
        }
        let denied = caller.decide(&check("", &key));
        assert_eq!((denied.allowed, denied.delay_ms), (false, Some(0)), "{surface:?}");
        assert_turn(denied.retry_after_ms, 1, &stopwatch);
    }
}

/// A gateway cannot be told to wait: at its door a queue passes what a meter passes.
#[test]
fn at_the_door_of_a_gateway_a_queue_is_a_meter() {
    let node = Node::start(&Config::new(QUEUE));
    let mut connection = node.connection();
    let passed = (0..5).filter(|_| connection.get("/v1/auth?key=k").status == 200).count();
    assert_eq!(passed, 3);
}

#[test]
fn the_commands_tell_the_turn_in_words_and_in_milliseconds() {
    let node = Node::start(&Config::new(QUEUE));
    let address = node.stream_path().display().to_string();
    let told = |arguments: &[&str]| {
        let ended = run(&[arguments, &["--addr", &address]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    let stopwatch = Stopwatch::start();
    assert!(!told(&["check", "GET /", "k"]).contains("before acting"));
    let second = told(&["check", "GET /", "k", "--details"]);
    let turns = second.matches("; wait ").count();
    assert_eq!((turns, second.matches(" before acting").count()), (2, 2), "{second}");
    let why = told(&["why", "GET /", "k"]);
    assert!(why.contains("next check: allowed by `queue`, to act in "), "{why}");
    assert!(why.contains("1 of `requests` (leaky-bucket), one bucket"), "{why}");
    let json: Value = serde_json::from_str(&told(&["why", "GET /", "k", "--json"])).expect("JSON");
    assert_turn(json["next"]["delay_ms"].as_u64(), 2, &stopwatch);
    let json: Value =
        serde_json::from_str(&told(&["check", "GET /", "k", "--json"])).expect("JSON");
    assert_turn(json["delay_ms"].as_u64(), 2, &stopwatch);
}
