//! A text of any bytes is refused in words, or becomes a file that a node takes.
#![no_main]

use std::path::Path;

use rlnode::config;
use rlnode::import::{self, Source};
use rlnode_fuzz::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match import::envoy(&[Source { name: "c.yaml", text }]) {
        Err(error) => assert!(!error.is_empty()),
        Ok(imported) if imported.limits == 0 => {}
        Ok(imported) => {
            let environment = client::Environment::default();
            let node = config::Node { name: "fuzz".into(), environment };
            let config = config::parse(imported.file.as_bytes(), Path::new("c.toml"), &node)
                .unwrap_or_else(|errors| panic!("{errors}\n{}", imported.file));
            assert_eq!(config.plan.limits().len(), imported.limits);
        }
    }
});
