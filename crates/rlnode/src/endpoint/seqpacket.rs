//! Frames over a unix seqpacket socket: one message in, one message out.
//!
//! Tokio has no type for such sockets. Those of unix streams serve, as long as only `try_read` and
//! `try_write` are used: the system keeps the bounds of messages, and these two, unlike the others,
//! do not take a short read for the end of what there is.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};

use super::accept::serve_connections;
use super::patience::Patience;
use crate::door::{Door, Fault};
use crate::node::{Caller, Node};
use crate::shutdown::{LAST_LOOK, Phase, Shutdown};

/// Messages answered before other tasks of the thread get their turn.
const BURST: usize = 64;
/// One byte more than the longest frame, so that a longer message shows.
const MESSAGE_BYTES_MAX: usize = wire::FRAME_BYTES_MAX + 1;

const CALLER: Caller = Caller { door: Door::Seqpacket, is_forgeable: false };

/// Answers the messages of every connection until the shutdown closes and what was received is
/// answered. The listener's socket is of the type seqpacket.
pub async fn serve(listener: UnixListener, node: Arc<Node>, shutdown: Shutdown) {
    serve_connections(listener, Door::Seqpacket, node, shutdown, serve_connection).await;
}

async fn serve_connection(socket: UnixStream, node: Arc<Node>, mut shutdown: Shutdown) {
    let mut patience = Patience::new(node.clock().now_ns());
    // An answer that found no room. While there is one nothing is read.
    let mut unsent = Vec::new();
    loop {
        tokio::select! {
            alive = progress(&socket, &mut unsent, &node) => {
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
            () = shutdown.reached(Phase::Closing) => return finish(&socket, unsent, &node).await,
        }
    }
}

/// Waits until the socket can go on, and answers a burst. Cancelling loses nothing: an answer that
/// was not sent is in `unsent`.
async fn progress(socket: &UnixStream, unsent: &mut Vec<u8>, node: &Node) -> io::Result<()> {
    send_unsent(socket, unsent).await?;
    socket.readable().await?;
    for _ in 0..BURST {
        match answer_message(socket, unsent, node) {
            Ok(()) if unsent.is_empty() => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            answered => return answered,
        }
    }
    tokio::task::yield_now().await;
    Ok(())
}

/// Answers what the socket still holds, after a stop.
async fn finish(socket: &UnixStream, mut unsent: Vec<u8>, node: &Node) {
    let last_look = async { while progress(socket, &mut unsent, node).await.is_ok() {} };
    // The time-out is the regular end: by then nothing had been waiting any more.
    let _ = tokio::time::timeout(LAST_LOOK, last_look).await;
    // An error says that the client is gone, and with it whoever would want the answer.
    let _ = send_unsent(socket, &mut unsent).await;
}

/// Sends what found no room before, if anything did.
async fn send_unsent(socket: &UnixStream, unsent: &mut Vec<u8>) -> io::Result<()> {
    while !unsent.is_empty() {
        socket.writable().await?;
        match socket.try_write(unsent) {
            Ok(_) => *unsent = Vec::new(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives one message and sends its answer, or puts it into `unsent`.
///
/// # Errors
/// `WouldBlock` if there is no message; anything else ends the connection.
fn answer_message(socket: &UnixStream, unsent: &mut Vec<u8>, node: &Node) -> io::Result<()> {
    thread_local! {
        // Of the thread, not of the connection: a message is answered without a wait in between,
        // and thousands of connections then need no 64 KiB each.
        static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> =
            RefCell::new((vec![0; MESSAGE_BYTES_MAX], Vec::new()));
    }
    BUFFERS.with_borrow_mut(|(message, answer)| {
        let length = socket.try_read(message)?;
        if length == 0 {
            // The end. An empty message looks the same and is no frame either.
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answer.clear();
        let frame = message.get(..length).unwrap_or_default();
        // What was wrong is counted and, where it should be, already in `answer`.
        let _ = node.answer_frame(node.clock().now_ns(), frame, answer, CALLER);
        if answer.is_empty() {
            return Ok(());
        }
        match socket.try_write(answer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                unsent.extend_from_slice(answer);
                Ok(())
            }
            sent => sent.map(|_| ()),
        }
    })
}

#[cfg(test)]
mod tests {
    use limiter::Request;
    use socket2::{Domain, Socket, Type};
    use tokio::task::JoinHandle;
    use wire::{RequestWriter, ServerFrame, decode_reply};

    use super::*;
    use crate::shutdown::Stop;

    fn watched(socket: Socket) -> UnixStream {
        socket.set_nonblocking(true).expect("a socket");
        UnixStream::from_std(socket.into()).expect("a runtime")
    }

    fn serve_pair(burst: u64) -> (UnixStream, Arc<Node>, Stop, JoinHandle<()>) {
        let (client, server) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).expect("a pair");
        let node = Node::with_burst(burst);
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
}
