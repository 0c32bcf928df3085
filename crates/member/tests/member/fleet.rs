//! Members to test with: an authority, ports, and a few short ways to ask.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use cluster::{PeerState, Readiness};
use limiter::{Limit, Plan, Quota, Rate, Request, StoreConfig, Unmatched, WhenFull};
use member::tls::{Secret, TlsFiles};
use member::{Clock, Member, Settings, StartError};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use rustix::time::ClockId;
use tempfile::TempDir;
use tokio::time::sleep;

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[expect(clippy::disallowed_methods, reason = "the one place of these tests that reads a clock")]
fn read_ns(id: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

pub(crate) fn now_ns() -> u64 {
    read_ns(ClockId::Boottime)
}

fn unix_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// A wall clock that is five seconds ahead.
fn unix_ahead_ns() -> u64 {
    unix_ns() + 5_000_000_000
}

pub(crate) const CLOCK: Clock = Clock { now_ns, unix_ns };
pub(crate) const CLOCK_AHEAD: Clock = Clock { now_ns, unix_ns: unix_ahead_ns };

/// An authority, with a folder for what it issues.
pub(crate) struct Authority {
    pub(crate) folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    pub(crate) secret: Secret,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let secret = Secret::from_bytes([9; 16]);
        Self { folder, issuer: Issuer::new(params, key), secret }
    }

    /// Certificate and key of `name`, `*` for any; the files are called `file`.
    pub(crate) fn issue(&self, name: &str, file: &str) -> TlsFiles {
        let uri = SanType::URI(format!("rlnode:node:{name}").try_into().unwrap());
        self.issue_named(vec![uri], file)
    }

    pub(crate) fn issue_named(&self, names: Vec<SanType>, file: &str) -> TlsFiles {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names;
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = files(self.folder.path(), file);
        std::fs::write(&files.cert, certificate.pem()).unwrap();
        let text = format!("{}{}", key.serialize_pem(), self.secret.to_pem());
        std::fs::write(&files.key, text).unwrap();
        files
    }
}

pub(crate) fn files(folder: &Path, file: &str) -> TlsFiles {
    TlsFiles {
        ca: folder.join("ca.pem"),
        cert: folder.join(format!("{file}.pem")),
        key: folder.join(format!("{file}.key")),
        secret: None,
    }
}

/// A plan of one limit of `burst` per hour and key.
pub(crate) fn per_hour(burst: u64) -> Plan {
    let rate = Rate { count: burst, period_ns: 3_600_000_000_000 };
    let limit = Limit::new("l", Quota::TokenBucket { rate, burst });
    Plan::compile(vec![limit], Unmatched::Allow).unwrap()
}

fn store() -> StoreConfig {
    StoreConfig {
        memory_bytes: 16 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [0; 16],
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Members of one cluster, by name, and what they are started from.
pub(crate) struct Fleet {
    pub(crate) authority: Authority,
    ports: BTreeMap<String, u16>,
}

impl Fleet {
    pub(crate) fn new(names: &[&str]) -> Self {
        let ports = names.iter().map(|name| ((*name).to_owned(), free_port())).collect();
        Self { authority: Authority::new(), ports }
    }

    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[name]))
    }

    /// The settings of a member that is listed.
    pub(crate) fn settings(&self, name: &str) -> Settings {
        Settings {
            node: name.to_owned(),
            cluster: "test".to_owned(),
            region: String::new(),
            listen: self.address(name),
            advertise: None,
            peers: self.ports.keys().map(|name| self.address(name).to_string()).collect(),
            sync_interval: Duration::from_millis(200),
            expect: None,
            ready_early: false,
            tls: self.authority.issue(name, name),
            forget_after: Duration::from_secs(60),
        }
    }

    /// The settings of one that is not listed and knows the listed.
    pub(crate) fn stranger(&self, name: &str) -> Settings {
        let any = self.ports.keys().next().unwrap();
        let mut settings = self.settings(any);
        settings.node = name.to_owned();
        settings.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        settings.tls = self.authority.issue(name, name);
        settings
    }

    pub(crate) fn start(&self, name: &str) -> Member {
        start(self.settings(name)).unwrap()
    }

    /// Starts all, and waits until each counts all others.
    pub(crate) async fn start_all(&self) -> Vec<Member> {
        let members: Vec<_> = self.ports.keys().map(|name| self.start(name)).collect();
        for member in &members {
            until("all are counted", || is_whole(member, members.len())).await;
        }
        members
    }
}

pub(crate) fn start(settings: Settings) -> Result<Member, StartError> {
    start_with(settings, CLOCK)
}

pub(crate) fn start_with(settings: Settings, clock: Clock) -> Result<Member, StartError> {
    Member::start(settings, per_hour(100), store(), clock)
}

/// The member is ready, and counts `size` members, all reached.
pub(crate) fn is_whole(member: &Member, size: usize) -> bool {
    let status = &member.status().cluster;
    status.readiness == Readiness::Ready && status.members == size && status.reached == size
}

/// The member is linked to `name`.
pub(crate) fn is_linked(member: &Member, name: &str) -> bool {
    let status = member.status();
    let peer = status.cluster.peers.iter().find(|peer| peer.name.as_deref() == Some(name));
    peer.is_some_and(|peer| matches!(peer.state, PeerState::Linked | PeerState::Counted))
}

/// Waits until `holds`; fails when that takes too long.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let begun_ns = now_ns();
        while !holds() {
            let taken = Duration::from_nanos(now_ns() - begun_ns);
            assert!(taken < PATIENCE, "{place}: {what}: not within {PATIENCE:?}");
            sleep(LOOK_EVERY).await;
        }
    }
}

/// The units that `member` says are left for `key`.
pub(crate) fn left(member: &Member, key: &str) -> u64 {
    let peek = Request::check(b"", key.as_bytes()).with_cost(0);
    member.decide(&peek).unwrap().verdict.remaining.unwrap()
}

/// How many of `calls` pass on `member`, each with patience for an acknowledgement.
pub(crate) async fn acquire(member: &Member, key: &str, calls: usize) -> usize {
    let request = Request::check(b"", key.as_bytes());
    let mut passed = 0;
    for _ in 0..calls {
        let decision = member.acquire(&request, Duration::from_secs(2)).await.unwrap();
        passed += usize::from(decision.verdict.allowed);
    }
    passed
}

/// Spends `units` on one of `members` after the other: the last units of a level belong to a member
/// each. Members that spend at one moment may pass a unit too many; here each knows of all before.
#[track_caller]
pub(crate) fn spend(members: &[Member], key: &str, units: usize) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let begun_ns = now_ns();
        let mut passed = 0;
        for member in members.iter().cycle() {
            while passed < units && acquire(member, key, 1).await == 1 {
                passed += 1;
            }
            if passed == units {
                break;
            }
            until("all agree", || {
                members.iter().all(|other| left(other, key) == left(member, key))
            })
            .await;
            let taken = Duration::from_nanos(now_ns() - begun_ns);
            assert!(taken < PATIENCE, "{place}: only {passed} passed within {PATIENCE:?}");
        }
    }
}

/// Spends `units`, and fails if one more can be spent.
pub(crate) async fn spend_all(members: &[Member], key: &str, units: usize) {
    spend(members, key, units).await;
    for member in members {
        until("all is spent", || left(member, key) == 0).await;
    }
    for member in members {
        assert_eq!(acquire(member, key, 5).await, 0, "more than {units} passed");
    }
}
