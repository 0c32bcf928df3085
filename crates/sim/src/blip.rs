//! The blip: a slow limit, of which a part was used, and one node that is gone for two seconds, once or
//! many times. When it is back every node must know what every other let through, and then the rest can
//! be spent and nothing more.

use crate::clock::{MS, SECOND};
use crate::scenario::{Act, Allowed, Scenario, everyone};
use crate::workload::Workload;

/// How the node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It does not run, and goes on as if nothing had been.
    Paused,
    /// Nobody reaches it.
    Cut,
    /// It is killed, and started again.
    Crashed,
}

impl Gone {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Paused, Self::Cut, Self::Crashed];
}

/// The scenario: 40 % are used by all in two seconds, node 0 is gone `times` times while the others (and
/// node 0, if it is cut off once) spend a little, and then everything is asked for everywhere. Levels
/// are read a second after each return.
pub fn blip(nodes: usize, gone: Gone, times: u64, allowed: Allowed, seed: u64) -> Scenario {
    let mut scenario = Scenario::new(nodes, allowed, seed);
    let mut workload = Workload::new(seed * 7 + 1);
    let hundredth = allowed.burst / 100;
    for place in 0..40 * hundredth {
        let node = usize::try_from(place).unwrap_or(0) % nodes;
        workload.one(SECOND + place * 2 * SECOND / (40 * hundredth), node, 0, 1);
    }
    let mut at_ns = 6 * SECOND;
    for _ in 0..times {
        let back_ns = at_ns + 2 * SECOND;
        match gone {
            Gone::Paused => scenario.script.push((at_ns, Act::Pause(0, back_ns))),
            Gone::Cut => {
                let (a, b) = (1, everyone(nodes) & !1);
                let cut =
                    crate::network::Cut { from_ns: at_ns, to_ns: back_ns, a, b, one_way: false };
                scenario.lines.cuts.push(cut);
            }
            Gone::Crashed => {
                scenario.script.push((at_ns, Act::Crash(0)));
                scenario.script.push((back_ns, Act::Boot(0, 0)));
            }
        }
        for _ in 0..(20 / times).max(1) * hundredth {
            let node = 1 + workload.dice().place(nodes - 1);
            let spent_ns = at_ns + 800 * MS + workload.dice().below(SECOND);
            workload.one(spent_ns, node, 0, 1);
        }
        if gone == Gone::Cut && times == 1 {
            for _ in 0..2 * hundredth {
                let spent_ns = at_ns + 800 * MS + workload.dice().below(SECOND);
                workload.one(spent_ns, 0, 0, 1);
            }
        }
        // A restarted node is back when it is ready, which takes it a moment.
        let ready_ns = if gone == Gone::Crashed { SECOND / 2 } else { 0 };
        scenario.probes.push(back_ns + SECOND + ready_ns);
        at_ns += 5 * SECOND;
    }
    for place in 0..100 * hundredth {
        let node = workload.dice().place(nodes);
        workload.one(at_ns + SECOND + place * 3 * SECOND / (100 * hundredth), node, 0, 1);
    }
    scenario.arrivals = workload.done();
    scenario
}
