//! The one place that reads environment variables and asks the system who and where it is.

use std::ffi::OsString;

/// Names the node, after `--node`.
pub const NODE: &str = "RLNODE_NODE";
/// The address that commands ask, after `--addr`.
pub const ADDRESS: &str = "RLNODE_ADDR";
/// What is logged, after `--log`.
pub const LOG: &str = "RLNODE_LOG";
/// Says, with any text, that nothing is to be shown in colours.
pub const NO_COLOR: &str = "NO_COLOR";

/// The text of the variable `name`; none where it is unset, empty or not Unicode.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Name of this host, up to its first dot; none where it has none that is text.
pub fn host_name() -> Option<String> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_str().ok()?;
    let short = name.split('.').next().unwrap_or(name);
    (!short.is_empty()).then(|| short.to_owned())
}

/// Names this start of the machine; none where the system does not say.
pub fn boot_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// What decides where a node's sockets are, for the node and for commands that ask one.
pub fn of_process() -> client::Environment {
    client::Environment {
        address: text(ADDRESS),
        runtime_directory: raw("RUNTIME_DIRECTORY"),
        xdg_runtime_dir: raw("XDG_RUNTIME_DIR"),
        temporary_directory: std::env::temp_dir(),
        user_id: rustix::process::geteuid().as_raw(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
