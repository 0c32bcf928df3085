//! Which key each check asks about: every key of a range equally often, or by Zipf's law, or one
//! after the other. Keys are 20 bytes, made on the fly, so that ten million take no memory here.

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 20;
/// Most keys of a load: what fits into the tables of a node on a usual machine.
pub(crate) const KEYS_MAX: u64 = 10_000_000;

const PREFIX: &[u8; 4] = b"key:";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// The text of the key with this number: `key:` and 16 hexadecimal digits.
pub(crate) fn key_text(number: u64) -> [u8; KEY_BYTES] {
    let mut text = [0; KEY_BYTES];
    text[..PREFIX.len()].copy_from_slice(PREFIX);
    let mut rest = number;
    for digit in text[PREFIX.len()..].iter_mut().rev() {
        *digit = HEX[(rest % 16) as usize];
        rest /= 16;
    }
    text
}

/// A source of key numbers below a count.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    count: u64,
    order: Order,
    random: Random,
}

#[derive(Clone, Debug)]
enum Order {
    Uniform,
    Zipf(Zipf),
    Sequence { first: u64, next: u64 },
    Runs { each: u64, asked: u64 },
}

impl Keys {
    /// Each of `count` keys, at least 1, equally often, in an order given by `seed`.
    pub(crate) fn uniform(count: u64, seed: u64) -> Self {
        Self { count: count.max(1), order: Order::Uniform, random: Random(seed) }
    }

    /// Key 0 most often, and key n by (n + 1)^-`exponent` as often as that; `exponent` above 0.
    pub(crate) fn zipf(count: u64, exponent: f64, seed: u64) -> Self {
        let count = count.max(1);
        Self { count, order: Order::Zipf(Zipf::new(count, exponent)), random: Random(seed) }
    }

    /// The keys `first` to `first + count - 1` in turn, and then again.
    pub(crate) fn sequence(first: u64, count: u64) -> Self {
        let order = Order::Sequence { first, next: first };
        Self { count: count.max(1), order, random: Random(0) }
    }

    /// The key `first` `each` times, at least once, then the next as often, and so on.
    pub(crate) fn runs(first: u64, each: u64) -> Self {
        let each = each.max(1);
        let order = Order::Runs { each, asked: first.saturating_mul(each) };
        Self { count: u64::MAX, order, random: Random(0) }
    }

    /// The number of the next key.
    pub(crate) fn next_number(&mut self) -> u64 {
        match &mut self.order {
            Order::Uniform => self.random.below(self.count),
            Order::Zipf(zipf) => zipf.sample(&mut self.random),
            Order::Sequence { first, next } => {
                let number = *next;
                *next = if number - *first + 1 == self.count { *first } else { number + 1 };
                number
            }
            Order::Runs { each, asked } => {
                let number = *asked / *each;
                *asked = asked.wrapping_add(1);
                number
            }
        }
    }

    /// The text of the next key.
    pub(crate) fn next_key(&mut self) -> [u8; KEY_BYTES] {
        key_text(self.next_number())
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): fast, and random enough to choose keys and times.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Numbers that follow from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; the bias of less than 2^-40 for any bound used here is no matter.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.next()) * u128::from(bound);
        (scaled >> 64) as u64
    }

    /// A number from 0 (included) to 1 (not included), in steps of 2^-53.
    fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1_u64 << 53) as f64;
        (self.next() >> 11) as f64 / STEPS
    }
}

/// Zipf's law by rejection-inversion (Hörmann, Derflinger 1996): no table, constant time.
#[derive(Clone, Debug)]
struct Zipf {
    count: f64,
    exponent: f64,
    integral_at_one: f64,
    integral_at_count: f64,
    /// Distance to a rank within which it is taken without a further test.
    sure: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            count: count as f64,
            exponent,
            integral_at_one: 0.0,
            integral_at_count: 0.0,
            sure: 0.0,
        };
        zipf.integral_at_one = zipf.integral(1.5) - 1.0;
        zipf.integral_at_count = zipf.integral(zipf.count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let span = self.integral_at_one - self.integral_at_count;
            let u = self.integral_at_count + random.unit() * span;
            let x = self.inverse(u);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.sure || u >= self.integral(rank + 0.5) - self.weight(rank) {
                return to_rank(rank) - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// An integral of [`Zipf::weight`], written so that it is exact also near exponent 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        let factor = if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 };
        factor * log
    }

    /// The inverse of [`Zipf::integral`].
    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        let factor = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (factor * y).exp()
    }
}

/// A rank of at least 1 as a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the rank is a whole number from 1 to a count of keys"
)]
fn to_rank(rank: f64) -> u64 {
    rank as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(mut keys: Keys, count: usize, samples: u32) -> Vec<f64> {
        let mut seen = vec![0_u32; count];
        for _ in 0..samples {
            seen[usize::try_from(keys.next_number()).unwrap()] += 1;
        }
        seen.iter().map(|&n| f64::from(n) / f64::from(samples)).collect()
    }

    #[test]
    fn a_key_is_its_number_in_hexadecimal() {
        assert_eq!(&key_text(0), b"key:0000000000000000");
        assert_eq!(&key_text(0x1f), b"key:000000000000001f");
        assert_eq!(&key_text(u64::MAX), b"key:ffffffffffffffff");
    }

    #[test]
    fn uniform_keys_come_equally_often() {
        let frequencies = frequencies(Keys::uniform(10, 7), 10, 100_000);
        assert!(frequencies.iter().all(|f| (f - 0.1).abs() < 0.005), "{frequencies:?}");
    }

    #[test]
    fn zipf_keys_come_by_the_power_of_their_rank() {
        for exponent in [0.5, 0.99, 1.0, 2.0] {
            let weights: Vec<f64> = (1..=10).map(|n| f64::from(n).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            let frequencies = frequencies(Keys::zipf(10, exponent, 7), 10, 100_000);
            for (frequency, weight) in frequencies.iter().zip(&weights) {
                let expected = weight / total;
                assert!((frequency - expected).abs() < 0.01, "{exponent}: {frequencies:?}");
            }
        }
    }

    #[test]
    fn zipf_stays_below_the_count() {
        let mut keys = Keys::zipf(KEYS_MAX, 1.0, 1);
        assert!((0..100_000).all(|_| keys.next_number() < KEYS_MAX));
        let mut one = Keys::zipf(1, 1.0, 1);
        assert!((0..100).all(|_| one.next_number() == 0));
    }

    #[test]
    fn a_sequence_gives_every_key_and_begins_again() {
        let mut keys = Keys::sequence(5, 3);
        let numbers: Vec<u64> = (0..7).map(|_| keys.next_number()).collect();
        assert_eq!(numbers, [5, 6, 7, 5, 6, 7, 5]);
    }

    #[test]
    fn runs_give_each_key_several_times() {
        let mut keys = Keys::runs(7, 3);
        let numbers: Vec<u64> = (0..7).map(|_| keys.next_number()).collect();
        assert_eq!(numbers, [7, 7, 7, 8, 8, 8, 9]);
    }

    #[test]
    fn the_same_seed_gives_the_same_keys() {
        let take = |seed| {
            let mut keys = Keys::uniform(KEYS_MAX, seed);
            std::array::from_fn::<u64, 8, _>(|_| keys.next_number())
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }
}
