//! The worst that was found: how far above a limit clusters were brought by a search for attacks, by
//! random trouble and without any. Not a proof: what is proven is in `limiter::bound`.
//!
//! Made by `rlnode-sim found` from what `rlnode-sim attack` found; tests of the simulation run every
//! find again.

/// The worst excess of one kind, over all windows.
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
    /// Of `balanced`, while all members reach each other all the time.
    pub undisturbed: Find,
    /// Of `balanced`, with up to four cuts, crashes, pauses or restarts within some seconds.
    pub disturbed: Find,
    /// Of `fast`, undisturbed.
    pub fast_undisturbed: Find,
    /// Of `fast`, disturbed.
    pub fast_disturbed: Find,
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
        fast_undisturbed: Find {
            permille: 216,
            class: "undisturbed",
            seed: 22,
            units: 1,
            units_class: "undisturbed",
            units_seed: 7,
        },
        fast_disturbed: Find {
            permille: 227,
            class: "disturbed",
            seed: 14,
            units: 34,
            units_class: "disturbed",
            units_seed: 23,
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
        fast_undisturbed: Find {
            permille: 312,
            class: "undisturbed",
            seed: 6,
            units: 8,
            units_class: "undisturbed",
            units_seed: 7,
        },
        fast_disturbed: Find {
            permille: 348,
            class: "disturbed",
            seed: 2,
            units: 45,
            units_class: "disturbed",
            units_seed: 23,
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
        fast_undisturbed: Find {
            permille: 150,
            class: "undisturbed",
            seed: 18,
            units: 24,
            units_class: "undisturbed",
            units_seed: 23,
        },
        fast_disturbed: Find {
            permille: 474,
            class: "disturbed",
            seed: 6,
            units: 24,
            units_class: "disturbed",
            units_seed: 7,
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
        fast_undisturbed: Find {
            permille: 447,
            class: "undisturbed",
            seed: 14,
            units: 40,
            units_class: "undisturbed",
            units_seed: 27,
        },
        fast_disturbed: Find {
            permille: 180,
            class: "disturbed",
            seed: 6,
            units: 40,
            units_class: "disturbed",
            units_seed: 15,
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
        fast_undisturbed: Find {
            permille: 90,
            class: "undisturbed",
            seed: 22,
            units: 64,
            units_class: "undisturbed",
            units_seed: 19,
        },
        fast_disturbed: Find {
            permille: 110,
            class: "disturbed",
            seed: 2,
            units: 62,
            units_class: "disturbed",
            units_seed: 19,
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
        fast_undisturbed: Find {
            permille: 490,
            class: "undisturbed",
            seed: 22,
            units: 384,
            units_class: "undisturbed",
            units_seed: 19,
        },
        fast_disturbed: Find {
            permille: 270,
            class: "disturbed",
            seed: 2,
            units: 380,
            units_class: "disturbed",
            units_seed: 3,
        },
    },
];

/// How that was searched.
pub const SEARCHED: Searched = Searched { date: "2026-12-01", commit: "0fe9903", runs: 28_406 };

/// The size at which `figure` is greatest, of all sizes up to the nearest that was searched: the smallest
/// that is not below `members`, or the largest. Sizes were not searched alike, and what was found for
/// fewer members is no comfort to more.
pub fn worst_found(members: usize, figure: impl Fn(&Worst) -> u32) -> &'static Worst {
    let nearest = WORST.iter().take_while(|worst| worst.members < members).count();
    let sizes = &WORST[..=nearest.min(WORST.len() - 1)];
    sizes.iter().max_by_key(|worst| figure(worst)).unwrap_or(&WORST[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_up_to_the_nearest_from_above_count() {
        let members = |worst: &Worst| u32::try_from(worst.members).unwrap();
        let sizes = [0, 1, 2, 4, 8, 10, 11, 50, 51, 128];
        let largest = sizes.map(|size| worst_found(size, members).members);
        assert_eq!(largest, [2, 2, 2, 5, 10, 10, 50, 50, 50, 50]);
        assert!(
            sizes.map(|size| worst_found(size, |worst| 100 - members(worst)).members) == [2; 10]
        );
    }

    #[test]
    fn sizes_ascend() {
        assert!(WORST.windows(2).all(|pair| pair[0].members < pair[1].members));
    }
}
