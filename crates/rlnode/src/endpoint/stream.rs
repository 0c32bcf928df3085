//! Frames over a unix stream socket: many in one read, their answers in one write.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::accept::serve_connections;
use super::patience::Patience;
use crate::door::{Door, Fault};
use crate::node::{Caller, Node};
use crate::shutdown::{LAST_LOOK, Phase, Shutdown};

/// Room made for each read.
const READ_BYTES: usize = 16 * 1024;
/// Answers are written once there are this many bytes of them, before further frames are decided.
/// With one more answer on top this bounds what a client that does not read can make the node hold.
const WRITE_BYTES: usize = 64 * 1024;

const CALLER: Caller = Caller { door: Door::Stream, is_forgeable: false };

/// Answers the frames of every connection until the shutdown closes and what was received is
/// answered.
pub async fn serve(listener: UnixListener, node: Arc<Node>, shutdown: Shutdown) {
    serve_connections(listener, Door::Stream, node, shutdown, |stream, node, shutdown| {
        Connection::new(stream, node).run(shutdown)
    })
    .await;
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

struct Connection {
    stream: UnixStream,
    node: Arc<Node>,
    patience: Patience,
    /// Bytes that no frame was made of yet: less than one frame once they are answered.
    input: Vec<u8>,
    /// Answers that are not written yet.
    output: Vec<u8>,
    /// The client sent what has no next frame: write what there is, then close.
    is_closing: bool,
}

impl Connection {
    fn new(stream: UnixStream, node: Arc<Node>) -> Self {
        let patience = Patience::new(node.clock().now_ns());
        Self { stream, node, patience, input: Vec::new(), output: Vec::new(), is_closing: false }
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
            if let Err(end) = self.read().await {
                return end;
            }
        }
    }

    /// Answers what was received and what the socket still holds, after a stop.
    async fn finish(&mut self) -> End {
        if let Ok(end) = tokio::time::timeout(LAST_LOOK, self.serve()).await {
            return end;
        }
        match self.write().await {
            Ok(()) => End::Stop,
            Err(end) => end,
        }
    }

    async fn read(&mut self) -> Result<(), End> {
        self.make_room();
        loop {
            tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.input) => {
                    return if read? == 0 { Err(End::Client) } else { Ok(()) };
                }
                () = self.patience.patrol() => {
                    if self.patience.is_over(self.node.clock().now_ns()) {
                        return Err(End::Timeout);
                    }
                }
            }
        }
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
                Answered::Closes => return Err(End::Client),
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
            let answer =
                self.node.answer_frame(self.node.clock().now_ns(), frame, &mut self.output, CALLER);
            self.is_closing = answer.is_err_and(|error| error.closes_stream());
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
    /// Every complete frame is answered.
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
    use crate::shutdown::Stop;

    const FRAMES: u64 = 1_000;

    struct Served {
        client: UnixStream,
        node: Arc<Node>,
        stop: Stop,
        task: JoinHandle<()>,
    }

    fn serve_pair(burst: u64) -> Served {
        let (client, server) = UnixStream::pair().expect("a pair");
        let node = Node::with_burst(burst);
        let (stop, shutdown) = Stop::new();
        let task = tokio::spawn(Connection::new(server, Arc::clone(&node)).run(shutdown));
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
}
