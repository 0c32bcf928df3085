//! The worst that was found of a limit on a cluster, in words: what a search that tried to beat the limit
//! came to. It proves nothing, and is what to plan with.

use cluster::found::{Find, SEARCHED, Searched, Worst};

/// Bursts from here on are told by the part of the burst, smaller ones by the units.
const LARGE_BURST_MIN: u64 = 100;

/// What was found for a limit of `burst` units on a cluster of which `worst` is the nearest that was
/// searched; in full or as short as a list of limits wants it. Lines, of which all but the first go on
/// with the one above.
pub(super) fn in_words(worst: &Worst, members: usize, burst: u64, is_short: bool) -> Vec<String> {
    let (undisturbed, disturbed) =
        (Of::new(&worst.undisturbed, burst), Of::new(&worst.disturbed, burst));
    if is_short {
        return vec![format!(
            "{} units above burst + rate x t, {} with cuts, crashes, pauses and restarts",
            undisturbed.units, disturbed.units
        )];
    }
    let Searched { date, commit, runs } = SEARCHED;
    let size = match worst.members {
        same if same == members => format!("{members} members"),
        nearest => format!("{nearest} members, the nearest size"),
    };
    vec![
        format!(
            "{} above burst + rate x t while every member reached all others",
            undisturbed.told()
        ),
        format!("{} with cuts, crashes, pauses and restarts", disturbed.told()),
        format!("by {runs} runs of the simulator with {size}, {date}, commit {commit}"),
    ]
}

/// A find for one burst.
struct Of {
    units: u64,
    /// Thousandths of the burst, of a large one.
    permille: Option<u32>,
    class: &'static str,
    seed: u64,
}

impl Of {
    fn new(find: &Find, burst: u64) -> Self {
        if burst < LARGE_BURST_MIN {
            let (class, seed) = (find.units_class, find.units_seed);
            return Self { units: find.units.into(), permille: None, class, seed };
        }
        let units = (u128::from(burst) * u128::from(find.permille)).div_ceil(1_000);
        let units = u64::try_from(units).unwrap_or(u64::MAX);
        Self { units, permille: Some(find.permille), class: find.class, seed: find.seed }
    }

    /// `29 units (2.9 % of the burst; run `late` 7)`.
    fn told(&self) -> String {
        let part = match self.permille {
            Some(permille) => format!("{}.{} % of the burst; ", permille / 10, permille % 10),
            None => String::new(),
        };
        format!("{} units ({part}run `{}` {})", self.units, self.class, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORST: Worst = Worst {
        members: 3,
        undisturbed: Find {
            permille: 29,
            class: "undisturbed",
            seed: 7,
            units: 4,
            units_class: "loads",
            units_seed: 8,
        },
        disturbed: Find {
            permille: 512,
            class: "disturbed",
            seed: 9,
            units: 11,
            units_class: "faults",
            units_seed: 10,
        },
    };

    #[test]
    fn a_large_burst_is_told_by_its_part_and_a_small_one_by_units() {
        let Searched { date, commit, runs } = SEARCHED;
        let large = in_words(&WORST, 3, 250, false);
        assert_eq!(
            large,
            [
                "8 units (2.9 % of the burst; run `undisturbed` 7) above burst + rate x t while every \
                 member reached all others"
                    .to_owned(),
                "128 units (51.2 % of the burst; run `disturbed` 9) with cuts, crashes, pauses and \
                 restarts"
                    .to_owned(),
                format!("by {runs} runs of the simulator with 3 members, {date}, commit {commit}"),
            ]
        );
        let small = in_words(&WORST, 2, 99, false);
        assert!(small[0].starts_with("4 units (run `loads` 8) above"), "{small:?}");
        assert!(small[1].starts_with("11 units (run `faults` 10) with"), "{small:?}");
        assert!(small[2].contains("with 3 members, the nearest size, "), "{small:?}");
    }

    #[test]
    fn a_list_has_a_line() {
        let short = in_words(&WORST, 3, 1_000, true);
        let want = "29 units above burst + rate x t, 512 with cuts, crashes, pauses and restarts";
        assert_eq!(short, [want]);
        assert_eq!(in_words(&WORST, 3, u64::MAX, true).len(), 1);
    }
}
