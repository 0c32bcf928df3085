//! What of a file changes while the node runs and what waits for a restart, by the names of the file.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};

use crate::config::{Config, Tls};

/// Settings by name, each with what stands for its value: equal values have equal ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Values(Vec<(&'static str, u64)>);

impl Values {
    /// What only a restart puts in force.
    pub(super) fn until_restart(config: &Config) -> Self {
        let mut values = Self(Vec::new());
        let Config { listen, memory, .. } = config;
        values.add("listen.udp", &listen.udp);
        values.add("listen.http", &listen.http);
        values.add("listen.unix", &listen.unix.as_ref().map(|it| (&it.path, &it.private_folder)));
        values.add("listen.unix_mode", &listen.unix.as_ref().map(|it| it.mode));
        values.add("listen.unix_group", &listen.unix.as_ref().map(|it| &it.group));
        values.add("listen.redis", &listen.redis);
        values.add("listen.envoy", &listen.envoy);
        values.add("memory.max", &memory.max_bytes);
        values.add("memory.max_entries", &memory.max_entries);
        values.add("memory.when_full", &memory.when_full);
        values.add("audit", &config.audit.is_some());
        if let Some(audit) = &config.audit {
            values.add("audit.dir", &audit.dir);
            values.add("audit.sample", &audit.sample);
            values.add("audit.max_bytes", &audit.max_bytes);
        }
        values.add("admin.token_file", &config.admin);
        values.add("cluster", &config.cluster.is_some());
        if let Some(cluster) = &config.cluster {
            let Tls { ca, cert, key } = &cluster.tls;
            values.add("cluster.name", &cluster.name);
            values.add("cluster.region", &cluster.region);
            values.add("cluster.listen", &cluster.listen);
            values.add("cluster.advertise", &cluster.advertise);
            values.add("cluster.sync_interval", &cluster.sync_interval_ns);
            values.add("cluster.expect", &cluster.expect);
            values.add("cluster.ready", &cluster.ready_early);
            values.add("cluster.tls.ca", ca);
            values.add("cluster.tls.cert", cert);
            values.add("cluster.tls.key", key);
            values.add("cluster.secret", &cluster.secret);
            values.add("cluster.forget_after", &cluster.forget_after_ns);
        }
        values
    }

    /// What a reload puts in force beside the limits.
    pub(super) fn while_running(config: &Config) -> Self {
        let mut values = Self(Vec::new());
        values.add("unmatched", &config.plan.unmatched());
        values.add("show_keys", &config.show_keys);
        values.add("headers", &config.headers);
        values.add("allow", &config.lists.allow);
        values.add("ban", &config.lists.ban);
        values.add("envoy", &config.envoy);
        if let Some(cluster) = &config.cluster {
            values.add("cluster.peers", &cluster.peers);
        }
        values
    }

    /// What both have, and differently.
    pub(super) fn differing(&self, other: &Self) -> Vec<&'static str> {
        let theirs = |name| other.0.iter().find(|(it, _)| *it == name).map(|(_, value)| *value);
        let differs =
            |(name, value): &&(_, u64)| theirs(*name).is_some_and(|theirs| theirs != *value);
        self.0.iter().filter(differs).map(|(name, _)| *name).collect()
    }

    fn add(&mut self, name: &'static str, value: &impl fmt::Debug) {
        // Compared within one process and never shown: what it looks like means nothing.
        let mut hasher = DefaultHasher::new();
        hasher.write(format!("{value:?}").as_bytes());
        self.0.push((name, hasher.finish()));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use client::Environment;

    use super::*;
    use crate::config::{Node, parse};

    const LIMIT: &str = "[[limit]]\nname = \"a\"\nrate = \"10/s\"\n";
    const CLUSTER: &str = "[cluster]\nname = \"edge\"\nlisten = \"127.0.0.1:7401\"\n\
                           peers = [\"edge-1:7401\"]\n\
                           tls = { ca = \"ca.pem\", cert = \"n.pem\", key = \"n.key\" }\n";

    fn read(text: &str) -> Config {
        let node = Node { name: "edge-1".to_owned(), environment: Environment::default() };
        let read = parse(format!("{text}{LIMIT}").as_bytes(), Path::new("f.toml"), &node);
        read.unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// What waits for a restart, and what does not.
    fn differing(before: &str, after: &str) -> (Vec<&'static str>, Vec<&'static str>) {
        let (before, after) = (read(before), read(after));
        let waits = Values::until_restart(&before).differing(&Values::until_restart(&after));
        (waits, Values::while_running(&before).differing(&Values::while_running(&after)))
    }

    #[test]
    fn each_setting_that_differs_is_named_once() {
        assert_eq!(differing("", ""), (vec![], vec![]));
        let line = |line: &str| format!("{CLUSTER}{line}\n");
        for (before, after, waits) in [
            (String::new(), "[listen]\nudp = \"127.0.0.1:7\"\n".to_owned(), "listen.udp"),
            (String::new(), "[listen]\nhttp = false\n".to_owned(), "listen.http"),
            (String::new(), "[listen]\nunix = \"other.sock\"\n".to_owned(), "listen.unix"),
            (String::new(), "[listen]\nunix_mode = 0o660\n".to_owned(), "listen.unix_mode"),
            (String::new(), "[listen]\nredis = true\n".to_owned(), "listen.redis"),
            (String::new(), "[listen]\nenvoy = true\n".to_owned(), "listen.envoy"),
            (String::new(), "[memory]\nmax = \"64MiB\"\n".to_owned(), "memory.max"),
            (String::new(), "[memory]\nmax_entries = 7\n".to_owned(), "memory.max_entries"),
            (String::new(), "[memory]\nwhen_full = \"deny\"\n".to_owned(), "memory.when_full"),
            (String::new(), "[audit]\ndir = \"a\"\n".to_owned(), "audit"),
            ("[audit]\ndir = \"a\"\n".to_owned(), "[audit]\ndir = \"b\"\n".to_owned(), "audit.dir"),
            (String::new(), "[admin]\ntoken_file = \"t\"\n".to_owned(), "admin.token_file"),
            (String::new(), line(""), "cluster"),
            (line(""), line("sync_interval = \"100ms\""), "cluster.sync_interval"),
            (line(""), line("expect = 3"), "cluster.expect"),
            (line(""), line("ready = \"early\""), "cluster.ready"),
            (line(""), line("region = \"eu\""), "cluster.region"),
            (line(""), line("secret = \"s\""), "cluster.secret"),
            (line(""), line("forget_after = \"7s\""), "cluster.forget_after"),
            (line(""), line("").replace("n.pem", "m.pem"), "cluster.tls.cert"),
            (line(""), line("").replace("\"edge\"", "\"other\""), "cluster.name"),
        ] {
            assert_eq!(differing(&before, &after), (vec![waits], vec![]), "{before}{after}");
        }
    }

    #[test]
    fn what_changes_while_the_node_runs_waits_for_nothing() {
        for (before, after, changed) in [
            ("", "unmatched = \"deny\"\n", "unmatched"),
            ("", "show_keys = true\n", "show_keys"),
            ("", "headers = \"none\"\n", "headers"),
            ("", "[allow]\nkeys = \"a\"\n", "allow"),
            ("[ban]\nips = \"::1\"\n", "[ban]\nips = \"::2\"\n", "ban"),
            ("", "[[envoy]]\ndescriptor = \"a\"\nkey = \"{a}\"\n", "envoy"),
            (CLUSTER, &CLUSTER.replace("edge-1:7401", "edge-2:7401"), "cluster.peers"),
        ] {
            assert_eq!(differing(before, after), (vec![], vec![changed]), "{before}{after}");
        }
    }
}
