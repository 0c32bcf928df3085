//! Rules about what is written for people: links lead somewhere, nothing is left unfinished.

use crate::tree::Tree;
use crate::{Findings, assert_finds, assert_holds};

/// Files that people write, by how their names end.
const WRITTEN: [&str; 7] = [".rs", ".toml", ".md", ".sh", "scripts/gate", ".ci/run", ".conf"];

/// Every relative link of a Markdown file leads to a file or folder of the repository.
fn links_lead_somewhere(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    for (path, text) in tree.ending_in(&[".md"]) {
        let mut fenced = false;
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if fenced {
                continue;
            }
            for link in links(line) {
                let file = link.split('#').next().unwrap_or("");
                let is_elsewhere = file.is_empty() || link.contains("://");
                if !is_elsewhere && !joined(path, file).is_some_and(|to| tree.contains(&to)) {
                    findings.push(format!("{path}:{number}: there is no `{link}`"));
                }
            }
        }
    }
    findings
}

/// Targets of the inline links in a line of Markdown.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next())
}

/// The path that a relative link in the file `from` leads to; none if it leaves the repository.
fn joined(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// No file names work that was left for later.
fn nothing_is_left_unfinished(tree: &Tree) -> Findings {
    // Split, so that this file does not find itself.
    let words =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];
    let macros = [concat!("to", "do!"), concat!("unimple", "mented!")];
    let mut findings = Findings::new();
    for (path, text) in tree.ending_in(&WRITTEN) {
        for (number, line) in (1..).zip(text.lines()) {
            let mut tokens = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let mark = macros.into_iter().find(|name| line.contains(name));
            if let Some(mark) = mark.or_else(|| tokens.find(|token| words.contains(token))) {
                findings.push(format!("{path}:{number}: finish it, or delete `{mark}`"));
            }
        }
    }
    findings
}

#[test]
fn every_link_leads_somewhere() {
    assert_holds(links_lead_somewhere);
}

#[test]
fn finds_a_link_that_leads_nowhere() {
    let manual = "[up](../README.md#start) [gone](gone.md), [out](../../x) [web](https://x/y)\n\
                  ```\n[code](nowhere)\n```\n[here](#here) [folder](.) ![image](img/a.png \"A\")";
    assert_finds(
        links_lead_somewhere,
        &[("README.md", "[docs](docs)"), ("docs/manual.md", manual)],
        &["`gone.md`", "`../../x`", "docs/manual.md:5: there is no `img/a.png`"],
    );
}

#[test]
fn no_file_is_left_unfinished() {
    assert_holds(nothing_is_left_unfinished);
}

#[test]
fn finds_what_was_left_unfinished() {
    let code = format!(
        "fn f() {{\n    {}()\n}}\n// {}: later\n",
        concat!("to", "do!"),
        concat!("X", "XX")
    );
    assert_finds(
        nothing_is_left_unfinished,
        &[
            ("a.rs", &code),
            ("b.md", "mktemp name.XXXXXX and todo lists are fine"),
            ("c.sh", concat!("# FIX", "ME")),
        ],
        &["a.rs:2", "a.rs:4", "c.sh:1"],
    );
}
