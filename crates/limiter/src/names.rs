//! The names of limits, kept for as long as the limiter lives: an answer names a limit although that may no
//! longer be in force when the answer is read.

use hashbrown::HashMap;
use parking_lot::Mutex;

/// Most names that are kept. Only a change of the limits brings new ones, at most some thousands at a time.
const NAMES_MAX: usize = 1_000_000;

/// Names, each once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    list: boxcar::Vec<Box<str>>,
    places: Mutex<HashMap<Box<str>, usize>>,
}

impl Names {
    /// The place of `name`, which is kept from now on; none: there is no room for another.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        let mut places = self.places.lock();
        if let Some(place) = places.get(name) {
            return Some(*place);
        }
        if places.len() >= NAMES_MAX {
            return None;
        }
        let place = self.list.push(name.into());
        places.insert(name.into(), place);
        Some(place)
    }

    /// The name at `place`.
    pub(crate) fn get(&self, place: usize) -> &str {
        self.list.get(place).map_or("", |name| name)
    }
}
