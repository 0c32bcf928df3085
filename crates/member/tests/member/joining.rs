//! A member that starts when others run already.

use cluster::Readiness;
use member::CheckError;

use crate::fleet::{Fleet, is_whole, left, spend, spend_all, until};

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
