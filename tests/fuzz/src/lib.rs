//! What all fuzz targets share. A target is one file in `src/bin`: `#![no_main]`, and
//! [`fuzz_target!`] with a closure that panics where the property does not hold.
//!
//! `scripts/fuzz.sh` finds, builds and runs the targets; their seeds lie in `corpus/TARGET`, those
//! of the frame written by `examples/seed_corpus.rs`.

pub use libfuzzer_sys::fuzz_target;

/// The bytes of an input, handed out in pieces of the target's choosing. When they are used up,
/// every number is 0, so that each input means something.
#[derive(Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// An input that nothing was taken from.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything was taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.rest {
            [first, rest @ ..] => {
                self.rest = rest;
                *first
            }
            [] => 0,
        }
    }

    /// The next bytes, as many as a leading byte says but no more than there are.
    pub fn short_bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    /// Everything that is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}
