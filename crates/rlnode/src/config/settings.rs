//! The settings that exist: where each may stand, and how it is written.
//!
//! A list only. What a setting means is in `docs/configuration.md`, which a test holds to it.

/// A table of the file: which settings it may hold.
pub(super) struct Place {
    /// As messages name it: `in [listen]`.
    pub(super) title: &'static str,
    /// Names, each with a line that shows how it is written.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// Names that are known and refused, with what to do.
    pub(super) refused: &'static [(&'static str, &'static str)],
}

/// Names that other programs have for parts of a quota.
const QUOTA_REFUSED: &[(&str, &str)] = &[
    (
        "period",
        "`period` is a part of the limit; write `limit = \"5 per 15m\"`, or for a window of the \
         calendar `limit = \"1000 per calendar-month\"`",
    ),
    (
        "window",
        "`window` is a part of the limit; write `limit = \"5 per 15m\"`, or for a window of the \
         calendar `limit = \"1000 per calendar-month\"`",
    ),
    (
        "log_max",
        "`log_max`, the most that a sliding log may allow, is 10000 and cannot be changed; leave it \
         out",
    ),
];

pub(super) const TOP: Place = Place {
    title: "at the top of the file",
    settings: &[
        ("unmatched", r#"unmatched = "allow""#),
        ("show_keys", "show_keys = false"),
        ("headers", r#"headers = ["x-ratelimit", "ratelimit"]"#),
        ("listen", "[listen]"),
        ("memory", "[memory]"),
        ("audit", "[audit]"),
        ("cluster", "[cluster]"),
        ("limit", "[[limit]]"),
        ("node", "[node.NAME.listen]"),
        ("admin", "[admin]"),
        ("envoy", "[[envoy]]"),
        ("allow", "[allow]"),
        ("ban", "[ban]"),
    ],
    refused: &[],
};

pub(super) const LISTEN: Place = Place {
    title: "in [listen]",
    settings: &[
        ("udp", r#"udp = "127.0.0.1:7400""#),
        ("http", r#"http = "127.0.0.1:7480""#),
        ("unix", r#"unix = "rlnode.sock""#),
        ("unix_mode", "unix_mode = 0o660"),
        ("unix_group", r#"unix_group = "www-data""#),
        ("redis", r#"redis = "127.0.0.1:7379""#),
        ("envoy", r#"envoy = "127.0.0.1:7481""#),
    ],
    refused: &[],
};

pub(super) const MEMORY: Place = Place {
    title: "in [memory]",
    settings: &[
        ("max", r#"max = "1GiB""#),
        ("max_entries", "max_entries = 1_000_000"),
        ("when_full", r#"when_full = "overflow""#),
    ],
    refused: &[],
};

pub(super) const ADMIN: Place = Place {
    title: "in [admin]",
    settings: &[("token_file", r#"token_file = "admin.token""#)],
    refused: &[],
};

pub(super) const ENVOY: Place = Place {
    title: "in [[envoy]]",
    settings: &[
        ("domain", r#"domain = "edge""#),
        ("descriptor", r#"descriptor = ["remote_address", "generic_key=slow"]"#),
        ("key", r#"key = "{remote_address}""#),
        ("endpoint", r#"endpoint = "{path}""#),
        ("attributes", r#"attributes = { ip = "{remote_address}" }"#),
        ("debit", "debit = true"),
        ("unit", r#"unit = "bytes""#),
    ],
    refused: &[],
};

/// What names somebody in `[allow]` and `[ban]`.
const LISTED: &[(&str, &str)] = &[
    ("keys", r#"keys = ["monitor"]"#),
    ("ips", r#"ips = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]"#),
];

pub(super) const ALLOW: Place = Place { title: "in [allow]", settings: LISTED, refused: &[] };

pub(super) const BAN: Place = Place { title: "in [ban]", settings: LISTED, refused: &[] };

pub(super) const AUDIT: Place = Place {
    title: "in [audit]",
    settings: &[
        ("dir", r#"dir = "audit""#),
        ("sample", r#"sample = "1/64""#),
        ("max_bytes", r#"max_bytes = "64MiB""#),
    ],
    refused: &[],
};

pub(super) const CLUSTER: Place = Place {
    title: "in [cluster]",
    settings: &[
        ("name", r#"name = "edge""#),
        ("listen", r#"listen = "0.0.0.0:7401""#),
        ("advertise", r#"advertise = "192.0.2.7:7401""#),
        ("peers", r#"peers = ["edge-1:7401", "edge-2:7401"]"#),
        ("tls", r#"tls = { ca = "ca.pem", cert = "{node}.pem", key = "{node}.key" }"#),
        ("secret", r#"secret = "cluster.secret""#),
        ("sync_interval", r#"sync_interval = "200ms""#),
        ("expect", "expect = 3"),
        ("ready", r#"ready = "synced""#),
        ("region", r#"region = "eu-1""#),
        ("forget_after", r#"forget_after = "60s""#),
    ],
    refused: &[],
};

pub(super) const CLUSTER_TLS: Place = Place {
    title: "in [cluster.tls]",
    settings: &[
        ("ca", r#"ca = "ca.pem""#),
        ("cert", r#"cert = "{node}.pem""#),
        ("key", r#"key = "{node}.key""#),
    ],
    refused: &[],
};

pub(super) const LIMIT: Place = Place {
    title: "in [[limit]]",
    settings: &[
        ("name", r#"name = "per-key""#),
        ("endpoint", r#"endpoint = "POST /search""#),
        ("attributes", r#"attributes = { plan = "pro" }"#),
        ("keys", r#"keys = ["vip-1", "vip-2"]"#),
        ("key", r#"key = "{key}""#),
        ("unit", r#"unit = "requests""#),
        ("algorithm", r#"algorithm = "token-bucket""#),
        ("rate", r#"rate = "10/s""#),
        ("burst", "burst = 100"),
        ("queue", "queue = true"),
        ("limit", r#"limit = "5 per 15m""#),
        ("time_zone", r#"time_zone = "Europe/Berlin""#),
        ("week_start", r#"week_start = "monday""#),
        ("deny", "deny = true"),
        ("unlimited", "unlimited = true"),
        ("accuracy", r#"accuracy = "balanced""#),
        ("when_isolated", r#"when_isolated = "split""#),
        ("missing", r#"missing = "skip""#),
        ("ipv6_prefix", "ipv6_prefix = 64"),
        ("shadow", "shadow = true"),
        ("override", "[[limit.override]]"),
    ],
    refused: QUOTA_REFUSED,
};

pub(super) const OVERRIDE: Place = Place {
    title: "in [[limit.override]]",
    settings: &[
        ("name", r#"name = "pro""#),
        ("endpoint", r#"endpoint = "POST /search""#),
        ("attributes", r#"attributes = { plan = "pro" }"#),
        ("keys", r#"keys = ["vip-1", "vip-2"]"#),
        ("algorithm", r#"algorithm = "token-bucket""#),
        ("rate", r#"rate = "10/s""#),
        ("burst", "burst = 100"),
        ("queue", "queue = true"),
        ("limit", r#"limit = "5 per 15m""#),
        ("time_zone", r#"time_zone = "Europe/Berlin""#),
        ("week_start", r#"week_start = "monday""#),
        ("deny", "deny = true"),
        ("unlimited", "unlimited = true"),
    ],
    refused: QUOTA_REFUSED,
};

pub(super) const NODE: Place = Place {
    title: "in [node.NAME]",
    settings: &[("listen", "[node.NAME.listen]"), ("cluster", "[node.NAME.cluster]")],
    refused: &[],
};

pub(super) const NODE_LISTEN: Place =
    Place { title: "in [node.NAME.listen]", settings: LISTEN.settings, refused: LISTEN.refused };

pub(super) const NODE_CLUSTER: Place = Place {
    title: "in [node.NAME.cluster]",
    settings: &[
        ("listen", r#"listen = "127.0.0.1:7412""#),
        ("advertise", r#"advertise = "192.0.2.7:7412""#),
        ("region", r#"region = "eu-1""#),
    ],
    refused: &[
        ("name", "`name` is the same on every node; write it in [cluster]"),
        ("peers", "`peers` is the same on every node, which skips itself; write it in [cluster]"),
    ],
};

/// Every table of the file.
pub(super) const PLACES: [&Place; 15] = [
    &TOP,
    &LISTEN,
    &MEMORY,
    &ADMIN,
    &ENVOY,
    &AUDIT,
    &LIMIT,
    &OVERRIDE,
    &CLUSTER,
    &CLUSTER_TLS,
    &NODE,
    &NODE_LISTEN,
    &NODE_CLUSTER,
    &ALLOW,
    &BAN,
];
