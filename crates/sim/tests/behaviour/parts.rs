//! The parts of a limit: whatever groups a cluster falls into, they sum to it in whole units.

use limiter::{Members, View, ViewMember, member_id};
use sim::dice::Dice;

#[test]
fn the_parts_of_disjoint_groups_sum_to_the_whole() {
    let mut dice = Dice::new(1);
    for round in 0..2_000 {
        let size = dice.between(1, 12);
        let members: Vec<ViewMember> = (0..size)
            .map(|index| {
                let is_met = dice.below(8) > 0;
                let id = is_met.then(|| member_id(&format!("node-{round}-{index}")));
                ViewMember { index: u8::try_from(index).unwrap(), id }
            })
            .collect();
        let groups = dice.between(1, size);
        let group_of: Vec<u64> = members.iter().map(|_| dice.below(groups)).collect();
        let (units, hash) = (dice.below(3_000), dice.word());
        let mut sum = 0;
        for group in 0..groups {
            let of_group = members.iter().filter(|m| group_of[usize::from(m.index)] == group);
            let reachable: Members = of_group.map(|member| member.index).collect();
            let Some(me) = reachable.iter().next() else { continue };
            let view = View { members: members.clone(), me, reachable, isolated: false };
            sum += view.part(units, hash);
        }
        assert_eq!(sum, units, "{members:?} in groups {group_of:?}");
    }
}
