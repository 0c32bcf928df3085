//! Where the node listens: the addresses and the unix socket that the file and the host give.
//!
//! It resolves no name, opens no socket and makes no folder; the environment is handed in.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use client::Environment;
use client::address::{self, SOCKET_PATH_BYTES_MAX};
use toml::Spanned;

use super::error::{Problems, quoted};
use super::value::{check_mode, parse_mode};
use super::written::Section;

/// Most addresses of one kind: each costs a socket and a task, and for UDP as many as there are
/// workers.
pub const ADDRESSES_MAX: usize = 16;
/// Where UDP is served unless the file says otherwise.
pub const DEFAULT_UDP: &str = "127.0.0.1:7400";
/// Where HTTP is served unless the file says otherwise.
pub const DEFAULT_HTTP: &str = "127.0.0.1:7480";
/// Permissions of the unix sockets unless the file says otherwise.
pub const DEFAULT_UNIX_MODE: u32 = 0o600;

const SEQPACKET_EXTENSION: &str = "seq";
const HTTP_EXTENSION: &str = "http";
const REDIS_EXTENSION: &str = "redis";
const ENVOY_EXTENSION: &str = "envoy";
/// The sockets beside the stream socket.
const EXTENSIONS: [&str; 4] =
    [SEQPACKET_EXTENSION, HTTP_EXTENSION, REDIS_EXTENSION, ENVOY_EXTENSION];
const NODE_PLACEHOLDER: &str = "{node}";
/// Permissions that let a socket's group use it.
const GROUP_READ_WRITE: u32 = 0o060;

/// Who reads the file, and on what host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of this node: 1 to [`NODE_NAME_BYTES_MAX`](super::NODE_NAME_BYTES_MAX) letters,
    /// digits, `.`, `_` and `-`, the first a letter or digit.
    pub name: String,
    /// What decides the default path of the unix socket.
    pub environment: Environment,
}

/// A door that is closed unless the file opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Addresses over TCP, at most [`ADDRESSES_MAX`].
    pub tcp: Vec<SocketAddr>,
    /// Also by a unix socket beside the others.
    pub unix: bool,
}

/// Where the node listens. At least one of `udp`, `http` and `unix` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// Addresses of the frame over UDP, at most [`ADDRESSES_MAX`], none of them unspecified.
    pub udp: Vec<SocketAddr>,
    /// Addresses of HTTP over TCP, at most [`ADDRESSES_MAX`].
    pub http: Vec<SocketAddr>,
    /// The unix sockets, unless they are turned off.
    pub unix: Option<UnixSocket>,
    /// The Redis protocol.
    pub redis: Opened,
    /// Envoy's rate limit service.
    pub envoy: Opened,
}

/// The unix sockets, side by side and of one name: three, and one for each door that the file opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Path of the stream socket.
    pub path: PathBuf,
    /// Folder that is the node's to make, with permissions 0700, and to refuse where another user
    /// owns it; none where the folder must be there already.
    pub private_folder: Option<PathBuf>,
    /// Permissions of the sockets, at most 0o777.
    pub mode: u32,
    /// Name of the group that the sockets are given to.
    pub group: Option<String>,
}

impl UnixSocket {
    /// Path of the seqpacket socket: that of the stream socket with the extension `seq`.
    pub fn seqpacket_path(&self) -> PathBuf {
        self.path.with_extension(SEQPACKET_EXTENSION)
    }

    /// Path of the HTTP socket: that of the stream socket with the extension `http`.
    pub fn http_path(&self) -> PathBuf {
        self.path.with_extension(HTTP_EXTENSION)
    }

    /// Path of the socket for the Redis protocol: that of the stream socket with the extension `redis`.
    pub fn redis_path(&self) -> PathBuf {
        self.path.with_extension(REDIS_EXTENSION)
    }

    /// Path of the socket for Envoy: that of the stream socket with the extension `envoy`.
    pub fn envoy_path(&self) -> PathBuf {
        self.path.with_extension(ENVOY_EXTENSION)
    }
}

/// A `[listen]` table as read. What is none was not written.
#[derive(Clone, Default)]
pub(super) struct WrittenListen {
    udp: Option<Vec<SocketAddr>>,
    http: Option<Vec<SocketAddr>>,
    unix: Option<WrittenUnix>,
    mode: Option<u32>,
    group: Option<String>,
    redis: Option<Spanned<Vec<SocketAddr>>>,
    envoy: Option<Spanned<Vec<SocketAddr>>>,
}

#[derive(Clone)]
enum WrittenUnix {
    Off,
    Path(PathBuf),
}

impl WrittenListen {
    /// Reads the table for the node `node`; relative paths are relative to `folder`. Where it is
    /// silent, what `general` says holds.
    pub(super) fn read(
        mut section: Section<'_, '_>,
        node: &str,
        folder: &Path,
        general: Self,
        problems: &mut Problems,
    ) -> Self {
        let udp = read_addresses(&mut section, "udp", parse_udp_address, node, problems);
        let http = read_addresses(&mut section, "http", parse_address, node, problems);
        let redis = read_opened(&mut section, "redis", node, problems);
        let envoy = read_opened(&mut section, "envoy", node, problems);
        let unix = read_unix(&mut section, node, folder, problems);
        let mode = read_mode(&mut section, problems).or(general.mode);
        let group = read_group(&mut section, problems).or(general.group);
        let spans = ["unix_group", "unix_mode"].map(|name| section.name_span(name));
        for span in spans.iter().flatten().take(1) {
            let effective = mode.unwrap_or(DEFAULT_UNIX_MODE);
            if matches!(unix, Some(WrittenUnix::Off)) {
                problems.add(span, "this has no effect beside `unix = false`; drop one of the two");
            } else if group.is_some() && effective & GROUP_READ_WRITE != GROUP_READ_WRITE {
                problems.add(
                    span,
                    format!(
                        "`unix_group` has no effect with the mode `0o{effective:03o}`, which keeps \
                         the group out; write `unix_mode = 0o660` beside it"
                    ),
                );
            }
        }
        section.finish(problems);
        Self {
            udp: udp.or(general.udp),
            http: http.or(general.http),
            unix: unix.or(general.unix),
            mode,
            group,
            redis: redis.or(general.redis),
            envoy: envoy.or(general.envoy),
        }
    }

    /// The listeners, with defaults where nothing was written.
    pub(super) fn resolve(self, environment: &Environment, problems: &mut Problems) -> Listen {
        let default = |address: &str| address.parse().into_iter().collect();
        let (path, private_folder) = match self.unix {
            Some(WrittenUnix::Off) => (None, None),
            Some(WrittenUnix::Path(path)) => (Some(path), None),
            None => {
                let (path, folder) = default_unix_path(environment);
                if let Err(why) = check_unix_path(&path) {
                    problems.add_about_file(format!(
                        "the default path of the unix socket does not serve: {why}; write \
                         `unix = \"PATH\"` or `unix = false` in [listen]"
                    ));
                }
                (Some(path), folder)
            }
        };
        let mode = self.mode.unwrap_or(DEFAULT_UNIX_MODE);
        let group = self.group;
        let has_unix = path.is_some();
        let mut open = |name: &str, written: Option<Spanned<Vec<SocketAddr>>>| {
            let Some(written) = written else { return Opened::default() };
            if written.get_ref().is_empty() && !has_unix {
                let message = format!(
                    "`{name} = true` opens the unix socket alone, and `unix` is `false`; write \
                     an address and a port"
                );
                problems.add(&written.span(), message);
            }
            Opened { tcp: written.into_inner(), unix: has_unix }
        };
        let (redis, envoy) = (open("redis", self.redis), open("envoy", self.envoy));
        let listen = Listen {
            redis,
            envoy,
            udp: self.udp.unwrap_or_else(|| default(DEFAULT_UDP)),
            http: self.http.unwrap_or_else(|| default(DEFAULT_HTTP)),
            unix: path.map(|path| UnixSocket { path, private_folder, mode, group }),
        };
        if listen.udp.is_empty() && listen.http.is_empty() && listen.unix.is_none() {
            problems.add_about_file(
                "`udp`, `http` and `unix` are all `false`, so that nobody could ask; leave one out \
                 for its default",
            );
        }
        listen
    }
}

impl Listen {
    /// What an operator should know about these listeners, one sentence each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let exposed = |kind: &'static str, addresses: &[SocketAddr]| -> Vec<String> {
            let others = addresses.iter().filter(|a| !a.ip().to_canonical().is_loopback());
            others
                .map(|address| {
                    format!(
                        "`{kind}` listens on `{address}`, beyond this host, and answers whoever \
                         asks; keep strangers out by a firewall, or listen on a loopback address"
                    )
                })
                .collect()
        };
        let (redis, envoy) = (&self.redis.tcp, &self.envoy.tcp);
        let all = [("udp", &self.udp), ("http", &self.http), ("redis", redis), ("envoy", envoy)];
        all.into_iter().flat_map(|(kind, addresses)| exposed(kind, addresses)).collect()
    }
}

fn read_addresses(
    section: &mut Section<'_, '_>,
    name: &'static str,
    parse: fn(&str, &str) -> Result<SocketAddr, String>,
    node: &str,
    problems: &mut Problems,
) -> Option<Vec<SocketAddr>> {
    if take_false(section, name) {
        return Some(Vec::new());
    }
    let written = section.take_strings(name, problems)?;
    if let Some(beyond) = written.get(ADDRESSES_MAX) {
        problems.add(
            &beyond.span(),
            format!("`{name}` has more than {ADDRESSES_MAX} addresses; write fewer"),
        );
        return None;
    }
    let mut addresses: Vec<Spanned<SocketAddr>> = Vec::with_capacity(written.len());
    for text in &written {
        match parse(text.get_ref(), node) {
            Ok(address) => {
                // Port 0 is a port of the system's choice, another one each time.
                let same = addresses.iter().find(|a| *a.get_ref() == address);
                if let Some(same) = same.filter(|_| address.port() != 0) {
                    let message = format!("`{name}` has the address `{address}` twice; drop one");
                    problems.add_pair(&text.span(), &same.span(), message);
                }
                addresses.push(Spanned::new(text.span(), address));
            }
            Err(message) => problems.add(&text.span(), message),
        }
    }
    Some(addresses.into_iter().map(Spanned::into_inner).collect())
}

/// A door that is closed unless it is opened: by addresses, or by `true` on the unix socket alone. None:
/// nothing is written, or `false`.
fn read_opened(
    section: &mut Section<'_, '_>,
    name: &'static str,
    node: &str,
    problems: &mut Problems,
) -> Option<Spanned<Vec<SocketAddr>>> {
    let value = section.take(name)?;
    match value.get_ref().as_bool() {
        Some(true) => Some(Spanned::new(value.span(), Vec::new())),
        Some(false) => None,
        None => read_addresses(section, name, parse_address, node, problems)
            .map(|addresses| Spanned::new(value.span(), addresses)),
    }
}

fn read_unix(
    section: &mut Section<'_, '_>,
    node: &str,
    folder: &Path,
    problems: &mut Problems,
) -> Option<WrittenUnix> {
    if take_false(section, "unix") {
        return Some(WrittenUnix::Off);
    }
    let parse = |text: &str| {
        let path = folder.join(replace_node(text, node)?);
        match check_unix_path(&path) {
            _ if text.is_empty() => Err("`unix` is empty; write a path, or `false`".into()),
            Ok(()) => Ok(path),
            Err(why) => Err(format!("{why}; write another")),
        }
    };
    section.take_parsed("unix", parse, problems).map(|path| WrittenUnix::Path(path.into_inner()))
}

/// `unix_mode`: an octal number, or its digits as text. A decimal 660 is 0o1224, and never meant.
fn read_mode(section: &mut Section<'_, '_>, problems: &mut Problems) -> Option<u32> {
    const NAME: &str = "unix_mode";
    let value = section.take(NAME)?;
    let mode = match (value.get_ref().as_integer(), value.get_ref().as_str()) {
        (_, Some(text)) => parse_mode(text),
        (Some(number), _) if number.radix() == 8 => {
            // A number beyond 32 bits is beyond every mode too.
            check_mode(u32::from_str_radix(number.as_str(), 8).unwrap_or(u32::MAX))
        }
        (Some(number), _) => {
            let digits = number.as_str();
            let shown = quoted(&number.to_string());
            Err(format!("the mode {shown} is not octal; write it as `0o{digits}`"))
        }
        (None, None) => return section.wrong_type(NAME, value, "an octal number", problems),
    };
    mode.map_err(|message| problems.add(&value.span(), message)).ok()
}

fn read_group(section: &mut Section<'_, '_>, problems: &mut Problems) -> Option<String> {
    let parse = |text: &str| match text {
        "" => Err("`unix_group` is empty; write a group's name".into()),
        name => Ok(name.to_owned()),
    };
    section.take_parsed("unix_group", parse, problems).map(Spanned::into_inner)
}

/// Takes `name` if it is the word that turns a listener off.
fn take_false(section: &mut Section<'_, '_>, name: &'static str) -> bool {
    section.take(name).and_then(|value| value.get_ref().as_bool()) == Some(false)
}

/// An address and its port, in numbers.
pub(super) fn parse_address(text: &str, node: &str) -> Result<SocketAddr, String> {
    let replaced = replace_node(text, node)?;
    replaced.parse().map_err(|_| {
        let example = match replaced.strip_prefix("localhost:").or(replaced.strip_prefix(':')) {
            Some(port) if port.parse::<u16>().is_ok() => format!("`127.0.0.1:{port}`"),
            _ => "`127.0.0.1:7400` or `[::1]:7400`".into(),
        };
        format!("{} is not an address and a port in numbers; write {example}", quoted(&replaced))
    })
}

/// As [`parse_address`], and never the unspecified address. The system sends a datagram from such
/// a socket with the address that its route has, not with the one that was asked: a client that is
/// connected to another address of the host would be charged and never see its answer.
fn parse_udp_address(text: &str, node: &str) -> Result<SocketAddr, String> {
    let address = parse_address(text, node)?;
    if !address.ip().to_canonical().is_unspecified() {
        return Ok(address);
    }
    let port = address.port();
    let example = match address.ip().to_canonical() {
        IpAddr::V4(_) => format!("[\"127.0.0.1:{port}\", \"192.0.2.7:{port}\"]"),
        IpAddr::V6(_) => format!("[\"[::1]:{port}\", \"[2001:db8::7]:{port}\"]"),
    };
    Err(format!(
        "`{address}` would answer from another address than was asked; list each address of the \
         host, such as `udp = {example}`"
    ))
}

/// `text` with the node's name for `{node}`; any other brace is refused.
pub(super) fn replace_node(text: &str, node: &str) -> Result<String, String> {
    if text.replace(NODE_PLACEHOLDER, "").contains(['{', '}']) {
        let text = quoted(text);
        return Err(format!(
            "{text} has a brace that is not of `{NODE_PLACEHOLDER}`, the only name replaced here"
        ));
    }
    Ok(text.replace(NODE_PLACEHOLDER, node))
}

/// Path of the stream socket where the file names none, and the folder that the node must make, which
/// is any but the one that the system made for the service.
fn default_unix_path(environment: &Environment) -> (PathBuf, Option<PathBuf>) {
    let path = address::default_socket_path(environment);
    let folder = path.parent().map(Path::to_owned);
    let is_made = address::service_folder(environment).is_some();
    (path, folder.filter(|_| !is_made))
}

/// Says why no socket, and no two beside it, can be bound at `path`.
fn check_unix_path(path: &Path) -> Result<(), String> {
    let shown = quoted(&path.display().to_string());
    if path.file_name().is_none() || path.as_os_str().as_bytes().contains(&0) {
        return Err(format!("{shown} names no file"));
    }
    if let Some(taken) = path.extension().filter(|own| EXTENSIONS.iter().any(|it| own == it)) {
        let taken = taken.display();
        return Err(format!("{shown} ends in `.{taken}`, the name of another socket beside it"));
    }
    let beside = EXTENSIONS.iter().map(|it| path.with_extension(it).as_os_str().len());
    let longest = beside.fold(path.as_os_str().len(), usize::max);
    if longest > SOCKET_PATH_BYTES_MAX {
        return Err(format!(
            "{shown} with the sockets beside it has {longest} bytes, and the system takes \
             {SOCKET_PATH_BYTES_MAX}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::super::error::Lines;
    use super::super::settings::LISTEN;
    use super::*;

    fn environment() -> Environment {
        Environment {
            runtime_directory: None,
            xdg_runtime_dir: None,
            temporary_directory: "/tmp".into(),
            user_id: 7,
            address: None,
        }
    }

    /// Reads `table` alone as `[listen]`, for the node `edge-1` and a file in `/etc/rlnode`.
    fn listen(table: &str, environment: &Environment) -> Result<Listen, String> {
        let root = DeTable::parse(table).expect("toml");
        let section = Section::new(&LISTEN, root.get_ref(), 0..0);
        let mut problems = Problems::default();
        let folder = Path::new("/etc/rlnode");
        let general = WrittenListen::default();
        let read = WrittenListen::read(section, "edge-1", folder, general, &mut problems);
        let listen = read.resolve(environment, &mut problems);
        match problems.is_empty() {
            true => Ok(listen),
            false => Err(problems.into_errors(&Lines::new(table), Path::new("f")).to_string()),
        }
    }

    fn read(table: &str) -> Listen {
        listen(table, &environment()).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn refused(table: &str) -> String {
        listen(table, &environment()).expect_err(table)
    }

    fn unix(environment: &Environment) -> UnixSocket {
        listen("", environment).expect("defaults").unix.expect("a unix socket")
    }

    #[test]
    fn the_default_socket_is_where_the_environment_says() {
        let nowhere = environment();
        let temporary = unix(&nowhere);
        assert_eq!(temporary.path, Path::new("/tmp/rlnode-7/rlnode.sock"));
        assert_eq!(temporary.private_folder.as_deref(), Some(Path::new("/tmp/rlnode-7")));

        let login = Environment { xdg_runtime_dir: Some("/run/user/7".into()), ..nowhere.clone() };
        assert_eq!(unix(&login).path, Path::new("/run/user/7/rlnode/rlnode.sock"));
        let folder = unix(&login).private_folder;
        assert_eq!(folder.as_deref(), Some(Path::new("/run/user/7/rlnode")));

        let service = Environment { runtime_directory: Some("/run/rlnode:/x".into()), ..login };
        assert_eq!(unix(&service).path, Path::new("/run/rlnode/rlnode.sock"));
        assert_eq!(unix(&service).private_folder, None);

        let empty = Environment {
            runtime_directory: Some("".into()),
            xdg_runtime_dir: Some("relative".into()),
            ..nowhere
        };
        assert_eq!(unix(&empty), temporary);
    }

    #[test]
    fn the_three_unix_sockets_stand_side_by_side() {
        let socket = read("unix = \"run/{node}.sock\"").unix.expect("a unix socket");
        assert_eq!(socket.path, Path::new("/etc/rlnode/run/edge-1.sock"));
        assert_eq!(socket.seqpacket_path(), Path::new("/etc/rlnode/run/edge-1.seq"));
        assert_eq!(socket.http_path(), Path::new("/etc/rlnode/run/edge-1.http"));
        assert_eq!(socket.private_folder, None);
        let absolute = read("unix = \"/run/x.sock\"").unix.expect("a unix socket");
        assert_eq!(absolute.path, Path::new("/run/x.sock"));
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        let long = "x".repeat(SOCKET_PATH_BYTES_MAX);
        let cases = [
            ("", "`unix` is empty"),
            ("..", "names no file"),
            ("a\\u0000b", "names no file"),
            ("a.seq", "the name of another socket"),
            ("a.http", "the name of another socket"),
            ("{host}.sock", "a brace that is not of `{node}`"),
            (long.as_str(), "bytes, and the system takes 107"),
        ];
        for (path, want) in cases {
            let message = refused(&format!("unix = \"{path}\""));
            assert!(message.contains(want), "{path}: {message}");
        }
        let prefix = "/etc/rlnode/".len();
        let fits = "x".repeat(SOCKET_PATH_BYTES_MAX - prefix - ".redis".len());
        read(&format!("unix = \"{fits}\""));
        assert!(refused(&format!("unix = \"{fits}x\"")).contains("has 108 bytes"));
        let deep =
            Environment { xdg_runtime_dir: Some(format!("/{long}").into()), ..environment() };
        let message = listen("", &deep).expect_err("too deep");
        assert!(message.contains("default path of the unix socket"), "{message}");
    }

    #[test]
    fn addresses_are_one_or_a_list_and_false_is_none() {
        assert_eq!(read("udp = \"[::1]:1\"").udp, ["[::1]:1".parse().expect("an address")]);
        assert_eq!(read("udp = [\"127.0.0.1:0\", \"127.0.0.1:0\"]").udp.len(), 2);
        let off = read("udp = false\nhttp = false");
        assert!(off.udp.is_empty() && off.http.is_empty() && off.unix.is_some());
        assert!(read("unix = false").unix.is_none());
        let none = refused("udp = false\nhttp = false\nunix = false");
        assert!(none.contains("nobody could ask"), "{none}");
    }

    #[test]
    fn what_is_no_address_is_refused_with_one_that_is() {
        let cases = [
            ("\"localhost:7400\"", "write `127.0.0.1:7400`"),
            ("\":81\"", "write `127.0.0.1:81`"),
            ("\"127.0.0.1\"", "not an address and a port"),
            ("\"127.0.0.1:70000\"", "not an address and a port"),
            ("\"{node}:1\"", "`edge-1:1` is not an address"),
            ("\"\"", "not an address and a port"),
            ("true", "`udp` takes a list of strings, not `true` or `false`"),
            ("[]", "`udp` is empty"),
            ("[7400]", "not a whole number"),
            ("[\"127.0.0.1:1\", \"127.0.0.1:1\"]", "twice"),
        ];
        for (written, want) in cases {
            let message = refused(&format!("udp = {written}"));
            assert!(message.contains(want), "{written}: {message}");
        }
    }

    #[test]
    fn a_list_of_addresses_beyond_the_bound_is_refused() {
        let list = |n: usize| {
            let items: Vec<_> = (0..n).map(|i| format!("\"127.0.0.1:{}\"", 1 + i)).collect();
            format!("http = [{}]", items.join(", "))
        };
        assert_eq!(read(&list(ADDRESSES_MAX)).http.len(), ADDRESSES_MAX);
        assert!(refused(&list(ADDRESSES_MAX + 1)).contains("more than 16 addresses"));
    }

    #[test]
    fn the_unspecified_address_is_refused_for_udp_alone() {
        assert_eq!(
            refused("udp = \"0.0.0.0:7400\""),
            "f:1:7: `0.0.0.0:7400` would answer from another address than was asked; list each \
             address of the host, such as `udp = [\"127.0.0.1:7400\", \"192.0.2.7:7400\"]`\n  |\n\
             1 | udp = \"0.0.0.0:7400\"\n  |       ^^^^^^^^^^^^^^"
        );
        let cases = [
            ("\"[::]:1\"", "such as `udp = [\"[::1]:1\", \"[2001:db8::7]:1\"]`"),
            ("[\"127.0.0.1:1\", \"0.0.0.0:2\"]", "`0.0.0.0:2` would answer from another"),
            ("\"[::ffff:0.0.0.0]:1\"", "such as `udp = [\"127.0.0.1:1\", \"192.0.2.7:1\"]`"),
            ("\"0.0.0.0:0\"", "`0.0.0.0:0` would answer from another"),
        ];
        for (written, want) in cases {
            let message = refused(&format!("udp = {written}"));
            assert!(message.contains(want), "{written}: {message}");
        }
        assert_eq!(read("http = [\"0.0.0.0:1\", \"[::]:2\"]").http.len(), 2);
    }

    #[test]
    fn listeners_beyond_loopback_give_a_warning_each() {
        let listen = read("udp = [\"127.0.0.1:1\", \"192.0.2.7:2\"]\nhttp = \"[::]:3\"");
        let warnings = listen.warnings();
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].starts_with("`udp` listens on `192.0.2.7:2`"), "{warnings:?}");
        assert!(warnings[1].starts_with("`http` listens on `[::]:3`"), "{warnings:?}");
        let local = read("udp = [\"127.9.9.9:1\", \"[::1]:1\", \"[::ffff:127.0.0.1]:1\"]");
        assert_eq!(local.warnings(), Vec::<String>::new());
    }

    #[test]
    fn a_mode_is_octal_and_a_group_needs_one_that_lets_it_in() {
        let mode = |table: &str| read(table).unix.expect("a unix socket").mode;
        assert_eq!(mode("unix_mode = 0o660"), 0o660);
        assert_eq!(mode("unix_mode = \"0660\""), 0o660);
        assert_eq!(mode(""), 0o600);
        let cases = [
            ("unix_mode = 660", "write it as `0o660`"),
            ("unix_mode = -1", "is not octal"),
            ("unix_mode = 0o1777", "above 0o777"),
            ("unix_mode = 0o77777777777777777777777", "above 0o777"),
            ("unix_mode = 0o060", "keeps the socket's owner"),
            ("unix_mode = 6.6", "`unix_mode` takes an octal number"),
            ("unix_group = \"\"", "`unix_group` is empty"),
            ("unix_group = \"www-data\"", "write `unix_mode = 0o660` beside it"),
            ("unix_group = \"www-data\"\nunix_mode = 0o600", "no effect with the mode `0o600`"),
            ("unix = false\nunix_mode = 0o660", "no effect beside `unix = false`"),
        ];
        for (table, want) in cases {
            let message = refused(table);
            assert!(message.contains(want), "{table}: {message}");
        }
    }
}
