//! One limit, held by all.

use limiter::Freshness;

use crate::fleet::{Fleet, is_linked, is_whole, left, spend, spend_all, until};

#[tokio::test]
async fn three_members_that_find_each_other_hold_one_limit() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let members = fleet.start_all().await;
    spend(&members[..1], "k", 40).await;
    for member in &members {
        until("the spends arrive", || left(member, "k") == 60).await;
    }
    spend_all(&members, "k", 60).await;
}

#[tokio::test]
async fn a_member_says_where_its_peers_are_and_which_address_is_its_own() {
    let fleet = Fleet::new(&["a", "b"]);
    let members = fleet.start_all().await;
    let status = || members[0].status();
    let state = |name: &str| {
        let address = fleet.address(name);
        status().addresses.iter().find(|it| it.address == address).map(|it| it.state.clone())
    };
    until("its own address is known", || state("a") == Some(member::AddressState::Itself)).await;
    until("b is linked", || state("b") == Some(member::AddressState::Linked)).await;
    until("gossip knows b", || status().gossip.iter().any(|node| node.node == "b" && node.alive))
        .await;
    assert_eq!(status().listen, fleet.address("a"));
    until("it knows the counts", || status().cluster.freshness == Freshness::Synced).await;
}

#[tokio::test]
async fn a_member_that_no_list_names_is_found_by_gossip() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    // b knows a alone, c knows a alone: they find each other through what a tells.
    let mut settings = [fleet.settings("a"), fleet.settings("b"), fleet.settings("c")];
    settings[0].peers = vec![fleet.address("a").to_string()];
    settings[1].peers = vec![fleet.address("a").to_string()];
    settings[2].peers = vec![fleet.address("a").to_string()];
    let members: Vec<_> = settings
        .into_iter()
        .map(|mut settings| {
            settings.expect = Some(3);
            crate::fleet::start(settings).unwrap()
        })
        .collect();
    for member in &members {
        until("all are counted", || is_whole(member, 3)).await;
    }
}

#[tokio::test]
async fn a_member_behind_another_address_tells_that_one() {
    let fleet = Fleet::new(&["a", "b"]);
    let front = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
    let mut settings = [fleet.settings("a"), fleet.settings("b")];
    settings[1].advertise = Some(front);
    let members = settings.map(|settings| crate::fleet::start(settings).unwrap());
    until("a knows where b can be dialled", || {
        let status = members[0].status();
        let is_told = |it: &member::AddressStatus| it.address == front && !it.configured;
        status.addresses.iter().any(|it| is_told(it) && it.node.as_deref() == Some("b"))
    })
    .await;
}

#[tokio::test]
async fn a_member_that_leaves_gives_its_part_to_the_others() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let members = fleet.start_all().await;
    spend(&members[2..], "k", 10).await;
    members[2].leave().await;
    assert_eq!(members[2].readiness(), cluster::Readiness::Left);
    for member in &members[..2] {
        until("two are left", || is_whole(member, 2) && left(member, "k") == 90).await;
    }
    assert!(members[2].forget("a").await.is_err(), "who has left forgets nobody");
    spend_all(&members[..2], "k", 90).await;
}

#[tokio::test]
async fn a_member_that_is_gone_for_good_is_forgotten_by_hand() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let mut members = fleet.start_all().await;
    assert!(members[0].forget("c").await.is_err(), "it is connected");
    drop(members.pop());
    until("c is gone", || !is_linked(&members[0], "c")).await;
    members[0].forget("c").await.unwrap();
    for member in &members {
        until("two are left", || is_whole(member, 2)).await;
    }
    assert!(members[0].forget("c").await.is_err(), "it is no member");
}
