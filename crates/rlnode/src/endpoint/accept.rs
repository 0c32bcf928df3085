//! Accepting connections, the same for every door that has them: bounded in number, patient when
//! the process is out of file descriptors, and finished in an orderly way.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::CONNECTIONS_MAX;
use crate::door::{Door, Fault};
use crate::log::Throttle;
use crate::node::Node;
use crate::shutdown::{FINISH, Phase, Shutdown};

/// Pause after a failed accept. Without it a process that is out of file descriptors would spin,
/// since the connection stays in the queue; with it, it recovers this soon after one is free.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A listening socket.
pub(super) trait Listener: Send + Sync + 'static {
    /// What it accepts.
    type Connection: Send + 'static;

    /// Waits for a connection. Cancelling loses none.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Connection>> + Send;

    /// Number of the user at the other end; none where the system does not know.
    fn user_of(connection: &Self::Connection) -> Option<u32>;
}

impl Listener for UnixListener {
    type Connection = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }

    fn user_of(connection: &UnixStream) -> Option<u32> {
        connection.peer_cred().ok().map(|cred| cred.uid())
    }
}

impl Listener for TcpListener {
    type Connection = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = Self::accept(self).await?;
        // Answers are small and written whole: waiting to fill a segment would only delay them.
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn user_of(_: &TcpStream) -> Option<u32> {
        None
    }
}

/// Accepts connections and runs `serve` for each until the shutdown closes, then waits for them to
/// finish, for [`FINISH`] at most.
pub(super) async fn serve_connections<L, F>(
    listener: L,
    door: Door,
    node: Arc<Node>,
    mut shutdown: Shutdown,
    serve: impl Fn(L::Connection, Arc<Node>, Shutdown) -> F,
) where
    L: Listener,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let throttle = Throttle::default();
    let own_shutdown = shutdown.clone();
    let open = |connections: &mut JoinSet<()>, connection| {
        if connections.len() >= CONNECTIONS_MAX {
            node.counters().count_fault(door, Fault::ConnectionLimit);
            warn_of_limit(door, &node, &throttle);
            return;
        }
        let served = serve(connection, Arc::clone(&node), own_shutdown.clone());
        let node = Arc::clone(&node);
        connections.spawn(async move {
            let _open = node.counters().open_connection(door);
            served.await;
        });
    };
    loop {
        tokio::select! {
            () = shutdown.reached(Phase::Closing) => break,
            accepted = listener.accept() => match accepted {
                Ok(connection) => open(&mut connections, connection),
                Err(error) => recover(error, door, &node, &throttle).await,
            },
            Some(ended) = connections.join_next() => log_panic(door, ended),
        }
    }
    // Who is in the queue has connected already, and would see a reset.
    for _ in 0..CONNECTIONS_MAX {
        match timeout(Duration::ZERO, listener.accept()).await {
            Ok(Ok(connection)) => open(&mut connections, connection),
            _ => break,
        }
    }
    drop(listener);
    finish(connections, door).await;
}

/// Waits for connections to end, and cuts those that do not in time.
async fn finish(mut connections: JoinSet<()>, door: Door) {
    let ended = async {
        while let Some(ended) = connections.join_next().await {
            log_panic(door, ended);
        }
    };
    if timeout(FINISH, ended).await.is_err() {
        tracing::warn!(door = door.as_str(), open = connections.len(), "connections cut at stop");
        connections.shutdown().await;
    }
}

/// Counts a failed accept and, unless the failure was the peer's, pauses.
async fn recover(error: io::Error, door: Door, node: &Node, throttle: &Throttle) {
    node.counters().count_fault(door, Fault::Accept);
    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) {
        return;
    }
    if let Some(held_back) = throttle.pass(node.clock().now_ns()) {
        tracing::warn!(
            door = door.as_str(),
            %error,
            held_back,
            "connections cannot be accepted; raise the limit of open files"
        );
    }
    tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
}

fn warn_of_limit(door: Door, node: &Node, throttle: &Throttle) {
    if let Some(held_back) = throttle.pass(node.clock().now_ns()) {
        tracing::warn!(
            door = door.as_str(),
            connections_max = CONNECTIONS_MAX,
            held_back,
            "connection closed: the door has as many as it takes"
        );
    }
}

fn log_panic(door: Door, ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(door = door.as_str(), %error, "a connection's task failed");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::shutdown::Stop;

    /// Gives each of its results once, by number, then waits for ever.
    struct Scripted<F> {
        accepted: Arc<AtomicUsize>,
        result: F,
    }

    impl<F> Listener for Scripted<F>
    where
        F: Fn(usize) -> Option<io::Result<()>> + Send + Sync + 'static,
    {
        type Connection = ();

        async fn accept(&self) -> io::Result<()> {
            match (self.result)(self.accepted.load(Ordering::Relaxed)) {
                Some(result) => {
                    self.accepted.fetch_add(1, Ordering::Relaxed);
                    result
                }
                None => std::future::pending().await,
            }
        }

        fn user_of(_: &()) -> Option<u32> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_beyond_the_limit_are_closed_and_counted() {
        let node = Node::with_burst(1);
        let (stop, shutdown) = Stop::new();
        let accepted = Arc::new(AtomicUsize::new(0));
        let listener = Scripted {
            accepted: Arc::clone(&accepted),
            result: |i| (i < CONNECTIONS_MAX + 3).then_some(Ok(())),
        };
        let serve = |(), _node, mut shutdown: Shutdown| async move {
            shutdown.reached(Phase::Closing).await;
        };
        let served = serve_connections(listener, Door::Stream, Arc::clone(&node), shutdown, serve);
        let stopped = async {
            while accepted.load(Ordering::Relaxed) < CONNECTIONS_MAX + 3 {
                tokio::task::yield_now().await;
            }
            stop.advance(Phase::Closing);
        };
        tokio::join!(served, stopped);
        let counters = node.counters();
        assert_eq!(counters.faults(Door::Stream, Fault::ConnectionLimit), 3);
        assert_eq!(counters.connections_total(Door::Stream), CONNECTIONS_MAX as u64);
        assert_eq!(counters.connections_open(Door::Stream), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_without_file_descriptors_pauses_and_recovers() {
        const FAILURES: usize = 50;
        let emfile = || io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        let node = Node::with_burst(1);
        let (stop, shutdown) = Stop::new();
        let accepted = Arc::new(AtomicUsize::new(0));
        let listener = Scripted {
            accepted: Arc::clone(&accepted),
            result: move |i| match i {
                0..FAILURES => Some(Err(emfile())),
                FAILURES => Some(Ok(())),
                _ => None,
            },
        };
        let mut own_shutdown = shutdown.clone();
        let served = serve_connections(
            listener,
            Door::Stream,
            Arc::clone(&node),
            shutdown,
            |(), node: Arc<Node>, _| async move {
                assert_eq!(node.counters().connections_open(Door::Stream), 1);
            },
        );
        let task = tokio::spawn(async move {
            // Fifty failures take fifty pauses; one second more and the connection is served.
            let pauses = PAUSE_AFTER_FAILURE * u32::try_from(FAILURES).expect("a small number");
            let wait =
                timeout(pauses - PAUSE_AFTER_FAILURE / 2, own_shutdown.reached(Phase::Closing));
            assert!(wait.await.is_err());
            assert!(accepted.load(Ordering::Relaxed) <= FAILURES);
            let wait = timeout(Duration::from_secs(1), own_shutdown.reached(Phase::Closing));
            assert!(wait.await.is_err());
            stop.advance(Phase::Closing);
        });
        served.await;
        task.await.expect("no panic");
        let counters = node.counters();
        assert_eq!(counters.faults(Door::Stream, Fault::Accept), FAILURES as u64);
        assert_eq!(counters.connections_total(Door::Stream), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_finish_is_cut() {
        let node = Node::with_burst(1);
        let (stop, shutdown) = Stop::new();
        let listener =
            Scripted { accepted: Arc::default(), result: |i| (i == 0).then_some(Ok(())) };
        let served =
            serve_connections(listener, Door::Http, Arc::clone(&node), shutdown, |(), _, _| {
                std::future::pending()
            });
        let stopped = async {
            while node.counters().connections_open(Door::Http) == 0 {
                tokio::task::yield_now().await;
            }
            stop.advance(Phase::Closing);
        };
        tokio::join!(served, stopped);
        assert_eq!(node.counters().connections_open(Door::Http), 0);
    }
}
