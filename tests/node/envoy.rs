//! Envoy's rate limit service, asked by gRPC without Envoy.

use std::time::Duration;

use crate::support::grpc::{Descriptor, GrpcClient, HealthStatus, Reply, call};
use crate::support::{Config, Node, Surface, check, wait_until};

const LIMITS: &str = "[[limit]]\nname = \"per-address\"\nkey = \"{ip}\"\nrate = \"5/h\"\n\
                      [[limit]]\nname = \"user\"\nendpoint = \"user\"\nrate = \"60/h\"\n\
                      [[limit]]\nname = \"bytes\"\nendpoint = \"bytes\"\nunit = \"bytes\"\n\
                      rate = \"100/h\"\n\
                      [[envoy]]\ndomain = \"edge\"\n\
                      descriptor = [\"generic_key=user\", \"user\"]\n\
                      key = \"{user}\"\nendpoint = \"user\"\n\
                      [[envoy]]\ndescriptor = [\"generic_key=bytes\", \"user\"]\n\
                      key = \"{user}\"\nendpoint = \"bytes\"\nunit = \"bytes\"\ndebit = true\n";

fn node() -> Node {
    Node::start(&Config::new(LIMITS).listen("envoy = \"127.0.0.1:0\"\n"))
}

fn address(ip: &str) -> Descriptor {
    Descriptor::of(&[("remote_address", ip)])
}

fn user(name: &str) -> Descriptor {
    Descriptor::of(&[("generic_key", "user"), ("user", name)])
}

/// The codes of all statuses: whether each descriptor is over its limit.
fn over(reply: &Reply) -> Vec<bool> {
    reply.statuses.iter().map(|status| status.is_over).collect()
}

#[test]
fn calls_are_counted_and_denied_with_what_envoy_needs() {
    let node = node();
    let mut client = GrpcClient::connect(&node);
    for left in (0..5).rev() {
        let reply = client.ask(&call("edge", &[address("192.0.2.7")])).expect("an answer");
        assert!(!reply.is_over && reply.headers.is_empty() && reply.body.is_empty());
        let status = &reply.statuses[0];
        assert_eq!((status.remaining, status.name.as_str()), (left, "per-address"));
        assert_eq!((status.requests_per_unit, status.unit), (5, 3), "five an hour");
        assert_eq!(status.reset_s, Some(720 * (5 - i64::from(left))));
    }
    let denied = client.ask(&call("edge", &[address("192.0.2.7")])).expect("an answer");
    assert!(denied.is_over && denied.statuses[0].is_over);
    assert_eq!(denied.statuses[0].remaining, 0);
    let names: Vec<_> = denied.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["content-type", "retry-after"]);
    assert!(denied.body.contains("\"limit_name\":\"per-address\""), "{}", denied.body);
    let other = client.ask(&call("edge", &[address("192.0.2.8")])).expect("an answer");
    assert!(!other.is_over);
    let checks = |outcome: &str| {
        node.metrics().sum("rlnode_checks_total", &[("door", "envoy"), ("outcome", outcome)])
    };
    assert_eq!((checks("allowed"), checks("denied")), (6, 1));
}

/// PR-14: entries of several descriptors are not merged, statuses come in order, and a denial by one charges
/// none.
#[test]
fn descriptors_are_decided_together_and_told_apart() {
    let node = node();
    let mut client = GrpcClient::connect(&node);
    let all = [user("alice"), address("192.0.2.7"), Descriptor::of(&[("unheard", "of")])];
    for _ in 0..5 {
        let reply = client.ask(&call("edge", &all)).expect("an answer");
        assert_eq!((reply.is_over, over(&reply)), (false, vec![false; 3]));
    }
    for _ in 0..3 {
        let reply = client.ask(&call("edge", &all)).expect("an answer");
        assert_eq!((reply.is_over, over(&reply)), (true, vec![false, true, false]));
        assert_eq!(reply.statuses[0].remaining, 55, "a denied call counts nowhere");
        assert_eq!(reply.statuses[2].name, "");
    }
    // `generic_key` and `user` in descriptors of their own are not the mapped one.
    let apart = [Descriptor::of(&[("generic_key", "user")]), Descriptor::of(&[("user", "alice")])];
    let reply = client.ask(&call("edge", &apart)).expect("an answer");
    assert_eq!(over(&reply), [false, false]);
    assert_eq!(reply.statuses[1].name, "", "no limit of the user's applies");
    // Another domain is another mapping.
    let elsewhere = client.ask(&call("other", &[user("alice")])).expect("an answer");
    assert_eq!(elsewhere.statuses[0].name, "user", "by the usual names, with the key of its own");
    let unknown = Descriptor::of(&[("nobody", "knows")]);
    assert!(!client.ask(&call("unknown", &[unknown])).expect("an answer").is_over);
    for wrong in [call("", &[user("alice")]), call("edge", &[])] {
        assert_eq!(client.ask(&wrong).expect_err("refused").code(), 3, "INVALID_ARGUMENT");
    }
    let many = vec![user("alice"); 65];
    assert_eq!(client.ask(&call("edge", &many)).expect_err("refused").code(), 3);
}

/// What a call costs: 0 of the call is 1, 0 of a descriptor is a peek, and none wraps.
#[test]
fn hits_are_taken_at_both_levels() {
    let node = node();
    let mut client = GrpcClient::connect(&node);
    let mut ask = |hits: u32, of_descriptor: Option<u64>| {
        let mut descriptor = user("alice");
        descriptor.hits = of_descriptor;
        let mut question = call("edge", &[descriptor]);
        question.hits = hits;
        let reply = client.ask(&question).expect("an answer");
        (reply.is_over, reply.statuses[0].remaining)
    };
    assert_eq!(ask(0, None), (false, 59));
    assert_eq!(ask(3, None), (false, 56));
    assert_eq!(ask(3, Some(6)), (false, 50));
    assert_eq!(ask(3, Some(0)), (false, 50), "a peek");
    assert_eq!(ask(u32::MAX, None), (true, 50));
    assert_eq!(ask(0, Some(u64::MAX)), (true, 50));
    assert_eq!(ask(1, None), (false, 49));
}

#[test]
fn what_is_known_afterwards_is_charged_and_given_back() {
    let node = node();
    let mut client = GrpcClient::connect(&node);
    let bytes = |hits, is_negative| {
        let mut descriptor = Descriptor::of(&[("generic_key", "bytes"), ("user", "alice")]);
        (descriptor.hits, descriptor.is_negative) = (Some(hits), is_negative);
        call("edge", &[descriptor])
    };
    let mut ask = |question| {
        let reply: Reply = client.ask(&question).expect("an answer");
        (reply.is_over, reply.statuses[0].remaining)
    };
    assert_eq!(ask(bytes(30, false)), (false, 70));
    assert_eq!(ask(bytes(150, false)), (false, 0), "into debt, and never denied");
    assert_eq!(ask(bytes(100, true)), (false, 20));
    let mut refund = user("bob");
    (refund.hits, refund.is_negative) = (Some(5), true);
    assert_eq!(ask(call("edge", &[user("bob")])), (false, 59));
    assert_eq!(ask(call("edge", &[refund])), (false, 60), "full, and no more");
}

/// PR-15: many calls at once, cancelled ones among them, and a ping now and then end no connection.
#[test]
fn many_calls_of_one_connection_are_answered() {
    let node = node();
    let mut client = GrpcClient::connect(&node);
    let question = call("edge", &[user("alice")]);
    let replies = client.ask_at_once(&question, 2_000);
    let failed = replies.iter().find(|reply| reply.is_err());
    assert!(failed.is_none(), "{failed:?}");
    let passed = replies.iter().flatten().filter(|reply| !reply.is_over).count();
    assert_eq!((replies.len(), passed), (2_000, 60));
    client.cancel(&question, 10_000);
    for _ in 0..20 {
        client.ping().expect("a pong");
    }
    let reply = client.ask(&call("edge", &[user("bob")])).expect("the same connection");
    assert_eq!(reply.statuses[0].remaining, 59);
    let connections = || node.metrics().sum("rlnode_connections", &[("door", "envoy")]);
    assert_eq!(connections(), 1);
    drop(client);
    wait_until("the connection is gone", Duration::from_secs(10), || connections() == 0);
}

#[test]
fn health_follows_the_node_and_strangers_are_refused() {
    let node = node();
    let mut client = GrpcClient::connect(&node);
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(client.health(service).expect("known"), HealthStatus::Serving);
    }
    assert_eq!(client.health("nobody").expect_err("unknown").code(), 5, "NOT_FOUND");
    assert_eq!(client.method("/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit"), 12);
    // No HTTP/2 at all.
    let answered = GrpcClient::send_garbage(&node, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(!answered.starts_with(b"HTTP/1.1 200"));
    let faults =
        || node.metrics().sum("rlnode_errors_total", &[("door", "envoy"), ("kind", "malformed")]);
    wait_until("the garbage is counted", Duration::from_secs(10), || faults() >= 2);
    assert!(client.ask(&call("edge", &[user("alice")])).is_ok());
}

#[test]
fn the_unix_socket_is_the_same_door() {
    let node = Node::start(&Config::new(LIMITS).listen("envoy = true\n"));
    let path = node.stream_path().with_extension("envoy");
    let mut client = GrpcClient::unix(&path);
    assert_eq!(
        client.ask(&call("edge", &[user("alice")])).expect("an answer").statuses[0].remaining,
        59
    );
    let peek = check("user", "alice").with_op(limiter::Op::Peek);
    assert_eq!(node.caller(Surface::Stream).decide(&peek).remaining, Some(59), "one bucket");
}

/// Bytes that are no question are refused one by one and counted, and nobody else suffers.
#[test]
fn garbage_is_refused_and_the_connection_goes_on() {
    let node = node();
    let mut client = GrpcClient::connect(&node);
    let framed = |message: &[u8]| {
        let length = u32::try_from(message.len()).expect("short").to_be_bytes();
        [&[0], &length[..], message].concat()
    };
    let too_long = framed(&vec![0; 300 * 1024]);
    // Lengths that lie, wire types that are none, text that is no text, and a group that never ends.
    let messages: [&[u8]; 6] = [
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0f",
        b"\x0a\x01\xff",
        b"\x0b\x0b",
        b"\x12\x02\x0a",
        b"\x00",
    ];
    let mut refused = 0;
    for body in messages.into_iter().map(framed).chain([too_long, vec![1, 0, 0, 0, 0], vec![0; 3]])
    {
        let code = client.raw(body.clone());
        assert!([3, 8, 11, 12, 13].contains(&code), "{code}: {:02x?}", body.get(..16));
        refused += 1;
    }
    // A message of nothing is one without a domain.
    assert_eq!(client.raw(framed(b"")), 3);
    let reply = client.ask(&call("edge", &[user("alice")])).expect("the connection goes on");
    assert_eq!(reply.statuses[0].remaining, 59);
    let kinds = [("door", "envoy"), ("kind", "malformed")];
    assert_eq!(node.metrics().sum("rlnode_errors_total", &kinds), refused + 1);
}

/// What callers send is never a reason to let them pass: values of any length have their limit.
#[test]
fn long_and_empty_values_are_limited_too() {
    let node = node();
    let mut client = GrpcClient::connect(&node);
    let long = "x".repeat(60 * 1024);
    for value in ["", &long, "y"] {
        let descriptor = user(value);
        let with_path =
            Descriptor::of(&[("remote_address", "192.0.2.7"), ("path", value), ("user", value)]);
        let question = call("edge", &[descriptor, with_path]);
        let reply = client.ask(&question).expect("an answer");
        assert_eq!(reply.statuses[0].name, "user", "{}", value.len());
        assert_eq!(reply.statuses[1].name, "per-address");
        assert_eq!(reply.statuses[0].remaining, 59, "a bucket of its own");
    }
}
