//! `rlbench overshoot`: one limit on several real nodes, asked in many ways and under trouble; how
//! much more passes than may, how much less than might, and how long answers take. A schedule is drawn
//! from a seed before anything is sent, so that other ways to hold a limit are asked the same.

mod asker;
mod central;
mod contender;
mod excess;
mod fairness;
mod fleet;
mod line;
mod measure;
mod options;
mod picture;
mod report;
mod schedule;
mod text;
mod trouble;
mod workload;

use std::fs;
use std::panic;
use std::thread;

pub(crate) use options::OvershootOptions;
pub(crate) use report::Overshoot;

use crate::clock::{self, NS_PER_MS};
use crate::failure::Failure;
use contender::{Contender, exchange};
use fleet::Orders;
use line::{Line, Naming};
use measure::Figures;
use picture::Picture;
use report::{Method, Run, Side, Skipped, Taken};
use schedule::{Ask, Brief, draw};
use trouble::Trouble;

/// From opening the lines until the schedule begins.
const LEAD_NS: u64 = 50 * NS_PER_MS;

/// Asks as `options` say, and draws the picture if there is to be one.
///
/// # Errors
/// If the options do not go together, the nodes do not start or end, or the picture cannot be written.
pub(crate) fn run(options: &OvershootOptions) -> Result<Overshoot, Failure> {
    let brief = options.brief().map_err(Failure::new)?;
    let trouble = options.trouble(&brief).map_err(Failure::new)?;
    let orders = Orders {
        program: options.rlnode.as_deref(),
        members: brief.members,
        algorithm: brief.algorithm,
        limit: brief.limit,
        interval: options.interval,
        trouble: &trouble,
        seed: options.seed,
    };
    let plans: Vec<_> = (0..options.runs)
        .map(|run| options.seed.wrapping_add(run))
        .map(|seed| (seed, draw(&brief, seed)))
        .collect();
    let bench = Bench { options, brief, trouble: &trouble, plans: &plans };
    let mut sides = vec![bench.measure(Contender::subject(options, &orders)?)?];
    let mut skipped = Vec::new();
    for &kind in &options.beside {
        match Contender::comparator(kind, options, &orders, &brief) {
            Ok(contender) => sides.push(bench.measure(contender)?),
            Err(why) => skipped.push(Skipped { name: kind.as_str(), why: why.to_string() }),
        }
    }
    let method = Method::new(options, &brief, &trouble);
    let overshoot = Overshoot::new(method, sides, skipped);
    if let Some(path) = &options.svg {
        let svg =
            Picture { brief: &brief, asks: &plans[0].1, sides: &overshoot.contenders }.to_svg();
        fs::write(path, svg).map_err(|error| {
            Failure::because(format!("cannot write `{}`", path.display()), error)
        })?;
    }
    Ok(overshoot)
}

/// What all contenders are measured by.
struct Bench<'b> {
    options: &'b OvershootOptions,
    brief: Brief,
    trouble: &'b Trouble,
    /// By run: its seed, and what is asked.
    plans: &'b [(u64, Vec<Ask>)],
}

impl Bench<'_> {
    /// Asks `contender` in every run, and stops it.
    fn measure(&self, mut contender: Contender) -> Result<Side, Failure> {
        let mut runs = Vec::new();
        for (number, (seed, asks)) in self.plans.iter().enumerate() {
            runs.push(self.run(&mut contender, number, *seed, asks)?);
        }
        let side = Side { name: contender.name(), version: contender.version().to_owned(), runs };
        contender.stop()?;
        Ok(side)
    }

    fn run(
        &self,
        contender: &mut Contender,
        number: usize,
        seed: u64,
        asks: &[Ask],
    ) -> Result<Run, Failure> {
        contender.settle()?;
        let naming = self.naming(contender, number);
        let endpoints = contender.endpoints();
        let mut lines: Vec<_> = endpoints.iter().map(Line::open).collect::<Result<_, _>>()?;
        let steps = self.trouble.steps();
        let before = contender.snapshot()?;
        let (now_ns, unix_ns) = (clock::now_ns(), clock::unix_ns() + LEAD_NS);
        let lead_ns = self.brief.begins_after_ns(unix_ns);
        let (started_ns, unix_ns) = (now_ns + LEAD_NS + lead_ns, unix_ns + lead_ns);
        let (seen, performed) = thread::scope(|scope| {
            let performing = scope.spawn(|| contender.perform(&steps, started_ns));
            let seen = asker::run(asks, &mut lines, &naming, started_ns);
            (seen, performing.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
        });
        performed?;
        let seen = seen?;
        contender.settle()?;
        let after = contender.snapshot()?;
        Ok(Run::new(Taken {
            seed,
            unix_ns,
            figures: Figures::of(&self.brief, unix_ns, asks, &seen),
            exchange: exchange(before.as_ref(), after.as_ref()),
            tells_splits: contender.tells_splits(),
            may_split: self.trouble.may_split(),
            seen,
        }))
    }

    /// A key of its own for each run; for nodes that run on afterwards, of each call of the program.
    fn naming(&self, contender: &Contender, run: usize) -> Naming {
        let prefix = &self.options.key;
        let prefix = match contender {
            Contender::Given(_) => format!("{prefix}{}-{run}-", clock::unix_ms()),
            _ => format!("{prefix}{run}-"),
        };
        Naming { endpoint: self.options.endpoint.clone(), prefix }
    }
}
