//! The worst that was found of a limit on a cluster, in words: what a search that tried to beat the limit
//! came to. It proves nothing, and is what to plan with.

use cluster::found::{Find, SEARCHED, Searched, Worst, worst_found};
use limiter::Accuracy;

/// Bursts from here on are told by the part of the burst, smaller ones by the units.
const LARGE_BURST_MIN: u64 = 100;

/// What was found for a limit of `burst` units on a cluster of so many members; in full or as short as a
/// list of limits wants it. Lines, of which all but the first go on with the one above.
pub(super) fn in_words(
    accuracy: Accuracy,
    members: usize,
    burst: u64,
    is_short: bool,
) -> Vec<String> {
    let (undisturbed, disturbed): (Column, Column) = match accuracy {
        Accuracy::Balanced => (|worst| worst.undisturbed, |worst| worst.disturbed),
        Accuracy::Fast => (|worst| worst.fast_undisturbed, |worst| worst.fast_disturbed),
    };
    let (undisturbed, disturbed) =
        (Of::new(undisturbed, members, burst), Of::new(disturbed, members, burst));
    if is_short {
        return vec![format!(
            "{} units above burst + rate x t, {} with cuts, crashes, pauses and restarts",
            undisturbed.units, disturbed.units
        )];
    }
    let Searched { date, commit, runs } = SEARCHED;
    vec![
        format!(
            "{} above burst + rate x t while every member reached all others",
            undisturbed.told()
        ),
        format!("{} with cuts, crashes, pauses and restarts", disturbed.told()),
        format!("by {runs} runs of the simulator over all sizes, {date}, commit {commit}"),
    ]
}

/// One kind of find of a size.
type Column = fn(&Worst) -> Find;

/// A find for one burst.
struct Of {
    units: u64,
    /// Thousandths of the burst, of a large one.
    permille: Option<u32>,
    members: usize,
    class: &'static str,
    seed: u64,
}

impl Of {
    fn new(column: Column, members: usize, burst: u64) -> Self {
        if burst < LARGE_BURST_MIN {
            let worst = worst_found(members, |worst| column(worst).units);
            let Find { units, units_class, units_seed, .. } = column(worst);
            let (units, members) = (units.into(), worst.members);
            return Self { units, permille: None, members, class: units_class, seed: units_seed };
        }
        let worst = worst_found(members, |worst| column(worst).permille);
        let Find { permille, class, seed, .. } = column(worst);
        let units = (u128::from(burst) * u128::from(permille)).div_ceil(1_000);
        let units = u64::try_from(units).unwrap_or(u64::MAX);
        Self { units, permille: Some(permille), members: worst.members, class, seed }
    }

    /// `29 units (2.9 % of the burst; 3 members, run `undisturbed` 7)`.
    fn told(&self) -> String {
        let part = match self.permille {
            Some(permille) => format!("{}.{} % of the burst; ", permille / 10, permille % 10),
            None => String::new(),
        };
        let Self { units, members, class, seed, .. } = self;
        format!("{units} units ({part}{members} members, run `{class}` {seed})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_name_what_can_be_run_again() {
        let words = in_words(Accuracy::Balanced, 3, 250, false);
        let worst = worst_found(3, |worst| worst.undisturbed.permille);
        let Find { permille, class, seed, .. } = worst.undisturbed;
        let units = (250 * u64::from(permille)).div_ceil(1_000);
        let want = format!(
            "{units} units ({}.{} % of the burst; {} members, run `{class}` {seed}) above burst + rate x t \
             while every member reached all others",
            permille / 10,
            permille % 10,
            worst.members
        );
        assert_eq!(words[0], want);
        assert!(words[2].contains("over all sizes"), "{words:?}");
    }

    #[test]
    fn small_bursts_and_fast_have_their_own_figures() {
        let small = in_words(Accuracy::Balanced, 2, 99, true);
        let worst = worst_found(2, |worst| worst.undisturbed.units).undisturbed.units;
        assert!(small[0].starts_with(&format!("{worst} units above")), "{small:?}");
        let fast = in_words(Accuracy::Fast, 10, 20, true);
        let worst = worst_found(10, |worst| worst.fast_undisturbed.units).fast_undisturbed.units;
        assert!(fast[0].starts_with(&format!("{worst} units above")), "{fast:?}");
        assert_eq!(in_words(Accuracy::Balanced, 3, u64::MAX, true).len(), 1);
    }
}
