//! The process of the peers: it starts them, and answers what the process of the sender asks.

use std::path::Path;
use std::time::Duration;

use member::Member;
use tokio::runtime::Runtime;

use super::control::{Ask, Control, Seen, Usage, Whole};
use super::fleet::{Fleet, SENDER};
use super::marker::Marker;
use crate::clock;
use crate::failure::Failure;

/// Pause between two looks whether a marker is known: to this, and to what the system adds to it, a
/// delivery is measured, from above.
const LOOK_EVERY: Duration = Duration::from_micros(100);
/// How long a marker is looked for. The longest interval is 10 s.
const WATCH_NS_MAX: u64 = 20 * clock::NS_PER_S;

/// Runs the peers of the measurement in `folder` until the sender has gone.
///
/// # Errors
/// If they do not start, or do not link.
pub(crate) fn run(folder: &Path) -> Result<(), Failure> {
    let fleet = Fleet::read(folder)?;
    let mut control = Control::connect(folder)?;
    let runtime = super::runtime()?;
    let members = (0..fleet.size()).filter(|index| *index != SENDER);
    let members: Vec<_> =
        members.map(|index| fleet.start(folder, index)).collect::<Result<_, _>>()?;
    fleet.wait_until_whole(&members, |time| {
        let has_gone = control.is_spoken_to_within(time);
        if has_gone { Err(Failure::new("the sender has gone")) } else { Ok(()) }
    })?;
    control.say(&Whole)?;
    while let Some(ask) = control.hear()? {
        match ask {
            Ask::Usage => control.say(&usage(&members, &runtime))?,
            Ask::Watch(marker) => {
                let seen = watch(&members, marker, &control);
                control.say(&seen)?;
            }
        }
    }
    Ok(())
}

fn usage(members: &[Member], runtime: &Runtime) -> Usage {
    let mut usage = Usage { cpu_ns: clock::process_cpu_ns(), ..Usage::default() };
    for member in members {
        let cluster = &runtime.block_on(member.status_now()).cluster;
        usage.rows_full += cluster.shares.rows_full;
        usage.dropped += cluster.shares.dropped;
        usage.splits += cluster.counts.splits;
    }
    usage
}

/// Looks again and again whether each of `members` knows of `marker`.
fn watch(members: &[Member], marker: Marker, control: &Control) -> Seen {
    let mut seen_ns = vec![None; members.len()];
    let until_ns = clock::now_ns() + WATCH_NS_MAX;
    loop {
        for (member, seen_ns) in members.iter().zip(&mut seen_ns) {
            if seen_ns.is_none() && marker.is_known(member.limiter(), clock::now_ns()) {
                *seen_ns = Some(clock::now_ns());
            }
        }
        if let Some(all) = seen_ns.iter().copied().collect() {
            return Seen(Some(all));
        }
        if control.is_spoken_to_within(LOOK_EVERY) || clock::now_ns() > until_ns {
            return Seen(None);
        }
    }
}
