//! `rlnode compare`: what somebody sees who has a limit to choose, or a log and a file.

use std::fs;

use serde_json::Value;

use crate::support::{Ended, run, run_in};

/// The manual of the command.
const MANUAL: &str = include_str!("../../docs/compare.md");
/// What people see first, with the same figures.
const README: &str = include_str!("../../README.md");

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let Ended { code, stdout, stderr } = run(&[&["compare"], arguments].concat());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    stdout
}

#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let Ended { code, stdout, stderr } = run(&[&["compare"], arguments].concat());
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    stderr
}

/// The two traffics side by side: one line for each algorithm under its configured name, 200 in two
/// seconds through the fixed window and 100 through the log.
#[test]
fn window_edge_alone_shows_what_each_algorithm_lets_through() {
    let text = printed(&["--traffic", "window-edge"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("200 calls") && lines[0].contains("limit 100/min"), "{text}");
    // Names, passed, denied, worst second, worst two seconds, worst minute.
    for (name, figures) in [
        ("token-bucket", "103 97 100 103 103"),
        ("leaky-bucket", "103 97 100 103 103"),
        ("leaky-queue", "103 97 2 4 100"),
        ("fixed-window", "200 0 100 200 200"),
        ("sliding-window", "101 99 100 101 101"),
        ("sliding-log", "100 100 100 100 100"),
    ] {
        let of_it: Vec<Vec<&str>> = lines
            .iter()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words.first() == Some(&name))
            .collect();
        assert_eq!(of_it.len(), 1, "{name}:\n{text}");
        assert_eq!(of_it[0][1..6].join(" "), figures, "{name}:\n{text}");
    }
    assert_eq!(printed(&[]), text, "it is what is compared unless told otherwise");
    for (file, shown) in [("docs/compare.md", MANUAL), ("README.md", README)] {
        assert!(shown.contains(&text), "{file} shows something else:\n{text}");
    }
}

/// Every name of the JSON stands in the manual.
#[test]
fn the_json_says_the_same_in_documented_names() {
    let text = printed(&[
        "--traffic",
        "window-edge",
        "--nodes",
        "2",
        "--limit",
        "20/s",
        "--format",
        "json",
    ]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let algorithms = report["algorithms"].as_array().expect("a list");
    let worst = |name: &str| {
        let it = algorithms.iter().find(|it| it["algorithm"] == name).expect("the algorithm");
        it["alone"]["worst_two_seconds"].as_u64().expect("a number")
    };
    assert_eq!((worst("fixed-window"), worst("sliding-log")), (40, 20));
    assert_eq!(report["nodes"], 2);
    assert_documented(&report);
}

#[track_caller]
fn assert_documented(value: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                assert!(
                    MANUAL.contains(&format!("`{name}`")),
                    "`{name}` is not in docs/compare.md"
                );
                assert_documented(value);
            }
        }
        Value::Array(values) => values.iter().for_each(assert_documented),
        _ => {}
    }
}

/// The picture and the page are written, stand alone, and are the same each time.
#[test]
fn pictures_are_files_of_their_own() {
    let folder = folder();
    let draw = |name: &str| {
        let (svg, html) = (format!("{name}.svg"), format!("{name}.html"));
        let ended = run_in(
            folder.path(),
            &["compare", "--traffic", "burst", "--limit", "10/s", "--svg", &svg, "--html", &html],
        );
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        [svg, html].map(|file| fs::read_to_string(folder.path().join(file)).expect("a file"))
    };
    let [svg, html] = draw("a");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for name in ["token-bucket", "leaky-queue", "sliding-log"] {
        assert!(svg.contains(name) && html.contains(name), "{name}");
    }
    assert!(html.starts_with("<!doctype html>") && html.len() < 500_000, "{}", html.len());
    // Three limits, five traffics, the one asked for first.
    assert_eq!(html.matches("<section ").count(), 15);
    assert!(html.contains("<section data-limit=\"10/s\" data-traffic=\"burst\">"));
    assert_eq!(draw("b"), [svg, html]);
}

const FILE: &str = "[[limit]]\nname = \"per-client\"\nkey = \"{ip}\"\nrate = \"2/min\"\n\n\
                    [[limit]]\nname = \"logins\"\nendpoint = \"POST /login\"\nrate = \"1/h\"\n";

const LOG: &str = "\
192.0.2.1 - - [01/Dec/2026:10:59:58 +0100] \"GET /a?b=c HTTP/1.1\" 200 5 \"-\" \"curl\"
192.0.2.1 - - [01/Dec/2026:10:59:59 +0100] \"POST /login HTTP/1.1\" 200 5 \"-\" \"curl\"
nothing of the kind
192.0.2.1 - - [01/Dec/2026:11:00:00 +0100] \"POST /login HTTP/1.1\" 200 5 \"-\" \"curl\"
192.0.2.2 - - [01/Dec/2026:11:00:00 +0100] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"
";

/// Who would have been denied yesterday under tomorrow's file.
#[test]
fn a_log_is_run_through_the_limits_of_a_file() {
    let folder = folder();
    fs::write(folder.path().join("cluster.toml"), FILE).expect("a file");
    fs::write(folder.path().join("access.log"), LOG).expect("a file");
    let arguments = ["compare", "--config", "cluster.toml", "--trace", "access.log"];
    let ended = run_in(folder.path(), &arguments);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    for part in [
        "4 calls of access.log, 2026-12-01 09:59:58 to 2026-12-01 10:00:00 UTC, under cluster.toml",
        "1 of 5 lines could not be read:",
        "line 3: it is no line of an access log: `nothing of the kind`",
        "3 would have passed, 1 would have been denied",
        "most denied by per-client:\n  192.0.2.1  1  first 2026-12-01 10:00:00",
        "most denied by logins:\n  192.0.2.1  1  first 2026-12-01 10:00:00",
    ] {
        assert!(ended.stdout.contains(part), "{part}:\n{}", ended.stdout);
    }
    let ended = run_in(folder.path(), &[&arguments[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_documented(&report);
    let limits = report["limits"].as_array().expect("a list");
    let of: Vec<_> = limits
        .iter()
        .map(|it| {
            (it["limit"].as_str().unwrap_or(""), it["allowed"].as_u64(), it["denied"].as_u64())
        })
        .collect();
    assert_eq!(of, [("per-client", Some(3), Some(1)), ("logins", Some(1), Some(1))]);
    let hours: Vec<_> =
        report["hours"].as_array().expect("a list").iter().map(|it| &it["calls"]).collect();
    assert_eq!(hours, [2, 2]);
}

/// A file that only a node with a table of its own can read.
#[test]
fn the_file_of_three_nodes_is_read_as_one_of_them_does() {
    const FILE: &str = include_str!("../../examples/three-nodes.toml");
    let folder = folder();
    fs::write(folder.path().join("cluster.toml"), FILE).expect("a file");
    fs::write(folder.path().join("access.log"), LOG).expect("a file");
    let arguments = ["compare", "--config", "cluster.toml", "--trace", "access.log"];
    let ended = run_in(folder.path(), &[&arguments[..], &["--node", "a"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("4 would have passed, 0 would have been denied"), "{ended:?}");
    let ended = run_in(folder.path(), &arguments);
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

/// The same log, with a choice of who the callers are, through every algorithm.
#[test]
fn a_log_is_run_through_every_algorithm() {
    let folder = folder();
    fs::write(folder.path().join("calls.csv"), "client,time\na,100\na,100\na,101\nb,101\n")
        .expect("a file");
    let arguments = [
        "compare",
        "--trace",
        "calls.csv",
        "--key",
        "client",
        "--limit",
        "2/min",
        "--format",
        "json",
    ];
    let ended = run_in(folder.path(), &arguments);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&report["calls"], &report["trace"]["lines"]), (&4.into(), &5.into()));
    for algorithm in report["algorithms"].as_array().expect("a list") {
        let alone = &algorithm["alone"];
        assert_eq!((&alone["allowed"], &alone["denied"]), (&3.into(), &1.into()), "{algorithm}");
    }
    assert_documented(&report);
}

/// What cannot be done is said with what to do instead.
#[test]
fn what_cannot_be_compared_is_refused() {
    for (arguments, words) in [
        (&["--traffic", "rush-hour"][..], "`window-edge`"),
        (&["--algorithms", "gcra"], "`token-bucket`"),
        (&["--limit", "100"], "10/s"),
        (&["--limit", "1000000/s"], "50000"),
        (&["--nodes", "11"], "from 2 to 10"),
        (&["--config", "cluster.toml"], "--trace"),
        (&["--trace", "a.log", "--traffic", "steady"], "--traffic"),
        (&["--trace", "there-is-none.log"], "there is no such file"),
        (&["--key", "user"], "--trace"),
    ] {
        let why = refused(arguments);
        assert!(why.contains(words), "{arguments:?}: {why}");
    }
}

/// A file that is not valid is refused as everywhere: exit 1, with its line.
#[test]
fn a_file_that_is_not_valid_is_refused_with_its_line() {
    let folder = folder();
    fs::write(folder.path().join("bad.toml"), "[[limit]]\nname = \"x\"\nrates = \"1/s\"\n")
        .expect("a file");
    let ended =
        run_in(folder.path(), &["compare", "--config", "bad.toml", "--trace", "access.log"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("bad.toml:3:1"), "{}", ended.stderr);
}
