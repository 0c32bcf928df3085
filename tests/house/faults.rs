//! Rules about docs/faults.md: what it says that a test holds is held by a test that exists.

use std::collections::BTreeMap;

use crate::tree::Tree;
use crate::{Findings, assert_finds, assert_holds};

/// The page that lists the faults of others and the tests against them.
const PAGE: &str = "docs/faults.md";

/// What a row says that no test can hold yet.
const LATER: &str = "comes with";

/// Every test that the page names exists in the file that it names.
fn named_tests_exist(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (number, line) in (1..).zip(tree.text(PAGE).unwrap_or_default().lines()) {
        for span in code_spans(line) {
            let Some((file, test)) = span.split_once(".rs::") else {
                if is_name_of_a_test(span) {
                    findings.push(format!("{PAGE}:{number}: say in which file `{span}` is"));
                }
                continue;
            };
            let text = tree.text(&format!("{file}.rs"));
            if !text.is_some_and(|text| text.contains(&format!("fn {test}("))) {
                findings.push(format!("{PAGE}:{number}: there is no `{span}`"));
            }
        }
    }
    findings
}

/// Every fault has one row, which says what holds it off.
fn faults_are_held_off(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (id, rows) in rows(tree) {
        if let [_, second, ..] = rows.as_slice() {
            findings.push(format!("{PAGE}:{}: `{id}` has a row already", second.0));
        }
        for (number, held_by) in rows {
            if code_spans(held_by).next().is_none() && !held_by.contains(LATER) {
                findings.push(format!("{PAGE}:{number}: say which test holds `{id}` off"));
            }
        }
    }
    findings
}

/// A test that says which fault it is against says it of a fault of the page, and its file stands in
/// the row.
fn tests_are_listed(tree: &Tree) -> Findings {
    let rows = rows(tree);
    let mut findings = Findings::new();
    for (path, text) in
        tree.ending_in(&[".rs"]).filter(|(path, _)| !path.starts_with("tests/house/"))
    {
        for (number, line) in (1..).zip(text.lines()) {
            let Some(comment) = line.trim_start().strip_prefix("///") else { continue };
            for id in comment.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
                if is_id(id) && !rows.get(id).is_some_and(|rows| rows[0].1.contains(path)) {
                    findings.push(format!("{path}:{number}: {PAGE} does not list it for `{id}`"));
                }
            }
        }
    }
    findings
}

/// Of each fault its rows: the line, and what it says that holds the fault off.
fn rows(tree: &Tree) -> BTreeMap<&str, Vec<(usize, &str)>> {
    let mut rows = BTreeMap::<&str, Vec<(usize, &str)>>::new();
    for (number, line) in (1..).zip(tree.text(PAGE).unwrap_or_default().lines()) {
        let mut cells = line.split('|').skip(1).map(str::trim);
        if let (Some(id), Some(_), Some(held_by)) = (cells.next(), cells.next(), cells.next())
            && is_id(id)
        {
            rows.entry(id).or_default().push((number, held_by));
        }
    }
    rows
}

/// Two capitals, a dash and two digits.
fn is_id(word: &str) -> bool {
    let is_right = |place: usize, byte: u8| match place {
        0 | 1 => byte.is_ascii_uppercase(),
        2 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    word.len() == 5 && word.bytes().enumerate().all(|(place, byte)| is_right(place, byte))
}

/// Five words or more: no setting, metric or field is called so.
fn is_name_of_a_test(span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    span.chars().all(is_plain) && span.matches('_').count() >= 4
}

fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_the_page_names_exists() {
    assert_holds(named_tests_exist);
}

#[test]
fn finds_a_test_that_is_named_and_not_there() {
    let page = "`a/b.rs::holds_it` `a/b.rs::holds`, `c.rs::holds_it`\n`what_one_node_says_it_holds` `a_b`\n";
    assert_finds(
        named_tests_exist,
        &[(PAGE, page), ("a/b.rs", "fn holds_it() {}"), ("a/c.rs", "fn holds_it() {}")],
        &["`a/b.rs::holds`", "`c.rs::holds_it`", "`what_one_node_says_it_holds`"],
    );
}

#[test]
fn every_fault_is_held_off() {
    assert_holds(faults_are_held_off);
}

#[test]
fn finds_a_fault_that_nothing_holds_off() {
    let page = "| id | fault | held off by |\n|---|---|---|\n| AB-01 | x | `a.rs::b` |\n\
                | AB-02 | `x` | |\n| AB-03 | x | comes with the reload |\n| AB-01 | y | `a.rs::b` |\n";
    assert_finds(faults_are_held_off, &[(PAGE, page)], &["`AB-01` has a row", "holds `AB-02` off"]);
}

#[test]
fn every_test_against_a_fault_is_listed() {
    assert_holds(tests_are_listed);
}

#[test]
fn finds_a_test_that_its_fault_does_not_list() {
    let page = "| AB-01 | x | `a.rs::b` |\n";
    let test = "//! Ids such as AB-03.\n/// AB-01, AB-02: x\nfn b() {} // AB-04\n";
    assert_finds(
        tests_are_listed,
        &[(PAGE, page), ("a.rs", test), ("b.rs", "/// AB-01\n")],
        &["a.rs:2: docs/faults.md does not list it for `AB-02`", "b.rs:1:"],
    );
}
