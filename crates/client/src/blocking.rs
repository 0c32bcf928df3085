//! The blocking client: one socket, one thread, one frame at a time, no runtime.

use std::io;
use std::net::ToSocketAddrs;
use std::time::Duration;

use limiter::{Op, Request};
use socket2::Socket;

use crate::answer::{Answer, Silence};
use crate::clock;
use crate::fallback::Fallback;
use crate::inbound::Inbound;
use crate::question::{Outcome, Question, Style, answer_unasked, request_as};
use crate::reconnect::Reconnect;
use crate::transport::{Mode, open_udp, open_unix};
use crate::window::Ids;
use crate::{Address, Backoff, Counts, Error, Options, OptionsError};

pub use crate::pacer::blocking::Pacer;

/// Shortest wait that is set on a socket: zero would mean for ever.
const WAIT_MIN: Duration = Duration::from_micros(100);

/// A client that blocks its thread until the node answers or the time-out has passed.
///
/// A host name is looked up by the system's resolver when a connection is opened, which may take
/// longer than the time-out; an IP address or a socket file never does.
#[derive(Debug)]
pub struct Client {
    address: Address,
    connection: Option<Connection>,
    reconnect: Reconnect,
    fallback: Fallback,
    ids: Ids,
    counts: Counts,
    timeout: Duration,
    style: Style,
    retry: Backoff,
    frame: Vec<u8>,
}

impl Client {
    /// A client of the node at `address`. It connects when it is first asked, and again after the
    /// connection was lost, so it can be made before the node is there.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub fn new(address: Address, options: Options) -> Result<Self, OptionsError> {
        let style =
            Style { max_wait_us: options.max_wait_us()?, is_padded: address.pads_requests() };
        Ok(Self {
            address,
            connection: None,
            reconnect: Reconnect::new(options.reconnect),
            fallback: Fallback::new(options.on_silence, options.reconnect.max()),
            ids: Ids::new(),
            counts: Counts::default(),
            timeout: options.timeout,
            style,
            retry: options.retry,
            frame: Vec::new(),
        })
    }

    /// Asks whether `request` may go on, and spends its cost if so. It is sent once.
    ///
    /// # Errors
    /// See [`Error`]; nothing was spent. A silent node is no error: the answer says so.
    pub fn check(&mut self, request: &Request<'_>) -> Result<Answer, Error> {
        self.ask_as(Op::Check, request)
    }

    /// Asks whether `request` could go on, and changes nothing.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn peek(&mut self, request: &Request<'_>) -> Result<Answer, Error> {
        self.ask_as(Op::Peek, request)
    }

    /// Spends the cost of `request`, whatever is left: for costs known only afterwards.
    ///
    /// # Errors
    /// See [`Error`]; nothing was spent.
    pub fn debit(&mut self, request: &Request<'_>) -> Result<Answer, Error> {
        self.ask_as(Op::Debit, request)
    }

    /// Gives back the cost of `request`.
    ///
    /// # Errors
    /// See [`Error`]; nothing was given back.
    pub fn refund(&mut self, request: &Request<'_>) -> Result<Answer, Error> {
        self.ask_as(Op::Refund, request)
    }

    /// Asks `requests`, each by its own [`Request::op`], in as few frames as they fit into (256
    /// checks or 64 KiB each), one frame after another. The answers are in the same order. Each
    /// request stands alone: one that fails stops no other.
    ///
    /// The batch ends at the first frame without an answer; the checks behind it are not sent.
    pub fn check_batch(&mut self, requests: &[Request<'_>]) -> Vec<Result<Answer, Error>> {
        let mut answers = Vec::with_capacity(requests.len());
        while let Some(rest) = requests.get(answers.len()..).filter(|rest| !rest.is_empty()) {
            let (question, outcome) = self.exchange(rest);
            let silence = question.answer(rest, outcome, &self.fallback, &mut answers);
            if silence.is_some() {
                let unasked = requests.get(answers.len()..).unwrap_or_default();
                answer_unasked(unasked, &self.fallback, &mut answers);
            }
        }
        answers
    }

    /// What was dropped, lost or answered by the fallback since the client was made.
    pub fn counts(&self) -> Counts {
        Counts { fallback_answers: self.fallback.answers(), ..self.counts }
    }

    /// The jitter on a denial's wait.
    pub(crate) fn retry(&self) -> &Backoff {
        &self.retry
    }

    fn ask_as(&mut self, op: Op, request: &Request<'_>) -> Result<Answer, Error> {
        let request = request_as(op, request);
        let mut answers = self.check_batch(std::slice::from_ref(&*request));
        answers.pop().expect("a batch has an answer for each request")
    }

    /// Asks as many of `requests` as one frame takes. A frame that a node would answer only if it
    /// were padded is asked again with padding: it decided nothing.
    fn exchange(&mut self, requests: &[Request<'_>]) -> (Question, Outcome) {
        let (question, outcome) = self.exchange_once(requests);
        if !self.style.is_padded && outcome.asks_for_padding() {
            self.style.is_padded = true;
            return self.exchange_once(requests);
        }
        (question, outcome)
    }

    fn exchange_once(&mut self, requests: &[Request<'_>]) -> (Question, Outcome) {
        let id = self.ids.issue();
        self.frame.clear();
        let question = Question::write(&mut self.frame, id, requests, self.style);
        if !question.is_asked() {
            return (question, Outcome::Answered(Vec::new()));
        }
        let outcome = self.round_trip(id).unwrap_or_else(Outcome::Silent);
        (question, outcome)
    }

    fn round_trip(&mut self, id: u64) -> Result<Outcome, Silence> {
        let deadline_ns = clock::now_ns().saturating_add(to_ns(self.timeout));
        self.send()?;
        let mut wait = self.timeout;
        loop {
            if let Some(outcome) = self.read_reply(id)? {
                return Ok(outcome);
            }
            self.receive(wait)?;
            if let Some(outcome) = self.read_reply(id)? {
                return Ok(outcome);
            }
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                return Err(Silence::TimedOut);
            }
            wait = Duration::from_nanos(left_ns);
        }
    }

    /// Sends the frame. A connection that turns out to be dead before it took a single byte is
    /// replaced once: the node cannot have the frame.
    fn send(&mut self) -> Result<(), Silence> {
        if let Some(connection) = &mut self.connection {
            match connection.send(&self.frame) {
                Ok(()) => return Ok(()),
                Err(Unsent { bytes: 0, error }) if !is_timeout(&error) => {
                    self.handle_failure(&error);
                }
                Err(Unsent { bytes, error }) => return Err(self.fail_to_send(bytes, &error)),
            }
        }
        let now_ns = clock::now_ns();
        self.reconnect.may_try(now_ns).map_err(Silence::Unreachable)?;
        match Connection::open(&self.address, self.reconnect.attempts(), self.timeout) {
            Ok(connection) => {
                let connection = self.connection.insert(connection);
                connection
                    .send(&self.frame)
                    .map_err(|Unsent { bytes, error }| self.fail_to_send(bytes, &error))
            }
            Err(error) => {
                self.handle_failure(&error);
                Err(Silence::Unreachable(error.kind()))
            }
        }
    }

    /// The frame was sent in part or not at all. A stream cut within a frame is of no more use.
    fn fail_to_send(&mut self, bytes: usize, error: &io::Error) -> Silence {
        let is_timeout = is_timeout(error);
        if bytes > 0 || !is_timeout {
            self.handle_failure(error);
        }
        if is_timeout { Silence::TimedOut } else { Silence::Lost(error.kind()) }
    }

    /// Receives once, or waits for `wait`.
    fn receive(&mut self, wait: Duration) -> Result<(), Silence> {
        let Some(connection) = &mut self.connection else {
            return Err(Silence::Lost(io::ErrorKind::NotConnected));
        };
        match connection.receive(wait) {
            Ok(()) => Ok(()),
            Err(error) if is_timeout(&error) => Ok(()),
            Err(error) => {
                self.handle_failure(&error);
                Err(Silence::Lost(error.kind()))
            }
        }
    }

    /// Reads frames until one answers the frame `id`. The others are late, or not ours.
    fn read_reply(&mut self, id: u64) -> Result<Option<Outcome>, Silence> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        loop {
            let frame = match connection.inbound.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.handle_failure(&io::Error::new(io::ErrorKind::InvalidData, error));
                    return Err(Silence::Lost(io::ErrorKind::InvalidData));
                }
            };
            let is_ours = wire::frame_id(frame) == id;
            match Outcome::read(frame) {
                Ok(outcome) if is_ours => {
                    self.reconnect.handle_answer();
                    return Ok(Some(outcome));
                }
                Ok(_) => {
                    if self.counts.count_stray(self.ids.has_issued(wire::frame_id(frame))) {
                        self.reconnect.handle_answer();
                    }
                }
                Err(_) => {
                    self.counts.malformed_replies += 1;
                    if is_ours {
                        return Err(Silence::Garbled);
                    }
                }
            }
        }
    }

    fn handle_failure(&mut self, error: &io::Error) {
        self.connection = None;
        self.counts.failed_connections += 1;
        self.reconnect.handle_failure(clock::now_ns(), error.kind());
    }
}

/// An open socket whose calls block until their time-out.
#[derive(Debug)]
struct Connection {
    socket: Socket,
    inbound: Inbound,
    /// The wait that is set on the socket for receiving.
    wait: Duration,
    is_udp: bool,
}

/// How far a frame was sent before an error.
struct Unsent {
    bytes: usize,
    error: io::Error,
}

impl Connection {
    fn open(address: &Address, attempts: u32, timeout: Duration) -> io::Result<Self> {
        let timeout = timeout.max(WAIT_MIN);
        let mode = Mode::Blocking(timeout);
        let socket = match address {
            Address::Udp { host, port } => {
                open_udp((host.as_str(), *port).to_socket_addrs()?, attempts, mode)?
            }
            Address::Stream(path) => open_unix(path, true, mode)?,
            Address::Seqpacket(path) => open_unix(path, false, mode)?,
        };
        let inbound = Inbound::new(address.is_stream());
        let is_udp = matches!(address, Address::Udp { .. });
        Ok(Self { socket, inbound, wait: timeout, is_udp })
    }

    fn send(&self, frame: &[u8]) -> Result<(), Unsent> {
        let mut bytes = 0;
        while let Some(rest) = frame.get(bytes..).filter(|rest| !rest.is_empty()) {
            match self.socket.send(rest) {
                Ok(len) => bytes += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Unsent { bytes, error }),
            }
        }
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> io::Result<()> {
        let wait = wait.max(WAIT_MIN);
        if wait != self.wait {
            self.socket.set_read_timeout(Some(wait))?;
            self.wait = wait;
        }
        match io::Read::read(&mut &self.socket, self.inbound.space()) {
            Ok(0) if !self.is_udp => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.inbound.handle_received(len);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The socket's time-out has passed.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn to_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
