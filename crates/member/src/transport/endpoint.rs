//! The endpoint: one UDP socket on which peers are dialled and answered.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::{ClientConfig, Connection, Incoming, RecvStream, SendStream, ServerConfig, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::config;
use super::counts::Counts;
use super::event::{Event, Outbox};
use super::failure::Failure;
use super::link::{self, CloseCode, Link, LinkId};
use super::socket;
use crate::tls::{Credentials, Identity};

/// Connections that a member's endpoint has room for: a mesh of 64 members needs one each, and two
/// for a moment where both sides dial.
pub const CONNECTIONS_MAX: usize = 256;

/// Orders that wait for the endpoint.
const COMMANDS_MAX: usize = 256;

/// How long a dial, or the setting up of a connection that another began, may take. Longer than any
/// round trip on earth; a peer that comes back within it is reached by a packet that is sent again.
const SETUP_MAX: Duration = Duration::from_secs(1);

/// The name that QUIC wants for a server. Nobody looks at it: certificates name nodes, not hosts.
const SERVER_NAME: &str = "peer.rlnode.invalid";

/// What an endpoint needs.
#[derive(Debug)]
pub struct EndpointConfig<'c> {
    /// The address to bind; port 0 takes any.
    pub listen: SocketAddr,
    /// Who this node is.
    pub credentials: &'c Credentials,
    /// Connections, standing or being set up, beyond which a new one is turned away.
    pub connections_max: usize,
    /// Nanoseconds of one monotonic clock, for when something was last heard.
    pub now: fn() -> u64,
}

/// The socket could not be had.
#[derive(Debug)]
pub struct BindError {
    address: SocketAddr,
    error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, error } = self;
        write!(f, "cannot listen for peers on `{address}`: {error}; choose another `listen`")
    }
}

impl std::error::Error for BindError {}

enum Command {
    Dial(SocketAddr),
    Close,
}

/// Handle of the endpoint. When it is dropped every connection ends.
#[derive(Debug)]
pub struct Endpoint {
    local: SocketAddr,
    counts: Arc<Counts>,
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// Binds the socket and begins to answer. Must be called on the runtime that is to do the work;
    /// what happens goes into `events`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(
        config: &EndpointConfig<'_>,
        events: mpsc::Sender<Event>,
    ) -> Result<Self, BindError> {
        let fault = |error| BindError { address: config.listen, error };
        let counts = Arc::new(Counts::default());
        let runtime = Arc::new(quinn::TokioRuntime);
        let socket = socket::bind(config.listen, runtime.as_ref(), &counts).map_err(fault)?;
        let local = socket.local_addr().map_err(fault)?;
        let transport = config::transport();
        let mut server = ServerConfig::with_crypto(config.credentials.server());
        server.transport_config(Arc::clone(&transport));
        server.migration(false);
        let mut client = ClientConfig::new(config.credentials.client());
        client.transport_config(transport);
        let mut quic = quinn::EndpointConfig::default();
        // What lacks the bit is then known not to be QUIC.
        quic.grease_quic_bit(false);
        let mut endpoint =
            quinn::Endpoint::new_with_abstract_socket(quic, Some(server), socket, runtime)
                .map_err(fault)?;
        endpoint.set_default_client_config(client);

        let setup = Setup {
            outbox: Outbox::new(events),
            counts: Arc::clone(&counts),
            next_link: Arc::new(AtomicU64::new(1)),
            connections_max: config.connections_max,
            now: config.now,
        };
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let task = tokio::spawn(drive(endpoint, receiver, setup));
        Ok(Self { local, counts, commands, task })
    }

    /// The address that was bound.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// What was refused and dropped so far.
    #[must_use]
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Dials an address. [`Event::Connected`] or [`Event::NotDialed`] tells what came of it. False
    /// when too many orders wait already, and nothing will be told.
    pub fn dial(&self, address: SocketAddr) -> bool {
        self.commands.try_send(Command::Dial(address)).is_ok()
    }

    /// Ends every connection, tells the peers so, and waits until that is done.
    pub async fn close(self) {
        // A full queue or a driver that is gone ends the same way: the driver sees the queue end.
        let _ = self.commands.send(Command::Close).await;
        drop(self.commands);
        let _ = self.task.await;
    }
}

/// What every connection needs while it is set up.
#[derive(Clone)]
struct Setup {
    outbox: Outbox,
    counts: Arc<Counts>,
    next_link: Arc<AtomicU64>,
    connections_max: usize,
    now: fn() -> u64,
}

/// Accepts, dials, and owns the task of every connection.
async fn drive(endpoint: quinn::Endpoint, mut commands: mpsc::Receiver<Command>, setup: Setup) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            incoming = endpoint.accept() => match incoming {
                Some(incoming) if connections.len() < setup.connections_max => {
                    connections.spawn(answer(incoming, setup.clone()));
                }
                Some(incoming) => {
                    Counts::add_one(&setup.counts.over_handshakes);
                    incoming.refuse();
                }
                None => break,
            },
            command = commands.recv() => match command {
                Some(Command::Dial(address)) if connections.len() < setup.connections_max => {
                    connections.spawn(dial(endpoint.clone(), address, setup.clone()));
                }
                Some(Command::Dial(address)) => {
                    let outbox = setup.outbox.clone();
                    connections.spawn(async move {
                        let _ = outbox.tell(Event::NotDialed { address, why: Failure::Full }).await;
                    });
                }
                Some(Command::Close) | None => break,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    endpoint.close(VarInt::from_u32(CloseCode::DONE.number), CloseCode::DONE.word.as_bytes());
    connections.shutdown().await;
    endpoint.wait_idle().await;
}

/// A connection that another node began.
async fn answer(incoming: Incoming, setup: Setup) {
    match timeout(SETUP_MAX, accept(incoming)).await {
        Ok(Ok((connection, identity, streams))) => {
            serve(connection, identity, streams, None, setup).await;
        }
        Ok(Err(failure)) => setup.counts.count_incoming(&failure),
        Err(_) => setup.counts.count_incoming(&Failure::Timeout),
    }
}

type Accepted = (Connection, Identity, (SendStream, RecvStream));

async fn accept(incoming: Incoming) -> Result<Accepted, Failure> {
    let connection = incoming.await?;
    let identity = identity_of(&connection)?;
    let streams = connection.accept_bi().await?;
    Ok((connection, identity, streams))
}

/// A connection that this node begins.
async fn dial(endpoint: quinn::Endpoint, address: SocketAddr, setup: Setup) {
    let opened = timeout(SETUP_MAX, connect(&endpoint, address)).await;
    match opened.unwrap_or(Err(Failure::Timeout)) {
        Ok((connection, identity, streams)) => {
            serve(connection, identity, streams, Some(address), setup).await;
        }
        Err(why) => {
            setup.counts.count_dial(&why);
            let _ = setup.outbox.tell(Event::NotDialed { address, why }).await;
        }
    }
}

async fn connect(endpoint: &quinn::Endpoint, address: SocketAddr) -> Result<Accepted, Failure> {
    let connecting = endpoint
        .connect(address, SERVER_NAME)
        .map_err(|error| Failure::Other(error.to_string()))?;
    let connection = connecting.await?;
    let identity = identity_of(&connection)?;
    let streams = connection.open_bi().await?;
    Ok((connection, identity, streams))
}

/// Tells of the connection, runs it, and tells of its end.
async fn serve(
    connection: Connection,
    identity: Identity,
    streams: (SendStream, RecvStream),
    dialed: Option<SocketAddr>,
    setup: Setup,
) {
    let id = LinkId(setup.next_link.fetch_add(1, Ordering::Relaxed));
    let (link, lanes) = Link::new(id, connection, dialed, (setup.now)());
    let told = setup.outbox.tell(Event::Connected { link: link.clone(), identity }).await;
    if told.is_err() {
        return;
    }
    let (outbox, counts) = (setup.outbox.clone(), Arc::clone(&setup.counts));
    let why = link::run(link, lanes, streams, outbox, counts, setup.now).await;
    setup.counts.count_closed(&why);
    let _ = setup.outbox.tell(Event::Closed { link: id, why }).await;
}

/// Who the other side's certificate says it is. The chain was verified in the handshake.
fn identity_of(connection: &Connection) -> Result<Identity, Failure> {
    let identity = connection
        .peer_identity()
        .and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok())
        .and_then(|chain| chain.first().and_then(Identity::of));
    if identity.is_none() {
        connection.close(VarInt::from_u32(CloseCode::DONE.number), b"identity");
    }
    identity.ok_or(Failure::Nameless)
}
