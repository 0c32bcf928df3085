//! `[cluster]`: who this node shares its limits with, and what they know each other by.
//!
//! It resolves no name, opens no file and reads no certificate; the member does.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::error::{Problems, Span, quoted};
use super::listen::{parse_address, replace_node};
use super::settings::CLUSTER_TLS;
use super::value::{check_name, parse_duration};
use super::written::Section;

/// Most members of a cluster: what a node's tables have room for. Far below it the cost of every
/// node telling every other becomes the reason to split a fleet.
pub const MEMBERS_MAX: usize = 64;
/// Time between two exchanges unless the file says otherwise, in nanoseconds.
pub const DEFAULT_SYNC_INTERVAL_NS: u64 = 200 * NS_PER_MS;
/// Least time between two exchanges, in nanoseconds: below it a node does little else.
pub const SYNC_INTERVAL_NS_MIN: u64 = 10 * NS_PER_MS;
/// Most time between two exchanges, in nanoseconds.
pub const SYNC_INTERVAL_NS_MAX: u64 = 10 * NS_PER_S;
/// How long a member may be missing before it is forgotten, in nanoseconds.
pub const DEFAULT_FORGET_AFTER_NS: u64 = 60 * NS_PER_S;
/// Least of that time, in nanoseconds: a restart takes longer.
pub const FORGET_AFTER_NS_MIN: u64 = NS_PER_S;
/// Most of that time, in nanoseconds: a week, within which somebody looks.
pub const FORGET_AFTER_NS_MAX: u64 = 7 * 86_400 * NS_PER_S;

/// Longest name of a host in the domain name system, in bytes.
const HOST_BYTES_MAX: usize = 253;
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// A node's place in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Name of the cluster; nodes of another name are refused.
    pub name: String,
    /// Where this node is, such as a data centre; shown, and empty where nothing is said.
    pub region: String,
    /// Where peers reach this node, over UDP. The port is not 0.
    pub listen: SocketAddr,
    /// Where peers reach it if that is another address than it listens on. Neither the address nor the
    /// port is 0.
    pub advertise: Option<SocketAddr>,
    /// Where to look for peers: 1 to [`MEMBERS_MAX`] of `HOST:PORT`, this node itself among them or
    /// not. A host's name may stand for several.
    pub peers: Vec<String>,
    /// Time between two exchanges, in nanoseconds: [`SYNC_INTERVAL_NS_MIN`] to
    /// [`SYNC_INTERVAL_NS_MAX`].
    pub sync_interval_ns: u64,
    /// Members at a first start, this node included, 1 to [`MEMBERS_MAX`]; none: as many as `peers`
    /// gives.
    pub expect: Option<usize>,
    /// Checks are answered before the counts of the running cluster are there.
    pub ready_early: bool,
    /// The certificates.
    pub tls: Tls,
    /// File of the cluster's secret; none: it is in the file of the key.
    pub secret: Option<PathBuf>,
    /// How long a member may be missing before it is forgotten, in nanoseconds:
    /// [`FORGET_AFTER_NS_MIN`] to [`FORGET_AFTER_NS_MAX`].
    pub forget_after_ns: u64,
}

/// Files of certificates, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The authority that signed every node's certificate.
    pub ca: PathBuf,
    /// This node's certificate.
    pub cert: PathBuf,
    /// Its private key, and the cluster's secret unless that has a file of its own.
    pub key: PathBuf,
}

impl Cluster {
    /// Members that the file promises, this node included; none where names may stand for more.
    pub fn expected(&self) -> Option<usize> {
        let listed = Some(self.peers.len()).filter(|count| *count > 1);
        self.expect.or(listed)
    }
}

/// `[cluster]` as read. What is none was not written, or was reported.
pub(super) struct WrittenCluster {
    span: Span,
    name: Option<String>,
    region: Option<String>,
    listen: Option<SocketAddr>,
    has_listen: bool,
    advertise: Option<SocketAddr>,
    peers: Option<Vec<String>>,
    sync_interval_ns: Option<u64>,
    expect: Option<usize>,
    ready_early: bool,
    tls: Option<Tls>,
    secret: Option<PathBuf>,
    forget_after_ns: Option<u64>,
}

/// `[node.NAME.cluster]` as read: what differs on one host.
#[derive(Default)]
pub(super) struct WrittenHost {
    listen: Option<SocketAddr>,
    has_listen: bool,
    advertise: Option<SocketAddr>,
    region: Option<String>,
}

impl WrittenHost {
    /// Reads the table for the node `node`.
    pub(super) fn read(mut section: Section<'_, '_>, node: &str, problems: &mut Problems) -> Self {
        let host = Self {
            has_listen: section.has("listen"),
            listen: read_listen(&mut section, node, problems),
            advertise: read_advertise(&mut section, node, problems),
            region: read_region(&mut section, problems),
        };
        section.finish(problems);
        host
    }
}

impl WrittenCluster {
    /// Reads the table for the node `node`; relative paths are relative to `folder`.
    pub(super) fn read(
        mut section: Section<'_, '_>,
        node: &str,
        folder: &Path,
        problems: &mut Problems,
    ) -> Self {
        let path = |text: &str| read_path(text, node, folder);
        let name = section.take_parsed("name", |text| named(text, "cluster"), problems);
        let region = read_region(&mut section, problems);
        let has_listen = section.has("listen");
        let listen = read_listen(&mut section, node, problems);
        let advertise = read_advertise(&mut section, node, problems);
        let peers = read_peers(&mut section, node, problems);
        let between = |name, min, max| move |text: &str| bounded(text, name, min, max);
        let sync = between("sync_interval", SYNC_INTERVAL_NS_MIN, SYNC_INTERVAL_NS_MAX);
        let sync_interval = section.take_parsed("sync_interval", sync, problems);
        let members_max = u64::try_from(MEMBERS_MAX).unwrap_or(u64::MAX);
        let expect = section.take_integer("expect", 1..=members_max, problems);
        let words = [("synced", Ok(false)), ("early", Ok(true))];
        let ready_early = section.take_word("ready", &words, problems).unwrap_or(false);
        let tls = read_tls(&mut section, node, folder, problems);
        let secret = section.take_parsed("secret", path, problems);
        let forget = between("forget_after", FORGET_AFTER_NS_MIN, FORGET_AFTER_NS_MAX);
        let forget_after = section.take_parsed("forget_after", forget, problems);
        for (name, example) in [
            ("name", "`name = \"edge\"`, the same on every node"),
            ("peers", "`peers = [\"edge-1:7401\", \"edge-2:7401\"]`, or a name that gives all"),
        ] {
            if !section.has(name) {
                let message = format!("`[cluster]` has no `{name}`; write {example}");
                problems.add(section.span(), message);
            }
        }
        let span = section.span().clone();
        section.finish(problems);
        Self {
            span,
            name: name.map(Spanned::into_inner),
            region,
            listen,
            has_listen,
            advertise,
            peers,
            sync_interval_ns: sync_interval.map(Spanned::into_inner),
            expect: expect.and_then(|expect| usize::try_from(expect.into_inner()).ok()),
            ready_early,
            tls,
            secret: secret.map(Spanned::into_inner),
            forget_after_ns: forget_after.map(Spanned::into_inner),
        }
    }

    /// The cluster as `node` sees it. None where something is missing, which was or is reported.
    pub(super) fn resolve(
        self,
        host: WrittenHost,
        node: &str,
        problems: &mut Problems,
    ) -> Option<Cluster> {
        if !self.has_listen && !host.has_listen {
            let node = quoted(node);
            problems.add(
                &self.span,
                format!(
                    "nothing says where peers reach the node {node}; write `listen = \
                     \"0.0.0.0:7401\"` in [cluster], or in its [node.NAME.cluster]"
                ),
            );
        }
        Some(Cluster {
            name: self.name?,
            region: host.region.or(self.region).unwrap_or_default(),
            listen: host.listen.or(self.listen)?,
            advertise: host.advertise.or(self.advertise),
            peers: self.peers?,
            sync_interval_ns: self.sync_interval_ns.unwrap_or(DEFAULT_SYNC_INTERVAL_NS),
            expect: self.expect,
            ready_early: self.ready_early,
            tls: self.tls?,
            secret: self.secret,
            forget_after_ns: self.forget_after_ns.unwrap_or(DEFAULT_FORGET_AFTER_NS),
        })
    }
}

fn read_listen(
    section: &mut Section<'_, '_>,
    node: &str,
    problems: &mut Problems,
) -> Option<SocketAddr> {
    let parse = |text: &str| match parse_address(text, node)? {
        address if address.port() == 0 => Err(format!(
            "{} leaves the port to the system, and no peer could know it; write one, such as \
             `{}:7401`",
            quoted(text),
            address.ip()
        )),
        address => Ok(address),
    };
    section.take_parsed("listen", parse, problems).map(Spanned::into_inner)
}

fn read_advertise(
    section: &mut Section<'_, '_>,
    node: &str,
    problems: &mut Problems,
) -> Option<SocketAddr> {
    let parse = |text: &str| match parse_address(text, node)? {
        address if address.port() == 0 || address.ip().is_unspecified() => Err(format!(
            "no peer can dial {}; write the address and the port at which they reach this node, \
             such as `192.0.2.7:7401`",
            quoted(text)
        )),
        address => Ok(address),
    };
    section.take_parsed("advertise", parse, problems).map(Spanned::into_inner)
}

fn read_region(section: &mut Section<'_, '_>, problems: &mut Problems) -> Option<String> {
    let region = section.take_parsed("region", |text| named(text, "region"), problems);
    region.map(Spanned::into_inner)
}

fn read_peers(
    section: &mut Section<'_, '_>,
    node: &str,
    problems: &mut Problems,
) -> Option<Vec<String>> {
    let written = section.take_strings("peers", problems)?;
    if let Some(beyond) = written.get(MEMBERS_MAX) {
        let message = format!("`peers` has more than {MEMBERS_MAX} addresses; write fewer");
        problems.add(&beyond.span(), message);
        return None;
    }
    let mut peers: Vec<Spanned<String>> = Vec::with_capacity(written.len());
    for text in &written {
        match parse_peer(text.get_ref(), node) {
            Ok(peer) => {
                if let Some(same) = peers.iter().find(|known| *known.get_ref() == peer) {
                    let message = format!("`peers` has {} twice; drop one", quoted(&peer));
                    problems.add_pair(&text.span(), &same.span(), message);
                }
                peers.push(Spanned::new(text.span(), peer));
            }
            Err(message) => problems.add(&text.span(), message),
        }
    }
    Some(peers.into_iter().map(Spanned::into_inner).collect())
}

/// `HOST:PORT`, the host a name or an address.
fn parse_peer(text: &str, node: &str) -> Result<String, String> {
    let replaced = replace_node(text, node)?;
    let has_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    let is_valid = match replaced.rsplit_once(':') {
        Some((host, port)) if has_port(port) => match host.strip_prefix('[') {
            Some(_) => replaced.parse::<SocketAddr>().is_ok_and(|at| at.is_ipv6()),
            None => is_host(host),
        },
        _ => false,
    };
    if is_valid {
        return Ok(replaced);
    }
    let example = match replaced.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("`[{address}]:7401`"),
        _ if is_host(&replaced) => format!("`{replaced}:7401`"),
        _ => "`edge-1:7401`, `192.0.2.7:7401` or `[2001:db8::7]:7401`".into(),
    };
    Err(format!("{} is not a host and its port; write {example}", quoted(&replaced)))
}

fn is_host(text: &str) -> bool {
    let is_known = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let begins_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    begins_well && text.len() <= HOST_BYTES_MAX && text.bytes().all(is_known)
}

/// Reads `tls`, for which there is no default and no way around: without it whoever reaches the port
/// could join and spend, on loopback every process of the host.
fn read_tls(
    section: &mut Section<'_, '_>,
    node: &str,
    folder: &Path,
    problems: &mut Problems,
) -> Option<Tls> {
    if !section.has("tls") {
        problems.add(
            section.span(),
            "`[cluster]` has no `tls`: nodes prove to each other who they are, on loopback too; \
             write `tls = { ca = \"ca.pem\", cert = \"{node}.pem\", key = \"{node}.key\" }`, and \
             make the files with `rlnode cert init` and `rlnode cert issue --node NAME`",
        );
        return None;
    }
    let mut tls = section.take_section("tls", &CLUSTER_TLS, problems)?;
    let [ca, cert, key] =
        [("ca", "ca.pem"), ("cert", "{node}.pem"), ("key", "{node}.key")].map(|(name, usual)| {
            if !tls.has(name) {
                let message = format!("`tls` has no `{name}`; write `{name} = \"{usual}\"`");
                problems.add(tls.span(), message);
            }
            let parse = |text: &str| read_path(text, node, folder);
            tls.take_parsed(name, parse, problems).map(Spanned::into_inner)
        });
    tls.finish(problems);
    Some(Tls { ca: ca?, cert: cert?, key: key? })
}

fn read_path(text: &str, node: &str, folder: &Path) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err(format!("{} names no file; write a path", quoted(text)));
    }
    Ok(folder.join(replace_node(text, node)?))
}

fn named(text: &str, what: &str) -> Result<String, String> {
    check_name(text, what).map(|()| text.to_owned())
}

fn bounded(text: &str, name: &str, min_ns: u64, max_ns: u64) -> Result<u64, String> {
    match parse_duration(text)? {
        ns if (min_ns..=max_ns).contains(&ns) => Ok(ns),
        _ => {
            let shown = |ns: u64| match (ns.is_multiple_of(NS_PER_S), ns / NS_PER_S) {
                (true, s) if s.is_multiple_of(86_400) => format!("{}d", s / 86_400),
                (true, s) => format!("{s}s"),
                (false, _) => format!("{}ms", ns / NS_PER_MS),
            };
            let (text, min, max) = (quoted(text), shown(min_ns), shown(max_ns));
            Err(format!("{text} is out of range for `{name}`; write `{min}` to `{max}`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use client::Environment;

    use super::super::{Config, Node, parse};
    use super::*;

    const LIMIT: &str = "[[limit]]\nname = \"a\"\nrate = \"10/s\"\n";
    const LISTEN: &str = "listen = \"127.0.0.1:7401\"\n";
    const PEERS: &str = "peers = [\"edge-1:7401\", \"edge-2:7401\", \"edge-3:7401\"]\n";
    const TLS: &str = "tls = { ca = \"ca.pem\", cert = \"{node}.pem\", key = \"{node}.key\" }\n";

    fn read_as(node: &str, text: &str) -> Result<Config, String> {
        let node = Node { name: node.into(), environment: Environment::default() };
        parse(text.as_bytes(), Path::new("/etc/rlnode/c.toml"), &node).map_err(|e| e.to_string())
    }

    fn of(text: &str) -> Cluster {
        let config = read_as("edge-1", text).unwrap_or_else(|errors| panic!("{errors}"));
        config.cluster.expect("a cluster")
    }

    /// A whole file with these lines in `[cluster]` beside a name.
    fn file(lines: &[&str]) -> String {
        format!("{LIMIT}[cluster]\nname = \"edge\"\n{}\n", lines.concat())
    }

    #[track_caller]
    fn assert_refused(text: &str, want: &str) {
        let errors = read_as("edge-1", text).map(drop).expect_err("it is refused");
        assert!(errors.contains(want), "{errors}\nhas no: {want}");
        assert_eq!(errors.matches("c.toml:").count(), 1, "{errors}");
    }

    #[test]
    fn what_is_left_out_has_its_documented_default() {
        let cluster = of(&file(&[LISTEN, PEERS, TLS]));
        let want = Cluster {
            name: "edge".into(),
            region: String::new(),
            listen: "127.0.0.1:7401".parse().expect("an address"),
            advertise: None,
            peers: ["edge-1:7401", "edge-2:7401", "edge-3:7401"].map(String::from).into(),
            sync_interval_ns: 200_000_000,
            expect: None,
            ready_early: false,
            tls: Tls {
                ca: "/etc/rlnode/ca.pem".into(),
                cert: "/etc/rlnode/edge-1.pem".into(),
                key: "/etc/rlnode/edge-1.key".into(),
            },
            secret: None,
            forget_after_ns: 60_000_000_000,
        };
        assert_eq!(cluster, want);
        assert_eq!(read_as("edge-1", LIMIT).expect("a file").cluster, None);
    }

    #[test]
    fn every_setting_is_read() {
        let others = "sync_interval = \"50ms\"\nexpect = 5\nready = \"early\"\nregion = \"eu\"\n\
                      advertise = \"192.0.2.7:7409\"\nforget_after = \"1h30m\"\nsecret = \"/run/{node}.secret\"\n";
        let cluster = of(&file(&[LISTEN, PEERS, TLS, others]));
        assert_eq!((cluster.sync_interval_ns, cluster.expect), (50_000_000, Some(5)));
        assert_eq!((cluster.ready_early, cluster.region.as_str()), (true, "eu"));
        assert_eq!(cluster.advertise, "192.0.2.7:7409".parse().ok());
        assert_eq!(cluster.forget_after_ns, 5_400_000_000_000);
        assert_eq!(cluster.secret.as_deref(), Some(Path::new("/run/edge-1.secret")));
        assert!(!of(&file(&[LISTEN, PEERS, TLS, "ready = \"synced\"\n"])).ready_early);
    }

    #[test]
    fn a_table_of_a_node_holds_on_that_host_only() {
        let text = format!(
            "{}[node.a.cluster]\nlisten = \"127.0.0.1:7411\"\nregion = \"eu\"\n\
             advertise = \"127.0.0.1:9\"\n[node.b.cluster]\nlisten = \"127.0.0.1:7421\"\n",
            file(&[PEERS, TLS, "region = \"us\"\n"])
        );
        let on = |node| read_as(node, &text).expect(node).cluster.expect("a cluster");
        assert_eq!((on("a").listen.port(), on("a").region.as_str()), (7411, "eu"));
        assert_eq!((on("b").listen.port(), on("b").region.as_str()), (7421, "us"));
        assert_eq!((on("a").advertise.map(|it| it.port()), on("b").advertise), (Some(9), None));
        assert_eq!(on("b").tls.key, Path::new("/etc/rlnode/b.key"));
        let other = read_as("c", &text).expect_err("nowhere to listen");
        assert!(other.contains("peers reach the node `c`; write `listen ="), "{other}");
        assert!(other.contains("4 | [cluster]\n  | ^^^^^^^^^"), "{other}");
    }

    #[test]
    fn a_cluster_without_certificates_is_refused_on_loopback_too() {
        let text = file(&[LISTEN, PEERS]);
        assert_refused(&text, "c.toml:4:1: `[cluster]` has no `tls`: nodes prove to each other");
        assert_refused(&text, "on loopback too");
        assert_refused(&text, "4 | [cluster]\n  | ^^^^^^^^^");
        for (name, rest) in [
            ("ca", "cert = \"c\", key = \"k\""),
            ("cert", "ca = \"c\", key = \"k\""),
            ("key", "ca = \"c\", cert = \"k\""),
        ] {
            let text = file(&[LISTEN, PEERS, &format!("tls = {{ {rest} }}\n")]);
            assert_refused(&text, &format!("`tls` has no `{name}`; write `{name} = "));
        }
        assert_refused(&file(&[LISTEN, PEERS, "tls = false\n"]), "`tls` takes a table");
        let empty = TLS.replace("ca.pem", "");
        assert_refused(&file(&[LISTEN, PEERS, &empty]), "`` names no file");
        let brace = TLS.replace("{node}.key", "{host}.key");
        assert_refused(&file(&[LISTEN, PEERS, &brace]), "a brace that is not of `{node}`");
    }

    #[test]
    fn what_is_missing_or_out_of_range_is_refused_in_words() {
        let with = |line: &str| file(&[LISTEN, PEERS, TLS, line]);
        let cases = [
            (format!("{LIMIT}[cluster]\n{LISTEN}{PEERS}{TLS}"), "`[cluster]` has no `name`"),
            (file(&[LISTEN, TLS]), "`[cluster]` has no `peers`"),
            (file(&[PEERS, TLS]), "nothing says where peers reach the node `edge-1`"),
            (file(&[LISTEN, "peers = []\n", TLS]), "`peers` is empty"),
            (with("sync_interval = \"9ms\""), "write `10ms` to `10s`"),
            (with("sync_interval = \"11s\""), "write `10ms` to `10s`"),
            (with("sync_interval = 200"), "write it like `sync_interval = \"200ms\"`"),
            (with("forget_after = \"999ms\""), "write `1s` to `7d`"),
            (with("forget_after = \"8d\""), "write `1s` to `7d`"),
            (with("expect = 0"), "write 1 to 64"),
            (with("expect = 65"), "write 1 to 64"),
            (with("ready = \"late\""), "write `synced` or `early`"),
            (with("advertise = \"0.0.0.0:7401\""), "no peer can dial `0.0.0.0:7401`"),
            (with("advertise = \"192.0.2.7:0\""), "no peer can dial `192.0.2.7:0`"),
            (with("region = \"a b\""), "`a b` is no name for a region"),
            (file(&["listen = \"127.0.0.1:0\"\n", PEERS, TLS]), "no peer could know it"),
            (file(&["listen = \"edge-1:7401\"\n", PEERS, TLS]), "is not an address and a port"),
            (with("[node.a.cluster]\npeers = [\"a:1\"]"), "`peers` is the same on every node"),
            (with("[node.a.cluster]\nname = \"x\""), "`name` is the same on every node"),
            (with("[node.a.cluster]\nexpect = 2"), "it belongs in [cluster]"),
            (
                format!("{LIMIT}[node.a.cluster]\n{LISTEN}"),
                "c.toml:4:1: this has no effect without `[cluster]`",
            ),
        ];
        for (text, want) in cases {
            assert_refused(&text, want);
        }
        for line in ["sync_interval = \"10ms\"", "sync_interval = \"10s\"", "expect = 64"] {
            of(&with(line));
        }
    }

    #[test]
    fn peers_are_hosts_or_addresses_with_a_port() {
        let peers = |list: &str| file(&[LISTEN, &format!("peers = {list}\n"), TLS]);
        let accepted = [
            ("\"edge.example.com:7401\"", "edge.example.com:7401"),
            ("[\"{node}.x:1\"]", "edge-1.x:1"),
            ("[\"192.0.2.7:7401\"]", "192.0.2.7:7401"),
            ("[\"[2001:db8::7]:7401\"]", "[2001:db8::7]:7401"),
        ];
        for (list, want) in accepted {
            assert_eq!(of(&peers(list)).peers, [want]);
        }
        let refused = [
            ("[\"edge-1\"]", "write `edge-1:7401`"),
            ("[\"2001:db8::7\"]", "write `[2001:db8::7]:7401`"),
            ("[\"edge-1:0\"]", "is not a host and its port"),
            ("[\"edge-1:65536\"]", "is not a host and its port"),
            ("[\"https://edge-1:1\"]", "is not a host and its port"),
            ("[\":7401\"]", "is not a host and its port"),
            ("[\"\"]", "is not a host and its port"),
            ("[\"[192.0.2.7]:1\"]", "is not a host and its port"),
            ("[\"a b:1\"]", "is not a host and its port"),
            ("[\"a:1\", \"a:1\"]", "`peers` has `a:1` twice"),
            ("[7401]", "`peers` takes a list of strings"),
        ];
        for (list, want) in refused {
            assert_refused(&peers(list), want);
        }
        let many = |count: usize| {
            let list: Vec<_> = (0..count).map(|i| format!("\"edge-{i}:7401\"")).collect();
            peers(&format!("[{}]", list.join(", ")))
        };
        assert_eq!(of(&many(MEMBERS_MAX)).peers.len(), MEMBERS_MAX);
        assert_refused(&many(MEMBERS_MAX + 1), "`peers` has more than 64 addresses");
    }

    #[test]
    fn a_balanced_limit_below_two_units_per_member_is_warned_of() {
        let warnings = |text: &str| read_as("edge-1", text).expect("a file").warnings;
        let with = |limit: &str, line: &str| {
            let whole = file(&[LISTEN, PEERS, TLS, line]);
            warnings(&whole.replace("rate = \"10/s\"", limit))
        };
        assert_eq!(with("rate = \"6/s\"", ""), Vec::<String>::new());
        let small = with("rate = \"5/s\"", "");
        assert_eq!(small.len(), 1);
        let want = "the limit `a` has a burst below 6, twice the 3 members:";
        assert!(small[0].starts_with(want), "{small:?}");
        assert_eq!(with("rate = \"9/s\"", "expect = 5\n").len(), 1);
        assert_eq!(with("rate = \"5/s\"\naccuracy = \"fast\"", "").len(), 0);
        assert_eq!(with("deny = true", "").len(), 0);
        let small_override = "rate = \"9/s\"\n[[limit.override]]\nkeys = [\"k\"]\nrate = \"1/s\"";
        assert_eq!(with(small_override, "").len(), 1);
        let alone = LIMIT.replace("10/s", "1/s");
        assert_eq!(warnings(&alone), Vec::<String>::new());
        // One name may stand for any number of hosts.
        let one_name = file(&[LISTEN, "peers = \"edge:7401\"\n", TLS]).replace("10/s", "1/s");
        assert_eq!(warnings(&one_name), Vec::<String>::new());
    }
}
