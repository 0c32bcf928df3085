//! Frames over a unix stream socket: many in one read, their answers in one write.

use std::io;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::accept::serve_connections;
use super::has_gone;
use super::patience::Patience;
use crate::door::{Door, Fault};
use crate::frame::{HELD_FRAMES_MAX, LateReply};
use crate::node::{Caller, Node};
use crate::shutdown::{LAST_LOOK, Phase, Shutdown};

/// Room made for each read.
const READ_BYTES: usize = 16 * 1024;
/// Answers are written once there are this many bytes of them, before further frames are decided.
/// With one more answer on top this bounds what a client that does not read can make the node hold.
const WRITE_BYTES: usize = 64 * 1024;

const CALLER: Caller = Caller::known(Door::Stream);

/// Answers the frames of every connection until the shutdown closes and what was received is
/// answered.
pub async fn serve(listener: UnixListener, node: Arc<Node>, shutdown: Shutdown) {
    serve_connections(listener, Door::Stream, node, shutdown, serve_connection).await;
}

async fn serve_connection(stream: UnixStream, node: Arc<Node>, shutdown: Shutdown) {
    Connection::new(stream, &node).run(shutdown).await;
}

/// Why a connection ends. None of these is an error of the node.
enum End {
    /// The client closed, failed, or sent what cannot be answered.
    Client,
    /// The client took too long.
    Timeout,
    /// The node stops.
    Stop,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Client
    }
}

struct Connection<'n> {
    stream: UnixStream,
    node: &'n Node,
    patience: Patience,
    /// Bytes that no frame was made of yet: less than one frame once they are answered.
    input: Vec<u8>,
    /// Answers that are not written yet.
    output: Vec<u8>,
    /// Replies that come later, at most [`HELD_FRAMES_MAX`].
    late: FuturesUnordered<LateReply<'n>>,
    /// The client sent what has no next frame: write what there is, then close.
    is_closing: bool,
}

impl<'n> Connection<'n> {
    fn new(stream: UnixStream, node: &'n Node) -> Self {
        Self {
            stream,
            node,
            patience: Patience::new(node.clock().now_ns()),
            input: Vec::new(),
            output: Vec::new(),
            late: FuturesUnordered::new(),
            is_closing: false,
        }
    }

    async fn run(mut self, mut shutdown: Shutdown) {
        let ended = tokio::select! {
            ended = self.serve() => ended,
            () = shutdown.reached(Phase::Closing) => self.finish().await,
        };
        if matches!(ended, End::Timeout) {
            self.node.counters().count_fault(Door::Stream, Fault::Timeout);
        }
    }

    /// Reads and answers until the connection ends. Cancelling loses nothing that was received.
    async fn serve(&mut self) -> End {
        loop {
            if let Err(end) = self.answer().await {
                return end;
            }
            if let Err(end) = self.progress().await {
                return end;
            }
        }
    }

    /// Answers what was received and what the socket still holds, after a stop.
    async fn finish(&mut self) -> End {
        if let Ok(end) = tokio::time::timeout(LAST_LOOK, self.serve()).await {
            return end;
        }
        match self.finish_frames().await {
            Ok(()) => End::Stop,
            Err(end) => end,
        }
    }

    /// Waits for bytes, or for a reply that comes later.
    async fn progress(&mut self) -> Result<(), End> {
        let wants_more = self.late.len() < HELD_FRAMES_MAX;
        self.make_room();
        loop {
            tokio::select! {
                biased;
                Some(reply) = self.late.next(), if !self.late.is_empty() => {
                    self.output.extend_from_slice(&reply);
                    return Ok(());
                }
                read = self.stream.read_buf(&mut self.input), if wants_more => match read? {
                    0 => return self.end().await,
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

    /// The client sends no more. One that is gone altogether gets nothing spent; one that only said
    /// so still waits for its answers.
    async fn end(&mut self) -> Result<(), End> {
        if !has_gone(&self.stream).await {
            self.finish_frames().await?;
        }
        Err(End::Client)
    }

    /// Answers every complete frame, and waits for the replies that come later.
    async fn finish_frames(&mut self) -> Result<(), End> {
        loop {
            self.answer().await?;
            if self.late.is_empty() {
                return Ok(());
            }
            self.finish_late().await?;
        }
    }

    /// Waits for the replies that come later, and writes them.
    async fn finish_late(&mut self) -> Result<(), End> {
        while let Some(reply) = self.late.next().await {
            self.output.extend_from_slice(&reply);
        }
        self.write().await
    }

    /// Makes room for one read, and gives back what a long frame needed.
    fn make_room(&mut self) {
        if self.input.is_empty() {
            self.input.shrink_to(2 * READ_BYTES);
        }
        self.input.reserve(READ_BYTES);
    }

    /// Answers every complete frame in the input. Frames that are answered leave it before anything
    /// is awaited, so that a stop in between decides none twice.
    async fn answer(&mut self) -> Result<(), End> {
        loop {
            let answered = self.answer_until_full();
            self.write().await?;
            match answered {
                Answered::WantsMore => break,
                Answered::Full => {}
                Answered::Closes => {
                    self.finish_late().await?;
                    return Err(End::Client);
                }
            }
        }
        // Only now: a client that is slow to read is not one that is slow to send.
        self.patience.note(self.node.clock().now_ns(), !self.input.is_empty());
        Ok(())
    }

    /// Answers complete frames while there is room for answers.
    fn answer_until_full(&mut self) -> Answered {
        let mut taken = 0;
        let answered = loop {
            if self.is_closing {
                break Answered::Closes;
            }
            if self.output.len() >= WRITE_BYTES {
                break Answered::Full;
            }
            if self.late.len() >= HELD_FRAMES_MAX {
                break Answered::WantsMore;
            }
            let rest = self.input.get(taken..).unwrap_or_default();
            let length = match wire::frame_length(rest) {
                Ok(Some(length)) if length <= rest.len() => length,
                Ok(_) => break Answered::WantsMore,
                Err(error) => {
                    self.node.refuse_frame(error, rest, &mut self.output, CALLER);
                    self.is_closing = true;
                    continue;
                }
            };
            let frame = rest.get(..length).unwrap_or_default();
            let now_ns = self.node.clock().now_ns();
            match self.node.answer_frame(now_ns, frame, &mut self.output, CALLER) {
                Ok(late) => self.late.extend(late),
                Err(error) => self.is_closing = error.closes_stream(),
            }
            self.patience.note_frame();
            taken += length;
        };
        self.input.drain(..taken);
        answered
    }

    async fn write(&mut self) -> Result<(), End> {
        while !self.output.is_empty() {
            tokio::select! {
                biased;
                // A client that is slow to read holds nothing for longer than it may be held.
                Some(reply) = self.late.next(), if !self.late.is_empty() => {
                    self.output.extend_from_slice(&reply);
                }
                written = self.stream.write(&self.output) => {
                    let written = written?;
                    if written == 0 {
                        return Err(End::Client);
                    }
                    self.output.drain(..written);
                    if !self.output.is_empty() {
                        self.patience.note(self.node.clock().now_ns(), false);
                    }
                }
                () = self.patience.patrol() => {
                    if self.patience.is_over(self.node.clock().now_ns()) {
                        return Err(End::Timeout);
                    }
                }
            }
        }
        self.output.shrink_to(2 * WRITE_BYTES);
        Ok(())
    }
}

/// What became of the input.
enum Answered {
    /// Every complete frame is answered, or as many wait for an answer as may.
    WantsMore,
    /// The answers are to be written first.
    Full,
    /// The start of the next frame cannot be known.
    Closes,
}

#[cfg(test)]
mod tests {
    use limiter::Request;
    use tokio::task::JoinHandle;
    use wire::{ErrorCode, RequestWriter, ServerFrame, decode_reply};

    use super::*;
    use crate::scripted::{Scripted, patient_frame};
    use crate::shutdown::Stop;

    const FRAMES: u64 = 1_000;

    struct Served {
        client: UnixStream,
        node: Arc<Node>,
        stop: Stop,
        task: JoinHandle<()>,
    }

    fn serve_pair(burst: u64) -> Served {
        serve_node(Node::with_burst(burst))
    }

    fn serve_node(node: Arc<Node>) -> Served {
        let (client, server) = UnixStream::pair().expect("a pair");
        let (stop, shutdown) = Stop::new();
        let task = tokio::spawn(serve_connection(server, Arc::clone(&node), shutdown));
        Served { client, node, stop, task }
    }

    fn frame(id: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        let mut writer = RequestWriter::new(&mut frame, id);
        writer.check(&Request::check(b"GET /", b"alice"), None).expect("room");
        writer.finish();
        frame
    }

    async fn read_frame(client: &mut UnixStream) -> Vec<u8> {
        let mut frame = vec![0; wire::HEADER_BYTES];
        client.read_exact(&mut frame).await.expect("a header");
        let length = wire::frame_length(&frame).expect("a frame").expect("its length");
        frame.resize(length, 0);
        client.read_exact(&mut frame[wire::HEADER_BYTES..]).await.expect("a frame");
        frame
    }

    /// Id and what is left after the only check of a reply.
    fn told(frame: &[u8]) -> (u64, u64) {
        match decode_reply(frame) {
            Ok(ServerFrame::Reply(reply)) => {
                let answer = reply.answers().next().expect("an answer").expect("a decision");
                (reply.id, answer.remaining.expect("a number"))
            }
            other => panic!("not a reply: {other:?}"),
        }
    }

    #[tokio::test]
    async fn frames_written_at_once_are_answered_in_order() {
        let mut served = serve_pair(FRAMES);
        let all: Vec<u8> = (0..FRAMES).flat_map(frame).collect();
        served.client.write_all(&all).await.expect("room");
        for id in 0..FRAMES {
            assert_eq!(told(&read_frame(&mut served.client).await), (id, FRAMES - 1 - id));
        }
    }

    #[tokio::test]
    async fn a_frame_may_come_a_byte_at_a_time() {
        let mut served = serve_pair(2);
        for id in [7, 8] {
            for byte in frame(id) {
                served.client.write_all(&[byte]).await.expect("room");
                tokio::task::yield_now().await;
            }
            assert_eq!(told(&read_frame(&mut served.client).await).0, id);
        }
        assert_eq!(served.node.counters().frames(Door::Stream), 2);
    }

    #[tokio::test]
    async fn a_malformed_record_is_answered_in_its_place_and_the_stream_goes_on() {
        let mut served = serve_pair(10);
        let mut broken = frame(2);
        broken[wire::HEADER_BYTES] = 0xff;
        let all = [frame(1), broken, frame(3)].concat();
        served.client.write_all(&all).await.expect("room");
        assert_eq!(told(&read_frame(&mut served.client).await), (1, 9));
        assert!(matches!(
            decode_reply(&read_frame(&mut served.client).await),
            Ok(ServerFrame::Error { id: 2, code: ErrorCode::Malformed, .. })
        ));
        assert_eq!(told(&read_frame(&mut served.client).await), (3, 8));
    }

    #[tokio::test]
    async fn what_is_no_frame_is_told_so_and_closed() {
        let mut served = serve_pair(10);
        served
            .client
            .write_all(&[frame(1), b"GET / HTTP/1.1".to_vec()].concat())
            .await
            .expect("room");
        assert_eq!(told(&read_frame(&mut served.client).await), (1, 9));
        assert!(matches!(
            decode_reply(&read_frame(&mut served.client).await),
            Ok(ServerFrame::Error { id: 0, code: ErrorCode::Malformed, .. })
        ));
        assert_eq!(served.client.read(&mut [0]).await.ok(), Some(0));
        served.task.await.expect("no panic");
        assert_eq!(served.node.counters().faults(Door::Stream, Fault::Malformed), 1);
    }

    #[tokio::test]
    async fn a_client_that_goes_in_the_middle_of_a_frame_costs_nothing() {
        let mut served = serve_pair(10);
        let half = frame(1);
        served.client.write_all(&half[..half.len() - 1]).await.expect("room");
        drop(served.client);
        served.task.await.expect("no panic");
        assert_eq!(served.node.limiter().counts().rules[0].units, 0);
    }

    #[tokio::test]
    async fn a_stop_answers_what_was_received_and_closes() {
        let mut served = serve_pair(10);
        served.client.write_all(&[frame(1), frame(2)].concat()).await.expect("room");
        served.stop.advance(Phase::Closing);
        assert_eq!(told(&read_frame(&mut served.client).await), (1, 9));
        assert_eq!(told(&read_frame(&mut served.client).await), (2, 8));
        assert_eq!(served.client.read(&mut [0]).await.ok(), Some(0));
        served.task.await.expect("no panic");
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_bounds_what_the_node_holds() {
        let mut served = serve_pair(1_000_000);
        let chunk: Vec<u8> = (0..FRAMES).flat_map(frame).collect();
        // Writing goes on until both sides' buffers are full; the node must not take more.
        let mut written = 0;
        loop {
            match served.client.try_write(&chunk[written % chunk.len()..]) {
                Ok(bytes) => written += bytes,
                Err(_) => {
                    let before = written;
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    if let Ok(bytes) = served.client.try_write(&chunk[written % chunk.len()..]) {
                        written += bytes;
                    }
                    if written == before {
                        break;
                    }
                }
            }
            assert!(written < 64 << 20, "the node takes everything");
        }
        let whole = u64::try_from(written / frame(0).len()).expect("a number");
        for _ in 0..whole {
            told(&read_frame(&mut served.client).await);
        }
        assert_eq!(served.node.counters().frames(Door::Stream), whole);
    }

    /// Six checks of one key: five are the node's share, the sixth is held.
    fn six(id: u64) -> Vec<u8> {
        patient_frame(id, "bob", 6)
    }

    fn id_of(frame: &[u8]) -> u64 {
        wire::frame_id(frame)
    }

    #[tokio::test]
    async fn a_frame_that_is_held_is_overtaken_and_answered_when_peers_know() {
        let (node, peer) = Scripted::node(10);
        let mut served = serve_node(node);
        served.client.write_all(&[six(1), frame(2), frame(3)].concat()).await.expect("room");
        assert_eq!(id_of(&read_frame(&mut served.client).await), 2);
        assert_eq!(id_of(&read_frame(&mut served.client).await), 3);
        peer.acknowledge();
        assert_eq!(id_of(&read_frame(&mut served.client).await), 1);
        served.client.write_all(&frame(4)).await.expect("room");
        assert_eq!(id_of(&read_frame(&mut served.client).await), 4);
    }

    #[tokio::test]
    async fn a_client_that_sends_no_more_gets_what_is_held() {
        let (node, peer) = Scripted::node(10);
        let mut served = serve_node(node);
        served.client.write_all(&[six(1), frame(2)].concat()).await.expect("room");
        served.client.shutdown().await.expect("a socket");
        assert_eq!(id_of(&read_frame(&mut served.client).await), 2);
        peer.acknowledge();
        assert_eq!(id_of(&read_frame(&mut served.client).await), 1);
        served.task.await.expect("no panic");
    }

    #[tokio::test]
    async fn nothing_is_spent_for_a_client_that_has_gone() {
        let (node, _peer) = Scripted::node(10);
        let mut served = serve_node(Arc::clone(&node));
        served.client.write_all(&[six(1), frame(2)].concat()).await.expect("room");
        assert_eq!(id_of(&read_frame(&mut served.client).await), 2);
        drop(served.client);
        served.task.await.expect("no panic");
        assert_eq!(node.counters().faults(Door::Stream, Fault::Gone), 1);
        assert_eq!(node.limiter().counts().rules[0].units, 6);
    }

    #[tokio::test]
    async fn a_connection_has_a_bounded_number_of_frames_that_wait() {
        let (node, peer) = Scripted::node(10);
        let mut served = serve_node(Arc::clone(&node));
        let held = HELD_FRAMES_MAX + 6;
        let all: Vec<u8> =
            std::iter::once(six(1)).chain((0..held).map(|_| one())).flatten().collect();
        served.client.write_all(&all).await.expect("room");
        served.client.write_all(&frame(9)).await.expect("room");
        // Whatever was read, no more than the bound is asked of the limiter.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let taken = usize::try_from(node.counters().frames(Door::Stream)).expect("few");
        assert_eq!(taken, HELD_FRAMES_MAX);
        peer.acknowledge();
        let mut ids = Vec::new();
        while ids.len() < held + 2 {
            ids.push(id_of(&read_frame(&mut served.client).await));
            peer.acknowledge();
        }
        assert!(ids.contains(&9), "{ids:?}");
    }

    /// A check that is held behind [`six`].
    fn one() -> Vec<u8> {
        let mut frame = Vec::new();
        let mut writer = RequestWriter::new(&mut frame, 5);
        writer.check(&Request::check(b"GET /", b"bob"), Some(1_000_000)).expect("room");
        writer.finish();
        frame
    }
}
