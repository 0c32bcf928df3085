//! A line to one node of a contender: frames written and sent, answers read and matched to what was
//! asked. When to ask is decided elsewhere.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use limiter::{Freshness, Reason, Request};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use wire::{RequestWriter, ServerFrame, decode_reply};

use crate::clock;
use crate::driver::codec::Codec;
use crate::driver::codec::resp::{Reply, read_reply};
use crate::driver::{ANSWER_WITHIN, Address, Endpoint};
use crate::failure::Failure;

/// Room for answers that were not read yet: the longest frame, twice.
const INBOX_BYTES: usize = 128 * 1024;
const NS_PER_US: u64 = 1000;

/// What became of the checks of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answered {
    /// Index of what was asked.
    pub(super) ask: usize,
    /// Checks allowed.
    pub(super) allowed: u64,
    /// Checks denied.
    pub(super) denied: u64,
    /// Checks answered with an error.
    pub(super) failed: u64,
    /// Checks denied for want of a share.
    pub(super) share: u64,
    /// Checks that were decided while members were missing, or by a node that has no peers.
    pub(super) apart: u64,
}

/// What every check of a run names.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    /// The endpoint.
    pub(super) endpoint: String,
    /// What each key begins with; its number follows.
    pub(super) prefix: String,
}

/// One line.
#[derive(Debug)]
pub(super) struct Line {
    socket: OwnedFd,
    address: Address,
    codec: Codec,
    /// What was asked and not answered, where answers come in order: the ask, its checks left, and
    /// what became of the others.
    in_flight: VecDeque<(u64, Answered)>,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    inbox_len: usize,
}

impl Line {
    /// Opens it.
    ///
    /// # Errors
    /// If nobody listens there.
    pub(super) fn open(to: &Endpoint) -> Result<Self, Failure> {
        Ok(Self {
            socket: to.address.connect(ANSWER_WITHIN)?,
            address: to.address.clone(),
            codec: to.codec.clone(),
            in_flight: VecDeque::new(),
            outbox: Vec::new(),
            inbox: vec![0; INBOX_BYTES],
            inbox_len: 0,
        })
    }

    /// Its socket, to wait for.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a frame of `checks` checks of one key; false if it could not be sent.
    ///
    /// # Errors
    /// If the line cannot go on.
    pub(super) fn ask(
        &mut self,
        ask: usize,
        naming: &Naming,
        key: u64,
        checks: u64,
    ) -> Result<bool, Failure> {
        let key = format!("{}{key}", naming.prefix);
        match &self.codec {
            Codec::Redis(bucket) => {
                let now_us = clock::now_ns() / NS_PER_US;
                for _ in 0..checks {
                    bucket.ask_for(&mut self.outbox, key.as_bytes(), now_us);
                }
                self.in_flight.push_back((checks, Answered { ask, ..Answered::default() }));
                self.flush()?;
                Ok(true)
            }
            Codec::Frame { is_padded } => {
                self.outbox.clear();
                let mut frame = RequestWriter::new(&mut self.outbox, ask as u64);
                for _ in 0..checks {
                    let request = Request::check(naming.endpoint.as_bytes(), key.as_bytes());
                    frame.check(&request, None).map_err(|_| {
                        Failure::new("the endpoint or the key is too long for a frame")
                    })?;
                }
                let frame = if *is_padded { frame.pad_for_reply() } else { frame };
                frame.finish();
                self.send_datagram()
            }
            Codec::Http | Codec::Get(_) | Codec::Throttle | Codec::Grpc => {
                Err(self.failed("cannot ask", "it is asked by the frame, or as redis is"))
            }
        }
    }

    fn send_datagram(&mut self) -> Result<bool, Failure> {
        // The first may only bring the news that nobody listened to an earlier one.
        for _ in 0..2 {
            match send(&self.socket, &self.outbox, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(true),
                Err(Errno::CONNREFUSED | Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(false),
                Err(error) => return Err(self.failed("cannot send", error)),
            }
        }
        Ok(false)
    }

    /// Sends what a stream takes of what is left.
    ///
    /// # Errors
    /// If the line cannot go on.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        while self.has_unsent() {
            match send(&self.socket, &self.outbox, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.outbox.drain(..sent)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed("cannot send", error)),
            }
        }
        Ok(())
    }

    /// A stream has not taken everything.
    pub(super) fn has_unsent(&self) -> bool {
        !self.address.keeps_messages() && !self.outbox.is_empty()
    }

    /// Receives everything that is there, and hands on each answer.
    ///
    /// # Errors
    /// If the line cannot go on, or what came is no answer.
    pub(super) fn receive(&mut self, mut take: impl FnMut(Answered)) -> Result<(), Failure> {
        loop {
            let room = &mut self.inbox[self.inbox_len..];
            match recv(&self.socket, room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(self.failed("cannot go on", "it closed the connection")),
                Ok((received, _)) => self.inbox_len += received,
                Err(Errno::AGAIN) => return Ok(()),
                // Nobody listened to an earlier datagram.
                Err(Errno::INTR | Errno::CONNREFUSED) => continue,
                Err(error) => return Err(self.failed("cannot receive", error)),
            }
            if self.address.keeps_messages() {
                if let Some(answered) = read_frame(&self.inbox[..self.inbox_len]) {
                    take(answered);
                }
                self.inbox_len = 0;
            } else {
                self.take_replies(&mut take)?;
            }
        }
    }

    fn take_replies(&mut self, take: &mut impl FnMut(Answered)) -> Result<(), Failure> {
        let mut taken = 0;
        loop {
            let reply = match read_reply(&self.inbox[taken..self.inbox_len]) {
                Ok(Some((reply, bytes))) => {
                    taken += bytes;
                    count(reply)
                }
                Ok(None) => break,
                Err(error) => return Err(self.failed("cannot go on", error)),
            };
            let (Some(reply), Some((left, answered))) = (reply, self.in_flight.front_mut()) else {
                return Err(self.failed("cannot go on", "what came is no answer"));
            };
            answered.allowed += reply.allowed;
            answered.denied += reply.denied;
            answered.failed += reply.failed;
            *left -= 1;
            if *left == 0 {
                take(*answered);
                self.in_flight.pop_front();
            }
        }
        self.inbox.copy_within(taken..self.inbox_len, 0);
        self.inbox_len -= taken;
        Ok(())
    }

    fn failed(&self, what: &str, cause: impl std::fmt::Display) -> Failure {
        Failure::because(format!("{what} at `{}`", self.address), cause)
    }
}

/// What one reply of the script says; none if it is none of it.
fn count(reply: Reply<'_>) -> Option<Answered> {
    let none = Answered::default();
    match reply {
        Reply::List { first: Some(1), .. } => Some(Answered { allowed: 1, ..none }),
        Reply::List { first: Some(0), .. } => Some(Answered { denied: 1, ..none }),
        Reply::Error(_) => Some(Answered { failed: 1, ..none }),
        _ => None,
    }
}

/// The answer in a datagram; none if there is none: anybody may send one.
fn read_frame(bytes: &[u8]) -> Option<Answered> {
    let mut answered = Answered::default();
    match decode_reply(bytes).ok()? {
        ServerFrame::Reply(reply) => {
            answered.ask = usize::try_from(reply.id).ok()?;
            for answer in reply.answers() {
                let Ok(answer) = answer else {
                    answered.failed += 1;
                    continue;
                };
                answered.allowed += u64::from(answer.allowed);
                answered.denied += u64::from(!answer.allowed);
                answered.share += u64::from(answer.reason == Some(Reason::Share));
                let is_apart =
                    !matches!(answer.freshness, Some(Freshness::Synced | Freshness::Stale) | None);
                answered.apart += u64::from(is_apart);
            }
        }
        // How many checks it had is known to whoever asked.
        ServerFrame::Error { id, .. } => answered.ask = usize::try_from(id).ok()?,
    }
    Some(answered)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, UdpSocket};

    use super::*;
    use crate::driver::codec::Bucket;

    fn naming() -> Naming {
        Naming { endpoint: "GET /".into(), prefix: "run-1-".into() }
    }

    /// Waits for at least one answer; the peer has sent it.
    fn answers(line: &mut Line) -> Vec<Answered> {
        let mut all = Vec::new();
        while all.is_empty() {
            line.receive(|answered| all.push(answered)).unwrap();
        }
        all
    }

    #[test]
    fn a_datagram_has_the_checks_of_one_key_and_its_answer_is_matched_by_id() {
        let server = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let to = Endpoint {
            address: Address::Udp(server.local_addr().unwrap()),
            codec: Codec::Frame { is_padded: false },
        };
        let mut line = Line::open(&to).unwrap();
        assert!(line.ask(7, &naming(), 3, 2).unwrap());
        let mut bytes = [0; 2048];
        let (length, sender) = server.recv_from(&mut bytes).unwrap();
        let frame = wire::RequestFrame::decode(&bytes[..length]).unwrap();
        let requests: Vec<_> = frame.checks().map(|check| check.unwrap().request.key).collect();
        assert_eq!(requests, [b"run-1-3", b"run-1-3"]);
        // What is no frame is passed over.
        server.send_to(b"hello", sender).unwrap();
        let mut reply = Vec::new();
        let mut writer = wire::ReplyWriter::new(&mut reply, 7);
        writer.status(wire::Status::Starting);
        writer.status(wire::Status::Starting);
        writer.finish();
        server.send_to(&reply, sender).unwrap();
        let expected = Answered { ask: 7, failed: 2, ..Answered::default() };
        assert_eq!(answers(&mut line), [expected]);
    }

    #[test]
    fn replies_of_redis_belong_to_what_was_asked_first() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let to = Endpoint {
            address: Address::Tcp(listener.local_addr().unwrap()),
            codec: Codec::Redis(Bucket::per_second("abc", 10, 5)),
        };
        let mut line = Line::open(&to).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert!(line.ask(4, &naming(), 0, 2).unwrap() && line.ask(5, &naming(), 0, 1).unwrap());
        assert!(server.read(&mut [0; 4096]).unwrap() > 0);
        server.write_all(b"*3\r\n:1\r\n:4\r\n:0\r\n*3\r\n:0\r\n:0\r\n:5\r\n*3\r\n:1").unwrap();
        let first = Answered { ask: 4, allowed: 1, denied: 1, ..Answered::default() };
        assert_eq!(answers(&mut line), [first]);
        server.write_all(b"\r\n:3\r\n:0\r\n").unwrap();
        let second = Answered { ask: 5, allowed: 1, ..Answered::default() };
        assert_eq!(answers(&mut line), [second]);
    }
}
