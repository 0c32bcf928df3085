//! Who may operate the node from elsewhere: whoever has the token of the file's `[admin]`.

use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Shortest token, in bytes: 16 random letters are more than anybody can try.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 256;

/// Permissions that let others than the owner read.
const READ_BY_OTHERS: u32 = 0o044;

/// The token that operators show.
pub struct Admin {
    token: Vec<u8>,
    /// Hashes what is compared, with secrets that never leave.
    hashers: [RandomState; 2],
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admin")
    }
}

impl Admin {
    /// Reads the token from `file`, which nobody but its owner and root may read. White space around it does
    /// not count.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do.
    pub fn load(file: &Path) -> Result<Self, AdminError> {
        let fail = |message: String| AdminError { file: file.to_owned(), message };
        let unreadable = |error: io::Error| fail(format!("cannot be read: {error}"));
        let opened = File::open(file).map_err(unreadable)?;
        let mode = opened.metadata().map_err(unreadable)?.mode() & 0o777;
        if mode & READ_BY_OTHERS != 0 {
            return Err(fail(format!(
                "may be read by others (mode 0o{mode:03o}); run `chmod 600` on it"
            )));
        }
        let bound = u64::try_from(TOKEN_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(2);
        let mut bytes = Vec::new();
        opened.take(bound).read_to_end(&mut bytes).map_err(unreadable)?;
        let token = bytes.trim_ascii();
        if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len()) {
            return Err(fail(format!(
                "does not have {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} bytes; write a random one, \
                 as `openssl rand -hex 16` makes it"
            )));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(fail("has other characters than printable ASCII without spaces".into()));
        }
        Ok(Self::new(token))
    }

    fn new(token: &[u8]) -> Self {
        Self { token: token.to_vec(), hashers: [RandomState::new(), RandomState::new()] }
    }

    /// Whether `token` is the one. How long it takes tells nothing of how much of it is right: what is
    /// compared are keyed hashes.
    pub fn allows(&self, token: &[u8]) -> bool {
        let differs = |hasher: &RandomState| hasher.hash_one(token) ^ hasher.hash_one(&*self.token);
        self.hashers.iter().fold(0, |all, hasher| all | differs(hasher)) == 0
    }
}

/// Why there is no token.
#[derive(Debug)]
pub struct AdminError {
    file: PathBuf,
    message: String,
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the token file `{}` {}", self.file.display(), self.message)
    }
}

impl std::error::Error for AdminError {}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn load(content: &str, mode: u32) -> Result<Admin, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        fs::write(&file, content).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("set");
        Admin::load(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let admin = load(" 0123456789abcdef\n", 0o600).expect("a token");
        assert!(admin.allows(b"0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdef\n", "0123456789abcdeg"] {
            assert!(!admin.allows(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_token_that_others_may_read_or_guess_is_refused() {
        for mode in [0o644, 0o640, 0o604] {
            let error = load("0123456789abcdef", mode).expect_err("others may read it");
            assert!(error.contains("chmod 600"), "{error}");
        }
        for content in ["", "short", &"x".repeat(257), &"x".repeat(5_000)] {
            let error = load(content, 0o600).expect_err("no token");
            assert!(error.contains("16 to 256 bytes"), "{error}");
        }
        let error = load("0123456789 abcdef", 0o600).expect_err("a space");
        assert!(error.contains("printable ASCII"), "{error}");
    }

    #[test]
    fn the_token_is_not_printed() {
        let admin = load("0123456789abcdef", 0o600).expect("a token");
        assert!(!format!("{admin:?}").contains("0123"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Admin::load(Path::new("/nonexistent/token")).expect_err("no file").to_string();
        assert!(error.contains("`/nonexistent/token` cannot be read"), "{error}");
    }
}
