//! Frames over UDP: one datagram in, at most one datagram out.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::net::UdpSocket;

use crate::door::{Door, Fault};
use crate::node::{Caller, Node};
use crate::shutdown::{LAST_LOOK, Phase, Shutdown};

/// Datagrams answered before other tasks of the thread get their turn.
const BURST: usize = 64;
/// One byte more than the longest frame, so that a longer datagram shows.
const DATAGRAM_BYTES_MAX: usize = wire::FRAME_BYTES_MAX + 1;
/// Most frames of one socket that wait for a held check; checks of further ones are decided at once.
/// Senders of datagrams cannot be made to wait as a connection can, so that what they make the node
/// keep must end somewhere: a quarter of what may be held in all, with one check each.
const LATE_FRAMES_MAX: usize = 256;
/// Pause after a receive that failed for another reason than an empty socket, so that a failure
/// that lasts does not take the thread.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(1);

/// Answers datagrams until the shutdown closes and the socket is empty. Every failure to receive
/// or send is passing: it is counted, and the next datagram is answered.
///
/// `is_exposed` says that the socket can be reached from beyond this host: senders can be forged,
/// so no answer is longer than its question.
pub async fn serve(socket: UdpSocket, is_exposed: bool, node: Arc<Node>, mut shutdown: Shutdown) {
    let caller = Caller { is_forgeable: is_exposed, ..Caller::known(Door::Udp) };
    let late = FuturesUnordered::new();
    let mut service = Service { socket: &socket, node: &node, caller, late };
    tokio::select! {
        never = service.answer_all() => match never {},
        () = shutdown.reached(Phase::Closing) => {}
    }
    // The time-out is the regular end: by then nothing had been waiting any more.
    let _ = tokio::time::timeout(LAST_LOOK, service.answer_all()).await;
    while let Some((answer, sender)) = service.late.next().await {
        service.send(&answer, sender);
    }
}

/// A reply that comes later, and whom it is for.
type Late<'n> = Pin<Box<dyn Future<Output = (Vec<u8>, SocketAddr)> + Send + 'n>>;

/// One socket being served.
struct Service<'n> {
    socket: &'n UdpSocket,
    node: &'n Node,
    caller: Caller,
    /// Replies that come later, at most [`LATE_FRAMES_MAX`].
    late: FuturesUnordered<Late<'n>>,
}

impl Service<'_> {
    /// Answers datagrams for ever. Cancelling it loses none that was received.
    async fn answer_all(&mut self) -> Infallible {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        let mut answer = Vec::with_capacity(wire::FRAME_BYTES_MAX);
        loop {
            let received = tokio::select! {
                ready = self.socket.readable() => {
                    ready.and_then(|()| self.answer_burst(&mut datagram, &mut answer))
                }
                Some((answer, sender)) = self.late.next(), if !self.late.is_empty() => {
                    self.send(&answer, sender);
                    Ok(Left::Nothing)
                }
            };
            self.send_ready();
            match received {
                Ok(Left::Nothing) => {}
                Ok(Left::Maybe) => tokio::task::yield_now().await,
                Err(_) => {
                    self.node.counters().count_fault(Door::Udp, Fault::Receive);
                    tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Answers up to [`BURST`] datagrams.
    fn answer_burst(&mut self, datagram: &mut [u8], answer: &mut Vec<u8>) -> io::Result<Left> {
        for _ in 0..BURST {
            let (length, sender) = match self.socket.try_recv_from(datagram) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Left::Nothing),
                Err(error) => return Err(error),
            };
            answer.clear();
            let frame = datagram.get(..length).unwrap_or_default();
            let now_ns = self.node.clock().now_ns();
            // What was wrong is counted and, where it should be, already in `answer`.
            let may_hold = self.late.len() < LATE_FRAMES_MAX;
            let caller = Caller { may_hold, ..self.caller };
            let late = self.node.answer_frame(now_ns, frame, answer, caller);
            if let Ok(Some(late)) = late {
                self.late.push(Box::pin(async move { (late.await, sender) }));
            } else if !answer.is_empty() {
                self.send(answer, sender);
            }
        }
        Ok(Left::Maybe)
    }

    /// Sends every late reply that is there. One in a turn would be too few: a turn may bring as many
    /// new ones as it takes datagrams in.
    fn send_ready(&mut self) {
        while let Some(Some((answer, sender))) = self.late.next().now_or_never() {
            self.send(&answer, sender);
        }
    }

    /// Sends, or drops and counts: a sender that cannot be reached must not hold up the others.
    fn send(&self, answer: &[u8], to: SocketAddr) {
        if self.socket.try_send_to(answer, to).is_err() {
            self.node.counters().count_fault(Door::Udp, Fault::Send);
        }
    }
}

/// What the socket holds after a burst.
enum Left {
    Nothing,
    Maybe,
}

#[cfg(test)]
mod tests {
    use limiter::Request;
    use tokio::task::JoinHandle;
    use wire::{RequestWriter, ServerFrame, decode_reply};

    use super::*;
    use crate::door::Outcome;
    use crate::scripted::{Scripted, patient_frame};
    use crate::shutdown::Stop;

    async fn serve_loopback() -> (UdpSocket, Arc<Node>, Stop, JoinHandle<()>) {
        serve_node(Node::with_burst(1_000)).await
    }

    async fn serve_node(node: Arc<Node>) -> (UdpSocket, Arc<Node>, Stop, JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let client = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        client.connect(socket.local_addr().expect("an address")).await.expect("a route");
        let (stop, shutdown) = Stop::new();
        let task = tokio::spawn(serve(socket, false, Arc::clone(&node), shutdown));
        (client, node, stop, task)
    }

    fn frame(id: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        let mut writer = RequestWriter::new(&mut frame, id);
        writer.check(&Request::check(b"GET /", b"alice"), None).expect("room");
        writer.finish();
        frame
    }

    async fn id_of_next(client: &UdpSocket) -> u64 {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        let length = client.recv(&mut datagram).await.expect("an answer");
        match decode_reply(&datagram[..length]) {
            Ok(ServerFrame::Reply(reply)) => reply.id,
            other => panic!("not a reply: {other:?}"),
        }
    }

    #[tokio::test]
    async fn datagrams_that_are_no_frame_have_no_answer_and_the_next_one_has() {
        let (client, node, _stop, _task) = serve_loopback().await;
        for bad in [&b""[..], b"R", b"RL", b"GET / HTTP/1.1", &[0; 1_000]] {
            client.send(bad).await.expect("room");
        }
        client.send(&frame(3)).await.expect("room");
        assert_eq!(id_of_next(&client).await, 3);
        assert_eq!(node.counters().faults(Door::Udp, Fault::Malformed), 5);
    }

    #[tokio::test]
    async fn senders_that_are_gone_do_not_stop_the_socket() {
        let (client, _node, _stop, _task) = serve_loopback().await;
        let at = client.peer_addr().expect("an address");
        for id in 0..100 {
            let gone = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            gone.send_to(&frame(id), at).await.expect("room");
        }
        client.send(&frame(7)).await.expect("room");
        assert_eq!(id_of_next(&client).await, 7);
    }

    #[tokio::test]
    async fn a_stop_answers_what_was_received_and_closes() {
        let (client, _node, stop, task) = serve_loopback().await;
        client.send(&frame(1)).await.expect("room");
        client.send(&frame(2)).await.expect("room");
        stop.advance(Phase::Closing);
        assert_eq!(id_of_next(&client).await, 1);
        assert_eq!(id_of_next(&client).await, 2);
        task.await.expect("no panic");
    }

    /// Six checks of one key: five are the node's share, the sixth is held.
    fn six(id: u64) -> Vec<u8> {
        patient_frame(id, "bob", 6)
    }

    #[tokio::test]
    async fn a_frame_that_is_held_is_overtaken_and_answered_when_peers_know() {
        let (node, peer) = Scripted::node(10);
        let (client, _node, _stop, _task) = serve_node(node).await;
        client.send(&six(1)).await.expect("room");
        client.send(&frame(2)).await.expect("room");
        assert_eq!(id_of_next(&client).await, 2);
        peer.acknowledge();
        assert_eq!(id_of_next(&client).await, 1);
    }

    /// One check that is held behind [`six`].
    fn seventh(id: u64) -> Vec<u8> {
        patient_frame(id, "bob", 1)
    }

    #[tokio::test]
    async fn a_socket_has_a_bounded_number_of_frames_that_wait() {
        let (node, peer) = Scripted::node(10);
        let (client, node, _stop, _task) = serve_node(node).await;
        client.send(&six(1)).await.expect("room");
        for id in 0..LATE_FRAMES_MAX as u64 - 1 {
            client.send(&seventh(1_000 + id)).await.expect("room");
            tokio::task::yield_now().await;
        }
        // Those that wait are silent; those above the bound are told no.
        for id in 2..12 {
            client.send(&seventh(id)).await.expect("room");
            assert_eq!(id_of_next(&client).await, id);
        }
        let counters = node.counters();
        assert_eq!(counters.faults(Door::Udp, Fault::HoldLimit), 10);
        assert_eq!(counters.checks(Door::Udp, Outcome::Denied), 10);
        let all = 6 + LATE_FRAMES_MAX as u64 - 1 + 10;
        let decided = || {
            let [allowed, denied] =
                [Outcome::Allowed, Outcome::Denied].map(|it| counters.checks(Door::Udp, it));
            allowed + denied
        };
        while decided() < all {
            peer.acknowledge();
            tokio::task::yield_now().await;
        }
        assert_eq!(counters.faults(Door::Udp, Fault::HoldLimit), 10);
        assert_eq!(node.limiter().counts().rules[0].units, 10);
        // There is room again: what would be denied at once waits, and passes.
        client.send(&patient_frame(7, "carol", 6)).await.expect("room");
        while counters.checks(Door::Udp, Outcome::Allowed) < 16 {
            peer.acknowledge();
            tokio::task::yield_now().await;
        }
        assert_eq!(counters.faults(Door::Udp, Fault::HoldLimit), 10);
    }

    #[tokio::test]
    async fn every_late_reply_that_is_there_is_sent_in_one_turn() {
        let (socket, client) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (socket, client) = (socket.await.expect("a port"), client.await.expect("a port"));
        let to = client.local_addr().expect("an address");
        let node = Node::with_burst(1);
        let late: FuturesUnordered<Late<'_>> = FuturesUnordered::new();
        for id in 0..BURST {
            late.push(Box::pin(async move { (id.to_le_bytes().to_vec(), to) }));
        }
        late.push(Box::pin(std::future::pending()));
        let caller = Caller::known(Door::Udp);
        let mut service = Service { socket: &socket, node: &node, caller, late };
        socket.writable().await.expect("a socket");
        service.send_ready();
        assert_eq!(service.late.len(), 1);
        let mut datagram = [0; 8];
        for _ in 0..BURST {
            client.recv(&mut datagram).await.expect("a reply");
        }
        assert_eq!(node.counters().faults(Door::Udp, Fault::Send), 0);
    }

    #[tokio::test]
    async fn a_stop_answers_what_is_held() {
        let (node, peer) = Scripted::node(10);
        let (client, _node, stop, task) = serve_node(node).await;
        client.send(&six(1)).await.expect("room");
        client.send(&frame(2)).await.expect("room");
        assert_eq!(id_of_next(&client).await, 2);
        stop.advance(Phase::Closing);
        tokio::time::sleep(2 * LAST_LOOK).await;
        peer.acknowledge();
        assert_eq!(id_of_next(&client).await, 1);
        task.await.expect("no panic");
    }
}
