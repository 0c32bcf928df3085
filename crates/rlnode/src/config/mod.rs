//! The configuration file: read, checked and compiled, or refused with line and caret.
//!
//! A file passes three stages: *written* (names and typed values with their places), *checked*
//! (what they mean, and whether they fit together) and *compiled* (the limiter's plan). A
//! [`Config`] has passed all three, so that it can be put in force as it is. Nothing here opens a
//! socket, reads a clock or reads the environment, and [`read`] alone touches the disk.

mod accuracy;
mod admin;
mod audit;
mod checked;
mod cluster;
mod envoy;
mod error;
mod exception;
mod explain;
mod found;
mod headers;
mod limits;
mod listen;
mod lists;
mod quota;
mod settings;
#[cfg(test)]
mod tests;
mod value;
mod warnings;
mod window;
mod written;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub use accuracy::Measured;
pub use checked::{
    Config, DEFAULT_MEMORY_BYTES, ENTRIES_MAX, MEMORY_BYTES_MAX, MEMORY_BYTES_MIN, Memory, parse,
};
pub use cluster::{
    Cluster, DEFAULT_FORGET_AFTER_NS, DEFAULT_SYNC_INTERVAL_NS, FORGET_AFTER_NS_MAX,
    FORGET_AFTER_NS_MIN, MEMBERS_MAX, SYNC_INTERVAL_NS_MAX, SYNC_INTERVAL_NS_MIN, Tls,
};
pub use error::{ConfigError, ConfigErrors, ERRORS_MAX};
pub use exception::{Exception, exception_in_words, parse_time};
pub use explain::{UnknownLimit, explain, explain_measured};
pub use limits::LimitSettings;
pub use listen::{
    ADDRESSES_MAX, DEFAULT_HTTP, DEFAULT_UDP, DEFAULT_UNIX_MODE, Listen, Node, UnixSocket,
};
pub use value::{NODE_NAME_BYTES_MAX, is_node_name, parse_rate, show_rate};

/// Largest configuration file, in bytes: tens of thousands of limits, and small enough that a log
/// given by mistake is refused before it is read whole.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// Reads the configuration file `file` as the host `node`.
///
/// # Errors
/// The file cannot be read, is larger than [`FILE_BYTES_MAX`], or has faults; see [`parse`].
pub fn load(file: &Path, node: &Node) -> Result<Config, ConfigErrors> {
    parse(&read(file)?, file, node)
}

/// The bytes of the configuration file `file`, for [`parse`]. The one place that reads it.
///
/// # Errors
/// It cannot be read.
pub fn read(file: &Path) -> Result<Vec<u8>, ConfigErrors> {
    read_bounded(file).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file; write one, or name another".into(),
            io::ErrorKind::PermissionDenied => {
                "the file may not be read by the user that runs rlnode; change its permissions"
                    .into()
            }
            io::ErrorKind::IsADirectory => {
                "this is a folder; name the file in it, such as `cluster.toml`".into()
            }
            _ => format!("the file cannot be read: {error}"),
        };
        ConfigErrors::about_file(file, why)
    })
}

/// At most one byte more than [`FILE_BYTES_MAX`], by which [`parse`] knows a larger file.
fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let bound = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(file)?.take(bound).read_to_end(&mut bytes)?;
    Ok(bytes)
}
