//! Seeing that the file has changed: in place, by a rename onto it, or by a link that points elsewhere.
//!
//! It looks at what the path leads to, twice a second. That is right wherever a file can lie, also on file
//! systems that tell nobody of a change, and a small file costs nothing to look at.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::clock;
use crate::config::FILE_BYTES_MAX;

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
enum Seen {
    /// It holds what hashes to this.
    Content(u64),
    /// It cannot be read.
    Nothing,
}

/// Sees changes of one file.
#[derive(Debug)]
pub struct Watcher {
    stamp: Option<Stamp>,
    is_settled: bool,
    last: Seen,
    /// What was last told, or held at the start.
    told: Seen,
}

impl Watcher {
    /// A watcher of `file`, which was read a moment ago.
    pub fn new(file: &Path) -> Self {
        let last = seen(file);
        Self { stamp: None, is_settled: false, last, told: last }
    }

    /// Whether the file is another than at the last change that was told, and stays so.
    pub fn has_changed(&mut self, file: &Path) -> bool {
        let stamp = stamp(file);
        if stamp.is_none() || stamp != self.stamp || !self.is_settled {
            self.is_settled = stamp.is_some_and(is_settled);
            self.stamp = stamp;
            let now = seen(file);
            if now != self.last {
                self.last = now;
                return false;
            }
        }
        // The second look at it.
        std::mem::replace(&mut self.told, self.last) != self.last
    }

    /// Takes what is there now for told: it was read for another reason.
    pub fn forgive(&mut self, file: &Path) {
        self.last = seen(file);
        self.told = self.last;
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
    let bound = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    match File::open(file).and_then(|file| file.take(bound).read_to_end(&mut bytes)) {
        Ok(_) => {
            let mut hasher = DefaultHasher::new();
            hasher.write(&bytes);
            Seen::Content(hasher.finish())
        }
        Err(_) => Seen::Nothing,
    }
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

    #[test]
    fn a_change_is_told_once_when_it_was_seen_twice() {
        let place = Place::new();
        place.write("f", "one");
        let file = place.path("f");
        let mut watcher = Watcher::new(&file);
        assert!(!watcher.has_changed(&file) && !watcher.has_changed(&file));
        place.write("f", "two");
        assert!(!watcher.has_changed(&file), "it may be half written");
        assert!(watcher.has_changed(&file));
        assert!(!watcher.has_changed(&file), "once");
        place.write("f", "half");
        assert!(!watcher.has_changed(&file));
        place.write("f", "half and half");
        assert!(!watcher.has_changed(&file), "it goes on being written");
        assert!(watcher.has_changed(&file));
        place.write("f", "half and half");
        assert!(!watcher.has_changed(&file) && !watcher.has_changed(&file), "the same content");
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
        let told = |watcher: &mut Watcher| {
            (0..3).filter(|_| watcher.has_changed(&place.path("f"))).count()
        };
        assert_eq!(told(&mut watcher), 0);
        for target in ["b", "a", "b"] {
            symlink(target, place.path("new")).expect("a link");
            fs::rename(place.path("new"), place.path("data")).expect("swapped");
            assert_eq!(told(&mut watcher), 1, "{target}");
        }
        for text in ["three", "four", "five"] {
            place.write("new", text);
            fs::rename(place.path("new"), place.path("f")).expect("replaced");
            assert_eq!(told(&mut watcher), 1, "{text}");
        }
    }

    #[test]
    fn a_file_that_goes_and_comes_is_two_changes() {
        let place = Place::new();
        place.write("f", "one");
        let file = place.path("f");
        let mut watcher = Watcher::new(&file);
        fs::remove_file(&file).expect("removed");
        assert_eq!((0..5).filter(|_| watcher.has_changed(&file)).count(), 1);
        place.write("f", "one");
        assert_eq!((0..5).filter(|_| watcher.has_changed(&file)).count(), 1);
        place.write("f", "two");
        watcher.forgive(&file);
        assert_eq!((0..5).filter(|_| watcher.has_changed(&file)).count(), 0);
    }
}
