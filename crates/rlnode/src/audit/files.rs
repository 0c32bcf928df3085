//! The files of one node's audit in its folder: their names, their number, and the bound on their bytes.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::block::MAGIC;
use super::record::Removed;

/// What the names of audit files end with.
pub const EXTENSION: &str = "rlaudit";
/// Files that share the bound on bytes: when it is met, an eighth of the records goes.
const FILES: u64 = 8;
/// Only the node's user may read what callers do.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Whose files they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The node's name.
    pub node: String,
    /// Unix time of the start in seconds, so that names sort by age.
    pub started_s: u64,
    /// Random number of the start.
    pub life: u64,
}

/// A closed file.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    bytes: u64,
    removed: Removed,
}

/// The files of a node.
#[derive(Debug)]
pub struct Files {
    dir: PathBuf,
    owner: Owner,
    max_bytes: u64,
    /// Oldest first.
    kept: VecDeque<Kept>,
    last: u64,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    kept: Kept,
    has_blocks: bool,
}

impl Files {
    /// The files in `dir`, which is made if it is not there, with those that earlier lives left.
    ///
    /// # Errors
    /// The folder cannot be made or listed.
    pub fn new(dir: &Path, owner: Owner, max_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(dir)?;
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str()
                && let Some((node, removed)) = parse_name(name)
                && node == owner.node
            {
                let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                names.push((name.to_owned(), Kept { path: entry.path(), bytes, removed }));
            }
        }
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        let kept = names.into_iter().map(|(_, kept)| kept).collect();
        Ok(Self { dir: dir.to_owned(), owner, max_bytes, kept, last: 0, open: None })
    }

    /// Whether a block can be written to the file that is open now.
    pub fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.kept.bytes < self.file_bytes())
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |open| open.kept.bytes);
        self.kept.iter().map(|kept| kept.bytes).sum::<u64>().saturating_add(open)
    }

    /// Closes the file that is open, and opens the next. Removes the oldest first, until there is room
    /// for it. Gives its number and what was removed.
    ///
    /// # Errors
    /// The system's. A file may have been removed; none is open.
    pub fn open_next(&mut self) -> io::Result<(u64, Vec<Removed>)> {
        self.close();
        let mut removed = Vec::new();
        while self.bytes().saturating_add(self.file_bytes()) > self.max_bytes
            && let Some(oldest) = self.kept.front()
        {
            match fs::remove_file(&oldest.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => removed.push(oldest.removed),
            }
            self.kept.pop_front();
        }
        let file = self.last + 1;
        let path = self.dir.join(file_name(&self.owner, file));
        let mut opened =
            OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&path)?;
        // From here on its name is taken, whatever comes.
        self.last = file;
        let removed_later = Removed { life: self.owner.life, file };
        let written = opened.write_all(&MAGIC);
        let kept = Kept { path, bytes: MAGIC.len() as u64, removed: removed_later };
        self.open = Some(Open { file: opened, kept, has_blocks: false });
        written.inspect_err(|_| self.close())?;
        Ok((file, removed))
    }

    /// Writes a block to the file that is open.
    ///
    /// # Errors
    /// The system's, or that none is open. The file is closed then: a part of the block may be in it,
    /// and nothing could be read behind that.
    pub fn write(&mut self, block: &[u8]) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
        if let Err(error) = open.file.write_all(block) {
            // If that fails too, whoever reads it finds where the part begins.
            let _ = open.file.set_len(open.kept.bytes);
            self.close();
            return Err(error);
        }
        open.kept.bytes = open.kept.bytes.saturating_add(block.len() as u64);
        open.has_blocks = true;
        Ok(())
    }

    /// Closes the file that is open. One without a block says nothing, and is not left behind: on a full
    /// disk there would be another each second.
    fn close(&mut self) {
        if let Some(Open { file, mut kept, has_blocks }) = self.open.take() {
            kept.bytes = file.metadata().map_or(kept.bytes, |metadata| metadata.len());
            if has_blocks || fs::remove_file(&kept.path).is_err() {
                self.kept.push_back(kept);
            }
        }
    }

    /// Bytes after which a file is closed. The last block may take it a little further.
    fn file_bytes(&self) -> u64 {
        self.max_bytes / FILES
    }
}

/// `NODE.STARTED-LIFE-NUMBER.rlaudit`: a node's names sort by age.
fn file_name(owner: &Owner, file: u64) -> String {
    let Owner { node, started_s, life } = owner;
    format!("{node}.{started_s:010}-{life:016x}-{file:08}.{EXTENSION}")
}

fn parse_name(name: &str) -> Option<(&str, Removed)> {
    let stem = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    let (node, numbers) = stem.rsplit_once('.')?;
    let mut numbers = numbers.split('-');
    let _started_s: u64 = numbers.next()?.parse().ok()?;
    let life = u64::from_str_radix(numbers.next()?, 16).ok()?;
    let file = numbers.next()?.parse().ok()?;
    numbers.next().is_none().then_some((node, Removed { life, file }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn owner(node: &str, started_s: u64) -> Owner {
        Owner { node: node.to_owned(), started_s, life: 7 + started_s }
    }

    #[test]
    fn names_are_read_back_whatever_the_node_is_called() {
        for node in ["a", "edge-1", "a.b-3.rlaudit", "10.0.0.1"] {
            let name = file_name(&owner(node, 9), 12);
            assert_eq!(parse_name(&name), Some((node, Removed { life: 16, file: 12 })), "{name}");
        }
        for name in
            ["a.rlaudit", "a.1-2.rlaudit", "a.1-2-3.txt", "1-2-3.rlaudit", "a.1-x-3.rlaudit"]
        {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }

    #[test]
    fn only_the_user_may_read_what_is_made() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("new/audit");
        let mut files = Files::new(&dir, owner("a", 1), 1 << 20).unwrap();
        files.open_next().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&dir.join(file_name(&owner("a", 1), 1))), 0o600);
    }

    #[test]
    fn the_oldest_of_the_node_go_when_the_bound_is_met_and_nobody_elses() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path();
        let fill = |node: &str, started_s: u64, count: usize| {
            let mut files = Files::new(dir, owner(node, started_s), 8_000).unwrap();
            let mut removed = Vec::new();
            for _ in 0..count {
                removed.extend(files.open_next().unwrap().1);
                files.write(&[0; 992]).unwrap();
                assert!(!files.is_open() && files.bytes() <= 8_000, "{}", files.bytes());
            }
            removed
        };
        assert_eq!(fill("b", 1, 8), []);
        assert_eq!(fill("a", 1, 6), []);
        let oldest = [Removed { life: 8, file: 1 }, Removed { life: 8, file: 2 }];
        assert_eq!(fill("a", 2, 4), oldest);
        assert_eq!(fs::read_dir(dir).unwrap().count(), 16);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_closed_and_the_next_has_another_name() {
        let place = tempfile::tempdir().unwrap();
        let mut files = Files::new(place.path(), owner("a", 1), 1 << 20).unwrap();
        assert!(files.write(b"x").is_err());
        assert_eq!(files.open_next().unwrap().0, 1);
        files.write(b"x").unwrap();
        for file in 2..5 {
            assert_eq!(files.open_next().unwrap().0, file);
        }
        // Those without a block are not left behind.
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
        fs::remove_dir_all(place.path()).unwrap();
        assert!(files.open_next().is_err());
        assert!(!files.is_open());
    }
}
