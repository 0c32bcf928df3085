//! Rules about Rust sources: how a file begins, how long it gets, what it may not say.

use crate::tree::Tree;
use crate::{Findings, assert_finds, assert_holds};

/// Most lines of a file before its tests: what a reader can hold, with room above the 400 that
/// CONVENTIONS.md asks for.
const CODE_LINES_MAX: usize = 500;

/// Most lines of a file that holds nothing but tests, which are read one at a time.
const TEST_FILE_LINES_MAX: usize = 800;

/// Files that may be longer, each with the reason.
const LONG_FILES: [(&str, &str); 0] = [];

/// Where the decision and the codecs live: no socket, file, clock, thread or environment.
const LOGIC: [&str; 3] = ["crates/limiter/src/", "crates/wire/src/", "crates/cluster/src/"];

/// What logic does not name outside its tests.
const OUTSIDE_WORLD: [&str; 12] = [
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "SystemTime",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "UnixDatagram",
    "UnixListener",
    "UnixStream",
];

/// Names that say nothing about what is in a file.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "misc", "shared"];

fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.ending_in(&[".rs"])
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The lines before the module of tests that ends a file.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    let before_tests = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text);
    before_tests.lines()
}

/// Every file says first what it is.
fn files_open_with_their_purpose(tree: &Tree) -> Findings {
    sources(tree)
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| format!("{path}: say in the first line, with `//!`, what the file is"))
        .collect()
}

/// No file is longer than its bound, and no exception outlives its need.
fn files_are_short(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (path, text) in sources(tree) {
        let (lines, lines_max) = if is_test_file(path) {
            (text.lines().count(), TEST_FILE_LINES_MAX)
        } else {
            (code_lines(text).count(), CODE_LINES_MAX)
        };
        let is_excepted = LONG_FILES.iter().any(|(file, _)| *file == path);
        if lines > lines_max && !is_excepted {
            findings.push(format!("{path}: has {lines} lines, {lines_max} allowed; split by idea"));
        } else if lines <= lines_max && is_excepted {
            findings.push(format!("{path}: is short enough; take it off LONG_FILES"));
        }
    }
    let gone = LONG_FILES.iter().filter(|(path, reason)| !tree.contains(path) || reason.is_empty());
    findings
        .extend(gone.map(|(path, _)| format!("{path}: is gone or has no reason; see LONG_FILES")));
    findings
}

/// Lints are silenced by `expect` alone, and a test is skipped for a stated reason alone.
fn nothing_is_silenced_without_a_reason(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (path, text) in sources(tree) {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_start();
            let is_attribute = line.starts_with("#[") || line.starts_with("#![");
            if is_attribute && ["[allow(", " allow("].iter().any(|word| line.contains(word)) {
                findings.push(format!("{path}:{number}: use `expect` with a reason, not `allow`"));
            }
            if is_attribute && line.contains("ignore]") {
                findings.push(format!("{path}:{number}: say why: `#[ignore = \"the reason\"]`"));
            }
        }
    }
    findings
}

/// The decision and the codecs name nothing of the world outside.
fn logic_names_no_outside_world(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    let logic = sources(tree).filter(|(path, _)| LOGIC.iter().any(|root| path.starts_with(root)));
    for (path, text) in logic.filter(|(path, _)| !is_test_file(path)) {
        for (number, line) in (1..).zip(code_lines(text)) {
            let is_comment = line.trim_start().starts_with("//");
            let word = OUTSIDE_WORLD.iter().find(|word| line.contains(**word));
            if let Some(word) = word.filter(|_| !is_comment) {
                findings.push(format!("{path}:{number}: `{word}` belongs into an outer crate"));
            }
        }
    }
    findings
}

/// Files and functions are named by the terms of the field.
fn names_say_something(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (path, text) in sources(tree) {
        let parts = path.strip_suffix(".rs").unwrap_or(path).split('/');
        if let Some(part) = parts.into_iter().find(|part| EMPTY_NAMES.contains(part)) {
            findings.push(format!("{path}: `{part}` says nothing; name the idea"));
        }
        for (number, line) in (1..).zip(text.lines()) {
            let declaration = line.trim_start();
            let is_declaration = declaration.starts_with("fn ") || declaration.starts_with("pub");
            if is_declaration && declaration.contains(concat!("fn ", "get_")) {
                findings.push(format!("{path}:{number}: name it without `get_`"));
            }
        }
    }
    findings
}

#[test]
fn every_file_opens_with_its_purpose() {
    assert_holds(files_open_with_their_purpose);
}

#[test]
fn finds_a_file_without_a_purpose() {
    assert_finds(
        files_open_with_their_purpose,
        &[("a.rs", "//! The clock.\n"), ("b.rs", "use x;\n"), ("c.rs", ""), ("d.rs", "// A note.")],
        &["b.rs", "c.rs", "d.rs"],
    );
}

#[test]
fn every_file_is_short() {
    assert_holds(files_are_short);
}

#[test]
fn finds_a_file_that_is_too_long_and_counts_no_tests() {
    let longest = "x\n".repeat(CODE_LINES_MAX);
    let too_long = format!("{longest}x\n");
    let with_tests = format!("{longest}#[cfg(test)]\nmod tests {{\n{longest}}}\n");
    let longest_test = "x\n".repeat(TEST_FILE_LINES_MAX);
    let too_long_test = format!("{longest_test}x\n");
    assert_finds(
        files_are_short,
        &[
            ("a/src/longest.rs", &longest),
            ("a/src/too_long.rs", &too_long),
            ("a/src/with_tests.rs", &with_tests),
            ("a/src/x/tests.rs", &longest_test),
            ("tests/too_long.rs", &too_long_test),
        ],
        &["a/src/too_long.rs", "tests/too_long.rs"],
    );
}

#[test]
fn every_silence_has_its_reason() {
    assert_holds(nothing_is_silenced_without_a_reason);
}

#[test]
fn finds_an_allow_and_a_bare_ignore() {
    let bad = "#![allow(dead_code)]\n#[cfg_attr(test, allow(unused))]\n    #[ignore]\nfn f() {}\n";
    let good =
        "#[expect(dead_code, reason = \"x\")]\n#[ignore = \"an hour\"]\nfn allow(x: u8) {}\n";
    assert_finds(
        nothing_is_silenced_without_a_reason,
        &[("bad.rs", bad), ("good.rs", good)],
        &["bad.rs:1", "bad.rs:2", "bad.rs:3"],
    );
}

#[test]
fn the_logic_names_no_outside_world() {
    assert_holds(logic_names_no_outside_world);
}

#[test]
fn finds_a_socket_in_the_logic() {
    let bad = "use std::net::{IpAddr, UdpSocket};\n// a UdpSocket\nuse std::fs::File;\n\
               #[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
    assert_finds(
        logic_names_no_outside_world,
        &[("crates/rlnode/src/a.rs", bad), ("crates/wire/src/a.rs", bad)],
        &["crates/wire/src/a.rs:1", "crates/wire/src/a.rs:3"],
    );
}

#[test]
fn every_name_says_something() {
    assert_holds(names_say_something);
}

#[test]
fn finds_a_name_that_says_nothing() {
    assert_finds(
        names_say_something,
        &[
            ("a/util.rs", "fn forget_it() {}\n"),
            ("b.rs", concat!("    pub(crate) fn ", "get_x() {}\n")),
            ("tests/common/mod.rs", ""),
        ],
        &["`util`", "b.rs:1", "`common`"],
    );
}
