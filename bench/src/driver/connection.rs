//! One connection: questions written, answers read and matched, each with its time. It decides
//! neither when to ask nor when to stop.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::codec::{Answered, Codec};
use super::socket::Address;
use super::tally::{Answer, Tally};
use crate::clock;
use crate::failure::Failure;
use crate::keys::Keys;

/// A question that is not answered after this long is lost where messages can be, and a fault
/// elsewhere: far above any latency worth measuring.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Room for answers that were not read yet: the longest frame, or 64 decisions as JSON, twice.
const INBOX_BYTES: usize = 128 * 1024;

const NS_PER_MS: u64 = 1_000_000;

/// Where to ask, and how.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// The socket.
    pub(crate) address: Address,
    /// What is spoken there.
    pub(crate) codec: Codec,
}

/// A question without its answer.
#[derive(Clone, Copy, Debug)]
struct Question {
    id: u64,
    /// When its latency begins.
    due_ns: u64,
    sent_ns: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    endpoint: Endpoint,
    /// Checks in each question.
    checks: usize,
    next_id: u64,
    /// Oldest first.
    in_flight: VecDeque<Question>,
    /// Questions, or the rest of them, that the socket did not take yet. On a socket that keeps
    /// messages at most one.
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    inbox_len: usize,
}

impl Connection {
    pub(super) fn open(endpoint: &Endpoint, checks: usize) -> Result<Self, Failure> {
        Ok(Self {
            socket: endpoint.address.connect(ANSWER_WITHIN)?,
            endpoint: endpoint.clone(),
            checks,
            next_id: 1,
            in_flight: VecDeque::new(),
            outbox: Vec::new(),
            inbox: vec![0; INBOX_BYTES],
            inbox_len: 0,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// No question is without its answer.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Something waits until the socket takes it.
    pub(super) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Another question may be asked, with at most `window` in flight.
    pub(super) fn has_room(&self, window: usize) -> bool {
        let takes_more = !self.endpoint.address.keeps_messages() || self.outbox.is_empty();
        takes_more && self.in_flight.len() < window
    }

    /// Writes a question about the next keys, due at `due_ns` or, if none, now; sends it at once
    /// where one send is one message. Returns when it was sent.
    pub(super) fn ask(&mut self, keys: &mut Keys, due_ns: Option<u64>) -> Result<u64, Failure> {
        let id = self.next_id;
        self.next_id += 1;
        let now_ms = clock::now_ns() / NS_PER_MS;
        self.endpoint.codec.ask(&mut self.outbox, id, keys, self.checks, now_ms);
        let sent_ns = clock::now_ns();
        self.in_flight.push_back(Question { id, due_ns: due_ns.unwrap_or(sent_ns), sent_ns });
        if self.endpoint.address.keeps_messages() {
            self.flush()?;
        }
        Ok(sent_ns)
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        while !self.outbox.is_empty() {
            match send(&self.socket, &self.outbox, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) if sent == self.outbox.len() => self.outbox.clear(),
                Ok(sent) => drop(self.outbox.drain(..sent)),
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed("cannot send", error)),
            }
        }
        Ok(())
    }

    /// Waits for answers, or until the socket takes more, and receives once.
    pub(super) fn wait_and_receive(&mut self) -> Result<(), Failure> {
        if self.outbox.is_empty() {
            return self.receive(RecvFlags::empty());
        }
        let mut ends = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::OUT)];
        // An interruption looks like a time-out; the caller comes back.
        let _ = poll(&mut ends, Some(&clock::timespec(clock::NS_PER_S)));
        self.flush()?;
        self.receive(RecvFlags::DONTWAIT)
    }

    /// Receives once if there is something.
    pub(super) fn receive_ready(&mut self) -> Result<(), Failure> {
        self.receive(RecvFlags::DONTWAIT)
    }

    fn receive(&mut self, flags: RecvFlags) -> Result<(), Failure> {
        let room = &mut self.inbox[self.inbox_len..];
        match recv(&self.socket, room, flags) {
            Ok((0, _)) => Err(self.failed("cannot go on", "the server closed the connection")),
            Ok((received, _)) => {
                self.inbox_len += received;
                Ok(())
            }
            // Without a wait there is nothing; after a wait that was ANSWER_WITHIN.
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(self.failed("cannot receive", error)),
        }
    }

    /// Counts every complete answer, received at `now_ns`; returns how many there were.
    pub(super) fn take_answers(&mut self, now_ns: u64, tally: &mut Tally) -> Result<u64, Failure> {
        let (mut taken, mut answers) = (0, 0);
        loop {
            let bytes = &self.inbox[taken..self.inbox_len];
            let answered = match self.endpoint.codec.read(bytes, self.checks) {
                Ok(Some(answered)) => answered,
                Ok(None) => break,
                Err(error) => return Err(self.failed("cannot go on", error)),
            };
            taken += answered.bytes;
            answers += u64::from(self.count(&answered, now_ns, tally)?);
        }
        if taken == 0 && self.inbox_len == self.inbox.len() {
            return Err(self.failed("cannot go on", "an answer is too long"));
        }
        self.inbox.copy_within(taken..self.inbox_len, 0);
        self.inbox_len -= taken;
        Ok(answers)
    }

    /// Counts one answer; false if its question was given up before.
    fn count(
        &mut self,
        answered: &Answered,
        now_ns: u64,
        tally: &mut Tally,
    ) -> Result<bool, Failure> {
        let at = match answered.id {
            None => Some(0).filter(|_| !self.in_flight.is_empty()),
            Some(id) => self.in_flight.iter().position(|question| question.id == id),
        };
        let Some(question) = at.and_then(|at| self.in_flight.remove(at)) else {
            return if self.endpoint.address.loses_messages() {
                Ok(false)
            } else {
                Err(self.failed("cannot go on", "an answer came to no question"))
            };
        };
        tally.answered += 1;
        tally.allowed += answered.allowed;
        tally.denied += answered.denied;
        tally.failed += answered.failed;
        tally.latency.record(now_ns.saturating_sub(question.due_ns));
        if let Some(answers) = &mut tally.answers {
            let Answered { allowed, denied, .. } = *answered;
            let sent_ns = question.sent_ns;
            answers.push(Answer { sent_ns, received_ns: now_ns, allowed, denied });
        }
        Ok(true)
    }

    /// Gives up the questions that were sent too long ago.
    ///
    /// # Errors
    /// If one was, on a socket that loses nothing.
    pub(super) fn give_up_old(&mut self, now_ns: u64, tally: &mut Tally) -> Result<(), Failure> {
        let within_ns = ANSWER_WITHIN.as_secs() * clock::NS_PER_S;
        while let Some(oldest) = self.in_flight.front() {
            if now_ns.saturating_sub(oldest.sent_ns) < within_ns {
                break;
            }
            if !self.endpoint.address.loses_messages() {
                let seconds = ANSWER_WITHIN.as_secs();
                return Err(self.failed("no answer", format!("waited for {seconds} s")));
            }
            self.in_flight.pop_front();
            tally.lost += self.checks as u64;
        }
        Ok(())
    }

    fn failed(&self, what: &str, cause: impl std::fmt::Display) -> Failure {
        Failure::because(format!("{what} at `{}`", self.endpoint.address), cause)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::process::Folder;

    const WITHIN_NS: u64 = ANSWER_WITHIN.as_secs() * clock::NS_PER_S;

    fn endpoint(address: Address) -> Endpoint {
        Endpoint { address, codec: Codec::Frame { is_padded: false } }
    }

    #[test]
    fn a_datagram_without_an_answer_is_lost_and_its_late_answer_counts_nothing() {
        let server = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let to = endpoint(Address::Udp(server.local_addr().unwrap()));
        let mut connection = Connection::open(&to, 2).unwrap();
        let mut tally = Tally::new();
        let sent_ns = connection.ask(&mut Keys::sequence(0, 9), None).unwrap();
        assert!(!connection.has_room(1));
        connection.give_up_old(sent_ns + WITHIN_NS - 1, &mut tally).unwrap();
        assert_eq!(tally.lost, 0);
        connection.give_up_old(sent_ns + WITHIN_NS, &mut tally).unwrap();
        assert_eq!(tally.lost, 2);
        assert!(connection.is_idle() && connection.has_room(1));

        let mut frame = [0; 1024];
        let (length, sender) = server.recv_from(&mut frame).unwrap();
        let mut late = Vec::new();
        wire::write_error(&mut late, wire::frame_id(&frame[..length]), wire::ErrorCode::Busy);
        server.send_to(&late, sender).unwrap();
        connection.wait_and_receive().unwrap();
        assert_eq!(connection.take_answers(sent_ns, &mut tally).unwrap(), 0);
        assert_eq!((tally.answered, tally.failed), (0, 0));
    }

    #[test]
    fn a_stream_without_an_answer_is_a_failure() {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut connection = Connection::open(&endpoint(Address::Unix(path)), 1).unwrap();
        let sent_ns = connection.ask(&mut Keys::sequence(0, 9), None).unwrap();
        assert!(connection.has_unsent());
        connection.flush().unwrap();
        assert!(!connection.has_unsent());
        let given_up = connection.give_up_old(sent_ns + WITHIN_NS, &mut Tally::new());
        assert!(given_up.unwrap_err().to_string().contains("no answer"));
    }

    #[test]
    fn latency_begins_when_a_question_was_due() {
        let server = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let to = endpoint(Address::Udp(server.local_addr().unwrap()));
        let mut connection = Connection::open(&to, 1).unwrap();
        let sent_ns = connection.ask(&mut Keys::sequence(0, 9), Some(1000)).unwrap();
        let mut frame = [0; 1024];
        let (length, sender) = server.recv_from(&mut frame).unwrap();
        let mut answer = Vec::new();
        wire::write_error(&mut answer, wire::frame_id(&frame[..length]), wire::ErrorCode::Busy);
        server.send_to(&answer, sender).unwrap();
        connection.wait_and_receive().unwrap();
        let mut tally = Tally::new();
        assert_eq!(connection.take_answers(sent_ns, &mut tally).unwrap(), 1);
        let expected_ns = (sent_ns - 1000).min(60 * clock::NS_PER_S);
        assert!(tally.latency.at(1.0).abs_diff(expected_ns) <= expected_ns / 1000);
    }
}
