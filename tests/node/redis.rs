//! The Redis protocol, byte by byte.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::fleet::left;
use crate::support::resp::{RespClient, Value};
use crate::support::{Config, Node, Place, pause, wait_until};

const LIMITS: &str = "[[limit]]\nname = \"per-key\"\nrate = \"10/h\"\n\
                      [[limit]]\nname = \"pro\"\nrate = \"1000/h\"\n\
                      [[limit.override]]\nattributes = { plan = \"pro\" }\nrate = \"2000/h\"\n";

fn node() -> Node {
    Node::start(&Config::new(LIMITS).listen("redis = \"127.0.0.1:0\"\n"))
}

fn integers(value: &Value) -> Vec<i64> {
    value.array().iter().map(Value::integer).collect()
}

/// PR-08: the numbers of `CL.THROTTLE`, and what it refuses, with the connection kept.
#[test]
fn cl_throttle_answers_as_redis_cell_does() {
    let node = node();
    let mut client = RespClient::connect(&node);
    let mut throttle = |words: &str| client.line(&format!("CL.THROTTLE {words}"));
    assert_eq!(integers(&throttle("k 15 30 60")), [0, 16, 15, -1, 2]);
    for _ in 0..14 {
        assert_eq!(integers(&throttle("k 15 30 60"))[0], 0);
    }
    assert_eq!(integers(&throttle("k 15 30 60")), [0, 16, 0, -1, 32]);
    assert_eq!(integers(&throttle("k 15 30 60")), [1, 16, 0, 2, 32]);
    assert_eq!(integers(&throttle("z 0 1 10")), [0, 1, 0, -1, 10]);
    assert_eq!(integers(&throttle("z 0 1 10")), [1, 1, 0, 10, 10]);
    assert_eq!(integers(&throttle("p 15 30 60 0")), [0, 16, 16, -1, 0], "a peek");
    assert_eq!(integers(&throttle("n 0 1 10 5")), [1, 1, 1, -1, 0], "it can never pass");
    for (wrong, why) in [
        ("", "Usage: cl.throttle"),
        ("k 5 10", "Usage: cl.throttle"),
        ("k 5 10 60 1 9", "Usage: cl.throttle"),
        ("k 5 x 60", "count per period is 'x'"),
        ("k -1 10 60", "max_burst is '-1'"),
        ("k 5 10 60 -1", "quantity is '-1'"),
        ("k 5 10 9999999999999999", "period is too long"),
    ] {
        let error = throttle(wrong).error();
        assert!(error.starts_with("ERR ") && error.contains(why), "{wrong}: {error}");
    }
    assert_eq!(integers(&client.line("cl.throttle low 0 1 10")), [0, 1, 0, -1, 10]);
}

/// LM-01: zero is refused, and the node goes on.
#[test]
fn cl_throttle_refuses_limits_of_nothing() {
    let node = node();
    let mut client = RespClient::connect(&node);
    for wrong in ["k 0 0 60 1", "k 5 10 0 1", "k -1 10 60 1"] {
        let error = client.line(&format!("CL.THROTTLE {wrong}")).error();
        assert!(error.contains("at least"), "{wrong}: {error}");
    }
    assert!(client.line("CL.THROTTLE k 3 99999999999 1").error().starts_with("ERR "));
    assert_eq!(client.line("PING"), Value::Word("PONG".into()));
}

/// AR-03: more than one unit per millisecond is exact.
#[test]
fn cl_throttle_counts_rates_above_a_unit_per_millisecond() {
    let node = node();
    let mut client = RespClient::connect(&node);
    let line = "CL.THROTTLE k 5999 6000 3600 1\r\n";
    let replies = client.pipeline(line.repeat(6_010).as_bytes(), 6_010);
    let passed = replies.iter().filter(|reply| integers(reply)[0] == 0).count();
    assert!((6_000..=6_009).contains(&passed), "{passed}");
    assert_eq!(integers(&replies[0])[1], 6_000);
    let fast = "CL.THROTTLE f 5999 6000 1 1\r\n";
    let replies = client.pipeline(fast.repeat(6_001).as_bytes(), 6_001);
    assert!(replies.iter().filter(|reply| integers(reply)[0] == 0).count() >= 6_000);
}

/// AR-06, CO-05: a huge or negative cost charges nothing and gives nothing.
#[test]
fn costs_that_cannot_be_meant_change_nothing() {
    let node = node();
    let mut client = RespClient::connect(&node);
    assert_eq!(integers(&client.line("CL.THROTTLE h 0 1 86400 200000000"))[..4], [1, 1, 1, -1]);
    assert_eq!(integers(&client.line("CL.THROTTLE h 0 1 86400 9223372036854775807"))[0], 1);
    assert_eq!(integers(&client.line("CL.THROTTLE h 0 1 86400 1"))[..3], [0, 1, 0]);
    assert_eq!(client.map("RL.CHECK drained / COST 10")["allowed"], Value::Integer(1));
    for cost in ["-1", "-9223372036854775808", "1.5", "+1", "18446744073709551616", "x"] {
        let error = client.line(&format!("RL.CHECK drained / COST {cost}")).error();
        assert!(error.contains("no whole number"), "{cost}: {error}");
        let error = client.line(&format!("RL.REFUND drained / COST {cost}")).error();
        assert!(error.contains("no whole number"), "{cost}: {error}");
    }
    assert_eq!(client.map("RL.CHECK drained /")["allowed"], Value::Integer(0), "still drained");
}

/// `THROTTLE` has the fields of throttlecrab, in its order, and the same bucket.
#[test]
fn throttle_answers_as_throttlecrab_does() {
    let node = node();
    let mut client = RespClient::connect(&node);
    assert_eq!(integers(&client.line("THROTTLE t 2 1 10")), [1, 2, 1, 10, 0]);
    assert_eq!(integers(&client.line("THROTTLE t 2 1 10")), [1, 2, 0, 20, 0]);
    assert_eq!(integers(&client.line("THROTTLE t 2 1 10")), [0, 2, 0, 20, 10]);
    // Two of four are used.
    assert_eq!(integers(&client.line("CL.THROTTLE t 3 1 10")), [0, 4, 1, -1, 30]);
    assert!(client.line("THROTTLE t 0 1 10").error().contains("at least 1"));
}

#[test]
fn questions_have_every_field_in_both_versions() {
    let node = node();
    let mut client = RespClient::connect(&node);
    let old = client.map("RL.CHECK alice GET/ ATTR plan pro");
    assert_eq!(old["allowed"], Value::Integer(1));
    assert_eq!(old["limit_name"], Value::Bulk(b"per-key".to_vec()));
    assert_eq!((&old["limit"], &old["remaining"]), (&Value::Integer(10), &Value::Integer(9)));
    assert_eq!(old["reason"], Value::Bulk(b"ok".to_vec()));
    assert_eq!(old["retry_after_ms"], Value::Integer(0));
    let hello = client.map("HELLO 3");
    assert_eq!(hello["proto"], Value::Integer(3));
    let new = client.map("RL.PEEK alice GET/ ATTR plan pro COST 1");
    assert_eq!(new["allowed"], Value::Boolean(true));
    assert_eq!(new.keys().collect::<Vec<_>>(), old.keys().collect::<Vec<_>>());
    let never = client.map("RL.CHECK alice GET/ COST 11");
    assert_eq!(
        (&never["allowed"], &never["retry_after_ms"]),
        (&Value::Boolean(false), &Value::Null)
    );
    assert_eq!(client.map("RL.DEBIT alice GET/ COST 3 MAXWAIT 0")["remaining"], Value::Integer(6));
    assert_eq!(client.map("RL.REFUND alice GET/ COST 3")["remaining"], Value::Integer(9));
    for (wrong, why) in [
        ("RL.CHECK alice", "Usage: RL.CHECK"),
        ("RL.CHECK alice / COST", "syntax error near 'COST'"),
        ("RL.CHECK alice / FOO 1", "syntax error near 'FOO'"),
        ("NOPE", "unknown command 'NOPE'"),
    ] {
        assert!(client.line(wrong).error().contains(why), "{wrong}");
    }
    assert_eq!(left(&node, "alice"), 9, "the bucket of every other door");
}

/// PR-05: however commands are cut or joined, each is answered in its place.
#[test]
fn commands_cut_anywhere_are_answered_in_order() {
    let node = node();
    let one = |n: usize| {
        let text = n.to_string();
        match n % 3 {
            0 => format!("*2\r\n$4\r\nECHO\r\n${}\r\n{text}\r\n", text.len()),
            1 => format!("ECHO {text}\r\n"),
            _ => "NOPE\r\n".to_owned(),
        }
    };
    let all: String = (0..1_000).map(one).collect();
    let want = |n: usize, reply: &Value| match n % 3 {
        2 => assert!(reply.clone().error().contains("NOPE")),
        _ => assert_eq!(*reply, Value::Bulk(n.to_string().into_bytes())),
    };
    let mut client = RespClient::connect(&node);
    let replies = client.pipeline(all.as_bytes(), 1_000);
    replies.iter().enumerate().for_each(|(n, reply)| want(n, reply));
    for step in [1, 7, 100] {
        let mut client = RespClient::connect(&node);
        let cut: String = (0..60).map(one).collect();
        for piece in cut.as_bytes().chunks(step) {
            client.send(piece);
            if step == 1 {
                pause(Duration::from_micros(200));
            }
        }
        (0..60).for_each(|n| want(n, &client.receive()));
    }
}

/// What is no command is told so, and the connection ends; nobody else is disturbed.
#[test]
fn what_is_no_command_ends_the_connection() {
    let node = node();
    let mut steady = RespClient::connect(&node);
    for (bytes, why) in [
        (&b"*1\r\n:4\r\n"[..], "expected '$'"),
        (b"*65\r\n", "invalid multibulk length"),
        (b"*1\r\n$4097\r\n", "invalid bulk length"),
        (&[b'x'; 70_000], "longer than"),
    ] {
        let mut client = RespClient::connect(&node);
        client.send(bytes);
        let error = client.receive().error();
        assert!(error.starts_with("ERR Protocol error") && error.contains(why), "{error}");
        assert!(client.has_ended());
        assert_eq!(steady.line("PING"), Value::Word("PONG".into()));
    }
    let faults =
        node.metrics().errors("redis", "malformed") + node.metrics().errors("redis", "too_large");
    assert_eq!(faults, 4);
    assert_eq!(steady.line("QUIT"), Value::Word("OK".into()));
    assert!(steady.has_ended());
}

/// Acts on keys are for operators: at the unix socket the node's user, elsewhere whoever has the token.
#[test]
fn operators_act_on_keys() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let config = Config::new(&format!("{LIMITS}[admin]\ntoken_file = \"token\"\n"))
        .listen("redis = \"127.0.0.1:0\"\n");
    let place = Place::new(&config);
    let file = place.folder().join("token");
    std::fs::write(&file, TOKEN).expect("our own folder");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let node = place.start();
    let mut tcp = RespClient::connect(&node);
    assert_eq!(tcp.map("RL.CHECK alice / COST 4")["remaining"], Value::Integer(6));
    assert!(tcp.line("RL.RESET alice /").error().starts_with("NOPERM"));
    assert!(tcp.line("AUTH wrong").error().starts_with("WRONGPASS"));
    assert!(tcp.line("RL.RESET alice /").error().starts_with("NOPERM"));
    assert_eq!(node.metrics().errors("redis", "forbidden"), 3);
    assert_eq!(tcp.line(&format!("AUTH default {TOKEN}")), Value::Word("OK".into()));
    // What stands behind an act in one write is carried out after it.
    let replies = tcp.pipeline(b"RL.RESET alice / LIMIT per-key\r\nRL.CHECK alice /\r\n", 2);
    assert_eq!(integers(&replies[0]), [1, 4]);
    assert_eq!(replies[1].clone().pairs()["remaining"], Value::Integer(9));
    assert_eq!(tcp.line("RESET"), Value::Word("RESET".into()));
    assert!(tcp.line("RL.RESET alice /").error().starts_with("NOPERM"), "it is as it was");
    let mut unix = RespClient::over(
        UnixStream::connect(node.stream_path().with_extension("redis")).expect("the socket"),
    );
    assert_eq!(integers(&unix.line("RL.GRANT alice / 1 LIMIT per-key")), [1, 1]);
    assert!(unix.line("RL.RESET alice / LIMIT nobody").error().contains("no limit"));
    assert!(unix.line("RL.BAN WHO alice").error().contains("KEY <key>"));
}

/// What clients say when they connect is answered so that they go on.
#[test]
fn the_first_words_of_clients_are_understood() {
    let node = node();
    let mut client = RespClient::connect(&node);
    let ok = Value::Word("OK".into());
    assert!(client.line("HELLO 4").error().starts_with("NOPROTO"));
    assert_eq!(client.map("hello 3 setname app")["server"], Value::Bulk(b"rlnode".to_vec()));
    assert_eq!(client.line("client getname"), Value::Bulk(b"app".to_vec()));
    assert_eq!(client.line("CLIENT SETINFO LIB-NAME x"), ok);
    assert_eq!(client.line("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip"), ok);
    assert_eq!(client.line("SELECT 0"), ok);
    assert!(client.line("SELECT 1").error().contains("out of range"));
    assert!(client.line("AUTH x").error().contains("without any password"));
    let info = String::from_utf8(client.line("INFO").bulk()).expect("text");
    assert!(info.contains("redis_version:7") && info.contains("loading:0"), "{info}");
    assert!(client.line("COMMAND COUNT").integer() > 10);
    assert_eq!(client.line("COMMAND DOCS"), Value::Map(Vec::new()));
}

/// A client that asks and reads nothing is bounded, and costs nobody else anything.
#[test]
fn a_client_that_reads_nothing_is_not_read_either() {
    let node = node();
    let mut deaf = RespClient::connect(&node);
    deaf.give_up_after(Duration::from_secs(2));
    let flood =
        b"ECHO aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(1_000);
    let mut sent = 0;
    while sent < 64 << 20 && deaf.try_send(&flood) {
        sent += flood.len();
    }
    assert!(sent < 64 << 20, "the node took {sent} bytes and wrote none");
    let mut steady = RespClient::connect(&node);
    assert_eq!(steady.line("PING"), Value::Word("PONG".into()));
    drop(deaf);
    wait_until("the connection ends", Duration::from_secs(40), || {
        node.metrics().sum("rlnode_connections", &[("door", "redis")]) == 1
    });
}
