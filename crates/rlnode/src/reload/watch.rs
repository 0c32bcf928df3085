//! Seeing that the file has changed: in place, by a rename onto it, or by a link that points elsewhere.
//!
//! It looks at what the path leads to, twice a second. That is right wherever a file can lie, also on file
//! systems that tell nobody of a change, and a small file costs nothing to look at.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::clock;
use crate::config;

/// How often the file is looked at. A change is taken when two looks have seen the same of it: who writes
/// in place, and pauses for less than this, is never met half way.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A file that was written so lately, in seconds, may be written again without its time showing it.
const SETTLES_AFTER_S: i64 = 2;

/// What the file system says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed_s: i64,
    changed_ns: i64,
    created_s: i64,
    created_ns: i64,
}

/// What was seen of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It holds what hashes to this.
    Content(u64),
    /// It cannot be read.
    Nothing,
}

/// Looks at one file again and again.
#[derive(Debug)]
pub struct Watcher {
    stamp: Option<Stamp>,
    is_settled: bool,
    last: Seen,
}

impl Watcher {
    /// A watcher of `file`, which is about to be read.
    pub fn new(file: &Path) -> Self {
        Self { stamp: None, is_settled: false, last: seen(file) }
    }

    /// What was seen last.
    pub fn last(&self) -> Seen {
        self.last
    }

    /// Looks at the file; gives what it is, unless the look before saw something else.
    pub fn look(&mut self, file: &Path) -> Option<Seen> {
        let stamp = stamp(file);
        if stamp.is_none() || stamp != self.stamp || !self.is_settled {
            self.is_settled = stamp.is_some_and(is_settled);
            self.stamp = stamp;
            let before = std::mem::replace(&mut self.last, seen(file));
            return (before == self.last).then_some(self.last);
        }
        Some(self.last)
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(file).ok()?;
    Some(Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        changed_s: metadata.mtime(),
        changed_ns: metadata.mtime_nsec(),
        created_s: metadata.ctime(),
        created_ns: metadata.ctime_nsec(),
    })
}

fn is_settled(stamp: Stamp) -> bool {
    clock::unix_s().saturating_sub(stamp.changed_s.max(stamp.created_s)) > SETTLES_AFTER_S
}

fn seen(file: &Path) -> Seen {
    look(config::read(file).ok().as_deref())
}

/// What is seen in a file of these bytes; none: it cannot be read.
pub(super) fn look(bytes: Option<&[u8]>) -> Seen {
    bytes.map_or(Seen::Nothing, |bytes| {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Seen::Content(hasher.finish())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().expect("a folder") }
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).expect("written");
        }
    }

    /// Which of some looks saw something settled that is not `known`, which it then is.
    fn changes<const N: usize>(watcher: &mut Watcher, file: &Path, known: &mut Seen) -> [bool; N] {
        std::array::from_fn(|_| match watcher.look(file) {
            Some(seen) if seen != *known => {
                *known = seen;
                true
            }
            _ => false,
        })
    }

    #[test]
    fn a_change_is_taken_when_it_was_seen_twice() {
        let place = Place::new();
        place.write("f", "one");
        let file = place.path("f");
        let mut watcher = Watcher::new(&file);
        let mut known = watcher.last();
        assert_eq!(changes(&mut watcher, &file, &mut known), [false, false]);
        place.write("f", "two");
        assert_eq!(changes(&mut watcher, &file, &mut known), [false, true, false]);
        place.write("f", "half");
        assert_eq!(changes(&mut watcher, &file, &mut known), [false]);
        place.write("f", "half and half");
        assert_eq!(changes(&mut watcher, &file, &mut known), [false, true, false]);
        place.write("f", "half and half");
        assert_eq!(changes(&mut watcher, &file, &mut known), [false; 3], "the same content");
    }

    #[test]
    fn what_changed_while_the_file_was_first_read_is_seen() {
        let place = Place::new();
        place.write("f", "one");
        let file = place.path("f");
        let mut watcher = Watcher::new(&file);
        let mut known = watcher.last();
        place.write("f", "two");
        assert_eq!(changes(&mut watcher, &file, &mut known), [false, true]);
    }

    #[test]
    fn renames_and_links_are_changes() {
        let place = Place::new();
        place.write("a", "one");
        place.write("b", "two");
        symlink("a", place.path("data")).expect("a link");
        symlink("data", place.path("f")).expect("a link");
        let file = place.path("f");
        let mut watcher = Watcher::new(&file);
        let mut known = watcher.last();
        for target in ["b", "a", "b"] {
            symlink(target, place.path("new")).expect("a link");
            fs::rename(place.path("new"), place.path("data")).expect("swapped");
            assert_eq!(changes(&mut watcher, &file, &mut known), [false, true, false], "{target}");
        }
        for text in ["three", "four", "five"] {
            place.write("new", text);
            fs::rename(place.path("new"), place.path("f")).expect("replaced");
            assert_eq!(changes(&mut watcher, &file, &mut known), [false, true, false], "{text}");
        }
    }

    #[test]
    fn a_file_that_goes_and_comes_is_two_changes() {
        let place = Place::new();
        place.write("f", "one");
        let file = place.path("f");
        let mut watcher = Watcher::new(&file);
        let mut known = watcher.last();
        fs::remove_file(&file).expect("removed");
        assert_eq!(changes(&mut watcher, &file, &mut known), [false, true, false]);
        assert_eq!(known, Seen::Nothing);
        place.write("f", "one");
        assert_eq!(changes(&mut watcher, &file, &mut known), [false, true, false]);
    }
}
