//! A configuration file of any bytes is read or refused with messages that can be shown; one that is
//! read can be explained and decides requests.
#![no_main]

use std::path::Path;

use limiter::{Limiter, Op, Request, StoreConfig};
use rlnode::config::{self, Node};
use rlnode_fuzz::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let node = Node { name: "edge-1".into(), environment: client::Environment::default() };
    let config = match config::parse(bytes, Path::new("/etc/cluster.toml"), &node) {
        Ok(config) => config,
        Err(errors) => {
            assert!(!errors.errors().is_empty() && !errors.to_string().is_empty());
            return;
        }
    };
    assert!(!config::explain(&config, None).expect("every limit is explained").is_empty());
    for rule in config.plan.rules() {
        config::explain(&config, Some(rule.name())).expect("each rule by its name");
    }
    let limiter = Limiter::new(
        config.plan,
        StoreConfig {
            memory_bytes: 0,
            entries_max: config.memory.max_entries,
            when_full: config.memory.when_full,
            secret: [0; 16],
        },
    );
    for op in [Op::Check, Op::Debit, Op::Refund] {
        let request = Request::check(b"GET /users/7", b"alice").with_op(op);
        let request = request.with_attribute(b"ip", b"192.0.2.1").with_attribute(b"plan", b"pro");
        let verdict = limiter.decide(1 << 60, &request).expect("within the bounds").verdict;
        assert!(verdict.remaining.unwrap_or(0) <= verdict.limit.unwrap_or(0));
    }
});
