//! Throw-away certificates: in memory, and in a private folder only while a node reads them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use member::tls::TlsFiles;

use super::DemoError;
use super::words::node_name;
use crate::certificate::{Authority, Files, SECRET_BYTES, new_authority};
use crate::{clock, environment};

/// A demo does not last longer.
const DAYS: u32 = 2;
/// Folders of this process that may be left by an earlier one of its number: tried one after the other.
const FOLDERS_MAX: u32 = 100;

/// What every node needs to prove who it is.
#[derive(Debug)]
pub(super) struct Papers {
    authority: String,
    nodes: Vec<Files>,
}

impl Papers {
    /// An authority, and a certificate for each of `members` nodes.
    ///
    /// # Errors
    /// The system gives no random numbers, or a certificate cannot be made.
    pub(super) fn new(members: usize) -> Result<Self, DemoError> {
        let mut secret = [0; SECRET_BYTES];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| DemoError::System("random numbers", error.into()))?;
        let now_s = clock::unix_s();
        let files = new_authority(now_s, secret).map_err(DemoError::Certificate)?;
        let authority =
            Authority::read(&files.certificate, &files.key).map_err(DemoError::Certificate)?;
        let nodes: Result<_, _> =
            (0..members).map(|index| authority.issue(&node_name(index), now_s, DAYS)).collect();
        Ok(Self { authority: files.certificate, nodes: nodes.map_err(DemoError::Certificate)? })
    }

    /// Lays out the files of the node `index`; they are gone when what is given back is dropped.
    ///
    /// # Errors
    /// The folder for temporary files takes none.
    pub(super) fn lay_out(&self, index: usize) -> Result<LaidOut, DemoError> {
        let folder = Folder::new().map_err(|error| DemoError::System("a private folder", error))?;
        let write = |name: &str, text: &str| {
            let path = folder.0.join(name);
            write_private(&path, text).map(|()| path)
        };
        let files = &self.nodes[index];
        let written = (|| {
            Ok(TlsFiles {
                ca: write("ca.pem", &self.authority)?,
                cert: write("node.pem", &files.certificate)?,
                key: write("node.key", &files.key)?,
                secret: None,
            })
        })();
        let files = written.map_err(|error| DemoError::System("a temporary file", error))?;
        Ok(LaidOut { files, _folder: folder })
    }
}

/// Files that a node can read. Dropping it removes them.
#[derive(Debug)]
pub(super) struct LaidOut {
    /// Where they are.
    pub(super) files: TlsFiles,
    _folder: Folder,
}

/// A folder that only this user can enter, removed with all that is in it when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let temporary = environment::of_process().temporary_directory;
        let mut result = Err(io::Error::from(io::ErrorKind::AlreadyExists));
        for _ in 0..FOLDERS_MAX {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = temporary.join(format!("rlnode-demo-{}-{number}", std::process::id()));
            result = DirBuilder::new().mode(0o700).create(&path).map(|()| Self(path));
            let is_taken =
                result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists);
            if !is_taken {
                break;
            }
        }
        result
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_private_and_gone_when_they_were_read() {
        let papers = Papers::new(2).expect("papers");
        let laid_out = papers.lay_out(1).expect("files");
        let folder = laid_out.files.key.parent().expect("a folder").to_owned();
        let mode =
            |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&laid_out.files.key)), (0o700, 0o600));
        let credentials = member::tls::Credentials::load(&laid_out.files).expect("good papers");
        assert_eq!(credentials.identity(), &member::tls::Identity::Named("b".to_owned()));
        drop(laid_out);
        assert!(!folder.exists());
    }
}
