//! Those who do not belong: refused by name, counted, harmless.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::Bytes;
use member::tls::{Credentials, Secret};
use member::transport::{CONNECTIONS_MAX, Channel, EVENTS_MAX, Endpoint, EndpointConfig, Event};
use member::{AddressState, Member, StartError};
use rcgen::SanType;
use tokio::sync::mpsc;
use wire::peer::Refusal;

use crate::fleet::{Authority, Fleet, files, is_whole, left, now_ns, spend, start, until};

/// The word under which `member` shows that its dial of `address` was refused.
fn refused(member: &Member, address: SocketAddr) -> Option<String> {
    let status = member.status();
    let status = status.addresses.iter().find(|it| it.address == address)?;
    match &status.state {
        AddressState::Refused(word) => Some(word.clone()),
        _ => None,
    }
}

fn count(member: &Member, refusal: Refusal) -> u64 {
    member.status().cluster.counts.refused.of(refusal)
}

/// The members still hold their limit together.
async fn are_unharmed(members: &[Member]) {
    for member in members {
        until("all are counted", || is_whole(member, members.len())).await;
    }
    spend(members, "unharmed", 30).await;
    for member in members {
        until("the spends arrive", || left(member, "unharmed") == 70).await;
    }
}

#[tokio::test]
async fn another_authority_is_refused() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let other = Authority::new();
    let mut settings = fleet.stranger("x");
    settings.tls = other.issue("x", "x");
    let stranger = start(settings).unwrap();
    let address = fleet.address("a");
    until("x sees why", || refused(&stranger, address).as_deref() == Some("authority")).await;
    until("a refused it", || stranger.status().transport.authority > 0).await;
    are_unharmed(&members).await;
}

#[tokio::test]
async fn a_certificate_that_our_authority_did_not_sign_is_refused() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let other = Authority::new();
    let mut settings = fleet.stranger("x");
    // It believes in our authority, and we do not in its.
    settings.tls = other.issue("x", "x");
    settings.tls.ca = fleet.authority.folder.path().join("ca.pem");
    let stranger = start(settings).unwrap();
    let address = fleet.address("a");
    until("x sees why", || refused(&stranger, address).as_deref() == Some("authority")).await;
    until("a counts it", || members[0].status().transport.authority > 0).await;
    are_unharmed(&members).await;
}

#[tokio::test]
async fn another_cluster_is_refused() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let mut settings = fleet.stranger("x");
    settings.cluster = "other".to_owned();
    let stranger = start(settings).unwrap();
    let address = fleet.address("a");
    until("x sees why", || refused(&stranger, address).as_deref() == Some("cluster")).await;
    until("a counts it", || count(&members[0], Refusal::Cluster) > 0).await;
    are_unharmed(&members).await;
}

#[tokio::test]
async fn another_secret_is_refused() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let mut settings = fleet.stranger("x");
    let file = fleet.authority.folder.path().join("other.secret");
    std::fs::write(&file, Secret::from_bytes([1; 16]).to_pem()).unwrap();
    settings.tls.secret = Some(file);
    let stranger = start(settings).unwrap();
    let address = fleet.address("a");
    until("x sees why", || refused(&stranger, address).as_deref() == Some("secret")).await;
    until("a counts it", || count(&members[0], Refusal::Secret) > 0).await;
    are_unharmed(&members).await;
}

#[tokio::test]
async fn a_second_node_of_a_name_that_lives_is_refused() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let mut settings = fleet.stranger("b");
    settings.tls = fleet.authority.issue("*", "fleet");
    let _second = start(settings).unwrap();
    until("a counts it", || count(&members[0], Refusal::DuplicateName) > 0).await;
    are_unharmed(&members).await;
}

#[tokio::test]
async fn a_member_of_the_fleet_names_itself() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let mut settings = fleet.stranger("c");
    settings.tls = fleet.authority.issue("*", "fleet");
    let third = start(settings).unwrap();
    for member in members.iter().chain([&third]) {
        until("all are counted", || is_whole(member, 3)).await;
    }
}

#[tokio::test]
async fn a_certificate_of_another_node_is_refused_at_the_start() {
    let fleet = Fleet::new(&["a", "b"]);
    let mut settings = fleet.settings("a");
    settings.tls = fleet.authority.issue("b", "b");
    let error = start(settings).unwrap_err();
    assert!(matches!(error, StartError::Name { .. }));
    assert!(error.to_string().contains("`b`"), "{error}");
}

#[tokio::test]
async fn a_certificate_with_dns_names_is_the_first_of_them() {
    let fleet = Fleet::new(&["a"]);
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let mut settings = fleet.settings("a");
    settings.tls = fleet.authority.issue_named(vec![dns("a"), dns("a.example")], "dns");
    let member = start(settings).unwrap();
    until("it is ready", || is_whole(&member, 1)).await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let fleet = Fleet::new(&["a"]);
    let folder = fleet.authority.folder.path();
    let fault = |change: &dyn Fn(&mut member::Settings)| {
        let mut settings = fleet.settings("a");
        change(&mut settings);
        start(settings).unwrap_err().to_string()
    };
    let empty = folder.join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let ca = std::fs::read_to_string(folder.join("ca.pem")).unwrap();
    let without_secret = folder.join("without.key");
    std::fs::write(&without_secret, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    fleet.authority.issue("b", "b");

    let error = fault(&|settings| settings.tls = files(folder, "nobody"));
    assert!(error.contains("nobody.pem") && error.contains("rlnode cert issue"), "{error}");
    let error = fault(&|settings| settings.tls.ca = empty.clone());
    assert!(error.contains("empty.pem") && error.contains("CERTIFICATE"), "{error}");
    let error = fault(&|settings| settings.tls.key = empty.clone());
    assert!(error.contains("PRIVATE KEY"), "{error}");
    let error = fault(&|settings| settings.tls.key = without_secret.clone());
    assert!(error.contains("RLNODE SECRET"), "{error}");
    let error = fault(&|settings| settings.tls.key = folder.join("b.key"));
    assert!(error.contains("a.pem") && error.contains("together"), "{error}");
    let error = fault(&|settings| {
        std::fs::write(&settings.tls.cert, &ca).unwrap();
    });
    assert!(error.contains("names no node"), "{error}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let fleet = Fleet::new(&["a"]);
    let _taken = UdpSocket::bind(fleet.address("a")).unwrap();
    let error = start(fleet.settings("a")).unwrap_err();
    assert!(error.to_string().contains(&fleet.address("a").to_string()), "{error}");
}

#[tokio::test]
async fn garbage_on_the_port_is_counted_and_harmless() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let mut random = 1_u32;
    for length in 0..1_500 {
        let mut garbage = vec![0; length];
        for byte in &mut garbage {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            *byte = random.to_le_bytes()[0];
        }
        // A port that is full may refuse it, which is as good.
        let _ = socket.send_to(&garbage, fleet.address("a"));
    }
    until("it is counted", || members[0].status().transport.not_quic > 100).await;
    are_unharmed(&members).await;
}

#[tokio::test]
async fn a_peer_that_sends_what_is_no_frame_is_closed() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let credentials = Credentials::load(&fleet.authority.issue("x", "x")).unwrap();
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = EndpointConfig {
        listen,
        credentials: &credentials,
        connections_max: CONNECTIONS_MAX,
        now: now_ns,
    };
    let endpoint = Endpoint::bind(&config, sender).unwrap();
    let bad: [&'static [u8]; 4] = [
        // A type that must be understood and is not; a length below the header's; too much at
        // once; a hello that is none.
        &[0xff, 0, 0, 0, 8, 0, 0, 0],
        &[0x01, 0, 0, 0, 3, 0, 0, 0],
        &[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0, 12, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
    ];
    for frame in bad {
        assert!(endpoint.dial(fleet.address("a")));
        loop {
            match events.recv().await.unwrap() {
                Event::Connected { link, .. } => {
                    link.send(Channel::Ordered, Bytes::from_static(frame)).unwrap();
                }
                Event::Closed { .. } => break,
                _ => {}
            }
        }
    }
    until("a counts them", || {
        let status = members[0].status();
        status.transport.malformed + status.cluster.counts.refused.of(Refusal::Malformed) >= 4
    })
    .await;
    tokio::time::timeout(Duration::from_secs(1), endpoint.close()).await.unwrap();
    are_unharmed(&members).await;
}
