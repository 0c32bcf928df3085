//! Where a node listens: addresses as text, and the sockets that are tried when nobody names one.
//!
//! The environment is an argument; this module reads none. It opens no socket.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The port of the local frame over UDP.
pub const DEFAULT_UDP_PORT: u16 = 7400;
/// File name of the stream socket in its folder.
pub const SOCKET_FILE_NAME: &str = "rlnode.sock";
/// What the seqpacket socket's name has more than the stream socket's.
pub const SEQPACKET_SUFFIX: &str = ".seq";
/// Longest path of a unix socket, in bytes: what Linux's `sun_path` holds with its closing zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A UDP port. One frame is one datagram.
    Udp {
        /// Name or IP address, IPv6 without brackets. A name is looked up when the socket is opened.
        host: String,
        /// 1 to 65,535.
        port: u16,
    },
    /// A unix stream socket.
    Stream(PathBuf),
    /// A unix seqpacket socket. One frame is one message.
    Seqpacket(PathBuf),
}

impl Address {
    /// The addresses where a node listens when its file names none, in the order in which they are
    /// tried: the unix socket of each folder of [`socket_folders`], then UDP on loopback.
    pub fn defaults(environment: &Environment) -> Vec<Self> {
        let mut addresses: Vec<Self> = socket_folders(environment)
            .into_iter()
            .map(|folder| Self::Stream(folder.join(SOCKET_FILE_NAME)))
            .collect();
        addresses.push(Self::Udp { host: "127.0.0.1".into(), port: DEFAULT_UDP_PORT });
        addresses
    }

    /// The address to ask: `explicit` (a command line's), else the environment's, else the first of
    /// [`Address::defaults`] whose socket file exists, else the UDP one.
    ///
    /// A socket in the folder under the temporary directory is used only if the folder is private to
    /// the user, since anybody may have made it.
    ///
    /// # Errors
    /// If the text of the address that was chosen cannot be read.
    pub fn choose(explicit: Option<&str>, environment: &Environment) -> Result<Self, AddressError> {
        if let Some(text) = explicit.or(environment.address.as_deref()) {
            return text.parse();
        }
        let shared = private_folder(environment);
        let usable = |address: &Self| match address {
            Self::Udp { .. } => true,
            Self::Stream(path) | Self::Seqpacket(path) => {
                let trusted = path.parent() != Some(&shared)
                    || is_private_folder(&shared, environment.user_id).unwrap_or(false);
                trusted && path.exists()
            }
        };
        let found = Self::defaults(environment).into_iter().find(usable);
        Ok(found.unwrap_or(Self::Udp { host: "127.0.0.1".into(), port: DEFAULT_UDP_PORT }))
    }

    /// Whether requests are padded to the length of their reply, which a node asks of every sender
    /// that its UDP listener cannot know to be on its own host.
    pub(crate) fn pads_requests(&self) -> bool {
        match self {
            Self::Udp { host, .. } => match host.parse::<IpAddr>() {
                Ok(ip) => !ip.to_canonical().is_loopback(),
                Err(_) => host != "localhost",
            },
            Self::Stream(_) | Self::Seqpacket(_) => false,
        }
    }

    /// Whether frames follow each other without bounds of their own.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp { host, port } if host.contains(':') => write!(f, "udp://[{host}]:{port}"),
            Self::Udp { host, port } => write!(f, "udp://{host}:{port}"),
            Self::Stream(path) => write!(f, "unix://{}", path.display()),
            Self::Seqpacket(path) => write!(f, "seqpacket://{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `127.0.0.1:7400`, `[::1]:7400`, `udp://HOST:PORT`, `unix://PATH`, `seqpacket://PATH`,
    /// or a path that starts with `/`, `./` or `../`: seqpacket if it ends in `.seq`, else stream.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let fail = |fault| AddressError { text: text.to_owned(), fault };
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme {
                "udp" => parse_udp(rest),
                "unix" => socket_path(rest).map(Self::Stream),
                "seqpacket" => socket_path(rest).map(Self::Seqpacket),
                _ => Err(Fault::Scheme),
            }
            .map_err(fail);
        }
        if ["/", "./", "../"].iter().any(|start| text.starts_with(start)) {
            let path = socket_path(text).map_err(fail)?;
            let is_seqpacket = text.ends_with(SEQPACKET_SUFFIX);
            return Ok(if is_seqpacket { Self::Seqpacket(path) } else { Self::Stream(path) });
        }
        parse_udp(text).map_err(fail)
    }
}

/// Reads `HOST:PORT`.
fn parse_udp(text: &str) -> Result<Address, Fault> {
    let (host, port) = text.rsplit_once(':').ok_or(Fault::Port)?;
    let port = match port.parse::<u16>() {
        Ok(port) if port > 0 => port,
        _ => return Err(Fault::Port),
    };
    let host = match host.strip_prefix('[') {
        Some(rest) => {
            let inner = rest.strip_suffix(']').ok_or(Fault::Host)?;
            inner.parse::<Ipv6Addr>().map_err(|_| Fault::Host)?;
            inner
        }
        None => host,
    };
    // A bare IPv6 address could end in a port or in its last group: only brackets tell.
    let is_bracketed = text.starts_with('[');
    let is_bare =
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    if !is_bracketed && !is_bare {
        return Err(Fault::Host);
    }
    Ok(Address::Udp { host: host.to_owned(), port })
}

/// Reads the path of a socket file.
fn socket_path(text: &str) -> Result<PathBuf, Fault> {
    if text.is_empty() || text.ends_with('/') || text.contains('\0') {
        return Err(Fault::Path);
    }
    if text.len() > SOCKET_PATH_BYTES_MAX {
        return Err(Fault::PathTooLong);
    }
    Ok(PathBuf::from(text))
}

/// What of the environment decides where the default sockets are. The caller reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `RLNODE_ADDR`.
    pub address: Option<String>,
    /// `RUNTIME_DIRECTORY`, set by systemd for a service: absolute paths, separated by colons, of
    /// which the first counts.
    pub runtime_directory: Option<OsString>,
    /// `XDG_RUNTIME_DIR`, set for a user who is logged in: an absolute path.
    pub xdg_runtime_dir: Option<OsString>,
    /// The folder for temporary files.
    pub temporary_directory: PathBuf,
    /// Effective user id of this process.
    pub user_id: u32,
}

/// Where the node of this environment puts its stream socket when its file names none: the first of
/// [`socket_folders`]. The seqpacket socket stands beside it, the same name with
/// [`SEQPACKET_SUFFIX`] for its extension.
pub fn default_socket_path(environment: &Environment) -> PathBuf {
    let folders = socket_folders(environment);
    let first = folders.into_iter().next();
    first.unwrap_or_else(|| private_folder(environment)).join(SOCKET_FILE_NAME)
}

/// The folders where the sockets of a node may be, first choice first: `$RUNTIME_DIRECTORY`,
/// `$XDG_RUNTIME_DIR/rlnode`, [`private_folder`]. A variable that is unset, empty or not an absolute
/// path gives none.
pub fn socket_folders(environment: &Environment) -> Vec<PathBuf> {
    let user = environment
        .xdg_runtime_dir
        .as_ref()
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("rlnode"));
    service_folder(environment)
        .into_iter()
        .chain(user)
        .chain([private_folder(environment)])
        .collect()
}

/// The folder that the system has made for the service: the first of `$RUNTIME_DIRECTORY`.
pub fn service_folder(environment: &Environment) -> Option<PathBuf> {
    let directories = environment.runtime_directory.as_ref()?;
    std::env::split_paths(directories).next().filter(|folder| folder.is_absolute())
}

/// The folder of this user under the temporary directory: `rlnode-UID`. Whoever makes it gives it
/// mode 0700; whoever uses it asks [`is_private_folder`] first.
pub fn private_folder(environment: &Environment) -> PathBuf {
    environment.temporary_directory.join(format!("rlnode-{}", environment.user_id))
}

/// Whether `folder` is a folder (not a link to one) that belongs to the user and that nobody else may
/// enter.
///
/// # Errors
/// If it does not exist or cannot be looked at.
pub fn is_private_folder(folder: &Path, user_id: u32) -> io::Result<bool> {
    let metadata = std::fs::symlink_metadata(folder)?;
    Ok(metadata.is_dir() && metadata.uid() == user_id && metadata.mode() & 0o077 == 0)
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Scheme,
    Host,
    Port,
    Path,
    PathTooLong,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no address of a node: ", self.text)?;
        match self.fault {
            Fault::Scheme => write!(f, "the scheme is one of udp://, unix://, seqpacket://"),
            Fault::Host => write!(
                f,
                "the host is a name, an IPv4 address or an IPv6 address in brackets, as in \
                 `[::1]:{DEFAULT_UDP_PORT}`"
            ),
            Fault::Port => write!(
                f,
                "write HOST:PORT with a port from 1 to 65535, as in \
                 `127.0.0.1:{DEFAULT_UDP_PORT}`, or a path that starts with `/` or `./`"
            ),
            Fault::Path => write!(f, "give the path of a socket file"),
            Fault::PathTooLong => {
                write!(f, "the path is longer than {SOCKET_PATH_BYTES_MAX} bytes; move the socket")
            }
        }
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(host: &str, port: u16) -> Address {
        Address::Udp { host: host.into(), port }
    }

    fn environment() -> Environment {
        Environment {
            address: None,
            runtime_directory: Some("/run/rlnode:/run/other".into()),
            xdg_runtime_dir: Some("/run/user/7".into()),
            temporary_directory: "/nonexistent/tmp".into(),
            user_id: 7,
        }
    }

    #[test]
    fn reads_every_form_of_an_address() {
        let cases = [
            ("127.0.0.1:7400", udp("127.0.0.1", 7400)),
            ("localhost:1", udp("localhost", 1)),
            ("udp://edge-1.example:65535", udp("edge-1.example", 65_535)),
            ("[::1]:7400", udp("::1", 7400)),
            ("udp://[::1]:7400", udp("::1", 7400)),
            ("unix:///run/rlnode.sock", Address::Stream("/run/rlnode.sock".into())),
            ("/run/rlnode.sock", Address::Stream("/run/rlnode.sock".into())),
            ("./x.sock", Address::Stream("./x.sock".into())),
            ("../x.sock", Address::Stream("../x.sock".into())),
            ("seqpacket:///run/rlnode.seq", Address::Seqpacket("/run/rlnode.seq".into())),
            ("/run/rlnode.seq", Address::Seqpacket("/run/rlnode.seq".into())),
            ("unix:///run/odd.seq", Address::Stream("/run/odd.seq".into())),
        ];
        for (text, address) in cases {
            assert_eq!(text.parse(), Ok(address.clone()), "{text}");
            assert_eq!(address.to_string().parse(), Ok(address), "{text}, written and read");
        }
    }

    #[test]
    fn refuses_what_is_no_address_and_says_what_to_write() {
        let long = format!("/{}", "x".repeat(SOCKET_PATH_BYTES_MAX));
        let cases = [
            ("", "write HOST:PORT"),
            ("localhost", "write HOST:PORT"),
            ("localhost:", "write HOST:PORT"),
            ("localhost:0", "1 to 65535"),
            ("localhost:65536", "1 to 65535"),
            (":7400", "the host is"),
            ("::1:7400", "in brackets"),
            ("[::1:7400", "in brackets"),
            ("[localhost]:7400", "in brackets"),
            ("host name:7400", "the host is"),
            ("http://localhost:7480", "udp://, unix://, seqpacket://"),
            ("unix://", "path of a socket file"),
            ("/run/", "path of a socket file"),
            ("/run/\0", "path of a socket file"),
            (&long, "longer than 107 bytes"),
        ];
        for (text, hint) in cases {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
            assert!(error.starts_with(&format!("`{text}`")), "{error}");
        }
        assert!(long[..SOCKET_PATH_BYTES_MAX].parse::<Address>().is_ok());
    }

    #[test]
    fn default_socket_follows_the_environment_in_order() {
        let mut environment = environment();
        let path = |e: &Environment| default_socket_path(e).display().to_string();
        assert_eq!(path(&environment), "/run/rlnode/rlnode.sock");
        environment.runtime_directory = Some("relative".into());
        assert_eq!(path(&environment), "/run/user/7/rlnode/rlnode.sock");
        environment.xdg_runtime_dir = Some("".into());
        assert_eq!(path(&environment), "/nonexistent/tmp/rlnode-7/rlnode.sock");
    }

    #[test]
    fn defaults_end_with_loopback_udp() {
        let addresses = Address::defaults(&environment());
        assert_eq!(addresses.len(), 4);
        assert_eq!(addresses[0], Address::Stream("/run/rlnode/rlnode.sock".into()));
        assert_eq!(addresses[3], udp("127.0.0.1", 7400));
    }

    #[test]
    fn explicit_address_wins_over_the_environment_and_that_over_the_defaults() {
        let mut environment = environment();
        assert_eq!(Address::choose(None, &environment), Ok(udp("127.0.0.1", 7400)));
        environment.address = Some("10.0.0.1:1".into());
        assert_eq!(Address::choose(None, &environment), Ok(udp("10.0.0.1", 1)));
        assert_eq!(Address::choose(Some("10.0.0.2:2"), &environment), Ok(udp("10.0.0.2", 2)));
        assert!(Address::choose(Some("nonsense"), &environment).is_err());
    }

    #[test]
    fn socket_in_a_temporary_folder_is_used_only_if_the_folder_is_private() {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        let temporary = std::env::temp_dir().join(format!("rlnode-address-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&temporary);
        std::fs::create_dir(&temporary).expect("a folder");
        let user_id = std::fs::metadata(&temporary).expect("its owner").uid();
        let environment = Environment {
            temporary_directory: temporary.clone(),
            user_id,
            ..Environment::default()
        };
        let folder = private_folder(&environment);
        std::fs::DirBuilder::new().mode(0o700).create(&folder).expect("a private folder");
        let socket = folder.join(SOCKET_FILE_NAME);
        std::fs::write(&socket, b"").expect("a file in the socket's place");
        assert_eq!(Address::choose(None, &environment), Ok(Address::Stream(socket)));
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o750)).expect("a mode");
        assert_eq!(Address::choose(None, &environment), Ok(udp("127.0.0.1", 7400)));
        let of_another = is_private_folder(&folder, user_id.wrapping_add(1));
        assert!(!of_another.expect("its owner"));
        std::fs::remove_dir_all(&temporary).expect("no trace left");
    }

    #[test]
    fn pads_requests_to_every_host_but_this_one() {
        let pads = |text: &str| text.parse::<Address>().expect(text).pads_requests();
        for own in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1"]
        {
            assert!(!pads(own), "{own}");
        }
        for other in ["10.0.0.1:1", "[2001:db8::1]:1", "edge-1:1"] {
            assert!(pads(other), "{other}");
        }
        assert!(!pads("/run/rlnode.sock") && !pads("/run/rlnode.seq"));
    }
}
