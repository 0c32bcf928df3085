//! A stage of a measurement: pairs of short phases, one without the check and one with it, under one
//! circumstance.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::ValueEnum;
use serde::Serialize;

use super::bursts;
use super::figures::{Bursts, Counts, Pair, Phase, StageFigures, Usage};
use super::{PAUSED, Site, WARM_UP, run_for};
use crate::driver::{Driver, Tally};
use crate::failure::Failure;

/// Units of the one key of [`Page::Denied`], which the warm-up spends.
const DENIED_UNITS: u64 = 100;
/// Units of each key of [`Page::Load`], which nothing spends.
const LOAD_UNITS: u64 = 1_000_000;
/// Keys between the first ones of two stages' bursts: more than a stage asks about.
const BURST_KEYS_MAX: u64 = 1 << 32;

/// A page about which rlnode is asked, each under a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// Every request passes.
    Load,
    /// Each key has room for one burst.
    Burst,
    /// Every request is denied.
    Denied,
}

impl Page {
    pub(super) const ALL: [Self; 3] = [Self::Load, Self::Burst, Self::Denied];

    /// Its name in the URL, and that of its limit.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Burst => "burst",
            Self::Denied => "denied",
        }
    }

    fn units(self) -> u64 {
        match self {
            Self::Load => LOAD_UNITS,
            Self::Burst => bursts::UNITS,
            Self::Denied => DENIED_UNITS,
        }
    }
}

/// A limit for each page, as the nodes' file has them. A unit comes back in an hour, so that a key that
/// was asked about stays in the tables.
pub(super) fn limits() -> String {
    let limit = |page: Page| {
        let (name, units) = (page.as_str(), page.units());
        format!(
            "[[limit]]\nname = '{name}'\nendpoint = 'GET /{name}'\nrate = '1/h'\nburst = {units}\n"
        )
    };
    Page::ALL.map(limit).concat()
}

/// Under which circumstance is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    /// All nodes run.
    Whole,
    /// One that the gateway does not ask is halted for the whole of the stage.
    OnePaused,
    /// All run, and in bursts the node is asked about keys that need its peers.
    Bursts,
    /// The same while one is halted.
    BurstsOnePaused,
    /// All run, and the checked request is denied.
    Denied,
}

impl Stage {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Whole, Self::OnePaused, Self::Bursts, Self::BurstsOnePaused, Self::Denied];

    /// The words for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "three nodes",
            Self::OnePaused => "one of three paused",
            Self::Bursts => "three nodes, bursts",
            Self::BurstsOnePaused => "one paused, bursts",
            Self::Denied => "three nodes, denied",
        }
    }

    fn has_bursts(self) -> bool {
        matches!(self, Self::Bursts | Self::BurstsOnePaused)
    }

    fn is_paused(self) -> bool {
        matches!(self, Self::OnePaused | Self::BurstsOnePaused)
    }

    fn page(self) -> Page {
        if self == Self::Denied { Page::Denied } else { Page::Load }
    }
}

impl Site<'_> {
    /// Measures under the circumstance of `stage`, which is the one of this `number`, at `rate`.
    ///
    /// # Errors
    /// If a node or the gateway ends or does not answer.
    pub(super) fn measure(
        &self,
        stage: Stage,
        number: u64,
        rate: u64,
    ) -> Result<StageFigures, Failure> {
        let mut plain = self.open(None, rate, number)?;
        let mut checked = self.open(Some(stage.page()), rate, number)?;
        run_for(&mut plain, WARM_UP)?;
        run_for(&mut checked, WARM_UP)?;
        let before = Counts::of(self.asked(), self.options.front)?;
        let paused = stage.is_paused().then(|| &self.fleet.nodes()[PAUSED]);
        if let Some(node) = paused {
            node.pause()?;
        }
        let (pairs, burst) = self.pairs_beside_bursts(stage, number, &mut plain, &mut checked)?;
        let counts = Counts::of(self.asked(), self.options.front)?.since(before);
        if let Some(node) = paused {
            node.resume()?;
            self.fleet.wait_until_whole()?;
        }
        let bursts = burst.map(|tally| Bursts::new(&tally, counts.held));
        Ok(StageFigures { counts, bursts, ..StageFigures::new(stage, &pairs) })
    }

    /// The pairs, and what came of the bursts beside them, if the stage has any.
    fn pairs_beside_bursts(
        &self,
        stage: Stage,
        number: u64,
        plain: &mut Driver,
        checked: &mut Driver,
    ) -> Result<(Vec<Pair>, Option<Tally>), Failure> {
        let stop = AtomicBool::new(false);
        let (endpoint, front) = (self.front.checked(Page::Burst.as_str()), self.front);
        let first_key = number * BURST_KEYS_MAX;
        thread::scope(|scope| {
            let asking = stage.has_bursts().then(|| {
                scope.spawn(|| {
                    bursts::ask(&endpoint, first_key, &stop, |time| front.stays_for(time))
                })
            });
            let pairs = self.pairs(plain, checked);
            stop.store(true, Ordering::Relaxed);
            let burst = asking
                .map(|asking| asking.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
                .transpose()?;
            Ok((pairs?, burst))
        })
    }

    /// As many pairs as were asked for. Every second one is measured the other way round, so that
    /// neither half of a pair is always the one after the other.
    fn pairs(&self, plain: &mut Driver, checked: &mut Driver) -> Result<Vec<Pair>, Failure> {
        let mut pair = |number: u64| {
            Ok(if number.is_multiple_of(2) {
                let without = self.phase(plain)?;
                Pair { without, with: self.phase(checked)? }
            } else {
                let with = self.phase(checked)?;
                Pair { without: self.phase(plain)?, with }
            })
        };
        (0..self.options.pairs).map(&mut pair).collect()
    }

    fn phase(&self, driver: &mut Driver) -> Result<Phase, Failure> {
        let before = Usage::now(self)?;
        let tally = run_for(driver, self.options.phase)?;
        Ok(Phase { tally, used: Usage::now(self)?.since(before) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_limit_of_its_own() {
        let limits = limits();
        for page in Page::ALL {
            let name = page.as_str();
            assert_eq!(limits.matches(&format!("endpoint = 'GET /{name}'\n")).count(), 1);
        }
        assert!(limits.ends_with(
            "[[limit]]\nname = 'denied'\nendpoint = 'GET /denied'\nrate = '1/h'\nburst = 100\n"
        ));
    }

    #[test]
    fn every_stage_has_words_of_its_own() {
        let mut words: Vec<_> = Stage::ALL.map(Stage::as_str).to_vec();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Stage::ALL.len());
        assert!(Stage::OnePaused.is_paused() && !Stage::OnePaused.has_bursts());
        assert!(Stage::BurstsOnePaused.is_paused() && Stage::BurstsOnePaused.has_bursts());
    }
}
