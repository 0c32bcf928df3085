//! Chance, from one seed.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014): one word of state, the same on every machine and in every
//! release, so that a seed replays a run for as long as the code under test is the same. A crate for
//! this would change its streams with its versions.

/// A stream of numbers from a seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another stream, for the part `part` of a run: what one part draws moves no other part.
    #[must_use]
    pub fn part(&self, part: u64) -> Self {
        let mut dice = Self(self.0 ^ part.wrapping_mul(0xd1b5_4a32_d192_ed03));
        dice.word();
        Self(dice.word())
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below `end`, which must not be 0. The bias of the remainder is below 2^-40 for the
    /// ends used here.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// A place in a list of `len` elements, which must not be 0.
    pub fn place(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number from `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// One of `choices`, which must not be empty.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.place(choices.len())]
    }

    /// True in `ppm` of a million.
    pub fn chance(&mut self, ppm: u64) -> bool {
        self.below(1_000_000) < ppm
    }
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of `word`.
pub(crate) fn mixed(word: u64) -> u64 {
    let mut z = word;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_published_stream() {
        // The first words of SplitMix64 from the seed 1234567.
        let mut dice = Dice::new(1_234_567);
        let words = [dice.word(), dice.word(), dice.word()];
        assert_eq!(
            words,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn stays_within_its_bounds() {
        let mut dice = Dice::new(3);
        for _ in 0..1000 {
            assert!(dice.below(7) < 7);
            assert!((5..=9).contains(&dice.between(5, 9)));
        }
        assert!((0..1000).all(|_| !dice.chance(0) && dice.chance(1_000_000)));
    }

    #[test]
    fn parts_of_a_run_are_different_streams() {
        let dice = Dice::new(9);
        assert_ne!(dice.part(1).word(), dice.part(2).word());
        assert_eq!(dice.part(1).word(), dice.part(1).word());
    }
}
