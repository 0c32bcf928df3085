//! The fingerprint of a run: two runs with the same one did the same things in the same order.

use crate::dice::mixed;

/// A fingerprint in the making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    hash: u64,
    events: u64,
}

impl Trace {
    /// Notes one event by what identifies it.
    pub fn note(&mut self, words: &[u64]) {
        self.events += 1;
        for word in words {
            self.hash = mixed(self.hash.wrapping_mul(0x100_0000_01b3) ^ word);
        }
    }

    /// The fingerprint.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Events noted.
    pub fn events(&self) -> u64 {
        self.events
    }
}

/// What stands for `bytes` in a trace.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_events_matters() {
        let traced = |events: &[u64]| {
            let mut trace = Trace::default();
            events.iter().for_each(|event| trace.note(&[*event]));
            trace
        };
        assert_eq!(traced(&[1, 2, 3]), traced(&[1, 2, 3]));
        assert_ne!(traced(&[1, 2, 3]).hash(), traced(&[1, 3, 2]).hash());
        assert_eq!(traced(&[1, 2]).events(), 2);
        assert_ne!(digest(b"ab"), digest(b"ba"));
    }
}
