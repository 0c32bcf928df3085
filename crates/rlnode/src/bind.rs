//! Binding every socket that the file names: all of them, or none.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket, UnixListener};

use crate::config::{Listen, UnixSocket};
use crate::door::{Door, DoorAddress};
use crate::endpoint::Endpoint;
use crate::holder::{Transport, holder_of};
use crate::socket_file::{Access, BACKLOG, PathLock, SocketFile, SocketFileError};

/// Receive buffer asked of the system for each UDP socket: room for a burst of thousands of small
/// frames while every thread is busy. The system may grant less (`net.core.rmem_max`).
const UDP_RECEIVE_BYTES: usize = 4 << 20;
/// Where group names are looked up.
const GROUP_FILE: &str = "/etc/group";

/// Everything bound, not yet served. Dropping it closes the sockets and removes their files.
#[derive(Debug, Default)]
pub struct Bound {
    /// The sockets; a UDP address has one for each worker.
    pub endpoints: Vec<Endpoint>,
    /// Each address or path once.
    pub addresses: Vec<DoorAddress>,
    /// The files of the unix sockets.
    pub socket_files: Vec<SocketFile>,
}

impl Bound {
    /// Binds what `listen` says, with `workers` sockets for each UDP address.
    ///
    /// # Errors
    /// The first address that cannot be bound; what was bound before is closed and removed again.
    pub fn bind(listen: &Listen, workers: usize) -> Result<Self, BindError> {
        let mut bound = Self::default();
        for address in &listen.udp {
            bound
                .bind_udp(*address, workers)
                .map_err(|error| BindError::at_port(Transport::Udp, *address, error))?;
        }
        bound.bind_tcp(&listen.http, Door::Http, Endpoint::Http)?;
        bound.bind_tcp(&listen.redis.tcp, Door::Redis, Endpoint::Redis)?;
        bound.bind_tcp(&listen.envoy.tcp, Door::Envoy, Endpoint::Envoy)?;
        if let Some(unix) = &listen.unix {
            bound.bind_unix(unix, listen)?;
        }
        Ok(bound)
    }

    fn bind_udp(&mut self, address: SocketAddr, workers: usize) -> io::Result<()> {
        let first = udp_socket(address)?;
        // Bound without it, so that the port of another process is not shared by mistake; set
        // afterwards, so that the sockets of the other workers may join.
        first.bind(&address.into())?;
        first.set_reuse_port(true)?;
        let bound_at = first.local_addr()?.as_socket().unwrap_or(address);
        let mut sockets = vec![first];
        for _ in 1..workers {
            let socket = udp_socket(address)?;
            socket.set_reuse_port(true)?;
            socket.bind(&bound_at.into())?;
            sockets.push(socket);
        }
        let is_exposed = !bound_at.ip().to_canonical().is_loopback();
        for socket in sockets {
            let socket = UdpSocket::from_std(socket.into())?;
            self.endpoints.push(Endpoint::Udp { socket, is_exposed });
        }
        self.note(Door::Udp, bound_at);
        Ok(())
    }

    fn bind_tcp(
        &mut self,
        addresses: &[SocketAddr],
        door: Door,
        endpoint: fn(TcpListener) -> Endpoint,
    ) -> Result<(), BindError> {
        for address in addresses {
            let (listener, bound_at) = tcp_listener(*address)
                .map_err(|error| BindError::at_port(Transport::Tcp, *address, error))?;
            self.endpoints.push(endpoint(listener));
            self.note(door, bound_at);
        }
        Ok(())
    }

    fn bind_unix(&mut self, unix: &UnixSocket, listen: &Listen) -> Result<(), BindError> {
        if let Some(folder) = &unix.private_folder {
            make_private(folder)?;
        }
        let group_id = unix.group.as_deref().map(group_id).transpose()?;
        let access = Access { mode: unix.mode, group_id };
        // One lock for all of them: of two processes that start at once, one gets all of them.
        let lock = PathLock::take(&unix.path)?;
        let mut bind = |path: &Path, door, kind| {
            let (socket, file) = SocketFile::bind(path, kind, access, &lock)?;
            self.socket_files.push(file);
            self.addresses.push(DoorAddress { door, address: path.display().to_string() });
            Ok::<_, BindError>(socket)
        };
        let stream = bind(&unix.path, Door::Stream, Type::STREAM)?;
        let seqpacket = bind(&unix.seqpacket_path(), Door::Seqpacket, Type::SEQPACKET)?;
        let http = bind(&unix.http_path(), Door::Http, Type::STREAM)?;
        let mut bind_opened = |is_open: bool, path: &Path, door| {
            is_open.then(|| bind(path, door, Type::STREAM)).transpose()
        };
        let redis = bind_opened(listen.redis.unix, &unix.redis_path(), Door::Redis)?;
        let envoy = bind_opened(listen.envoy.unix, &unix.envoy_path(), Door::Envoy)?;
        let watch = |socket: Socket| UnixListener::from_std(socket.into());
        self.endpoints.extend([
            Endpoint::Stream(watch(stream).map_err(BindError::Runtime)?),
            Endpoint::Seqpacket(watch(seqpacket).map_err(BindError::Runtime)?),
            Endpoint::HttpUnix(watch(http).map_err(BindError::Runtime)?),
        ]);
        for (socket, endpoint) in
            [(redis, Endpoint::RedisUnix as fn(_) -> _), (envoy, Endpoint::EnvoyUnix)]
        {
            if let Some(socket) = socket {
                self.endpoints.push(endpoint(watch(socket).map_err(BindError::Runtime)?));
            }
        }
        Ok(())
    }

    fn note(&mut self, door: Door, address: SocketAddr) {
        self.addresses.push(DoorAddress { door, address: address.to_string() });
    }
}

/// A listening socket, and the address that it got.
fn tcp_listener(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Only lets a restart bind while connections of the last run linger; two that listen still
    // collide.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from_std(socket.into())?;
    let bound_at = listener.local_addr()?;
    Ok((listener, bound_at))
}

fn udp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_recv_buffer_size(UDP_RECEIVE_BYTES)?;
    Ok(socket)
}

/// Makes `folder` with permissions 0700 if it is not there, and refuses one that others can enter.
fn make_private(folder: &Path) -> Result<(), BindError> {
    let fail = |error| BindError::Folder { folder: folder.to_owned(), error };
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(fail(error)),
        _ => {}
    }
    let user_id = rustix::process::geteuid().as_raw();
    if client::address::is_private_folder(folder, user_id).map_err(fail)? {
        Ok(())
    } else {
        Err(BindError::SharedFolder { folder: folder.to_owned(), user_id })
    }
}

/// Number of the group `name`: itself if it is one, else what [`GROUP_FILE`] says.
fn group_id(name: &str) -> Result<u32, BindError> {
    let fail = || BindError::Group(name.to_owned());
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let groups = fs::read_to_string(GROUP_FILE).map_err(|_| fail())?;
    group_id_in(&groups, name).ok_or_else(fail)
}

fn group_id_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Why the node does not listen. Nothing is bound.
#[derive(Debug)]
pub enum BindError {
    /// A port cannot be bound.
    Port {
        /// UDP or TCP.
        transport: Transport,
        /// The address as the file gives it.
        address: SocketAddr,
        /// The process that has it, where that can be told.
        holder: Option<String>,
        /// What the system says.
        error: io::Error,
    },
    /// A unix socket cannot be made.
    SocketFile(SocketFileError),
    /// The private folder of the unix sockets cannot be made.
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The private folder of the unix sockets is not private.
    SharedFolder {
        /// The folder.
        folder: PathBuf,
        /// The user that it must belong to.
        user_id: u32,
    },
    /// There is no such group.
    Group(String),
    /// The runtime cannot watch a socket.
    Runtime(io::Error),
}

impl BindError {
    fn at_port(transport: Transport, address: SocketAddr, error: io::Error) -> Self {
        let holder =
            (error.kind() == ErrorKind::AddrInUse).then(|| holder_of(transport, address)).flatten();
        Self::Port { transport, address, holder, error }
    }
}

impl From<SocketFileError> for BindError {
    fn from(error: SocketFileError) -> Self {
        Self::SocketFile(error)
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port { transport, address, holder, error } => {
                let setting = match transport {
                    Transport::Udp => "udp",
                    Transport::Tcp => "http",
                };
                write!(f, "cannot listen on {} `{address}`: ", transport.as_str())?;
                match (error.kind(), holder) {
                    (ErrorKind::AddrInUse, Some(holder)) => {
                        write!(f, "it is held by {holder}; stop that")?;
                    }
                    (ErrorKind::AddrInUse, None) => {
                        write!(f, "another process holds it; stop that")?;
                    }
                    (ErrorKind::AddrNotAvailable, _) => {
                        write!(f, "this host has no such address; give it one")?;
                    }
                    (ErrorKind::PermissionDenied, _) => {
                        write!(f, "this user may not; run with the right to bind low ports")?;
                    }
                    _ => {
                        write!(f, "{error}; see to that")?;
                    }
                }
                write!(f, ", or set `{setting}` in [listen] to another address")
            }
            Self::SocketFile(error) => error.fmt(f),
            Self::Folder { folder, error } => write!(
                f,
                "`{}` cannot be made for the unix sockets: {error}; set `unix` in [listen] to a \
                 path in a directory that exists",
                folder.display()
            ),
            Self::SharedFolder { folder, user_id } => write!(
                f,
                "`{}` is not a directory of user {user_id} alone; remove it or give it mode 0700, \
                 or set `unix` in [listen] to another path",
                folder.display()
            ),
            Self::Group(name) => write!(
                f,
                "`unix_group` names the group `{name}`, which {GROUP_FILE} does not have; create \
                 it, or give its number"
            ),
            Self::Runtime(error) => write!(f, "a unix socket cannot be watched: {error}"),
        }
    }
}

impl std::error::Error for BindError {}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    fn listen_udp(address: SocketAddr) -> Listen {
        Listen { udp: vec![address], ..Listen::default() }
    }

    #[tokio::test]
    async fn every_worker_has_a_socket_at_the_same_udp_port() {
        let bound = Bound::bind(&listen_udp(ANY_PORT), 3).expect("a free port");
        let ports: Vec<u16> = bound
            .endpoints
            .iter()
            .map(|endpoint| match endpoint {
                Endpoint::Udp { socket, is_exposed: false } => {
                    socket.local_addr().expect("an address").port()
                }
                other => panic!("not a loopback UDP socket: {other:?}"),
            })
            .collect();
        assert_eq!(ports.len(), 3);
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0));
        assert_eq!(bound.addresses.len(), 1);
    }

    #[tokio::test]
    async fn a_second_node_does_not_share_the_udp_port_and_learns_who_has_it() {
        let bound = Bound::bind(&listen_udp(ANY_PORT), 2).expect("a free port");
        let address = bound.addresses[0].address.parse().expect("an address");
        let error = Bound::bind(&listen_udp(address), 2).expect_err("a taken port").to_string();
        assert!(error.contains(&format!("cannot listen on udp `{address}`")), "{error}");
        assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
        assert!(error.contains("set `udp` in [listen]"), "{error}");
    }

    #[tokio::test]
    async fn nothing_stays_bound_when_one_address_fails() {
        let directory = tempfile::tempdir().expect("a directory");
        let unix = UnixSocket {
            path: directory.path().join("n.sock"),
            private_folder: None,
            mode: 0o600,
            group: None,
        };
        fs::create_dir(unix.http_path()).expect("something in the way");
        let taken = unix.http_path();
        let listen = Listen { unix: Some(unix), ..Listen::default() };
        let error = Bound::bind(&listen, 1).expect_err("a taken path").to_string();
        assert!(error.contains(&taken.display().to_string()), "{error}");
        let left: Vec<_> = fs::read_dir(directory.path())
            .expect("a listing")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(left, [taken]);
    }

    #[test]
    fn finds_a_group_by_its_name() {
        let groups = "root:x:0:\nweb:x:33:alice,bob\nbroken\n";
        assert_eq!(group_id_in(groups, "web"), Some(33));
        assert_eq!(group_id_in(groups, "we"), None);
        assert_eq!(group_id_in(groups, "broken"), None);
    }

    #[test]
    fn a_private_folder_that_others_can_enter_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let folder = directory.path().join("rlnode");
        make_private(&folder).expect("a new folder");
        make_private(&folder).expect("its own folder");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("a mode");
        assert!(matches!(make_private(&folder), Err(BindError::SharedFolder { .. })));
    }
}
