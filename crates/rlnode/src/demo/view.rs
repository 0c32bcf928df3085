//! What the nodes of the demo say of themselves, as the picture and the story need it.

use cluster::PeerState;
use limiter::Freshness;

use super::MEMBERS_MAX;
use super::words::{letter, letters, node_name};

/// Whether a node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    /// It has not the counts of the others yet.
    #[default]
    Starting,
    /// It answers.
    Up,
    /// It was killed.
    Dead,
}

/// A node as it sees itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeView {
    /// Whether it runs.
    pub(super) life: Life,
    /// How well it knows the counts.
    pub(super) freshness: Freshness,
    /// Members that it counts, itself included.
    pub(super) members: usize,
    /// Of them, those that it reaches.
    pub(super) reached: usize,
    /// Units that are left as it knows; while it does not reach all, of its group's part.
    pub(super) level: Option<u64>,
    /// Time since the peer that was silent longest said something, in milliseconds; none while it
    /// reaches nobody.
    pub(super) heard_ms: Option<u64>,
    /// Which nodes it reaches, by index. Its own place is false.
    pub(super) reaches: [bool; MEMBERS_MAX],
}

impl Default for NodeView {
    fn default() -> Self {
        Self {
            life: Life::default(),
            freshness: Freshness::Starting,
            members: 0,
            reached: 0,
            level: None,
            heard_ms: None,
            reaches: [false; MEMBERS_MAX],
        }
    }
}

impl NodeView {
    /// A node that was killed.
    pub(super) fn dead() -> Self {
        Self { life: Life::Dead, ..Self::default() }
    }

    /// What `status` says, with the level that the node answers.
    pub(super) fn new(status: &cluster::Status, has_started: bool, level: Option<u64>) -> Self {
        let counted = || status.peers.iter().filter(|peer| peer.state == PeerState::Counted);
        let reaches = std::array::from_fn(|index| {
            let name = node_name(index);
            counted().any(|peer| peer.name.as_deref() == Some(name.as_str()))
        });
        Self {
            life: if has_started { Life::Up } else { Life::Starting },
            freshness: status.freshness,
            members: status.members,
            reached: status.reached,
            level,
            heard_ms: counted().filter_map(|peer| peer.heard_ms).max(),
            reaches,
        }
    }

    /// The word for how well it knows the counts.
    pub(super) fn knows(&self) -> &'static str {
        match self.life {
            Life::Dead => "dead",
            Life::Starting => Freshness::Starting.as_str(),
            Life::Up => self.freshness.as_str(),
        }
    }
}

/// All nodes, and which the network cuts off.
#[derive(Clone, Copy, Debug)]
pub(super) struct World<'a> {
    /// By index.
    pub(super) nodes: &'a [NodeView],
    /// By index: nothing reaches it, and nothing of it reaches others.
    pub(super) cut: &'a [bool],
}

impl World<'_> {
    /// Every node that runs knows exactly whom the network lets it reach, and where that is everybody,
    /// has heard of everybody lately.
    pub(super) fn is_settled(&self) -> bool {
        self.nodes.iter().enumerate().all(|(node, view)| match view.life {
            Life::Dead => true,
            Life::Starting => false,
            Life::Up => {
                let knows_all = view.reached < view.members || view.freshness == Freshness::Synced;
                let sees = |peer: usize| view.reaches[peer] == self.is_joined(node, peer);
                knows_all && (0..self.nodes.len()).all(sees)
            }
        })
    }

    /// The network lets these two reach each other, and both run.
    fn is_joined(&self, node: usize, peer: usize) -> bool {
        let is_there = |index: usize| {
            let is_cut = self.cut.get(index).copied().unwrap_or(false);
            !is_cut && self.nodes.get(index).is_some_and(|view| view.life != Life::Dead)
        };
        node != peer && is_there(node) && is_there(peer)
    }

    /// Who holds how much of the limit: `A and B hold 2/3, C 1/3`.
    pub(super) fn parts(&self) -> String {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        // Those who reach nobody are told together.
        let mut alone = Vec::new();
        for (node, view) in self.nodes.iter().enumerate() {
            if view.life == Life::Dead || groups.iter().any(|group| group.contains(&node)) {
                continue;
            }
            let is_in = |it: &usize| *it == node || view.reaches[*it];
            let group: Vec<usize> = (0..self.nodes.len()).filter(is_in).collect();
            if group.len() > 1 { groups.push(group) } else { alone.push(node) }
        }
        let mut parts: Vec<(&[usize], usize, &str)> =
            groups.iter().map(|group| (group.as_slice(), group.len(), "")).collect();
        match alone.len() {
            0 => {}
            1 => parts.push((&alone, 1, "")),
            _ => parts.push((&alone, 1, " each")),
        }
        let texts: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(place, (nodes, size, each))| {
                let verb = match (place, nodes.len()) {
                    (1.., _) => "",
                    (0, 1) => " holds",
                    (0, _) => " hold",
                };
                let members = nodes.first().map_or(0, |first| self.nodes[*first].members);
                let who = letters(nodes);
                if *size == members {
                    format!("{who}{verb} one limit")
                } else {
                    format!("{who}{verb} {size}/{members}{each}")
                }
            })
            .collect();
        if texts.is_empty() { "nobody is left".to_owned() } else { texts.join(", ") }
    }

    /// What `node` reaches: `A B ·`, itself included.
    pub(super) fn reach(&self, node: usize) -> String {
        let reaches = |it: usize| {
            self.nodes.get(node).is_some_and(|view| view.life != Life::Dead)
                && (it == node || self.nodes[node].reaches[it])
        };
        let marks: Vec<_> =
            (0..self.nodes.len()).map(|it| if reaches(it) { letter(it) } else { "·" }).collect();
        marks.join(" ")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A node that runs, counts `members`, and reaches these.
    pub(in super::super) fn up(members: usize, reaches: &[usize]) -> NodeView {
        let reached = reaches.len() + 1;
        let is_whole = reached == members;
        NodeView {
            life: Life::Up,
            freshness: if is_whole { Freshness::Synced } else { Freshness::Split },
            members,
            reached,
            level: Some(13),
            heard_ms: (reached > 1).then_some(40),
            reaches: std::array::from_fn(|it| reaches.contains(&it)),
        }
    }

    /// Three nodes that reach each other.
    pub(in super::super) fn whole() -> [NodeView; 3] {
        [up(3, &[1, 2]), up(3, &[0, 2]), up(3, &[0, 1])]
    }

    const NO_CUT: [bool; 3] = [false; 3];

    #[test]
    fn three_that_reach_each_other_hold_one_limit() {
        let world = World { nodes: &whole(), cut: &NO_CUT };
        assert!(world.is_settled());
        assert_eq!(world.parts(), "A, B and C hold one limit");
        assert_eq!(world.reach(1), "A B C");
    }

    #[test]
    fn a_cut_is_settled_when_both_sides_know_of_it() {
        let cut = [false, false, true];
        assert!(!World { nodes: &whole(), cut: &cut }.is_settled());
        let one_side = [up(3, &[1]), up(3, &[0]), up(3, &[0, 1])];
        assert!(!World { nodes: &one_side, cut: &cut }.is_settled());
        let nodes = [up(3, &[1]), up(3, &[0]), up(3, &[])];
        let world = World { nodes: &nodes, cut: &cut };
        assert!(world.is_settled());
        assert_eq!(world.parts(), "A and B hold 2/3, C 1/3");
        assert_eq!((world.reach(0).as_str(), world.reach(2).as_str()), ("A B ·", "· · C"));
        assert!(!World { nodes: &nodes, cut: &NO_CUT }.is_settled(), "the heal is yet to come");
        let nodes = [up(3, &[]); 3];
        assert_eq!(World { nodes: &nodes, cut: &cut }.parts(), "A, B and C hold 1/3 each");
    }

    #[test]
    fn the_dead_are_not_waited_for_and_who_starts_is() {
        let mut nodes = [up(3, &[2]), NodeView::dead(), up(3, &[0])];
        let world = World { nodes: &nodes, cut: &NO_CUT };
        assert!(world.is_settled());
        assert_eq!(world.parts(), "A and C hold 2/3");
        assert_eq!((world.reach(1).as_str(), nodes[1].knows()), ("· · ·", "dead"));
        nodes[1] = NodeView::default();
        assert!(!World { nodes: &nodes, cut: &NO_CUT }.is_settled());
        assert_eq!(nodes[1].knows(), "starting");
        let nodes = [NodeView::dead(); 2];
        assert_eq!(World { nodes: &nodes, cut: &NO_CUT }.parts(), "nobody is left");
    }

    #[test]
    fn a_fleet_is_not_whole_before_all_have_heard_of_all() {
        let mut nodes = whole();
        nodes[1].freshness = Freshness::Stale;
        assert!(!World { nodes: &nodes, cut: &NO_CUT }.is_settled());
    }
}
