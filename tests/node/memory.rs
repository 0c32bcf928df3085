//! A bounded table: a flood of keys costs no more than its cap, frees nobody and starves nobody.

use std::time::Duration;

use crate::support::{Answer, Caller, Config, Node, Stopwatch, Surface, check, pause, wait_until};

/// The level of the line that says that the table is full.
const WARNING: &str = " WARN ";

/// Asks once for each key, in as few frames as they fit into.
fn ask_each(caller: &mut Caller, keys: &[String]) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(keys.len());
    for keys in keys.chunks(wire::CHECKS_MAX) {
        let checks: Vec<_> = keys.iter().map(|key| check("", key)).collect();
        answers.extend(caller.ask_all(&checks).into_iter().map(|it| it.expect("a decision")));
    }
    answers
}

fn keys(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}-{number}")).collect()
}

fn config(memory: &str, limit: &str) -> Config {
    Config::new(&format!("[memory]\n{memory}\n[[limit]]\nname = \"per-key\"\n{limit}\n"))
}

/// ME-01: a flood of distinct keys stays within the cap, is answered throughout, and the entries go
/// once they are at rest.
#[test]
fn a_flood_of_keys_stays_within_the_cap_and_is_forgotten() {
    const ENTRIES_MAX: u64 = 10_000;
    let node = Node::start(&config("max_entries = 10000", "rate = \"10/s\"\nburst = 1"));
    let mut caller = node.caller(Surface::Stream);
    let mut peak = 0;
    for round in 0..20 {
        let answers = ask_each(&mut caller, &keys(&format!("round {round}"), 5_000));
        assert_eq!(answers.len(), 5_000);
        let entries = node.metrics().sum("rlnode_entries", &[]);
        assert!(entries <= ENTRIES_MAX, "{entries}");
        peak = peak.max(entries);
    }
    assert!(peak > ENTRIES_MAX / 4, "the flood never filled the table: {peak}");
    // A round of the sweep takes ten seconds; half of one shows that it goes on by itself.
    wait_until("half of the entries gone", Duration::from_secs(9), || {
        node.metrics().sum("rlnode_entries", &[]) < peak / 2
    });
}

/// ME-02: a drained key stays denied whatever floods the table: before, during and after its use.
#[test]
fn a_flood_of_keys_does_not_free_a_drained_one() {
    let node = Node::start(&config("max_entries = 1000", "rate = \"1/60s\"\nburst = 10"));
    let mut caller = node.caller(Surface::Stream);
    let drain = |caller: &mut Caller, victim: &str| {
        let checks = vec![check("", victim); 10];
        let allowed =
            caller.ask_all(&checks).into_iter().filter(|it| it.as_ref().is_ok_and(|it| it.allowed));
        allowed.count()
    };
    let stopwatch = Stopwatch::start();
    assert_eq!(drain(&mut caller, "before"), 10);
    for round in 0..20 {
        ask_each(&mut caller, &keys(&format!("flood {round}"), 5_000));
        let victim = caller.decide(&check("", "before"));
        assert!(!victim.allowed, "after {} keys", (round + 1) * 5_000);
    }
    let victim = caller.decide(&check("", "before"));
    let wait_ms = victim.retry_after_ms.expect("a wait helps");
    let least_ms = 60_000 - stopwatch.elapsed_ms();
    assert!((least_ms..=60_000).contains(&wait_ms), "{wait_ms} ms");
    assert!(node.metrics().sum("rlnode_entries", &[]) <= 1_000);
}

/// ME-03: when the table is full of keys in use, new ones share one bucket: not none, and not one
/// each. It is counted, and logged once.
#[test]
fn new_keys_of_a_full_table_share_one_bucket() {
    let node = Node::start(&config("max_entries = 1000", "rate = \"2/h\""));
    let mut caller = node.caller(Surface::Stream);
    for _ in 0..2 {
        ask_each(&mut caller, &keys("old", 4_000));
    }
    let full_before = node.metrics().sum("rlnode_full_total", &[]);
    let new = keys("new", 500);
    let passed: usize = (0..3)
        .map(|_| ask_each(&mut caller, &new).iter().filter(|answer| answer.allowed).count())
        .sum();
    assert_eq!(passed, 0, "the keys before them have spent what they share");
    let metrics = node.metrics();
    assert!(metrics.sum("rlnode_entries", &[]) <= 1_000);
    assert_eq!(metrics.sum("rlnode_full_total", &[]) - full_before, 1_500);
    assert!(node.log().wait_for(WARNING, Duration::from_secs(3)), "{}", node.log().text());
    assert_eq!(node.log().count(WARNING), 1, "{}", node.log().text());
}

/// ME-03: `when_full` says otherwise.
#[test]
fn when_full_decides_what_new_keys_get() {
    for (when_full, allowed, reason) in [("allow", 500, "ok"), ("deny", 0, "full")] {
        let memory = format!("max_entries = 1000\nwhen_full = \"{when_full}\"");
        let node = Node::start(&config(&memory, "rate = \"2/h\""));
        let mut caller = node.caller(Surface::Stream);
        ask_each(&mut caller, &keys("old", 4_000));
        let answers = ask_each(&mut caller, &keys("new", 500));
        assert_eq!(answers.iter().filter(|it| it.allowed).count(), allowed, "{when_full}");
        assert!(answers.iter().all(|it| it.reason == reason), "{when_full}: {:?}", answers[0]);
    }
}

/// ME-03: as keys come to rest they make room, and new ones have buckets of their own again.
#[test]
fn a_full_table_recovers_as_keys_come_to_rest() {
    let node = Node::start(&config("max_entries = 1000", "rate = \"2/s\""));
    let mut caller = node.caller(Surface::Stream);
    ask_each(&mut caller, &keys("old", 4_000));
    pause(Duration::from_millis(1_100));
    let answers = ask_each(&mut caller, &keys("new", 100));
    assert!(answers.iter().all(|it| it.remaining == Some(1)), "{answers:?}");
}
