//! Whole files: what is accepted, what is refused and with which words, and that nothing panics.

use std::path::{Path, PathBuf};

use limiter::{
    Accuracy, Calendar, CalendarSpan, Lists, Quota, Rate, Subject, Unmatched, Weekday, WhenFull,
    WhenIsolated, Window,
};
use proptest::prelude::*;

use super::settings::{
    ADMIN, ALLOW, AUDIT, BAN, CLUSTER, CLUSTER_TLS, ENVOY, LIMIT, LISTEN, MEMORY, NODE,
    NODE_CLUSTER, NODE_LISTEN, OVERRIDE, PLACES, Place, TOP,
};
use super::*;

mod in_force;

const SHIPPED: &str = include_str!("../../../../cluster.toml");
const MANUAL: &str = include_str!("../../../../docs/configuration.md");
const ONE_LIMIT: &str = "[[limit]]\nname = \"a\"\nrate = \"10/s\"\n";
/// Every setting once.
const FULL: &str = r#"
unmatched = "deny"
show_keys = true

[listen]
udp = ["127.0.0.1:7400", "[::1]:7400"]
http = "127.0.0.1:7480"
unix = "run/{node}.sock"
unix_mode = 0o660
unix_group = "www-data"

[memory]
max = "64MiB"
max_entries = 100_000
when_full = "deny"

[allow]
keys = ["monitor"]
ips = ["10.0.0.0/8", "2001:db8::/32"]

[ban]
keys = ["mallory", "eve"]
ips = "192.0.2.7"

[audit]
dir = "run/{node}-audit"
sample = "1/8"
max_bytes = "8MiB"

[[limit]]
name = "search"
endpoint = "POST /search"
attributes = { plan = "free" }
key = "{ip}"
keys = ["10.0.0.1", "10.0.0.2"]
unit = "tokens"
algorithm = "token-bucket"
rate = "20/s"
burst = 60
accuracy = "fast"
when_isolated = "deny"
missing = "deny"
ipv6_prefix = 56
shadow = true

  [[limit.override]]
  name = "one"
  keys = ["10.0.0.1"]
  attributes = { tenant = "x" }
  rate = "100/h"
  burst = 5

  [[limit.override]]
  attributes = { tenant = "y" }
  unlimited = true

[[limit]]
name = "closed"
endpoint = "/admin/*"
deny = true

[[limit]]
name = "plan"
algorithm = "fixed-window"
limit = "1000 per calendar-week"
time_zone = "Europe/Berlin"
week_start = "sunday"

  [[limit.override]]
  attributes = { plan = "pro" }
  algorithm = "leaky-bucket"
  rate = "50/s"
  queue = true

  [[limit.override]]
  attributes = { plan = "free" }
  algorithm = "sliding-log"
  limit = "5 per 15m"

[cluster]
name = "edge"
listen = "0.0.0.0:7401"
advertise = "192.0.2.8:7401"
peers = ["edge-1:7401", "192.0.2.7:7401", "[2001:db8::7]:7401"]
secret = "{node}.secret"
sync_interval = "50ms"
expect = 5
ready = "early"
region = "eu-1"
forget_after = "5m"
tls = { ca = "tls/ca.pem", cert = "/etc/{node}.pem", key = "{node}.key" }

[node.edge-2.listen]
http = false
unix = false

[node.edge-2.cluster]
listen = "127.0.0.1:7402"
advertise = "192.0.2.9:7402"
region = "eu-2"
"#;
/// The least that a cluster takes.
const CLUSTER_LINES: [&str; 4] = [
    "name = \"edge\"",
    "listen = \"127.0.0.1:7401\"",
    "peers = [\"a:7401\", \"b:7401\", \"c:7401\"]",
    "tls = { ca = \"ca.pem\", cert = \"{node}.pem\", key = \"{node}.key\" }",
];

fn node(name: &str) -> Node {
    let environment = client::Environment {
        address: None,
        runtime_directory: None,
        xdg_runtime_dir: Some("/run/user/1000".into()),
        temporary_directory: "/tmp".into(),
        user_id: 1000,
    };
    Node { name: name.into(), environment }
}

fn read(text: &str) -> Result<Config, ConfigErrors> {
    parse(text.as_bytes(), Path::new("etc/cluster.toml"), &node("edge-1"))
}

fn accepted(text: &str) -> Config {
    read(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The errors of a file that must be refused.
fn refused(text: &str) -> ConfigErrors {
    match read(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(errors) => errors,
    }
}

/// The one error of a file that must be refused: its line and message.
fn fault(text: &str) -> (Option<usize>, String) {
    let errors = refused(text);
    assert_eq!(errors.errors().len(), 1, "{errors}");
    (errors.errors()[0].line(), errors.errors()[0].message().to_owned())
}

/// A file that has `line` in `place`, beside the least that makes it a whole file, without what
/// that gives for `name` itself. Gives the line's number too.
fn file_with(place: &Place, name: &str, line: &str) -> (String, usize) {
    let without = |lines: &[&str]| -> String {
        let others = lines.iter().filter(|l| !l.starts_with(&format!("{name} =")));
        others.map(|l| format!("{l}\n")).collect()
    };
    let limit = |lines: &[&str]| format!("[[limit]]\n{}", without(lines));
    let before = match place.title {
        title if title == TOP.title => String::new(),
        title if title == LISTEN.title => format!("{ONE_LIMIT}[listen]\n"),
        title if title == MEMORY.title => format!("{ONE_LIMIT}[memory]\n"),
        title if title == ENVOY.title => {
            let own = without(&["descriptor = [\"remote_address\"]", "key = \"{remote_address}\""]);
            format!("{ONE_LIMIT}[[envoy]]\n{own}")
        }
        title if title == ADMIN.title => format!("{ONE_LIMIT}[admin]\n"),
        title if title == ALLOW.title => format!("{ONE_LIMIT}[allow]\n"),
        title if title == BAN.title => format!("{ONE_LIMIT}[ban]\n"),
        title if title == AUDIT.title => format!("{ONE_LIMIT}[audit]\n"),
        title if title == LIMIT.title => limit(&["name = \"a\"", "rate = \"1/s\""]),
        title if title == OVERRIDE.title => {
            let own = without(&["keys = [\"k\"]", "rate = \"1/s\""]);
            format!("{ONE_LIMIT}[[limit.override]]\n{own}")
        }
        title if title == CLUSTER.title => {
            format!("{ONE_LIMIT}[cluster]\n{}", without(&CLUSTER_LINES))
        }
        title if title == CLUSTER_TLS.title => {
            let tls = ["ca = \"ca.pem\"", "cert = \"n.pem\"", "key = \"n.key\""];
            let cluster = CLUSTER_LINES[..3].join("\n");
            format!("{ONE_LIMIT}[cluster]\n{cluster}\n[cluster.tls]\n{}", without(&tls))
        }
        title if title == NODE_CLUSTER.title => {
            let cluster = CLUSTER_LINES.join("\n");
            format!("{ONE_LIMIT}[cluster]\n{cluster}\n[node.edge-9.cluster]\n")
        }
        title if title == NODE.title => format!("{ONE_LIMIT}[node.edge-9]\n"),
        title if title == NODE_LISTEN.title => format!("{ONE_LIMIT}[node.edge-9.listen]\n"),
        other => panic!("no file for {other}"),
    };
    let after = if place.title == TOP.title && name != "limit" { ONE_LIMIT } else { "" };
    let number = before.lines().count() + 1;
    (format!("{before}{line}\n{after}"), number)
}

#[test]
fn every_setting_is_read() {
    let config = accepted(FULL);
    assert_eq!(config.node, "edge-1");
    assert_eq!(config.plan.unmatched(), Unmatched::Deny);
    assert!(config.show_keys);
    assert_eq!(config.listen.udp.len(), 2);
    let unix = config.listen.unix.as_ref().expect("a unix socket");
    assert_eq!(unix.path, PathBuf::from("etc/run/edge-1.sock"));
    assert_eq!((unix.mode, unix.group.as_deref()), (0o660, Some("www-data")));
    let memory =
        Memory { max_bytes: 64 << 20, max_entries: Some(100_000), when_full: WhenFull::Deny };
    assert_eq!(config.memory, memory);
    let audit = config.audit.as_ref().expect("a record");
    assert_eq!(audit.dir, PathBuf::from("etc/run/edge-1-audit"));
    assert_eq!((audit.sample.to_one_in(), audit.max_bytes), (8, 8 << 20));

    let key = |key: &str| Subject::Key(key.as_bytes().to_vec());
    let network = |text: &str| Subject::Network(text.parse().expect("a network"));
    let allow = vec![key("monitor"), network("10.0.0.0/8"), network("2001:db8::/32")];
    let ban = vec![key("mallory"), key("eve"), network("192.0.2.7")];
    assert_eq!(config.lists, Lists { allow, ban });

    let [search, closed, plan] = config.plan.limits() else { panic!("three limits") };
    assert_eq!(search.selector.endpoint.as_deref(), Some("POST /search"));
    assert_eq!(search.selector.attributes, [("plan".to_owned(), "free".to_owned())]);
    assert_eq!(search.selector.keys, [b"10.0.0.1", b"10.0.0.2"]);
    assert_eq!((search.key.as_str(), search.unit.as_str()), ("{ip}", "tokens"));
    assert_eq!((search.missing, search.ipv6_prefix), (limiter::Missing::Deny, 56));
    assert!(search.shadow && !closed.shadow);
    let rate = |count, period_ns| Rate { count, period_ns };
    let second = 1_000_000_000;
    assert_eq!(search.quota, Quota::TokenBucket { rate: rate(20, second), burst: 60 });
    let [one, other] = &search.overrides[..] else { panic!("two overrides") };
    assert_eq!(one.name.as_deref(), Some("one"));
    assert_eq!(one.quota, Quota::TokenBucket { rate: rate(100, 3_600 * second), burst: 5 });
    assert_eq!((other.name.as_deref(), &other.quota), (None, &Quota::Unlimited));
    assert_eq!(closed.quota, Quota::Deny);
    let week = CalendarSpan::Week(Weekday::Sunday);
    let window = Window::Calendar(Calendar::new(week, "Europe/Berlin").expect("a zone"));
    assert_eq!(plan.quota, Quota::FixedWindow { limit: 1_000, window });
    let [queue, log] = &plan.overrides[..] else { panic!("two overrides") };
    let burst = 50;
    assert_eq!(queue.quota, Quota::LeakyBucket { rate: rate(50, second), burst, queue: true });
    assert_eq!(log.quota, Quota::SlidingLog { limit: 5, period_ns: 900 * second });

    assert_eq!((search.accuracy, search.when_isolated), (Accuracy::Fast, WhenIsolated::Deny));
    let settings = &config.limit_settings[0];
    let line_of = |text: &str| 1 + FULL.lines().position(|l| l.contains(text)).expect(text);
    assert_eq!(settings.line, line_of("\"search\""));
    assert_eq!(settings.override_lines[0], line_of("[[limit.override]]"));
}

#[test]
fn what_is_left_out_has_its_documented_default() {
    let config = accepted(ONE_LIMIT);
    assert_eq!(config.listen.udp, [DEFAULT_UDP.parse().expect("an address")]);
    assert_eq!(config.listen.http, [DEFAULT_HTTP.parse().expect("an address")]);
    let unix = config.listen.unix.expect("a unix socket");
    assert_eq!((unix.mode, unix.group), (DEFAULT_UNIX_MODE, None));
    assert_eq!(config.memory, Memory::default());
    assert_eq!(config.audit, None);
    assert!(!config.show_keys);
    assert_eq!(config.plan.unmatched(), Unmatched::Allow);
    let limit = &config.plan.limits()[0];
    assert_eq!((limit.key.as_str(), limit.unit.as_str()), ("{key}", "requests"));
    let rate = Rate { count: 10, period_ns: 1_000_000_000 };
    assert_eq!(limit.quota, Quota::TokenBucket { rate, burst: 10 });
    assert_eq!((limit.accuracy, limit.when_isolated), (Accuracy::Balanced, WhenIsolated::Split));
    assert_eq!(config.cluster, None);
}

#[test]
fn a_misspelt_name_is_refused_with_its_line_and_the_right_one() {
    for place in PLACES {
        for (name, _) in place.settings {
            let mut near = vec![name.to_uppercase(), name.replace('_', "-"), format!("{name}x")];
            near.push(name[1..].to_owned());
            near.push(name[..name.len() - 1].to_owned());
            let is_known = |near: &String| {
                let known = place.settings.iter().chain(place.refused);
                known.clone().any(|(known, _)| known == near)
            };
            for near in near.into_iter().filter(|near| !is_known(near)) {
                let (text, line) = file_with(place, name, &format!("{near} = 1"));
                let errors = refused(&text);
                let error = errors.errors().iter().find(|e| e.message().contains("unknown name"));
                let error = error.unwrap_or_else(|| panic!("{near} {}: {errors}", place.title));
                assert_eq!(error.line(), Some(line), "{errors}");
                assert!(error.message().contains(&format!("`{near}`")), "{errors}");
                if name.len() > 3 {
                    assert!(error.message().contains(&format!("`{name}`?")), "{errors}");
                }
            }
        }
    }
}

#[test]
fn a_name_at_the_wrong_level_is_refused_with_its_right_place() {
    for place in PLACES {
        for (name, _) in PLACES.iter().flat_map(|other| other.settings) {
            if place.settings.iter().chain(place.refused).any(|(known, _)| known == name) {
                continue;
            }
            let (text, line) = file_with(place, name, &format!("{name} = 1"));
            let errors = refused(&text);
            let error = errors.errors().iter().find(|e| e.message().contains("it belongs"));
            let error = error.unwrap_or_else(|| panic!("{name} {}: {errors}", place.title));
            assert_eq!(error.line(), Some(line), "{errors}");
        }
    }
    let (_, message) =
        fault("[listen]\n[[limit]]\nname = \"a\"\nrate = \"1/s\"\nshow_keys = true\n");
    assert!(message.ends_with("it belongs at the top of the file"), "{message}");
}

#[test]
fn a_name_given_twice_is_refused_with_the_line_of_the_second() {
    for place in PLACES {
        for (name, written) in place.settings.iter().filter(|(_, w)| !w.starts_with('[')) {
            let (text, line) = file_with(place, name, &format!("{written}\n{written}"));
            let (at, message) = fault(&text);
            assert_eq!(
                (at, message),
                (Some(line + 1), format!("`{name}` is written twice; drop one"))
            );
        }
    }
    let (line, message) = fault(&format!("[memory]\n[memory]\n{ONE_LIMIT}"));
    assert_eq!((line, message.as_str()), (Some(2), "`memory` is written twice; drop one"));
}

#[test]
fn every_listed_setting_is_read_and_checked_for_its_type() {
    for place in PLACES {
        for (name, written) in place.settings {
            let (text, line) = file_with(place, name, &format!("{name} = 1979-05-27"));
            let errors = refused(&text);
            let want = format!("`{name}` takes ");
            let error = errors.errors().iter().find(|e| e.message().starts_with(&want));
            let error = error.unwrap_or_else(|| panic!("{name} {}: {errors}", place.title));
            assert_eq!(error.line(), Some(line), "{errors}");
            assert!(error.message().ends_with(&format!("write it like `{written}`")), "{errors}");
        }
    }
}

#[test]
fn the_manual_documents_every_setting_and_no_other() {
    let is_repeated =
        |place: &&&Place| [NODE_LISTEN.title, NODE_CLUSTER.title].contains(&place.title);
    for place in PLACES.iter().filter(|place| !is_repeated(place)) {
        let title = place.title.trim_start_matches("in ");
        let heading = format!("\n## {title}\n").replace("## at", "## At");
        let (_, rest) = MANUAL.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
        let section = rest.split("\n## ").next().unwrap_or(rest);
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut documented: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
        let mut known: Vec<_> = place.settings.iter().map(|(name, _)| *name).collect();
        documented.sort_unstable();
        known.sort_unstable();
        assert_eq!(documented, known, "{title}");
    }
}

#[test]
fn the_examples_of_the_manual_are_accepted() {
    let blocks = MANUAL.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut count = 0;
    for block in blocks {
        let whole = if block.contains("[[limit]]") { "" } else { ONE_LIMIT };
        // The laptop's nodes have their addresses in tables of their own.
        let read = parse(format!("{block}{whole}").as_bytes(), Path::new("c.toml"), &node("a"));
        read.unwrap_or_else(|errors| panic!("{errors}"));
        count += 1;
    }
    assert!(count >= 4, "only {count} examples");
}

#[test]
fn zero_and_what_is_no_number_are_refused_with_the_words_that_are_meant() {
    let cases = [
        ("rate = \"0/1s\"", "write `deny = true`"),
        ("rate = \"5/0s\"", "is no time at all"),
        ("rate = 0", "`rate` takes a string, not a whole number"),
        ("rate = 10", "write it like `rate = \"10/s\"`"),
        ("rate = 10.0", "not a number with a point"),
        ("rate = nan", "not a number with a point"),
        ("rate = inf", "not a number with a point"),
        ("rate = 1e400", "not a number with a point"),
        ("rate = -1", "not a whole number"),
        ("rate = \"1/s\"\nburst = 0", "a `burst` of `0` lets nothing through"),
        ("rate = \"1/s\"\nburst = -1", "`-1` is out of range for `burst`"),
        ("rate = \"1/s\"\nburst = 1.0", "`burst` takes a whole number"),
        ("rate = \"1/s\"\nburst = \"5\"", "write it like `burst = 100`"),
        ("rate = \"1/s\"\nburst = 99999999999999999999", "is out of range for `burst`"),
    ];
    for (lines, want) in cases {
        let (line, message) = fault(&format!("[[limit]]\nname = \"a\"\n{lines}\n"));
        assert!(message.contains(want), "{lines}: {message}");
        assert_eq!(line, Some(2 + lines.lines().count()), "{lines}");
    }
}

#[test]
fn exactly_one_of_rate_limit_deny_and_unlimited_is_taken() {
    let cases = [
        ("", "nothing says how much"),
        ("deny = false", "nothing says how much"),
        ("rate = \"1/s\"\ndeny = true", "only one of"),
        ("deny = true\nunlimited = true", "only one of"),
        ("burst = 5", "`burst` has no effect without `rate`"),
        ("deny = true\nburst = 5", "`burst` has no effect without `rate`"),
        ("limit = \"5 per 15m\"\nrate = \"1/s\"", "only one of"),
        ("limit = \"5 per 15m\"", "`limit` is a count per window"),
    ];
    for (lines, want) in cases {
        for head in [
            "[[limit]]\nname = \"a\"\n",
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\n[[limit.override]]\nkeys = [\"k\"]\n",
        ] {
            let (_, message) = fault(&format!("{head}{lines}\n"));
            assert!(message.contains(want), "{lines}: {message}");
        }
    }
    accepted("[[limit]]\nname = \"a\"\nrate = \"1/s\"\ndeny = false\n");
}

#[test]
fn what_comes_later_is_refused_as_such() {
    let limit = |line: &str| format!("{ONE_LIMIT}{line}\n");
    let cases = [
        (limit("accuracy = \"exact\""), "comes in a later release"),
        (limit("accuracy = \"strict\""), "no such mode any more"),
        (limit("when_isolated = \"open\""), "write `split` or `allow` or `deny`"),
    ];
    for (text, want) in cases {
        let (line, message) = fault(&text);
        assert!(message.contains(want), "{message}");
        assert_eq!(line, Some(4), "{message}");
    }
}

#[test]
fn the_token_of_operators_is_a_file_beside_this_one() {
    let config = accepted(&format!("{ONE_LIMIT}[admin]\ntoken_file = \"{{node}}.token\"\n"));
    assert_eq!(config.admin.as_deref(), Some(Path::new("etc/edge-1.token")));
    assert_eq!(accepted(ONE_LIMIT).admin, None);
    let (line, message) = fault(&format!("{ONE_LIMIT}[admin]\n"));
    assert!(message.contains("where the token is"), "{message}");
    assert_eq!(line, Some(4));
    let (_, message) = fault(&format!("{ONE_LIMIT}[admin]\ntoken_file = \"\"\n"));
    assert!(message.contains("is empty"), "{message}");
}

#[test]
fn settings_without_effect_are_refused() {
    let cases = [
        ("ipv6_prefix = 56", "has no `{ip}`"),
        ("missing = \"deny\"", "names no attribute"),
        ("key = \"{key}:{endpoint}\"\nmissing = \"deny\"", "names no attribute"),
        ("keys = []", "`keys` is empty"),
        ("attributes = {}", "`attributes` is empty"),
    ];
    for (lines, want) in cases {
        let (_, message) = fault(&format!("{ONE_LIMIT}{lines}\n"));
        assert!(message.contains(want), "{lines}: {message}");
    }
    accepted(&format!(
        "{ONE_LIMIT}key = \"{{tenant}}:{{ip}}\"\nmissing = \"deny\"\nipv6_prefix = 56\n"
    ));
}

#[test]
fn two_rules_for_the_same_thing_are_refused_with_both_lines() {
    let names = format!("{ONE_LIMIT}\n{ONE_LIMIT}");
    let errors = refused(&names);
    let error = &errors.errors()[0];
    let mut lines = [error.line(), error.other_line()];
    lines.sort_unstable();
    assert_eq!(lines, [Some(2), Some(6)], "{errors}");

    let over = "[[limit.override]]\nkeys = [\"k\"]\nrate = \"1/s\"\n";
    for second in [over, "[[limit.override]]\nkeys = [\"x\", \"k\"]\nrate = \"9/s\"\n"] {
        let errors = refused(&format!("{ONE_LIMIT}{over}{second}"));
        let error = &errors.errors()[0];
        let mut lines = [error.line(), error.other_line()];
        lines.sort_unstable();
        assert_eq!(lines, [Some(4), Some(7)], "{errors}");
    }
}

#[test]
fn what_the_limiter_refuses_has_its_line() {
    let cases = [
        ("[[limit]]\nname = \"a/b\"\nrate = \"1/s\"\n", 2),
        ("[[limit]]\nrate = \"1/s\"\nname = \"a\"\nkey = \"{ip\"\n", 3),
        ("[[limit]]\nname = \"a\"\nrate = \"1/s\"\nendpoint = \"\"\n", 2),
        ("[[limit]]\nname = \"a\"\nrate = \"1/s\"\n[[limit.override]]\nrate = \"1/s\"\n", 4),
        ("[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 18446744073709551615\n", 2),
        (
            "[[limit]]\nalgorithm = \"sliding-window\"\nname = \"a\"\n\
             limit = \"4611686018427387904 per 1ms\"\n",
            3,
        ),
    ];
    for (text, line) in cases {
        assert_eq!(fault(text).0, Some(line), "{text}");
    }
}

#[test]
fn a_table_of_a_node_holds_on_that_host_only() {
    let text = format!(
        "{ONE_LIMIT}[listen]\nudp = \"127.0.0.1:1\"\nunix = \"{{node}}.sock\"\n\
         [node.edge-2.listen]\nudp = \"127.0.0.1:2\"\nhttp = false\n"
    );
    let on = |name: &str| {
        parse(text.as_bytes(), Path::new("c.toml"), &node(name)).expect("accepted").listen
    };
    let (one, two) = (on("edge-1"), on("edge-2"));
    assert_eq!((one.udp[0].port(), one.http.len()), (1, 1));
    assert_eq!((two.udp[0].port(), two.http.len()), (2, 0));
    assert_eq!(one.unix.expect("a unix socket").path, Path::new("edge-1.sock"));
    assert_eq!(two.unix.expect("a unix socket").path, Path::new("edge-2.sock"));
}

#[test]
fn a_fault_in_the_table_of_another_node_is_told_on_every_host() {
    let cases = [
        ("[node.edge-9.listen]\nudp = \"x\"\n", Some(5), "not an address"),
        ("[node.edge-9]\nudp = \"x\"\n", Some(5), "it belongs in [node.NAME.listen]"),
        ("[node.\"a/b\".listen]\n", Some(4), "`a/b` is no name for a node"),
        ("[node]\nedge-9 = 1\n", Some(5), "write `[node.NAME.listen]`"),
    ];
    for (table, line, want) in cases {
        let (at, message) = fault(&format!("{ONE_LIMIT}{table}"));
        assert_eq!(at, line, "{message}");
        assert!(message.contains(want), "{message}");
    }
}

#[test]
fn a_name_that_no_node_can_have_is_refused() {
    let read = |name: &str| parse(ONE_LIMIT.as_bytes(), Path::new("c.toml"), &node(name));
    let longest = "x".repeat(NODE_NAME_BYTES_MAX);
    for name in ["a", "edge-1.example.com", "A_1", longest.as_str()] {
        assert!(read(name).is_ok(), "{name}");
    }
    for name in ["", "a/b", "..", "-a", "a b", "é", &format!("{longest}x")] {
        let errors = read(name).expect_err(name).to_string();
        assert!(errors.contains("is no name for a node"), "{errors}");
    }
}

#[test]
fn memory_is_bounded_on_both_sides() {
    let memory = |line: &str| format!("{ONE_LIMIT}[memory]\n{line}\n");
    for line in
        ["max = \"1MiB\"", "max = \"64GiB\"", "max_entries = 1", "max_entries = 1_000_000_000_000"]
    {
        accepted(&memory(line));
    }
    let cases = [
        ("max = \"1023KiB\"", "write `1MiB` to `64GiB`"),
        ("max = \"65GiB\"", "write `1MiB` to `64GiB`"),
        ("max = \"64TiB\"", "write `1MiB` to `64GiB`"),
        ("max = 1073741824", "write it like `max = \"1GiB\"`"),
        ("max = \"1G\"", "`GiB`"),
        ("max_entries = 0", "write 1 to 1000000000000"),
        ("max_entries = 1_000_000_000_001", "write 1 to 1000000000000"),
        ("when_full = \"evict\"", "write `overflow` or `allow` or `deny`"),
    ];
    for (line, want) in cases {
        let (at, message) = fault(&memory(line));
        assert!(message.contains(want), "{message}");
        assert_eq!(at, Some(5));
    }
}

#[test]
fn the_audit_is_bounded_and_its_sample_is_a_part() {
    let audit = |line: &str| format!("{ONE_LIMIT}[audit]\n{line}\n");
    let config = accepted(&audit(""));
    let default = config.audit.expect("the table is enough");
    assert_eq!(default.dir, PathBuf::from("etc/audit"));
    assert_eq!((default.sample.to_one_in(), default.max_bytes), (64, 64 << 20));
    for line in ["sample = \"1/1\"", "sample = \"1/1000000\"", "max_bytes = \"64GiB\""] {
        accepted(&audit(line));
    }
    let cases = [
        ("sample = \"0/64\"", "write `1/1`"),
        ("sample = \"1/0\"", "write `1/1`"),
        ("sample = \"2/64\"", "write `1/1`"),
        ("sample = \"1/1000001\"", "write `1/1`"),
        ("sample = \"1/-3\"", "write `1/1`"),
        ("sample = 64", "`sample` takes a string"),
        ("max_bytes = \"1023KiB\"", "write `1MiB` to `64GiB`"),
        ("max_bytes = \"65GiB\"", "write `1MiB` to `64GiB`"),
        ("dir = \"\"", "`dir` is empty"),
        ("dir = \"{host}\"", "a brace that is not of `{node}`"),
    ];
    for (line, want) in cases {
        let (at, message) = fault(&audit(line));
        assert!(message.contains(want), "{message}");
        assert_eq!(at, Some(5));
    }
}

#[test]
fn a_listener_beyond_this_host_is_accepted_with_a_warning() {
    let config = accepted(&format!("{ONE_LIMIT}[listen]\nudp = \"192.0.2.7:7400\"\n"));
    assert_eq!(config.warnings.len(), 1);
    assert!(config.warnings[0].contains("`192.0.2.7:7400`"));
}

#[test]
fn many_faults_are_told_in_one_run_by_line() {
    let errors = refused("unmached = 1\n[memory]\nmax = 5\n[[limit]]\nname = 7\nrate = \"1\"\n");
    let lines: Vec<_> = errors.errors().iter().map(ConfigError::line).collect();
    assert_eq!(lines, [Some(1), Some(3), Some(5), Some(6)], "{errors}");

    let flood: String = (0..100).map(|i| format!("unknown{i} = 1\n")).collect();
    let errors = refused(&format!("{flood}{ONE_LIMIT}"));
    assert_eq!((errors.errors().len(), errors.omitted()), (ERRORS_MAX, 100 - ERRORS_MAX));
    let lines: Vec<_> = errors.errors().iter().filter_map(ConfigError::line).collect();
    assert_eq!(lines, (1..=ERRORS_MAX).collect::<Vec<_>>());
}

#[test]
fn an_error_reads_like_the_compilers() {
    let errors = refused("[[limit]]\nname = \"a\"\nrate = \"10/s\"\nbursts = 60\n");
    assert_eq!(
        errors.to_string(),
        "etc/cluster.toml:4:1: unknown name `bursts` in [[limit]]; did you mean `burst`?\n  |\n\
         4 | bursts = 60\n  | ^^^^^^"
    );
}

#[test]
fn a_file_without_limits_is_refused_with_a_minimal_one() {
    for text in ["", "\n# nothing\n", "show_keys = true\n", "limit = []\n", "\u{feff}"] {
        let (line, message) = fault(text);
        assert_eq!(line, None);
        let example = message.split_once("\n\n").expect("an example").1;
        accepted(example);
    }
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    for (text, line) in [("[listen\n", 1), ("a = 1\nb = = 2\n", 2), ("x\n", 1), ("a = 0660\n", 1)] {
        let errors = refused(text);
        assert_eq!(errors.errors()[0].line(), Some(line), "{errors}");
    }
    let bytes = b"[[limit]]\nname = \"\xff\"\n";
    let errors = parse(bytes, Path::new("f.toml"), &node("a")).expect_err("not UTF-8");
    assert!(errors.to_string().starts_with("f.toml: line 2 is not UTF-8"), "{errors}");
}

#[test]
fn a_file_beyond_the_bound_is_refused() {
    let text = format!("{ONE_LIMIT}#{}", "x".repeat(FILE_BYTES_MAX));
    let (_, message) = fault(&text);
    assert!(message.contains("larger than 4 MiB"), "{message}");
    let fits = format!("{ONE_LIMIT}#{}", "x".repeat(FILE_BYTES_MAX - ONE_LIMIT.len() - 1));
    accepted(&fits);
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = std::env::temp_dir().join(format!("rlnode-config-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("cluster.toml");
    let told = |file: &Path| load(file, &node("a")).expect_err("refused").to_string();
    assert!(told(&file).contains("there is no such file"));
    assert!(told(&folder).contains("this is a folder"));
    std::fs::write(&file, "").expect("written");
    assert!(told(&file).contains("there is no limit in it"));
    std::fs::write(&file, ONE_LIMIT).expect("written");
    assert!(load(&file, &node("a")).is_ok());
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// What a slip of an editor, a merge or a template does to a file.
fn mutated(text: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let bytes = text.as_bytes().to_vec();
    let token = prop::sample::select(vec![
        "[[limit]]",
        "[limit]",
        "[[limit.override]]",
        "[node.a.listen]",
        "[cluster]",
        "[listen]",
        "\"",
        "\"\"\"",
        "=",
        "{",
        "}",
        "[",
        "]",
        ",",
        ".",
        "\n",
        "\0",
        "\u{feff}",
        "rate",
        "= -1",
        "1e999",
        "nan",
        "limit.override = 3",
        "limit = \"5 per 15m\"",
        "calendar-",
        "0x7fffffffffffffffffff",
        "\"10/s\"",
        "{node}",
        "é",
        "# ",
        "true",
    ]);
    let edit = (any::<prop::sample::Index>(), 0_usize..12, token, any::<bool>());
    prop::collection::vec(edit, 1..6).prop_map(move |edits| {
        let mut bytes = bytes.clone();
        for (at, cut, token, is_raw) in edits {
            let start = at.index(bytes.len() + 1);
            let end = bytes.len().min(start + cut);
            let insert = if is_raw { vec![token.as_bytes()[0] ^ 0x80] } else { token.into() };
            bytes.splice(start..end, insert);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_mutation_of_a_valid_file_panics(bytes in prop_oneof![mutated(FULL), mutated(SHIPPED)]) {
        match parse(&bytes, Path::new("c.toml"), &node("edge-1")) {
            Ok(config) => prop_assert!(explain(&config, None).is_ok()),
            Err(errors) => {
                prop_assert!(!errors.errors().is_empty());
                prop_assert!(errors.errors().len() <= ERRORS_MAX);
                prop_assert!(errors.to_string().starts_with("c.toml:"));
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), name in "\\PC{0,70}") {
        let errors = parse(&bytes, Path::new("c.toml"), &node(&name)).expect_err("no limits");
        prop_assert!(!errors.to_string().is_empty());
    }
}
