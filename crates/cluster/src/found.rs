//! The worst that was found: how far above a limit clusters were brought by a search for attacks, by
//! random trouble and without any. Not a proof: what is proven is in `limiter::bound`.
//!
//! Made by `rlnode-sim found` from what `rlnode-sim attack` found; tests of the simulation run every
//! find again.

/// The worst excess of one kind, over all windows, of a limit with the accuracy `balanced`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Find {
    /// Thousandths of the burst, rounded up; of bursts of 100 units and more.
    pub permille: u32,
    /// The class of the run that showed it, for `rlnode-sim replay`.
    pub class: &'static str,
    /// Its seed.
    pub seed: u64,
    /// Units, rounded up, of bursts below 100 units.
    pub units: u32,
    /// The class of the run that showed them.
    pub units_class: &'static str,
    /// Its seed.
    pub units_seed: u64,
}

/// The worst for clusters of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// Members.
    pub members: usize,
    /// While all members reach each other all the time.
    pub undisturbed: Find,
    /// With up to four cuts, crashes, pauses or restarts within some seconds.
    pub disturbed: Find,
}

/// How something was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The day, as year, month and day.
    pub date: &'static str,
    /// The commit of the code that was searched.
    pub commit: &'static str,
    /// Simulated runs.
    pub runs: u64,
}

/// The worst that was found, by members, ascending.
pub const WORST: [Worst; 6] = [
    Worst {
        members: 2,
        undisturbed: Find {
            permille: 415,
            class: "undisturbed",
            seed: 28,
            units: 20,
            units_class: "undisturbed",
            units_seed: 13,
        },
        disturbed: Find {
            permille: 670,
            class: "disturbed",
            seed: 20,
            units: 54,
            units_class: "disturbed",
            units_seed: 29,
        },
    },
    Worst {
        members: 3,
        undisturbed: Find {
            permille: 439,
            class: "undisturbed",
            seed: 20,
            units: 8,
            units_class: "undisturbed",
            units_seed: 9,
        },
        disturbed: Find {
            permille: 1041,
            class: "disturbed",
            seed: 4,
            units: 32,
            units_class: "disturbed",
            units_seed: 17,
        },
    },
    Worst {
        members: 5,
        undisturbed: Find {
            permille: 327,
            class: "undisturbed",
            seed: 12,
            units: 12,
            units_class: "undisturbed",
            units_seed: 21,
        },
        disturbed: Find {
            permille: 2048,
            class: "disturbed",
            seed: 0,
            units: 24,
            units_class: "disturbed",
            units_seed: 5,
        },
    },
    Worst {
        members: 7,
        undisturbed: Find {
            permille: 392,
            class: "undisturbed",
            seed: 8,
            units: 6,
            units_class: "undisturbed",
            units_seed: 1,
        },
        disturbed: Find {
            permille: 1284,
            class: "disturbed",
            seed: 12,
            units: 149,
            units_class: "disturbed",
            units_seed: 13,
        },
    },
    Worst {
        members: 10,
        undisturbed: Find {
            permille: 103,
            class: "undisturbed",
            seed: 0,
            units: 7,
            units_class: "undisturbed",
            units_seed: 17,
        },
        disturbed: Find {
            permille: 425,
            class: "disturbed",
            seed: 16,
            units: 16,
            units_class: "disturbed",
            units_seed: 17,
        },
    },
    Worst {
        members: 50,
        undisturbed: Find {
            permille: 471,
            class: "undisturbed",
            seed: 0,
            units: 8,
            units_class: "undisturbed",
            units_seed: 1,
        },
        disturbed: Find {
            permille: 886,
            class: "disturbed",
            seed: 0,
            units: 15,
            units_class: "disturbed",
            units_seed: 17,
        },
    },
];

/// How that was searched.
pub const SEARCHED: Searched = Searched { date: "2026-12-01", commit: "0fe9903", runs: 28_406 };

/// The worst that was found for the nearest size that was searched: the smallest that is not below
/// `members`, or the largest.
pub fn worst_found(members: usize) -> &'static Worst {
    let [.., largest] = &WORST;
    WORST.iter().find(|worst| worst.members >= members).unwrap_or(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_size_is_from_above_where_there_is_one() {
        let sizes = [0, 1, 2, 4, 8, 10, 11, 50, 51, 128];
        let nearest = sizes.map(|members| worst_found(members).members);
        assert_eq!(nearest, [2, 2, 2, 5, 10, 10, 50, 50, 50, 50]);
    }

    #[test]
    fn sizes_ascend() {
        assert!(WORST.windows(2).all(|pair| pair[0].members < pair[1].members));
    }
}
