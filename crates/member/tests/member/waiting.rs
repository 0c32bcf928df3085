//! Checks that are held for an acknowledgement.

use std::time::Duration;

use limiter::{Reason, Request};

use crate::fleet::{Fleet, acquire, left, now_ns, until};

const PATIENCE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_first_burst_is_let_through_as_soon_as_the_peers_know() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let members = fleet.start_all().await;
    let denied = (0..100)
        .map(|_| members[0].allow(b"at-once", b"").unwrap())
        .find(|decision| !decision.verdict.allowed)
        .map(|decision| decision.verdict.reason);
    assert_eq!(denied, Some(Reason::Share), "who does not wait is refused above its share");

    let begun_ns = now_ns();
    // The last unit may be another's to give.
    assert!(acquire(&members[0], "patient", 100).await >= 99);
    let taken = Duration::from_nanos(now_ns() - begun_ns);
    assert!(taken < PATIENCE, "woken by acknowledgements, not by deadlines: {taken:?}");
}

#[tokio::test]
async fn many_that_wait_together_are_all_decided() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let members = fleet.start_all().await;
    let tasks: Vec<_> = (0..150)
        .map(|_| {
            let member = members[0].clone();
            tokio::spawn(async move { acquire(&member, "k", 1).await })
        })
        .collect();
    let mut passed = 0;
    for task in tasks {
        passed += task.await.unwrap();
    }
    assert!((99..=100).contains(&passed), "{passed} passed, and the last may be another's to give");
}

#[tokio::test]
async fn a_cost_above_the_share_is_reserved_and_passes() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let members = fleet.start_all().await;
    let request = Request::check(b"", b"k").with_cost(80);
    let decision = members[1].acquire(&request, PATIENCE).await.unwrap();
    assert!(decision.verdict.allowed);
    for member in &members {
        until("the spend arrives", || left(member, "k") == 20).await;
    }
}

#[tokio::test]
async fn whoever_stops_waiting_has_spent_nothing() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let members = fleet.start_all().await;
    let keys: Vec<_> = (0..20).map(|number| format!("k{number}")).collect();
    for key in &keys {
        let request = Request::check(b"", key.as_bytes()).with_cost(80);
        // Polled once: it is held, and dropped before anybody could have answered.
        tokio::select! {
            biased;
            decision = members[0].acquire(&request, PATIENCE) => panic!("decided: {decision:?}"),
            () = std::future::ready(()) => {}
        }
    }
    until("nothing is held", || members[0].status().cluster.held == 0).await;
    for key in &keys {
        for member in &members {
            until("it was given back", || left(member, key) == 100).await;
        }
    }
}

#[tokio::test]
async fn a_deadline_is_kept_when_nobody_answers() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let members = fleet.start_all().await;
    let request = Request::check(b"", b"k").with_cost(80);
    let begun_ns = now_ns();
    let wait = Duration::from_millis(1);
    // Whether it passes is a race with the peers; that it ends is not.
    let _ = members[0].acquire(&request, wait).await.unwrap();
    assert!(Duration::from_nanos(now_ns() - begun_ns) < Duration::from_millis(500));
}
