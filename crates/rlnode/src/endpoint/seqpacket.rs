//! Frames over a unix seqpacket socket: one message in, one message out.
//!
//! Tokio has no type for such sockets. Those of unix streams serve, as long as only `try_read` and
//! `try_write` are used: the system keeps the bounds of messages, and these two, unlike the others,
//! do not take a short read for the end of what there is.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::{UnixListener, UnixStream};

use super::accept::serve_connections;
use super::has_gone;
use super::patience::Patience;
use crate::door::{Door, Fault};
use crate::frame::{HELD_FRAMES_MAX, LateReply};
use crate::node::{Caller, Node};
use crate::shutdown::{LAST_LOOK, Phase, Shutdown};

/// Messages answered before other tasks of the thread get their turn.
const BURST: usize = 64;
/// One byte more than the longest frame, so that a longer message shows.
const MESSAGE_BYTES_MAX: usize = wire::FRAME_BYTES_MAX + 1;

const CALLER: Caller = Caller::known(Door::Seqpacket);

/// Answers the messages of every connection until the shutdown closes and what was received is
/// answered. The listener's socket is of the type seqpacket.
pub async fn serve(listener: UnixListener, node: Arc<Node>, shutdown: Shutdown) {
    serve_connections(listener, Door::Seqpacket, node, shutdown, serve_connection).await;
}

async fn serve_connection(socket: UnixStream, node: Arc<Node>, mut shutdown: Shutdown) {
    let mut patience = Patience::new(node.clock().now_ns());
    let mut connection = Connection {
        socket: &socket,
        node: &node,
        unsent: VecDeque::new(),
        late: FuturesUnordered::new(),
    };
    loop {
        tokio::select! {
            alive = connection.progress() => {
                if alive.is_err() {
                    return;
                }
                patience.note(node.clock().now_ns(), false);
            }
            () = patience.patrol() => {
                if patience.is_over(node.clock().now_ns()) {
                    node.counters().count_fault(Door::Seqpacket, Fault::Timeout);
                    return;
                }
            }
            () = shutdown.reached(Phase::Closing) => return connection.finish().await,
        }
    }
}

struct Connection<'n> {
    socket: &'n UnixStream,
    node: &'n Node,
    /// Answers that found no room: one, and the late ones. While there is one nothing is read.
    unsent: VecDeque<Vec<u8>>,
    /// Replies that come later, at most [`HELD_FRAMES_MAX`].
    late: FuturesUnordered<LateReply<'n>>,
}

impl Connection<'_> {
    /// Waits until the socket can go on, and answers a burst, or until a reply comes that is late.
    /// Cancelling loses nothing: an answer that was not sent is in `unsent`.
    async fn progress(&mut self) -> io::Result<()> {
        let wants_more = self.unsent.is_empty() && self.late.len() < HELD_FRAMES_MAX;
        tokio::select! {
            biased;
            Some(reply) = self.late.next(), if !self.late.is_empty() => {
                self.unsent.push_back(reply);
                return self.send_unsent();
            }
            ready = self.socket.writable(), if !self.unsent.is_empty() => {
                ready?;
                return self.send_unsent();
            }
            ready = self.socket.readable(), if wants_more => ready?,
        }
        for _ in 0..BURST {
            match self.answer_message() {
                Ok(()) if self.unsent.is_empty() && self.late.len() < HELD_FRAMES_MAX => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    if !has_gone(self.socket).await {
                        self.finish_late().await?;
                    }
                    return Err(error);
                }
                answered => return answered,
            }
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Answers what the socket still holds, after a stop.
    async fn finish(&mut self) {
        let last_look = async { while self.progress().await.is_ok() {} };
        // The time-out is the regular end: by then nothing had been waiting any more.
        let _ = tokio::time::timeout(LAST_LOOK, last_look).await;
        // An error says that the client is gone, and with it whoever would want the answers.
        let _ = self.finish_late().await;
    }

    /// Waits for the replies that come later, and sends them and what found no room before.
    async fn finish_late(&mut self) -> io::Result<()> {
        while let Some(reply) = self.late.next().await {
            self.unsent.push_back(reply);
        }
        while !self.unsent.is_empty() {
            self.socket.writable().await?;
            self.send_unsent()?;
        }
        Ok(())
    }

    /// Sends what found no room before, as far as there is room now.
    fn send_unsent(&mut self) -> io::Result<()> {
        while let Some(answer) = self.unsent.front() {
            match self.socket.try_write(answer) {
                Ok(_) => drop(self.unsent.pop_front()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives one message and sends its answer, or puts it into `unsent`, or its reply comes later.
    ///
    /// # Errors
    /// `WouldBlock` if there is no message; anything else ends the connection.
    fn answer_message(&mut self) -> io::Result<()> {
        thread_local! {
            // Of the thread, not of the connection: a message is answered without a wait in between,
            // and thousands of connections then need no 64 KiB each.
            static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> =
                RefCell::new((vec![0; MESSAGE_BYTES_MAX], Vec::new()));
        }
        BUFFERS.with_borrow_mut(|(message, answer)| {
            let length = self.socket.try_read(message)?;
            if length == 0 {
                // The end. An empty message looks the same and is no frame either.
                return Err(ErrorKind::UnexpectedEof.into());
            }
            answer.clear();
            let frame = message.get(..length).unwrap_or_default();
            let now_ns = self.node.clock().now_ns();
            // What was wrong is counted and, where it should be, already in `answer`.
            if let Ok(Some(late)) = self.node.answer_frame(now_ns, frame, answer, CALLER) {
                self.late.push(late);
            }
            if answer.is_empty() {
                return Ok(());
            }
            match self.socket.try_write(answer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.unsent.push_back(answer.clone());
                    Ok(())
                }
                sent => sent.map(|_| ()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use limiter::Request;
    use socket2::{Domain, Socket, Type};
    use tokio::task::JoinHandle;
    use wire::{RequestWriter, ServerFrame, decode_reply};

    use super::*;
    use crate::scripted::{Scripted, patient_frame};
    use crate::shutdown::Stop;

    fn watched(socket: Socket) -> UnixStream {
        socket.set_nonblocking(true).expect("a socket");
        UnixStream::from_std(socket.into()).expect("a runtime")
    }

    fn serve_pair(burst: u64) -> (UnixStream, Arc<Node>, Stop, JoinHandle<()>) {
        serve_node(Node::with_burst(burst))
    }

    fn serve_node(node: Arc<Node>) -> (UnixStream, Arc<Node>, Stop, JoinHandle<()>) {
        let (client, server) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).expect("a pair");
        let (stop, shutdown) = Stop::new();
        let task = tokio::spawn(serve_connection(watched(server), Arc::clone(&node), shutdown));
        (watched(client), node, stop, task)
    }

    async fn send(client: &UnixStream, message: &[u8]) {
        client.writable().await.expect("a socket");
        client.try_write(message).expect("room");
    }

    fn frame(id: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        let mut writer = RequestWriter::new(&mut frame, id);
        writer.check(&Request::check(b"GET /", b"alice"), None).expect("room");
        writer.finish();
        frame
    }

    async fn receive(client: &UnixStream) -> Option<Vec<u8>> {
        loop {
            client.readable().await.expect("a socket");
            let mut message = vec![0; MESSAGE_BYTES_MAX];
            match client.try_read(&mut message) {
                Ok(0) => return None,
                Ok(length) => {
                    message.truncate(length);
                    return Some(message);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn id_of(message: Option<Vec<u8>>) -> u64 {
        match decode_reply(&message.expect("an answer")) {
            Ok(ServerFrame::Reply(reply)) => reply.id,
            other => panic!("not a reply: {other:?}"),
        }
    }

    #[tokio::test]
    async fn each_message_has_its_own_answer() {
        let (client, _node, _stop, _task) = serve_pair(10);
        for id in 0..5 {
            send(&client, &frame(id)).await;
        }
        for id in 0..5 {
            assert_eq!(id_of(receive(&client).await), id);
        }
    }

    #[tokio::test]
    async fn a_message_that_is_no_frame_has_no_answer_and_the_next_one_has() {
        let (client, node, _stop, _task) = serve_pair(10);
        send(&client, b"GET / HTTP/1.1").await;
        send(&client, &frame(9)).await;
        assert_eq!(id_of(receive(&client).await), 9);
        assert_eq!(node.counters().faults(Door::Seqpacket, Fault::Malformed), 1);
    }

    #[tokio::test]
    async fn a_stop_answers_what_was_received_and_closes() {
        let (client, _node, stop, task) = serve_pair(10);
        send(&client, &frame(1)).await;
        send(&client, &frame(2)).await;
        stop.advance(Phase::Closing);
        assert_eq!(id_of(receive(&client).await), 1);
        assert_eq!(id_of(receive(&client).await), 2);
        assert_eq!(receive(&client).await, None);
        task.await.expect("no panic");
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_gets_every_answer_when_it_does() {
        let (client, node, _stop, _task) = serve_pair(1_000_000);
        client.writable().await.expect("a socket");
        let mut sent = 0;
        let mut refusals = 0;
        while refusals < 100 {
            match client.try_write(&frame(sent)) {
                Ok(_) => {
                    sent += 1;
                    refusals = 0;
                }
                Err(_) => {
                    refusals += 1;
                    tokio::task::yield_now().await;
                }
            }
            assert!(sent < 1_000_000, "the node takes everything");
        }
        for id in 0..sent {
            assert_eq!(id_of(receive(&client).await), id);
        }
        assert_eq!(node.counters().frames(Door::Seqpacket), sent);
    }

    /// Six checks of one key: five are the node's share, the sixth is held.
    fn six(id: u64) -> Vec<u8> {
        patient_frame(id, "bob", 6)
    }

    #[tokio::test]
    async fn a_message_that_is_held_is_overtaken_and_answered_when_peers_know() {
        let (node, peer) = Scripted::node(10);
        let (client, _node, _stop, _task) = serve_node(node);
        send(&client, &six(1)).await;
        send(&client, &frame(2)).await;
        assert_eq!(id_of(receive(&client).await), 2);
        peer.acknowledge();
        assert_eq!(id_of(receive(&client).await), 1);
    }

    #[tokio::test]
    async fn a_stop_answers_what_is_held() {
        let (node, peer) = Scripted::node(10);
        let (client, _node, stop, task) = serve_node(node);
        send(&client, &six(1)).await;
        send(&client, &frame(2)).await;
        assert_eq!(id_of(receive(&client).await), 2);
        stop.advance(Phase::Closing);
        tokio::time::sleep(2 * LAST_LOOK).await;
        peer.acknowledge();
        assert_eq!(id_of(receive(&client).await), 1);
        task.await.expect("no panic");
    }

    #[tokio::test]
    async fn nothing_is_spent_for_a_client_that_has_gone() {
        let (node, _peer) = Scripted::node(10);
        let (client, node, _stop, task) = serve_node(node);
        send(&client, &six(1)).await;
        send(&client, &frame(2)).await;
        assert_eq!(id_of(receive(&client).await), 2);
        drop(client);
        task.await.expect("no panic");
        assert_eq!(node.counters().faults(Door::Seqpacket, Fault::Gone), 1);
        assert_eq!(node.limiter().counts().rules[0].units, 6);
    }
}
