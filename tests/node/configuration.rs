//! Files with faults: refused as a whole, by the node and by `validate` alike, in the same words.

use std::fs;
use std::time::Duration;

use crate::support::{Config, Ended, Node, Place, Surface, check, run_in};

/// What the node and `validate` both say to a file that neither may take.
#[track_caller]
fn refusal_of(place: &Place) -> String {
    let path = place.config_path();
    let path = path.to_str().expect("text");
    let started = place.start_in_vain();
    let validated = run_in(place.folder(), &["validate", path, "--node", "n1"]);
    for Ended { code, stdout, stderr } in [&started, &validated] {
        assert_eq!((*code, stdout.as_str()), (Some(1), ""), "{stderr}");
    }
    assert_eq!(started.stderr, validated.stderr);
    assert!(!place.socket_path().exists());
    started.stderr
}

/// Expects a refusal with file, line, the line itself and a caret under `word`.
#[track_caller]
fn assert_points_at(text: &str, word: &str, message: &str) {
    let place = Place::with_text(text);
    let said = refusal_of(&place);
    let faulty = text.lines().position(|line| line.contains(word)).expect("the word is there");
    let (number, line) = (faulty + 1, text.lines().nth(faulty).expect("a line"));
    let column = line.find(word).expect("the word is there") + 1;
    let expected = format!("{}:{number}:{column}: ", place.config_path().display());
    assert!(said.contains(&expected), "{said}\nhas no: {expected}");
    assert!(said.contains(&format!("{number} | {line}")), "{said}");
    let caret_line = format!("| {}^", " ".repeat(column - 1));
    assert!(said.contains(&caret_line), "{said}");
    assert!(said.contains(message), "{said}\nhas no: {message}");
}

const LIMIT: &str = "[[limit]]\nname = \"per-key\"\nrate = \"10/s\"\n";

const WEEK: &str =
    "[[limit]]\nname = \"a\"\nalgorithm = \"fixed-window\"\nlimit = \"5 per calendar-week\"\n";

/// CF-01: a name with a letter changed, a dash, another case or in another place is never ignored.
#[test]
fn misspelt_names_are_refused_where_they_stand() {
    let listen = "[listen]\nudp = \"127.0.0.1:0\"\n";
    let with_override = format!("{LIMIT}\n[[limit.override]]\nkeys = [\"a\"]\nrate = \"1/s\"\n");
    let cases = [
        (format!("unmatchd = \"deny\"\n{LIMIT}"), "unmatchd", "did you mean `unmatched`?"),
        (format!("{LIMIT}bursts = 3\n"), "bursts", "did you mean `burst`?"),
        (format!("{LIMIT}Burst = 3\n"), "Burst", "did you mean `burst`?"),
        (format!("{LIMIT}ipv6-prefix = 64\n"), "ipv6-prefix", "did you mean `ipv6_prefix`?"),
        (format!("{listen}unix-mode = 0o600\n{LIMIT}"), "unix-mode", "did you mean `unix_mode`?"),
        (format!("{with_override}brust = 3\n"), "brust", "did you mean `burst`?"),
        (format!("{with_override}unit = \"x\"\n"), "unit", "unit"),
        (format!("[memory]\nmax_entris = 3\n{LIMIT}"), "max_entris", "`max_entries`?"),
        (format!("[memroy]\nmax_entries = 3\n{LIMIT}"), "memroy", "did you mean `memory`?"),
        (format!("{LIMIT}[memory]\nwhen_full = \"drop\"\n"), "\"drop\"", "drop"),
        (format!("{LIMIT}unmatched = \"deny\"\n"), "unmatched", "unmatched"),
        (format!("{WEEK}timezone = \"UTC\"\n"), "timezone", "did you mean `time_zone`?"),
        (format!("{WEEK}week-start = \"monday\"\n"), "week-start", "`week_start`?"),
        (format!("{WEEK}Algorithm = \"x\"\n"), "Algorithm", "did you mean `algorithm`?"),
        (format!("{WEEK}limits = \"5 per 1m\"\n"), "limits", "did you mean `limit`?"),
        (format!("{LIMIT}queu = true\n"), "queu", "did you mean `queue`?"),
        (format!("{with_override}Queue = true\n"), "Queue", "did you mean `queue`?"),
        (format!("algorithm = \"fixed-window\"\n{LIMIT}"), "algorithm", "belongs in [[limit]]"),
    ];
    for (text, word, message) in cases {
        assert_points_at(&text, word, message);
    }
}

/// CF-01: a name that stands there twice is refused.
#[test]
fn names_that_stand_there_twice_are_refused() {
    let said = refusal_of(&Place::with_text(&format!("{LIMIT}rate = \"20/s\"\n")));
    assert!(said.contains(":4:1: ") && said.contains("rate"), "{said}");
    let said = refusal_of(&Place::with_text(&format!("{LIMIT}{LIMIT}")));
    assert!(said.contains("the other one"), "{said}");
}

/// CF-03, AR-13: numbers without a unit, with a strange one, nought and nonsense.
#[test]
fn rates_that_say_nothing_are_refused() {
    for rate in [
        "10",
        "\"10\"",
        "\"0/s\"",
        "\"10/0s\"",
        "\"-1/s\"",
        "\"1.5/s\"",
        "\".nan\"",
        "\"inf/s\"",
        "\"1e3/s\"",
        "\"10/month\"",
        "\"10/60 s\"",
        "\"10/99999999999d\"",
        "\"\"",
        "nan",
        "-1",
    ] {
        let text = format!("[[limit]]\nname = \"a\"\nrate = {rate}\n");
        assert_points_at(&text, rate, "");
    }
}

/// CF-03, AR-13, LM-01, TM-11: the same of a count per window. A month is one of the calendar, or 30 days,
/// and never one for the other.
#[test]
fn limits_per_window_that_say_nothing_are_refused() {
    for limit in [
        "10",
        "\"10\"",
        "\"0 per 1m\"",
        "\"10 per 0s\"",
        "\"-1 per 1m\"",
        "\"1.5 per 1m\"",
        "\"inf per 1m\"",
        "\"1e3 per 1m\"",
        "\"10 per 1M\"",
        "\"10 per 60 s\"",
        "\"10 per 1500us\"",
        "\"10 per 99999999999d\"",
        "\"10/min\"",
        "\"\"",
        "nan",
        "-1",
    ] {
        for algorithm in ["fixed-window", "sliding-window", "sliding-log"] {
            let text =
                format!("[[limit]]\nname = \"a\"\nalgorithm = \"{algorithm}\"\nlimit = {limit}\n");
            assert_points_at(&text, limit, "");
        }
    }
    let fixed = "[[limit]]\nname = \"a\"\nalgorithm = \"fixed-window\"\n";
    for (line, word, message) in [
        ("limit = \"10 per month\"", "\"10 per month\"", "`limit = \"1000 per calendar-month\"`"),
        ("period = \"month\"", "period", "`limit = \"1000 per calendar-month\"`"),
        (
            "limit = \"10 per calendar-day\"\ntime_zone = \"Mars/Base\"",
            "\"Mars/Base\"",
            "there is no time zone `Mars/Base`",
        ),
    ] {
        // A name that is refused leaves the limit without a number.
        let limit = if line.starts_with("period") { "limit = \"10 per 1m\"\n" } else { "" };
        assert_points_at(&format!("{fixed}{limit}{line}\n"), word, message);
    }
}

/// CF-06: a limit that cannot work is a fault, not a warning.
#[test]
fn limits_that_cannot_work_are_refused() {
    let cases = [
        ("[[limit]]\nname = \"a\"\nrate = \"1/s\"\ndeny = true\n", "deny", "the other one"),
        ("[[limit]]\nname = \"a\"\nburst = 5\n", "burst", "no effect without `rate`"),
        ("[[limit]]\nname = \"a\"\nrate = \"1/s\"\nmissing = \"deny\"\n", "missing", "missing"),
        ("[[limit]]\nname = \"a/b\"\nrate = \"1/s\"\n", "\"a/b\"", "`a/b`"),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nalgorithm = \"sliding-log\"\n",
            "rate",
            "write `limit = \"5 per 15m\"`, or `algorithm = \"token-bucket\"`",
        ),
        (
            "[[limit]]\nname = \"a\"\nlimit = \"5 per 15m\"\n",
            "limit = ",
            "`algorithm = \"fixed-window\"`",
        ),
        (
            "[[limit]]\nname = \"a\"\nalgorithm = \"sliding-log\"\nlimit = \"10001 per 1m\"\n",
            "\"10001 per 1m\"",
            "10000 (`log_max`) at most, not 10001",
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nqueue = true\n",
            "queue",
            "write `algorithm = \"leaky-bucket\"`",
        ),
    ];
    for (text, word, message) in cases {
        assert_points_at(text, word, message);
    }
}

/// A cluster without certificates is refused, on loopback too, and so is one that no peer can find.
#[test]
fn clusters_that_nobody_could_trust_or_find_are_refused() {
    let text = |lines: &str| format!("{LIMIT}[cluster]\nname = \"edge\"\n{lines}\n");
    let peers = "peers = [\"127.0.0.1:7401\", \"127.0.0.1:7402\"]";
    let tls = "tls = { ca = \"ca.pem\", cert = \"{node}.pem\", key = \"{node}.key\" }";
    let listen = "listen = \"127.0.0.1:7401\"";
    let cases = [
        (text(&format!("{listen}\n{peers}")), "[cluster]", "on loopback too"),
        (text(&format!("{listen}\n{tls}")), "[cluster]", "has no `peers`"),
        (text(&format!("{peers}\n{tls}")), "[cluster]", "where peers reach the node `n1`"),
        (
            text(&format!("{listen}\n{peers}\ntls = {{ ca = \"ca.pem\", key = \"k\" }}")),
            "{ ca",
            "`tls` has no `cert`",
        ),
        (
            text(&format!("{listen}\npeers = [\"edge-1\"]\n{tls}")),
            "\"edge-1\"",
            "write `edge-1:7401`",
        ),
        (
            text(&format!("{listen}\n{peers}\n{tls}\nsync_interval = \"1ms\"")),
            "\"1ms\"",
            "write `10ms` to `10s`",
        ),
        (
            text(&format!("{listen}\n{peers}\n{tls}\n[node.x.cluster]\npeers = [\"a:1\"]")),
            "peers = [\"a",
            "the same on every node",
        ),
    ];
    for (text, word, message) in cases {
        assert_points_at(&text, word, message);
    }
}

/// CF-02: two overrides that could tie are refused, with both lines.
#[test]
fn overrides_that_could_tie_are_refused_with_both_lines() {
    let text = format!(
        "{LIMIT}[[limit.override]]\nname = \"one\"\nkeys = [\"vip\"]\nrate = \"1/s\"\n\
         [[limit.override]]\nname = \"two\"\nkeys = [\"vip\"]\nrate = \"2/s\"\n"
    );
    let said = refusal_of(&Place::with_text(&text));
    assert!(said.contains("4 | ") && said.contains("8 | "), "{said}");
    assert!(said.contains("the other one"), "{said}");
}

/// LM-08, at the start: of a file that is wrong in one place nothing holds, and every fault is told.
#[test]
fn a_file_with_one_fault_is_refused_as_a_whole() {
    let text = format!("{LIMIT}[[limit]]\nname = \"b\"\nrate = \"0/s\"\nbursts = 1\n");
    let said = refusal_of(&Place::with_text(&text));
    assert!(said.contains(":6:8: ") && said.contains(":7:1: "), "{said}");
}

/// LM-08, at the start: no file, an empty file, a folder, and what is no TOML at all.
#[test]
fn files_that_are_none_are_refused() {
    let said = refusal_of(&Place::with_text(""));
    assert!(said.contains("cluster.toml: there is no limit in it"), "{said}");
    let said = refusal_of(&Place::with_text("# nothing\n"));
    assert!(said.contains("there is no limit in it"), "{said}");

    let place = Place::with_text("");
    fs::remove_file(place.config_path()).expect("it is there");
    let said = refusal_of(&place);
    assert!(said.contains("cluster.toml: there is no such file"), "{said}");
    fs::create_dir(place.config_path()).expect("a free name");
    let said = refusal_of(&place);
    assert!(said.contains("cluster.toml: this is a folder"), "{said}");

    let place = Place::with_text("");
    for bytes in [&b"\xff\xfe\0"[..], b"[[limit\n", b"limit = 3\n", b"{\"limit\":[]}"] {
        fs::write(place.config_path(), bytes).expect("a file in our own folder");
        let said = refusal_of(&place);
        assert!(said.contains("cluster.toml"), "{said}");
    }
}

/// A file is told all its faults at once, up to a number, and the rest are counted.
#[test]
fn many_faults_are_told_at_once_and_the_rest_counted() {
    let text = format!("{LIMIT}{}", "[[limit]]\nname = \"x\"\nrate = \"0/s\"\n".repeat(200));
    let said = refusal_of(&Place::with_text(&text));
    assert!(said.lines().count() < 200, "{said}");
    assert!(said.contains(" more"), "{said}");
}

/// The settings at the top of the file hold: `unmatched` and `show_keys`.
#[test]
fn what_no_limit_matches_is_answered_as_the_file_says() {
    let limit = "[[limit]]\nname = \"api\"\nendpoint = \"/api/*\"\nrate = \"1/h\"\n";
    for (unmatched, allowed, reason) in [("allow", true, "ok"), ("deny", false, "unmatched")] {
        let config = Config::new(limit).top(&format!("unmatched = \"{unmatched}\""));
        let node = Place::new(&config).start();
        for surface in Surface::ALL {
            let answer = node.caller(surface).decide(&check("/other", "alice"));
            assert_eq!((answer.allowed, answer.reason.as_str()), (allowed, reason), "{surface:?}");
            assert_eq!((answer.limit_name.as_str(), answer.limit), ("", None), "{surface:?}");
        }
        let status = node.connection().get("/v1/auth?key=alice&endpoint=/other").status;
        assert_eq!(status, if allowed { 200 } else { 429 });
        assert_eq!(node.metrics().sum("rlnode_unmatched_total", &[]), 6);
    }
}

/// Keys of people do not get into logs, unless the file says so.
#[test]
fn logs_show_hashes_unless_the_file_says_otherwise() {
    for (line, shows) in [("show_keys = false", false), ("show_keys = true", true)] {
        let place = Place::new(&Config::of_rate("1/h").top(line));
        let mut command = place.command();
        command.args(["--log", "info,rlnode=debug"]);
        let node = Node::spawn(place, command);
        for _ in 0..2 {
            node.caller(Surface::Udp).decide(&check("/", "alice@example.org"));
        }
        assert!(node.log().wait_for("denied", Duration::from_secs(5)));
        assert_eq!(node.log().count("alice@example.org") > 0, shows, "{}", node.log().text());
    }
}
