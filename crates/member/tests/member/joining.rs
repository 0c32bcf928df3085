//! A member that starts when others run already.

use cluster::Readiness;
use member::{CheckError, Member, Settings};

use crate::fleet::{Fleet, is_whole, left, spend, spend_all, start, until};

#[tokio::test]
async fn a_member_that_starts_again_takes_the_counts_of_the_others() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let mut members = fleet.start_all().await;
    spend(&members[..1], "k", 40).await;
    until("the spends arrive", || left(&members[1], "k") == 60).await;
    drop(members.pop());
    let again = fleet.start("c");
    assert_eq!(again.allow(b"k", b"").unwrap_err(), CheckError::Starting);
    assert_eq!(again.ready().await, Readiness::Ready);
    members.push(again);
    for member in &members {
        until("all are counted", || is_whole(member, 3) && left(member, "k") == 60).await;
    }
    spend_all(&members, "k", 60).await;
}

#[tokio::test]
async fn a_rolling_restart_hands_out_nothing_twice() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let mut members = fleet.start_all().await;
    spend(&members, "k", 94).await;
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        members[index].leave().await;
        members[index] = fleet.start(name);
        for member in &members {
            until("all are counted", || is_whole(member, 3)).await;
        }
    }
    spend_all(&members, "k", 6).await;
}

#[tokio::test]
async fn a_member_that_meets_nobody_serves_its_part() {
    let fleet = Fleet::new(&["a", "b", "c", "d"]);
    let alone = fleet.start("a");
    assert_eq!(alone.readiness(), Readiness::Starting);
    assert_eq!(alone.ready().await, Readiness::Ready);
    spend_all(&[alone], "k", 25).await;
}

#[tokio::test]
async fn peers_that_are_named_later_are_met_and_those_that_are_named_no_longer_are_let_go() {
    let fleet = Fleet::new(&["a", "b"]);
    // Neither looks for the other.
    let start_as_one_of = |name: &str, members| {
        let own = vec![fleet.address(name).to_string()];
        start(Settings { peers: own, expect: Some(members), ..fleet.settings(name) }).unwrap()
    };
    let a = start_as_one_of("a", 1);
    until("it is alone", || is_whole(&a, 1)).await;
    spend(std::slice::from_ref(&a), "k", 40).await;
    let named = |member: &Member| {
        let status = member.status();
        let mut named: Vec<_> =
            status.addresses.iter().filter(|it| it.configured).map(|it| it.address).collect();
        named.sort_unstable();
        named
    };
    let both = ["a", "b"].map(|name| fleet.address(name).to_string()).to_vec();
    assert!(a.set_peers(both).await);
    let b = start_as_one_of("b", 2);
    until("both count both", || is_whole(&a, 2) && is_whole(&b, 2) && left(&b, "k") == 60).await;
    // Whoever is named no longer stays a member until it leaves, and is then dialled no more.
    assert!(a.set_peers(vec![fleet.address("a").to_string()]).await);
    until("only its own address is named", || named(&a) == [fleet.address("a")]).await;
    assert!(is_whole(&a, 2));
    b.leave().await;
    until("one is left", || is_whole(&a, 1)).await;
    assert_eq!(left(&a, "k"), 60);
    a.leave().await;
    assert!(!a.set_peers(Vec::new()).await, "it is no member any more");
}
