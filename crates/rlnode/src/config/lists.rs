//! `[allow]` and `[ban]`: who passes, and who does not, ahead of every limit.

use std::collections::HashMap;

use limiter::{KEY_BYTES_MAX, Lists, Network, Subject};
use toml::Spanned;

use super::error::{Problems, Span, quoted};
use super::settings::{ALLOW, BAN, Place};
use super::written::Section;

/// Reads both lists of the file whose top is `top`.
pub(super) fn read_lists(top: &mut Section<'_, '_>, problems: &mut Problems) -> Lists {
    let allow = read_list(top, "allow", &ALLOW, problems);
    let ban = read_list(top, "ban", &BAN, problems);
    for (subject, at) in &ban {
        if let Some(other) = allow.get(subject) {
            let message =
                format!("{} is both allowed and banned; take it out of one list", shown(subject));
            problems.add_pair(at, other, message);
        }
    }
    Lists { allow: in_order(allow), ban: in_order(ban) }
}

/// Each subject of a list, with where it stands.
type Listed = HashMap<Subject, Span>;

fn read_list(
    top: &mut Section<'_, '_>,
    name: &'static str,
    place: &'static Place,
    problems: &mut Problems,
) -> Listed {
    let mut listed = Listed::new();
    let Some(mut section) = top.take_section(name, place, problems) else { return listed };
    if !section.has("keys") && !section.has("ips") {
        let message = format!("`[{name}]` names nobody; write `keys` or `ips`, or drop it");
        problems.add(section.span(), message);
    }
    let keys = section.take_strings("keys", problems).unwrap_or_default();
    let ips = section.take_strings("ips", problems).unwrap_or_default();
    section.finish(problems);
    for (written, parse) in [(keys, parse_key as fn(&str) -> _), (ips, parse_network)] {
        for text in written {
            match parse(text.get_ref()) {
                Ok(subject) => add(&mut listed, Spanned::new(text.span(), subject), name, problems),
                Err(message) => problems.add(&text.span(), message),
            }
        }
    }
    listed
}

fn add(listed: &mut Listed, subject: Spanned<Subject>, name: &str, problems: &mut Problems) {
    let at = subject.span();
    let subject = subject.into_inner();
    if let Some(other) = listed.get(&subject) {
        let message = format!("`[{name}]` has {} twice; drop one", shown(&subject));
        problems.add_pair(&at, other, message);
        return;
    }
    listed.insert(subject, at);
}

fn parse_key(text: &str) -> Result<Subject, String> {
    match text.len() {
        1..=KEY_BYTES_MAX => Ok(Subject::Key(text.as_bytes().to_vec())),
        _ => Err(format!("the key {} is not 1 to {KEY_BYTES_MAX} bytes long", quoted(text))),
    }
}

fn parse_network(text: &str) -> Result<Subject, String> {
    text.parse::<Network>().map(Subject::Network)
}

fn shown(subject: &Subject) -> String {
    match subject {
        Subject::Key(key) => format!("the key {}", quoted(&String::from_utf8_lossy(key))),
        Subject::Network(network) => format!("`{network}`"),
    }
}

/// In the order of the file, so that the same file gives the same lists.
fn in_order(listed: Listed) -> Vec<Subject> {
    let mut listed: Vec<_> = listed.into_iter().collect();
    listed.sort_unstable_by_key(|(_, at)| at.start);
    listed.into_iter().map(|(subject, _)| subject).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use client::Environment;

    use super::super::{Config, ConfigErrors, Node, explain, parse};

    const LIMIT: &str = "[[limit]]\nname = \"a\"\nrate = \"10/s\"\n";

    fn read(lists: &str) -> Result<Config, ConfigErrors> {
        let node = Node { name: "edge-1".to_owned(), environment: Environment::default() };
        parse(format!("{lists}{LIMIT}").as_bytes(), Path::new("f.toml"), &node)
    }

    /// The line, the line of the other party, and what is said.
    fn fault(lists: &str) -> (Option<usize>, Option<usize>, String) {
        let errors = read(lists).expect_err(lists);
        let [error] = errors.errors() else { panic!("{errors}") };
        (error.line(), error.other_line(), error.message().to_owned())
    }

    #[test]
    fn lists_are_read_and_a_text_alone_is_a_list_of_one() {
        for lists in [
            "[allow]\nkeys = [\"monitor\", \"a:b\"]\nips = [\"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"]\n",
            "[ban]\nips = \"203.0.113.0/24\"\n",
            "[allow]\nkeys = \"10.0.0.1\"\n[ban]\nips = \"10.0.0.1\"\n",
            "[allow]\nips = \"10.0.0.0/8\"\n[ban]\nips = \"10.0.0.0/9\"\n",
        ] {
            assert!(read(lists).is_ok(), "{lists}");
        }
    }

    #[test]
    fn who_is_listed_is_explained() {
        let many: Vec<_> = (0..7).map(|it| format!("\"k{it}\"")).collect();
        let lists = format!("[allow]\nips = \"10.0.0.0/8\"\n[ban]\nkeys = [{}]\n", many.join(", "));
        let config = read(&lists).expect("a sound file");
        let told = explain(&config, None).expect("all of it");
        for line in [
            "Always allowed, and charged nowhere, ahead of every limit: `10.0.0.0/8`.\n",
            "Banned, for the reason `banned`, ahead of every limit: `k0`, `k1`, `k2`, `k3`, `k4` and 2 more.\n",
        ] {
            assert!(told.contains(line), "{told}");
        }
        let told = explain(&read("").expect("a sound file"), None).expect("all of it");
        assert!(!told.contains("ahead of every limit"), "{told}");
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_one_to_write() {
        let refused = |ip: &str| fault(&format!("[ban]\nips = [\"192.0.2.1\",\n\"{ip}\"]\n"));
        for (ip, why) in [
            ("10.1.2.3/8", "has bits that do not count; write `10.0.0.0/8`"),
            ("2001:db8::1/32", "write `2001:db8::/32`"),
            ("10.0.0.0/33", "0 to 32 bits"),
            ("10.0.0.0/+8", "0 to 32 bits"),
            ("10.0.0", "is no address and no network"),
            ("example.com", "is no address and no network"),
            ("", "is no address and no network"),
            ("::ffff:0.0.0.0/95", "is wider than the IPv4 addresses"),
        ] {
            let (line, _, message) = refused(ip);
            assert!(line == Some(3) && message.contains(why), "{ip}: {line:?} {message}");
        }
    }

    #[test]
    fn whoever_stands_twice_is_refused_and_both_lines_are_named() {
        for (lists, lines, why) in [
            ("[ban]\nkeys = [\"a\",\n\"b\",\n\"a\"]\n", (4, 2), "`[ban]` has the key `a` twice"),
            ("[allow]\nips = [\"10.0.0.7\",\n\"10.0.0.7/32\"]\n", (3, 2), "has `10.0.0.7` twice"),
            (
                "[allow]\nips = [\"10.0.0.0/8\",\n\"::ffff:10.0.0.0/104\"]\n",
                (3, 2),
                "has `10.0.0.0/8` twice",
            ),
            ("[allow]\nkeys = \"a\"\n[ban]\nkeys = \"a\"\n", (4, 2), "both allowed and banned"),
            ("[ban]\nips = \"::1\"\n[allow]\nips = \"::1\"\n", (2, 4), "both allowed and banned"),
        ] {
            let (line, other, message) = fault(lists);
            assert_eq!((line, other), (Some(lines.0), Some(lines.1)), "{message}");
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn a_list_of_nobody_and_keys_that_no_call_can_have_are_refused() {
        for (lists, why) in [
            ("[ban]\n", "`[ban]` names nobody"),
            ("[allow]\nkeys = []\n", "`keys` is empty; leave it out"),
            ("[allow]\nkeys = \"\"\n", "is not 1 to 1024 bytes long"),
            ("[allow]\nips = [7]\n", "takes a list of strings"),
        ] {
            assert!(fault(lists).2.contains(why), "{lists}");
        }
        let longest = "k".repeat(1_024);
        assert!(read(&format!("[ban]\nkeys = \"{longest}\"\n")).is_ok());
        assert!(fault(&format!("[ban]\nkeys = \"{longest}k\"\n")).2.contains("1024 bytes"));
    }
}
