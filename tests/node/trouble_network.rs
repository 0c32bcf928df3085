//! Real trouble on real links: each node on a host of its own, in a network namespace, behind a
//! switch. Cables are pulled, frames get lost one way, routes go missing.

use std::time::Duration;

use crate::support::fleet::{
    HUNDRED_PER_HOUR, await_apart, await_left, await_reached, await_whole, drain, left, spend,
};
use crate::support::load::{self, FAULT_FREE, OFTEN, SHARE};
use crate::support::{Fleet, Load, Network, pause};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// What came last before a cut counts as the other side's until it was heard of once more.
const HEARD: Duration = Duration::from_millis(400);
/// How long the load runs before, between and after troubles.
const A_WHILE: Duration = Duration::from_millis(700);

/// The cable of one host is pulled and plugged in again: 40 units are left to two, 20 to one, and
/// then all know that nothing is.
#[test]
fn a_pulled_cable_divides_the_limit_to_the_unit() {
    let Some(network) = Network::open(NAMES.len()) else { return };
    let fleet = Fleet::on_hosts(&NAMES, HUNDRED_PER_HOUR, &network);
    let nodes = fleet.start();
    assert_eq!(spend(&nodes[0], "alice", 25) + spend(&nodes[2], "alice", 15), 40);
    for node in &nodes {
        await_left(node, "alice", 60);
    }
    pause(HEARD);
    network.pull_cable(2);
    await_apart(&nodes, 2);
    assert_eq!([&nodes[0], &nodes[1], &nodes[2]].map(|node| left(node, "alice")), [40, 40, 20]);
    assert_eq!(drain(&[&nodes[0], &nodes[1]], "alice"), 40);
    assert_eq!(drain(&[&nodes[2]], "alice"), 20);
    network.plug_in(2);
    for node in &nodes {
        await_reached(node, 3);
        await_left(node, "alice", 0);
    }
}

/// What one host sends is lost on the way without an error; what is sent to it arrives.
#[test]
fn frames_lost_one_way_under_load_cost_a_share_at_most() {
    let Some(network) = Network::open(NAMES.len()) else { return };
    under_load(
        &network,
        || [0, 1].iter().for_each(|other| network.lose(2, *other)),
        || [0, 1].iter().for_each(|other| network.find(2, *other)),
    );
}

/// Two hosts have no route to the third: each of their datagrams is an error where it is sent.
#[test]
fn a_missing_route_under_load_costs_a_share_at_most() {
    let Some(network) = Network::open(NAMES.len()) else { return };
    under_load(
        &network,
        || [0, 1].iter().for_each(|other| network.refuse(*other, 2)),
        || [0, 1].iter().for_each(|other| network.admit(*other, 2)),
    );
}

/// Loads three nodes, lets `trouble` cut off the third, and mends it.
#[track_caller]
fn under_load(network: &Network, trouble: impl Fn(), mend: impl Fn()) {
    let fleet = Fleet::on_hosts(&NAMES, &load::limits(), network);
    let nodes = fleet.start();
    let load = Load::on(&nodes, OFTEN);
    pause(A_WHILE);
    trouble();
    await_apart(&nodes, 2);
    pause(A_WHILE);
    mend();
    await_whole(&nodes);
    load.stop().assert_sound(&nodes, SHARE + FAULT_FREE);
}
