//! The rules of the house that a machine can check, held against the tree as it lies on disk.
//!
//! A rule is a function from the tree to findings, and every rule has a test that it finds what it
//! is for. What a compiler or clippy checks already is not repeated here.

mod documents;
mod faults;
mod manifests;
mod sources;
mod tree;

use tree::Tree;

/// What a rule found: the place, and what to do about it.
type Findings = Vec<String>;

/// Holds one rule against the repository.
#[track_caller]
fn assert_holds(rule: fn(&Tree) -> Findings) {
    let findings = rule(&Tree::read());
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Holds one rule against made-up files, and expects findings that name each of `expected`, in
/// that order and no others.
#[track_caller]
fn assert_finds(rule: fn(&Tree) -> Findings, files: &[(&str, &str)], expected: &[&str]) {
    let findings = rule(&Tree::of(files));
    assert_eq!(findings.len(), expected.len(), "findings: {findings:#?}");
    for (finding, word) in findings.iter().zip(expected) {
        assert!(finding.contains(word), "`{word}` is not in the finding `{finding}`");
    }
}
