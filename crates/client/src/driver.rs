//! The task behind the async client: it owns the connection, sends what callers ask and hands them
//! what the node answers. It sets no timer: callers give up by themselves.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::answer::Silence;
use crate::clock;
use crate::question::Outcome;
use crate::reconnect::Reconnect;
use crate::transport::Connection;
use crate::window::Window;
use crate::{Address, Backoff};

/// Receives, or frames sent, in a row before the other has its turn, so that neither starves it.
const IN_A_ROW_MAX: usize = 64;

/// A frame on its way to the driver.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) id: u64,
    pub(crate) frame: Vec<u8>,
}

/// The task's state.
#[derive(Debug)]
pub(crate) struct Driver {
    address: Address,
    window: Arc<Mutex<Window>>,
    commands: mpsc::Receiver<Command>,
    reconnect: Reconnect,
}

impl Driver {
    pub(crate) fn new(
        address: Address,
        window: Arc<Mutex<Window>>,
        commands: mpsc::Receiver<Command>,
        backoff: Backoff,
    ) -> Self {
        Self { address, window, commands, reconnect: Reconnect::new(backoff) }
    }

    /// Runs until every client is gone. A connection is opened when there is something to ask.
    pub(crate) async fn run(mut self) {
        while let Some(command) = self.commands.recv().await {
            let id = command.id;
            if let Err(kind) = self.reconnect.may_try(clock::now_ns()) {
                self.window.lock().settle(id, Silence::Unreachable(kind));
                continue;
            }
            let connection = match Connection::open(&self.address, self.reconnect.attempts()).await
            {
                Ok(connection) => connection,
                Err(error) => {
                    self.handle_failure(Silence::Unreachable(error.kind()), &error);
                    self.window.lock().settle(id, Silence::Unreachable(error.kind()));
                    continue;
                }
            };
            match self.drive(connection, command).await {
                Ok(()) => return,
                Err(error) => self.handle_failure(Silence::Lost(error.kind()), &error),
            }
        }
    }

    fn handle_failure(&mut self, silence: Silence, error: &io::Error) {
        self.window.lock().handle_failure(silence);
        self.reconnect.handle_failure(clock::now_ns(), error.kind());
    }

    /// Serves one connection until it breaks (an error) or every client is gone.
    async fn drive(&mut self, mut connection: Connection, first: Command) -> io::Result<()> {
        self.send(&mut connection, &first)?;
        loop {
            connection.flush()?;
            tokio::select! {
                ready = connection.ready() => {
                    ready?;
                    self.receive(&mut connection)?;
                }
                command = self.commands.recv(), if connection.has_room() => {
                    let Some(command) = command else { return Ok(()) };
                    self.send(&mut connection, &command)?;
                    self.send_waiting(&mut connection)?;
                }
            }
        }
    }

    /// Sends the frames that wait already, so that those on a stream share one write.
    fn send_waiting(&mut self, connection: &mut Connection) -> io::Result<()> {
        for _ in 1..IN_A_ROW_MAX {
            if !connection.has_room() {
                break;
            }
            let Ok(command) = self.commands.try_recv() else { break };
            self.send(connection, &command)?;
        }
        Ok(())
    }

    /// Hands a frame to the connection, unless its caller has given up meanwhile: nothing is spent
    /// for a caller that has gone.
    fn send(&self, connection: &mut Connection, command: &Command) -> io::Result<()> {
        if self.window.lock().mark_sent(command.id) {
            connection.queue(&command.frame)?;
        }
        Ok(())
    }

    fn receive(&mut self, connection: &mut Connection) -> io::Result<()> {
        for _ in 0..IN_A_ROW_MAX {
            let Some(inbound) = connection.receive()? else { return Ok(()) };
            while let Some(frame) = inbound.next_frame().map_err(to_io)? {
                let outcome = Outcome::read(frame);
                if self.window.lock().handle_reply(wire::frame_id(frame), outcome) {
                    self.reconnect.handle_answer();
                }
            }
        }
        Ok(())
    }
}

fn to_io(error: wire::FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
