//! `rlnode import envoy`: the file of Envoy's reference service, and a node that decides by what became of it.

use std::fs;

use tempfile::TempDir;

use crate::support::grpc::{Descriptor, GrpcClient, call};
use crate::support::{Config, Ended, Node, run_in};

/// What operators of that service write: a value, all others, several entries, a few values of one, no limit,
/// none at all, one that is only watched, and stars.
const CONFIG: &str = "\
domain: shop
descriptors:
  # A message to one number, and all messages.
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: { unit: year, requests_per_unit: 2 }
  - key: message_type
    rate_limit: { unit: year, requests_per_unit: 4, name: messages }
  # The address of a partner, a closed one, and everybody else's.
  - key: remote_address
    value: 192.0.2.1
    rate_limit: { unlimited: true }
  - key: remote_address
    value: 192.0.2.2
    rate_limit: { unit: second, requests_per_unit: 0 }
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: generic_key
    value: checkout
    descriptors:
      - key: country
        value: ch
        descriptors: &users
          - key: user
            rate_limit: { unit: year, requests_per_unit: 1 }
      - key: country
        value: de
        descriptors: *users
  - key: path
    value: /static/*
    share_threshold: true
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: path
    value: /watched/*
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
";

struct Folder(TempDir);

impl Folder {
    #[track_caller]
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("our own folder");
        }
        Self(folder)
    }

    #[track_caller]
    fn run(&self, line: &str) -> Ended {
        run_in(self.0.path(), &line.split(' ').collect::<Vec<_>>())
    }

    #[track_caller]
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).expect("the file")
    }
}

#[test]
fn a_node_decides_by_what_was_imported_as_the_service_did() {
    let folder = Folder::with(&[("shop.yaml", CONFIG)]);
    let imported = folder.run("import envoy shop.yaml -o cluster.toml");
    assert_eq!((imported.code, imported.stderr.as_str()), (Some(0), ""));
    assert_eq!(folder.run("validate cluster.toml --node a").code, Some(0));
    let file = folder.read("cluster.toml");
    let (_, tables) = file.split_once("[listen]\nenvoy = \"127.0.0.1:7481\"\n").expect("a door");
    let node = Node::start(&Config::new(tables).listen("envoy = \"127.0.0.1:0\"\n"));
    let mut client = GrpcClient::connect(&node);
    let mut passed = |entries: &[(&str, &str)], asked: u32| {
        let question = call("shop", &[Descriptor::of(entries)]);
        (0..asked).filter(|_| !client.ask(&question).expect("an answer").is_over).count()
    };
    let marketing = |number| [("message_type", "marketing"), ("to_number", number)];
    assert_eq!(passed(&marketing("1"), 3), 2);
    assert_eq!(passed(&marketing("2"), 3), 2, "each number has its own");
    assert_eq!(passed(&[("message_type", "marketing")], 9), 9, "there is no limit at this depth");
    assert_eq!(passed(&[("message_type", "login")], 9), 4);
    assert_eq!(passed(&[("message_type", "news")], 9), 4, "each value has its own");
    assert_eq!(passed(&[("message_type", "login"), ("to_number", "1")], 9), 9);
    assert_eq!(passed(&[("remote_address", "192.0.2.1")], 50), 50);
    assert_eq!(passed(&[("remote_address", "192.0.2.2")], 9), 0);
    assert_eq!(passed(&[("remote_address", "192.0.2.3")], 9), 3);
    let checkout =
        |country, user| [("generic_key", "checkout"), ("country", country), ("user", user)];
    assert_eq!(passed(&checkout("ch", "ann"), 3), 1);
    assert_eq!(passed(&checkout("de", "ann"), 3), 1, "a country has its own");
    assert_eq!(passed(&checkout("fr", "ann"), 3), 3);
    assert_eq!(passed(&[("path", "/static/a")], 1) + passed(&[("path", "/static/b")], 9), 2);
    assert_eq!(passed(&[("path", "/watched/a")], 9), 9);
    let elsewhere = call("other", &[Descriptor::of(&[("remote_address", "192.0.2.2")])]);
    assert!(!client.ask(&elsewhere).expect("an answer").is_over, "another domain");
    let status = client.ask(&call("shop", &[Descriptor::of(&marketing("1"))])).expect("an answer");
    assert_eq!(status.statuses[0].name, "shop:message_type=marketing.to_number");
}

#[test]
fn what_is_not_taken_over_is_told_and_has_an_exit_code() {
    let text = CONFIG.replace("name: messages }", "name: messages, replaces: [{ name: x }] }");
    let folder = Folder::with(&[("shop.yaml", &text)]);
    let imported = folder.run("import envoy shop.yaml");
    assert_eq!(imported.code, Some(1));
    let line = "rlnode: not taken over: shop.yaml:10: message_type: `replaces` has no counterpart";
    assert!(imported.stderr.starts_with(line), "{}", imported.stderr);
    assert!(imported.stdout.contains("# Not as there: shop.yaml:10: "), "{}", imported.stdout);
    assert!(imported.stdout.contains("name = \"messages\""), "the rest is there");
    let harmless =
        CONFIG.replace("shadow_mode: true", "shadow_mode: true\n    detailed_metric: true");
    fs::write(folder.0.path().join("shop.yaml"), harmless).expect("our own folder");
    let imported = folder.run("import envoy shop.yaml");
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    assert!(
        imported.stderr.starts_with("rlnode: without effect: shop.yaml:"),
        "{}",
        imported.stderr
    );
}

#[test]
fn a_file_is_replaced_only_when_told() {
    let folder = Folder::with(&[("shop.yaml", CONFIG), ("cluster.toml", "mine")]);
    let refused = folder.run("import envoy shop.yaml --output cluster.toml");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("give --force"), "{}", refused.stderr);
    assert_eq!(folder.read("cluster.toml"), "mine");
    assert_eq!(folder.run("import envoy shop.yaml --output cluster.toml --force").code, Some(0));
    assert!(folder.read("cluster.toml").starts_with("# Made by `rlnode import envoy shop.yaml`."));
}

#[test]
fn what_cannot_be_read_writes_nothing() {
    let folder = Folder::with(&[
        ("no.yaml", "domain: ["),
        ("empty.yaml", "domain: d\n"),
        ("bytes.yaml", "domain: d\n"),
    ]);
    fs::write(folder.0.path().join("bytes.yaml"), [0xff, 0xfe, 0x00]).expect("our own folder");
    for (file, why) in [
        ("no.yaml", "no.yaml:"),
        ("empty.yaml", "there is no limit in it"),
        ("bytes.yaml", "bytes.yaml: it cannot be read"),
        ("gone.yaml", "gone.yaml: it cannot be read"),
    ] {
        let ended = folder.run(&format!("import envoy {file} -o out.toml"));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{file}");
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        assert!(!folder.0.path().join("out.toml").exists());
    }
}
