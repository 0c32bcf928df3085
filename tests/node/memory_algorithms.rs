//! The bounded table with every algorithm: what a key costs, who is forgotten and who is not.

use std::time::Duration;

use crate::support::algorithm::Algorithm;
use crate::support::process::memory_kib;
use crate::support::{Answer, Caller, Config, Node, Surface, check, pause, wait_until};

/// Asks once for each of these keys at `endpoint`, in as few frames as they fit into.
fn ask_each(caller: &mut Caller, endpoint: &str, name: &str, count: usize) -> Vec<Answer> {
    let keys: Vec<_> = (0..count).map(|number| format!("{name}-{number}")).collect();
    let mut answers = Vec::with_capacity(count);
    for keys in keys.chunks(wire::CHECKS_MAX) {
        let checks: Vec<_> = keys.iter().map(|key| check(endpoint, key)).collect();
        answers.extend(caller.ask_all(&checks).into_iter().map(|it| it.expect("a decision")));
    }
    answers
}

/// ME-02: whichever algorithm counts it, a key that has spent all it had stays denied while new keys
/// flood the table: used last before, during and after the flood.
#[test]
fn a_flood_of_keys_frees_no_drained_one_of_any_algorithm() {
    const FLOOD: usize = 8_000;
    let memory = "[memory]\nmax_entries = 1000\n";
    for algorithm in Algorithm::ALL {
        let limit = algorithm.lines(10, "30d");
        let limit = format!("{memory}[[limit]]\nname = \"per-key\"\n{limit}");
        let node = Node::start(&Config::new(&limit));
        let mut caller = node.caller(Surface::Stream);
        for victim in ["before", "during"] {
            let drained = caller.ask_all(&vec![check("", victim); 11]);
            let allowed = drained.iter().filter(|it| it.as_ref().is_ok_and(|it| it.allowed));
            assert_eq!(allowed.count(), 10, "{algorithm:?}");
        }
        for round in 0..4 {
            ask_each(&mut caller, "", &format!("round {round}"), FLOOD / 4);
            assert!(!caller.decide(&check("", "during")).allowed, "{algorithm:?}");
        }
        for victim in ["before", "during"] {
            let denied = caller.decide(&check("", victim));
            let told = (denied.allowed, denied.remaining, denied.limit);
            assert_eq!(told, (false, Some(0), Some(10)), "{algorithm:?}, {victim}");
            assert!(denied.retry_after_ms.is_some_and(|it| it > 0), "{algorithm:?}");
        }
        let metrics = node.metrics();
        assert!(metrics.sum("rlnode_entries", &[]) <= 1_000, "{algorithm:?}");
        assert!(metrics.sum("rlnode_full_total", &[]) > 0, "{algorithm:?}: the table never filled");
    }
}

/// ME-01, ME-04: entries of every algorithm go once they are at rest, though the only key that is asked
/// is always denied.
#[test]
fn entries_of_every_algorithm_are_swept_while_one_key_is_denied() {
    const KEYS: usize = 2_000;
    let quick = Algorithm::limit_of_each(1, "100ms");
    let slow = "[[limit]]\nname = \"slow\"\nendpoint = \"slow\"\nrate = \"1/h\"\n";
    let node = Node::start(&Config::new(&format!("{quick}{slow}")));
    let mut caller = node.caller(Surface::Stream);
    for algorithm in Algorithm::ALL {
        ask_each(&mut caller, algorithm.name(), "once", KEYS);
    }
    assert!(caller.decide(&check("slow", "busy")).allowed);
    let entries = || node.metrics().sum("rlnode_entries", &[]);
    let made = entries();
    // What is asked for later finds those before at rest and may take their places.
    assert!(made > 1_000, "{made}");
    // A round of the sweep takes ten seconds; half of one shows that it goes on by itself.
    wait_until("half of the entries gone", Duration::from_secs(9), || {
        assert!(!caller.decide(&check("slow", "busy")).allowed);
        entries() < made / 2
    });
}

/// ME-08: a log takes memory for what is in it and not for what its limit would allow, at most 16 bytes
/// for each unit, and gives it back when the units count no more.
#[test]
fn a_log_takes_memory_for_what_is_in_it() {
    const LOG_MAX: u64 = 10_000;
    let limit = |name: &str, period: &str| {
        let lines = Algorithm::SlidingLog.lines(LOG_MAX, period);
        format!("[[limit]]\nname = \"{name}\"\nendpoint = \"{name}\"\n{lines}")
    };
    let limits = format!("{}{}", limit("hour", "1h"), limit("short", "2s"));
    let node = Node::start(&Config::new(&limits));
    let bytes = || node.metrics().sum("rlnode_table_bytes", &[]);
    let mut caller = node.caller(Surface::Stream);

    let memory_before_kib = memory_kib(node.id());
    ask_each(&mut caller, "hour", "key", 10_000);
    let grown_kib = memory_kib(node.id()).saturating_sub(memory_before_kib);
    assert!(grown_kib < 20 * 1024, "{grown_kib} KiB for ten thousand keys of one unit each");
    assert!(bytes() < 4 << 20, "{} bytes of tables", bytes());

    let before = bytes();
    let full = vec![check("short", "full"); wire::CHECKS_MAX];
    let mut passed = 0;
    while passed < LOG_MAX {
        let answers = caller.ask_all(&full);
        let allowed = answers.iter().filter(|it| it.as_ref().is_ok_and(|it| it.allowed)).count();
        passed += u64::try_from(allowed).expect("few");
        if allowed < full.len() {
            break;
        }
    }
    assert_eq!(passed, LOG_MAX, "the machine took longer than the period");
    let log = bytes() - before;
    assert!((8 * LOG_MAX..=16 * LOG_MAX).contains(&log), "{log} bytes for a full log");
    pause(Duration::from_millis(2_100));
    // The next call finds that nothing of it counts.
    assert_eq!(caller.decide(&check("short", "full")).remaining, Some(LOG_MAX - 1));
    assert!(bytes() <= before + LOG_MAX, "{} bytes after the period, {before} before", bytes());
}
