//! A member whose wall clock is wrong.

use crate::fleet::{CLOCK, CLOCK_AHEAD, Fleet, is_whole, start_with, until};

#[tokio::test]
async fn a_wall_clock_that_is_ahead_is_shown_and_warned_of_on_both_sides() {
    let fleet = Fleet::new(&["a", "b"]);
    let a = start_with(fleet.settings("a"), CLOCK).unwrap();
    let b = start_with(fleet.settings("b"), CLOCK_AHEAD).unwrap();
    for member in [&a, &b] {
        until("both are counted", || is_whole(member, 2)).await;
    }
    for (member, sign) in [(&a, 1), (&b, -1)] {
        until("the other's clock is warned of", || {
            member.status().cluster.peers.iter().all(|peer| peer.clock_off)
        })
        .await;
        let status = member.status();
        let skew_ms = status.cluster.peers[0].skew_ms.unwrap();
        assert_eq!(skew_ms.signum(), sign, "{skew_ms}");
        assert_eq!(status.cluster.counts.clock_alarms, 1);
        assert!(is_whole(member, 2), "it decides nothing");
    }
}
