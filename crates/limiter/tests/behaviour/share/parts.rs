//! Whole units of a level that belong to a group.

use limiter::{Members, View, ViewMember, member_id, rendezvous};
use proptest::prelude::*;

use super::view;

#[test]
fn the_order_of_members_is_frozen() {
    assert_eq!(member_id("edge-1"), 0x9144_8259_b190_1f0d);
    assert_eq!(rendezvous(member_id("edge-1"), 0x55f7_c450_4aa8_b2e9), 0x9c8f_7182_0454_121c);
    assert_eq!(rendezvous(0, 0), 0xe220_a839_7b1d_cdaf);
}

#[test]
fn a_member_never_met_comes_before_all_others() {
    let members =
        vec![ViewMember { index: 0, id: Some(member_id("a")) }, ViewMember { index: 1, id: None }];
    let view = View { members, me: 0, reachable: Members::only(0), isolated: false };
    for hash in 0..100 {
        assert_eq!((view.part(1, hash), view.part(2, hash), view.part(3, hash)), (0, 1, 1));
    }
}

#[test]
fn each_member_comes_first_for_its_part_of_the_buckets() {
    let mut first = [0; 5];
    for hash in 0..10_000u64 {
        let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for me in 0..5u8 {
            first[usize::from(me)] += view(5, me, Members::only(me)).part(1, hash);
        }
    }
    assert_eq!(first.iter().sum::<u64>(), 10_000);
    assert!(first.iter().all(|of_one| (1_800..2_200).contains(of_one)), "{first:?}");
}

/// PE-09: fewer units than nodes go to as many nodes, one each; what cannot be divided goes to some.
#[test]
fn parts_of_nodes_that_are_all_alone_are_at_most_a_unit_apart() {
    for (units, n, expected) in
        [(2, 3, vec![1, 1, 0]), (1, 5, vec![1, 0, 0, 0, 0]), (10, 3, vec![4, 3, 3])]
    {
        for hash in 0..1_000 {
            let mut parts: Vec<u64> =
                (0..n).map(|me| view(n, me, Members::only(me)).part(units, hash)).collect();
            parts.sort_unstable_by(|one, other| other.cmp(one));
            assert_eq!(parts, expected, "{units} units on {n} nodes");
        }
    }
}

proptest! {
    #[test]
    fn parts_of_any_partition_are_whole_units_that_sum_to_the_limit(
        n in 1..=5u8,
        groups in prop::collection::vec(0..5usize, 5),
        units in prop_oneof![0..50u64, any::<u64>()],
        hash in any::<u64>(),
    ) {
        let mut sum = 0u64;
        for group in 0..5 {
            let members: Members =
                (0..n).filter(|i| groups[usize::from(*i)] == group).collect();
            let Some(me) = members.iter().next() else { continue };
            let part = view(n, me, members).part(units, hash);
            for other in members.iter() {
                prop_assert_eq!(view(n, other, members).part(units, hash), part);
            }
            sum += part;
        }
        prop_assert_eq!(sum, units);
    }
}
