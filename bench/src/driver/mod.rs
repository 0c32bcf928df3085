//! The load generator: one thread that asks over some connections, closed loop or open loop, and
//! counts the answers.
//!
//! A closed loop on one connection blocks in its receive, which is the least that a client can do
//! and what a round trip is measured with. Everything else waits in epoll.

pub(crate) mod codec;
mod connection;
mod schedule;
mod socket;
mod tally;
mod waiter;

use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use connection::{ANSWER_WITHIN, Endpoint};
pub(crate) use socket::Address;
pub(crate) use tally::{Answer, Tally, Times};

use crate::clock;
use crate::failure::Failure;
use crate::keys::Keys;
use connection::Connection;
use schedule::Schedule;
use waiter::Waiter;

/// Longest wait for an event: how often questions that got lost are looked for.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// What is asked, and how much of it at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Connections of this driver; at least 1.
    pub(crate) connections: usize,
    /// Most questions in flight on each connection; at least 1.
    pub(crate) window: usize,
    /// Checks in each question; at least 1.
    pub(crate) checks: usize,
    /// Open loop: checks in a second. None: closed loop, every answer asks the next question.
    pub(crate) checks_per_s: Option<u64>,
}

/// How long a stretch of load lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until<'s> {
    /// Until this time.
    Time(u64),
    /// Until so many questions were asked.
    Asked(u64),
    /// Until somebody sets this.
    Stopped(&'s AtomicBool),
}

impl Until<'_> {
    fn is_over(&self, now_ns: u64, asked: u64) -> bool {
        match self {
            Self::Time(end_ns) => now_ns >= *end_ns,
            Self::Asked(count) => asked >= *count,
            Self::Stopped(stop) => stop.load(Ordering::Relaxed),
        }
    }
}

/// A load generator of one thread.
#[derive(Debug)]
pub(crate) struct Driver {
    shape: Shape,
    keys: Keys,
    connections: Vec<Connection>,
    /// None: it waits in the receive of its one connection.
    waiter: Option<Waiter>,
    /// Connection that an open loop tries first.
    turn: usize,
    /// Connections that have something to receive or can send.
    ready: Vec<usize>,
    keeps_answers: bool,
}

impl Driver {
    /// Opens the connections.
    ///
    /// # Errors
    /// If the server does not accept them.
    pub(crate) fn open(endpoint: &Endpoint, shape: Shape, keys: Keys) -> Result<Self, Failure> {
        let connections: Vec<_> = (0..shape.connections)
            .map(|_| Connection::open(endpoint, shape.checks))
            .collect::<Result<_, _>>()?;
        let waiter = match (connections.len(), shape.checks_per_s) {
            (1, None) => None,
            _ => Some(Waiter::new(&connections)?),
        };
        Ok(Self {
            shape,
            keys,
            connections,
            waiter,
            turn: 0,
            ready: Vec::new(),
            keeps_answers: false,
        })
    }

    /// Keeps each answer from now on, which takes memory for as long as a run lasts.
    pub(crate) fn keep_answers(&mut self) {
        self.keeps_answers = true;
    }

    /// Asks at another rate from the next run on. A closed loop stays one.
    pub(crate) fn set_rate(&mut self, checks_per_s: u64) {
        if let Some(rate) = &mut self.shape.checks_per_s {
            *rate = checks_per_s;
        }
    }

    /// Asks until `until`, then waits for the answers that are missing.
    ///
    /// # Errors
    /// If the server stops answering, or answers what is no answer.
    pub(crate) fn run(&mut self, until: Until<'_>) -> Result<Tally, Failure> {
        let started_ns = clock::now_ns();
        let mut run = Run {
            tally: Tally { answers: self.keeps_answers.then(Vec::new), ..Tally::new() },
            schedule: self
                .shape
                .checks_per_s
                .map(|rate| Schedule::new(started_ns, self.shape.checks as u64, rate)),
            asked: 0,
            answered_ns: started_ns,
            looked_ns: started_ns,
        };
        self.ready = (0..self.connections.len()).collect();
        let mut now_ns = started_ns;
        loop {
            let is_over = until.is_over(now_ns, run.asked);
            if is_over && self.connections.iter().all(Connection::is_idle) {
                break;
            }
            if !is_over {
                self.ask(&mut run, &until, now_ns)?;
            }
            self.wait(&run, is_over)?;
            now_ns = clock::now_ns();
            self.take_answers(&mut run, now_ns)?;
        }
        if let (Some(schedule), Until::Time(end_ns)) = (run.schedule, until) {
            run.tally.unsent = schedule.behind(end_ns);
        }
        run.tally.elapsed_ns = run.answered_ns - started_ns;
        Ok(run.tally)
    }

    fn ask(&mut self, run: &mut Run, until: &Until<'_>, now_ns: u64) -> Result<(), Failure> {
        match &mut run.schedule {
            Some(schedule) => {
                while schedule.next_ns() <= now_ns && !until.is_over(now_ns, run.asked) {
                    let Some(index) = self.next_with_room() else { break };
                    let due_ns = schedule.next_ns();
                    let connection = &mut self.connections[index];
                    let sent_ns = connection.ask(&mut self.keys, Some(due_ns))?;
                    connection.flush()?;
                    if connection.has_unsent() {
                        self.ready.push(index);
                    }
                    run.tally.lateness.record(sent_ns.saturating_sub(due_ns));
                    run.asked += 1;
                    schedule.advance();
                }
            }
            None => {
                for &index in &self.ready {
                    let connection = &mut self.connections[index];
                    while connection.has_room(self.shape.window)
                        && !until.is_over(now_ns, run.asked)
                    {
                        connection.ask(&mut self.keys, None)?;
                        run.asked += 1;
                    }
                    connection.flush()?;
                }
            }
        }
        Ok(())
    }

    /// The next connection in turn that takes a question.
    fn next_with_room(&mut self) -> Option<usize> {
        let count = self.connections.len();
        let at = (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|&at| self.connections[at].has_room(self.shape.window))?;
        self.turn = (at + 1) % count;
        Some(at)
    }

    /// Waits until something can be received, sent, or is due, and receives it.
    fn wait(&mut self, run: &Run, is_over: bool) -> Result<(), Failure> {
        let Some(waiter) = &mut self.waiter else {
            return self.connections[0].wait_and_receive();
        };
        for &index in &self.ready {
            waiter.settle(index, &self.connections[index])?;
        }
        if let Some(schedule) = run.schedule {
            let window = self.shape.window;
            let can_ask = !is_over && self.connections.iter().any(|c| c.has_room(window));
            waiter.set_timer(can_ask.then(|| schedule.next_ns()))?;
        }
        waiter.wait(LOOK_EVERY_NS, &mut self.ready)?;
        for &index in &self.ready {
            self.connections[index].flush()?;
            self.connections[index].receive_ready()?;
        }
        Ok(())
    }

    fn take_answers(&mut self, run: &mut Run, now_ns: u64) -> Result<(), Failure> {
        for &index in &self.ready {
            if self.connections[index].take_answers(now_ns, &mut run.tally)? > 0 {
                run.answered_ns = now_ns;
            }
        }
        if now_ns.saturating_sub(run.looked_ns) >= LOOK_EVERY_NS {
            run.looked_ns = now_ns;
            for (index, connection) in self.connections.iter_mut().enumerate() {
                let lost_before = run.tally.lost;
                connection.give_up_old(now_ns, &mut run.tally)?;
                if run.tally.lost > lost_before && !self.ready.contains(&index) {
                    self.ready.push(index);
                }
            }
        }
        Ok(())
    }
}

/// What one call of [`Driver::run`] keeps.
#[derive(Debug)]
struct Run {
    tally: Tally,
    /// Open loop only.
    schedule: Option<Schedule>,
    /// Questions asked.
    asked: u64,
    /// When the last answer came.
    answered_ns: u64,
    /// When lost questions were last looked for.
    looked_ns: u64,
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use limiter::{Limit, Limiter, Plan, Quota, Rate, StoreConfig, Unmatched, WhenFull};
    use wire::{ReplyWriter, RequestFrame};

    use super::codec::Codec;
    use super::*;
    use crate::process::Folder;

    /// A limiter that allows each key `burst` checks.
    fn limiter(burst: u64) -> Limiter {
        let quota = Quota::TokenBucket { rate: Rate { count: 1, period_ns: 1 << 40 }, burst };
        let plan = Plan::compile(vec![Limit::new("l", quota)], Unmatched::Deny).unwrap();
        let config = StoreConfig {
            memory_bytes: 1 << 20,
            entries_max: None,
            when_full: WhenFull::Deny,
            secret: [0; 16],
        };
        Limiter::new(plan, config)
    }

    /// Answers the frames of one connection until it is closed, or until `answers_max` were given.
    fn serve(listener: &UnixListener, limiter: &Limiter, answers_max: usize) {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut answers = 0;
        let mut chunk = [0; 4096];
        while answers < answers_max {
            let received = stream.read(&mut chunk).unwrap();
            if received == 0 {
                return;
            }
            input.extend_from_slice(&chunk[..received]);
            while let Some(length) = wire::frame_length(&input).unwrap() {
                if length > input.len() {
                    break;
                }
                let frame = RequestFrame::decode(&input[..length]).unwrap();
                let mut reply = ReplyWriter::new(&mut output, frame.id);
                for check in frame.checks() {
                    let request = check.unwrap().request;
                    reply.decision(&limiter.decide(0, &request).unwrap(), None);
                }
                reply.finish();
                input.drain(..length);
                answers += 1;
            }
            stream.write_all(&output).unwrap();
            output.clear();
        }
    }

    /// Drives a limiter over a unix socket.
    fn drive(
        shape: Shape,
        keys: Keys,
        until: Until<'_>,
        answers_max: usize,
    ) -> Result<Tally, Failure> {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let endpoint =
            Endpoint { address: Address::Unix(path), codec: Codec::Frame { is_padded: false } };
        let limiter = limiter(3);
        thread::scope(|scope| {
            for _ in 0..shape.connections {
                scope.spawn(|| serve(&listener, &limiter, answers_max));
            }
            Driver::open(&endpoint, shape, keys).and_then(|mut driver| driver.run(until))
        })
    }

    #[test]
    fn every_question_is_asked_once_and_its_answers_are_counted() {
        for (connections, window, checks) in [(1, 1, 1), (1, 8, 16), (3, 4, 2)] {
            let shape = Shape { connections, window, checks, checks_per_s: None };
            let tally = drive(shape, Keys::sequence(0, 1), Until::Asked(30), usize::MAX).unwrap();
            assert_eq!(tally.answered, 30);
            // One key, which has three units.
            assert_eq!(tally.allowed, 3);
            assert_eq!(tally.denied, 30 * checks as u64 - 3);
            assert_eq!((tally.failed, tally.lost), (0, 0));
        }
    }

    #[test]
    fn an_open_loop_counts_latency_from_when_a_question_was_due() {
        let shape = Shape { connections: 2, window: 1, checks: 1, checks_per_s: Some(1 << 30) };
        let tally = drive(shape, Keys::sequence(0, 1000), Until::Asked(1000), usize::MAX).unwrap();
        assert_eq!((tally.answered, tally.allowed), (1000, 1000));
        // All were due in the first microsecond, and the last was answered at the end.
        assert!(tally.latency.at(1.0) * 2 > tally.elapsed_ns);
        assert!(tally.lateness.at(1.0) * 2 > tally.elapsed_ns);
    }

    #[test]
    fn answers_are_kept_on_demand_with_the_times_that_they_fell_between() {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let limiter = limiter(2);
        let endpoint =
            Endpoint { address: Address::Unix(path), codec: Codec::Frame { is_padded: false } };
        let shape = Shape { connections: 1, window: 1, checks: 1, checks_per_s: Some(1) };
        thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &limiter, usize::MAX));
            let mut driver = Driver::open(&endpoint, shape, Keys::sequence(0, 1)).unwrap();
            driver.set_rate(1 << 30);
            assert_eq!(driver.shape.checks_per_s, Some(1 << 30));
            assert_eq!(driver.run(Until::Asked(1)).unwrap().answers, None);
            driver.keep_answers();
            let before_ns = clock::now_ns();
            let answers = driver.run(Until::Asked(3)).unwrap().answers.unwrap();
            let decided: Vec<_> = answers.iter().map(|a| (a.allowed, a.denied)).collect();
            assert_eq!(decided, [(1, 0), (0, 1), (0, 1)]);
            let mut last_ns = before_ns;
            for answer in answers {
                assert!(last_ns <= answer.sent_ns && answer.sent_ns <= answer.received_ns);
                last_ns = answer.received_ns;
            }
        });
    }

    #[test]
    fn a_time_that_has_passed_asks_nothing() {
        let shape = Shape { connections: 1, window: 1, checks: 1, checks_per_s: None };
        let tally = drive(shape, Keys::sequence(0, 1), Until::Time(0), usize::MAX).unwrap();
        assert_eq!((tally.answered, tally.elapsed_ns), (0, 0));
        let stop = AtomicBool::new(true);
        let tally = drive(shape, Keys::sequence(0, 1), Until::Stopped(&stop), usize::MAX).unwrap();
        assert_eq!(tally.answered, 0);
    }

    #[test]
    fn a_server_that_goes_away_is_a_failure() {
        let shape = Shape { connections: 1, window: 1, checks: 1, checks_per_s: None };
        let failure = drive(shape, Keys::sequence(0, 9), Until::Asked(9), 4).unwrap_err();
        assert!(failure.to_string().contains("unix://"), "{failure}");
    }
}
