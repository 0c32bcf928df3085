//! The Redis protocol over TCP and a unix socket: many commands in one read, their replies in one write.

mod command;
mod session;

use std::io;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::resp::{Parsed, RespError, RespWriter, parse};

use super::accept::{Listener, serve_connections};
use super::patience::Patience;
use super::write_limit::WriteLimit;
use crate::door::{Door, Fault};
use crate::node::Node;
use crate::shutdown::{LAST_LOOK, Phase, Shutdown};
use command::{After, Reply};
use session::Session;

/// Room made for each read.
const READ_BYTES: usize = 16 * 1024;
/// Replies are written once there are this many bytes of them, before further commands are carried out.
const WRITE_BYTES: usize = 64 * 1024;
/// Commands whose replies come later, and that are carried out at the same time; one more waits for them.
const LATER_MAX: usize = 64;

/// Serves every connection until the shutdown closes and what was received is answered.
pub(super) async fn serve<L>(listener: L, node: Arc<Node>, shutdown: Shutdown)
where
    L: Listener,
    L::Connection: AsyncRead + AsyncWrite + Unpin,
{
    serve_connections(listener, Door::Redis, node, shutdown, |io, node, shutdown| {
        let user = L::user_of(&io);
        let own = rustix::process::geteuid().as_raw();
        let is_operator = user.is_some_and(|user| user == 0 || user == own);
        async move {
            Connection::new(WriteLimit::new(io), &node, is_operator).run(shutdown).await;
        }
    })
    .await;
}

/// Why a connection ends. None of these is an error of the node.
enum End {
    /// The client closed, failed, said goodbye, or sent what cannot be answered.
    Client,
    /// The client took too long.
    Timeout,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::TimedOut { Self::Timeout } else { Self::Client }
    }
}

/// What is to be written, in its order.
enum Item<'n> {
    Ready(Vec<u8>),
    Later(command::Later<'n>),
}

struct Connection<'n, S> {
    io: S,
    node: &'n Node,
    session: Session,
    patience: Patience,
    /// Bytes that no command was made of yet.
    input: Vec<u8>,
    is_closing: bool,
}

impl<'n, S: AsyncRead + AsyncWrite + Unpin> Connection<'n, S> {
    fn new(io: S, node: &'n Node, is_operator: bool) -> Self {
        Self {
            io,
            node,
            session: Session::new(is_operator),
            patience: Patience::new(node.clock().now_ns()),
            input: Vec::new(),
            is_closing: false,
        }
    }

    async fn run(mut self, mut shutdown: Shutdown) {
        let ended = tokio::select! {
            ended = self.serve() => ended,
            () = shutdown.reached(Phase::Closing) => self.finish().await,
        };
        if matches!(ended, End::Timeout) {
            self.node.counters().count_fault(Door::Redis, Fault::Timeout);
        }
    }

    /// Reads and answers until the connection ends.
    async fn serve(&mut self) -> End {
        loop {
            if let Err(end) = self.step().await {
                return end;
            }
        }
    }

    /// Answers what was received and what the socket still holds, after a stop.
    async fn finish(&mut self) -> End {
        match tokio::time::timeout(LAST_LOOK, self.serve()).await {
            Ok(end) => end,
            Err(_) => self.answer().await.err().unwrap_or(End::Client),
        }
    }

    async fn step(&mut self) -> Result<(), End> {
        self.answer().await?;
        if self.input.is_empty() {
            self.input.shrink_to(2 * READ_BYTES);
        }
        self.input.reserve(READ_BYTES);
        loop {
            tokio::select! {
                read = self.io.read_buf(&mut self.input) => match read? {
                    0 => return Err(End::Client),
                    _ => return Ok(()),
                },
                () = self.patience.patrol() => {
                    if self.patience.is_over(self.node.clock().now_ns()) {
                        return Err(End::Timeout);
                    }
                }
            }
        }
    }

    /// Answers every command that is whole.
    async fn answer(&mut self) -> Result<(), End> {
        loop {
            let (items, is_done) = self.carry_out();
            self.write(items).await?;
            if self.is_closing {
                return Err(End::Client);
            }
            if is_done {
                break;
            }
        }
        // Only now: a client that is slow to read is not one that is slow to send.
        self.patience.note(self.node.clock().now_ns(), !self.input.is_empty());
        Ok(())
    }

    /// Carries out commands while there is room for replies; whether all that are whole were.
    fn carry_out(&mut self) -> (Vec<Item<'n>>, bool) {
        let mut input = std::mem::take(&mut self.input);
        let (mut items, mut ready, mut taken, mut later, mut bytes) =
            (Vec::new(), Vec::new(), 0, 0, 0);
        let is_done = loop {
            if self.is_closing {
                break true;
            }
            if bytes + ready.len() >= WRITE_BYTES || later >= LATER_MAX {
                break false;
            }
            let rest = input.get(taken..).unwrap_or_default();
            let (arguments, length) = match parse(rest) {
                Ok(Parsed::Command(arguments, length)) => (arguments, length),
                Ok(Parsed::Incomplete) => break true,
                Err(error) => {
                    self.refuse(error, &mut ready);
                    continue;
                }
            };
            let reply = command::carry_out(self.node, &mut self.session, &arguments, &mut ready);
            taken += length;
            self.patience.note_frame();
            match reply {
                Reply::Done(After::Go) => {}
                Reply::Done(After::Close) => self.is_closing = true,
                Reply::Later(reply) => {
                    bytes += ready.len();
                    items.push(Item::Ready(std::mem::take(&mut ready)));
                    items.push(Item::Later(reply));
                    later += 1;
                }
                Reply::First(reply) => {
                    items.push(Item::Ready(std::mem::take(&mut ready)));
                    items.push(Item::Later(reply));
                    break false;
                }
            }
        };
        input.drain(..taken);
        self.input = input;
        items.push(Item::Ready(ready));
        (items, is_done)
    }

    /// Tells a client whose next command cannot be found why the connection ends.
    fn refuse(&mut self, error: RespError, ready: &mut Vec<u8>) {
        let fault = match error {
            RespError::TooLong => Fault::TooLarge,
            _ => Fault::Malformed,
        };
        self.node.counters().count_fault(Door::Redis, fault);
        RespWriter::new(ready, self.session.version).error(&format!("ERR Protocol error: {error}"));
        self.is_closing = true;
    }

    /// Writes `items` in their order, when the last of them is known.
    async fn write(&mut self, items: Vec<Item<'n>>) -> Result<(), End> {
        let mut items = items.into_iter();
        let output = match (items.next(), items.len()) {
            (Some(Item::Ready(ready)), 0) => ready,
            (first, _) => {
                let known = first.into_iter().chain(items).map(|item| async {
                    match item {
                        Item::Ready(ready) => ready,
                        Item::Later(reply) => reply.await,
                    }
                });
                join_all(known).await.concat()
            }
        };
        if !output.is_empty() {
            self.io.write_all(&output).await?;
            self.io.flush().await?;
        }
        Ok(())
    }
}
