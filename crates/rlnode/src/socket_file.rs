//! Socket files: made with their final mode and group, never stolen from a live owner, and removed
//! only while they are still ours. It binds and unlinks; it does not serve.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use socket2::{Domain, SockAddr, Socket, Type};

/// Connections of a listening socket that may wait to be accepted. The kernel cuts it at
/// `net.core.somaxconn`.
pub const BACKLOG: i32 = 1024;
/// How often taking the lock is tried again because its file was removed in between. Each try means
/// that another process finished a start or a failed one just then.
const LOCK_TRIES: usize = 16;

/// Who may use a socket file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Permission bits of the file, such as 0o660.
    pub mode: u32,
    /// Group of the file; none: the process's own.
    pub group_id: Option<u32>,
}

/// A socket file that this process made. Dropping it removes the file if it is still this one.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds a listening socket of `kind` at `path`, for the holder of the path's lock.
    ///
    /// The file appears at `path` with its mode and group already set: it is bound in a private
    /// directory beside it and then linked into place, so that nobody can connect in between.
    ///
    /// # Errors
    /// If something that is not a dead socket of this user is at `path`, or the system refuses.
    /// Whatever was there is left alone then.
    pub fn bind(
        path: &Path,
        kind: Type,
        access: Access,
        _lock: &PathLock,
    ) -> Result<(Socket, Self), SocketFileError> {
        let fail = |fault| SocketFileError { path: path.to_owned(), fault };
        remove_stale(path).map_err(fail)?;
        let nursery = Nursery::beside(path).map_err(|error| fail(error.into()))?;
        let socket = nursery.bind(kind, access).map_err(|error| fail(error.into()))?;
        // Unlike a rename, a link never replaces what appeared at `path` in the meantime.
        fs::hard_link(nursery.socket_path(), path).map_err(|error| fail(error.into()))?;
        let identity = fs::symlink_metadata(nursery.socket_path())
            .map(|metadata| identity(&metadata))
            .map_err(|error| fail(error.into()))?;
        Ok((socket, Self { path: path.to_owned(), identity }))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "socket file was not removed");
        }
    }
}

/// The right to bind at a path and its neighbours, held by one process at a time. It is held only
/// while binding: afterwards a live socket speaks for itself.
#[derive(Debug)]
pub struct PathLock {
    path: PathBuf,
    /// Closing it gives the lock up.
    _file: File,
}

impl PathLock {
    /// Takes the lock of the socket `path`: the file beside it whose name ends in `.lock`.
    ///
    /// # Errors
    /// If another process holds it, or the file cannot be made.
    pub fn take(path: &Path) -> Result<Self, SocketFileError> {
        let fail = |fault| SocketFileError { path: path.to_owned(), fault };
        let lock_path = with_suffix(path, ".lock");
        for _ in 0..LOCK_TRIES {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
                .open(&lock_path)
                .map_err(|error| fail(error.into()))?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(fail(Fault::Starting)),
                Err(error) => return Err(fail(io::Error::from(error).into())),
            }
            // The last holder removes the file: a lock on a removed file protects nothing.
            let held = file.metadata().map_err(|error| fail(error.into()))?;
            let is_current =
                fs::symlink_metadata(&lock_path).is_ok_and(|found| same(&found, &held));
            if is_current {
                return Ok(Self { path: lock_path, _file: file });
            }
        }
        Err(fail(Fault::Starting))
    }
}

impl Drop for PathLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "lock file was not removed");
        }
    }
}

/// Why no socket file was made. Nothing was changed.
#[derive(Debug)]
pub struct SocketFileError {
    path: PathBuf,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    Live,
    Starting,
    NotASocket(&'static str),
    Owner { owner_id: u32, user_id: u32 },
    System(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for SocketFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.fault {
            Fault::Live => write!(
                f,
                "`{path}` is in use: a process is listening there; stop it, or set `unix` in \
                 [listen] to another path"
            ),
            Fault::Starting => write!(
                f,
                "`{path}` is in use: another process is starting there; stop one of the two, or \
                 set `unix` in [listen] to another path"
            ),
            Fault::NotASocket(what) => write!(
                f,
                "`{path}` is a {what}, not a socket, and was left alone; move it, or set `unix` \
                 in [listen] to another path"
            ),
            Fault::Owner { owner_id, user_id } => write!(
                f,
                "`{path}` belongs to user {owner_id}, but this process runs as user {user_id}; \
                 run as that user, or remove it"
            ),
            Fault::System(error) if error.kind() == ErrorKind::NotFound => write!(
                f,
                "`{path}` cannot be made: its directory does not exist; create it, or set `unix` \
                 in [listen] to another path"
            ),
            Fault::System(error) if error.kind() == ErrorKind::PermissionDenied => write!(
                f,
                "`{path}` cannot be made: {error}; let this user write to its directory and be in \
                 the group of `unix_group`, or set `unix` in [listen] to another path"
            ),
            Fault::System(error) => write!(
                f,
                "`{path}` cannot be made: {error}; set `unix` in [listen] to another path"
            ),
        }
    }
}

impl std::error::Error for SocketFileError {}

/// `path` with `suffix` appended to its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(suffix);
    longer.into()
}

/// A private directory beside a socket's path, in which the socket is made.
struct Nursery {
    directory: PathBuf,
}

impl Nursery {
    fn beside(path: &Path) -> io::Result<Self> {
        let name = format!(".rl{}", std::process::id());
        let directory = path.parent().unwrap_or(Path::new("")).join(name);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    fn socket_path(&self) -> PathBuf {
        self.directory.join("s")
    }

    fn bind(&self, kind: Type, access: Access) -> io::Result<Socket> {
        let path = self.socket_path();
        let socket = Socket::new(Domain::UNIX, kind, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::unix(&path)?)?;
        if let Some(group_id) = access.group_id {
            std::os::unix::fs::lchown(&path, None, Some(group_id))?;
        }
        fs::set_permissions(&path, Permissions::from_mode(access.mode))?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        // What is left is private and empty; the next start of this process id removes it.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Removes a socket file that nobody listens at. Anything else at `path` is refused.
fn remove_stale(path: &Path) -> Result<(), Fault> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let kind = found.file_type();
    if !kind.is_socket() {
        return Err(Fault::NotASocket(if kind.is_dir() {
            "directory"
        } else if kind.is_symlink() {
            "symbolic link"
        } else {
            "file"
        }));
    }
    let user_id = rustix::process::geteuid().as_raw();
    if found.uid() != user_id {
        return Err(Fault::Owner { owner_id: found.uid(), user_id });
    }
    if is_live(path)? {
        return Err(Fault::Live);
    }
    fs::remove_file(path)?;
    Ok(())
}

/// Whether a process listens at the socket file `path`. Only a refused connection proves that none
/// does.
fn is_live(path: &Path) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        _ => Ok(true),
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    identity(one) == identity(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCESS: Access = Access { mode: 0o660, group_id: None };

    fn bind(path: &Path) -> Result<(Socket, SocketFile), SocketFileError> {
        let lock = PathLock::take(path)?;
        SocketFile::bind(path, Type::STREAM, ACCESS, &lock)
    }

    fn refusal(path: &Path) -> String {
        bind(path).expect_err("the path is taken").to_string()
    }

    #[test]
    fn makes_a_socket_with_its_mode_and_leaves_nothing_behind_when_dropped() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("n.sock");
        let (_socket, file) = bind(&path).expect("a free path");
        assert_eq!(file.path(), path);
        let metadata = fs::symlink_metadata(&path).expect("a socket file");
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.mode() & 0o777, 0o660);
        assert!(is_live(&path).expect("a probe"));
        assert_eq!(fs::read_dir(directory.path()).expect("a listing").count(), 1);
        drop(file);
        assert_eq!(fs::read_dir(directory.path()).expect("a listing").count(), 0);
    }

    #[test]
    fn takes_over_the_file_of_a_process_that_died() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("n.sock");
        let (socket, file) = bind(&path).expect("a free path");
        // A killed process closes its socket and removes nothing.
        std::mem::forget(file);
        drop(socket);
        let (_socket, _file) = bind(&path).expect("a dead socket is no obstacle");
        assert!(is_live(&path).expect("a probe"));
    }

    #[test]
    fn refuses_a_live_socket_of_either_kind_and_leaves_it_alive() {
        let directory = tempfile::tempdir().expect("a directory");
        for kind in [Type::STREAM, Type::SEQPACKET] {
            let path = directory.path().join("n.sock");
            let lock = PathLock::take(&path).expect("a free lock");
            let (_socket, _file) =
                SocketFile::bind(&path, kind, ACCESS, &lock).expect("a free path");
            drop(lock);
            assert!(refusal(&path).contains("a process is listening there"));
            assert!(is_live(&path).expect("a probe"));
        }
    }

    #[test]
    fn refuses_files_directories_and_links_and_leaves_them_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        fs::write(&file, "precious").expect("a file");
        assert!(refusal(&file).contains("is a file, not a socket"));
        assert_eq!(fs::read(&file).expect("a file"), b"precious");

        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert!(refusal(&link).contains("is a symbolic link"));
        assert!(link.is_symlink());

        let inner = directory.path().join("directory");
        fs::create_dir(&inner).expect("a directory");
        assert!(refusal(&inner).contains("is a directory"));
        assert!(inner.is_dir());
    }

    #[test]
    fn leaves_a_file_that_replaced_ours() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("n.sock");
        let (old_socket, old_file) = bind(&path).expect("a free path");
        fs::remove_file(&path).expect("removed by hand");
        let (_new_socket, _new_file) = bind(&path).expect("a free path");
        drop((old_socket, old_file));
        assert!(is_live(&path).expect("a probe"));
    }

    #[test]
    fn of_two_that_start_at_once_one_gets_the_lock() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("n.sock");
        let lock = PathLock::take(&path).expect("a free lock");
        let refusal = PathLock::take(&path).expect_err("a held lock").to_string();
        assert!(refusal.contains("another process is starting there"));
        drop(lock);
        assert!(PathLock::take(&path).is_ok());
        assert!(!with_suffix(&path, ".lock").exists());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("missing/n.sock");
        assert!(refusal(&path).contains("its directory does not exist"));
    }
}
