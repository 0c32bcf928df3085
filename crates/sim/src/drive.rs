//! What a node does: how its checks are asked and held, how its cluster is driven, and how it stops.

use std::sync::Arc;

use cluster::Output;
use limiter::{Answer, Decision, Operation, Reason, Ticket};
use wire::peer::{PeerDecoded, PeerFrame, decode_peer};

use crate::clock::MS;
use crate::network::{Channel, End};
use crate::process::{HELD_MAX, Held, Process, name};
use crate::queue::{Event, Life};
use crate::record::Outcome;
use crate::world::World;

/// Rounds after which a cluster that always has something more to say is broken.
const ROUNDS_MAX: usize = 1_000;

/// Polls in a row, each asked for at once by the one before, after which something is due that polling
/// does not do.
const RESTLESS_MAX: u32 = 100;

impl World {
    /// Asks `node` the request at `place`.
    pub(crate) fn ask(&mut self, node: usize, place: usize) {
        let arrival = self.scenario.arrivals[place];
        self.inspector.asked(self.now_ns, arrival.key, arrival.cost);
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let Some(process) = self.nodes[node].process.as_ref() else { return };
        let max_wait_ns = self.scenario.truth[self.scenario.keys[arrival.key]].max_wait_ns;
        let may_hold = max_wait_ns > 0 && process.held.len() < HELD_MAX;
        let answer = {
            let request = self.questions[arrival.key].costing(arrival.cost);
            match process.limiter.check(local_ns, &request, may_hold) {
                Ok(Answer::Decided(decision)) => Ok(Ok(decided(&decision, self.now_ns, false))),
                Ok(Answer::Held(ticket)) => Ok(Err(ticket)),
                Err(error) => Err(error),
            }
        };
        match answer {
            Ok(Ok(outcome)) => self.finish(node, place, outcome),
            Ok(Err(ticket)) => self.hold(node, place, ticket, max_wait_ns),
            Err(error) => {
                self.inspector.broken(self.now_ns, format!("a request is refused: {error}"));
            }
        }
        let wanted =
            self.nodes[node].process.as_ref().is_some_and(|process| process.limiter.flush_wanted());
        if wanted {
            self.settle(node);
        }
    }

    /// Holds the check at `place` until an acknowledgement, or for `max_wait_ns`.
    fn hold(&mut self, node: usize, place: usize, ticket: Ticket, max_wait_ns: u64) {
        self.trace.note(&[4, self.now_ns, node as u64, place as u64]);
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        let waiter = process.waiters;
        process.waiters += 1;
        let bucket = ticket.bucket();
        process.held.insert(waiter, Held { arrival: place, ticket });
        let life = Life { node, life: process.life };
        if process.cluster.hold(bucket, waiter).is_ok() {
            self.queue.push(self.now_ns + max_wait_ns, Event::HoldEnds(life, waiter));
        } else {
            self.retry(node, waiter, true);
        }
    }

    /// Tests a held check again; for the last time at its deadline.
    pub(crate) fn retry(&mut self, node: usize, waiter: usize, last: bool) {
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        // A waiter whose time is over is still in the cluster's list, and is woken for nothing.
        let Some(Held { arrival, ticket }) = process.held.remove(&waiter) else { return };
        let limiter = Arc::clone(&process.limiter);
        match limiter.retry(local_ns, ticket, last) {
            Answer::Decided(decision) => {
                let outcome = decided(&decision, self.now_ns, true);
                self.finish(node, arrival, outcome);
            }
            Answer::Held(ticket) => {
                let bucket = ticket.bucket();
                process.held.insert(waiter, Held { arrival, ticket });
                if last || process.cluster.hold(bucket, waiter).is_err() {
                    self.inspector.broken(self.now_ns, format!("node {node}: held for ever"));
                }
            }
        }
    }

    /// A request is decided.
    pub(crate) fn finish(&mut self, node: usize, place: usize, outcome: Outcome) {
        let arrival = self.scenario.arrivals[place];
        let allowed = u64::from(outcome.allowed);
        self.trace.note(&[5, self.now_ns, node as u64, place as u64, allowed]);
        self.record.decided(node, place, arrival.at_ns, outcome);
        if outcome.allowed {
            let ahead_ns = self.scenario.walls[node].ahead_ns(self.now_ns);
            self.inspector.admitted((self.now_ns, ahead_ns), arrival.key, arrival.cost);
            // What was reserved may exceed the allowance, and is in flight no longer when it passes.
            if arrival.cost == 1 || !outcome.held {
                self.inspect_spend(node, arrival.key);
            }
        }
    }

    /// Lets the cluster of `node` do what is due, and does what it says, until it has nothing more.
    pub(crate) fn settle(&mut self, node: usize) {
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        for _ in 0..ROUNDS_MAX {
            let Some(process) = self.nodes[node].process.as_mut() else { return };
            let next_ns = process.cluster.poll(local_ns);
            let outputs: Vec<_> = std::iter::from_fn(|| process.cluster.output()).collect();
            if outputs.is_empty() {
                // A wake asked nothing more either: the time that the cluster gave is right.
                if !process.limiter.flush_wanted() {
                    return self.poll_at(node, next_ns);
                }
                continue;
            }
            for output in outputs {
                self.obey(node, output);
            }
        }
        self.inspector.broken(self.now_ns, format!("node {node}: its cluster never comes to rest"));
    }

    /// Polls the cluster of `node` when its own clock shows `local_ns`.
    fn poll_at(&mut self, node: usize, local_ns: u64) {
        let at_ns = self.scenario.clocks[node].true_at(local_ns).max(self.now_ns + 1);
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        let life = Life { node, life: process.life };
        let is_restless = at_ns == self.now_ns + 1;
        // Much may happen to a node at one instant: many checks that end together are polled for each.
        if process.polled_ns != self.now_ns {
            process.restless = if is_restless { process.restless + 1 } else { 0 };
            process.polled_ns = self.now_ns;
        }
        let at_ns = if process.restless > RESTLESS_MAX { self.now_ns + MS } else { at_ns };
        if process.restless == RESTLESS_MAX {
            self.inspector
                .broken(self.now_ns, format!("node {node} asks to be polled all the time"));
        }
        // An event is in the queue for the earlier time already, and will ask again.
        if local_ns < u64::MAX && at_ns < process.poll_at_ns {
            process.poll_at_ns = at_ns;
            self.queue.push(at_ns, Event::Poll(life));
        }
    }

    fn obey(&mut self, node: usize, output: Output<usize>) {
        match output {
            Output::Send { link, channel, frame } => {
                let Some(process) = self.nodes[node].process.as_ref() else { return };
                let Some(end) = process.end(link) else { return };
                let channel = match channel {
                    cluster::Channel::Ordered => Channel::Ordered,
                    cluster::Channel::Bulk => Channel::Bulk,
                };
                self.count_batch(node, &frame);
                self.send(end, channel, frame);
            }
            Output::Close { link, refusal } => {
                let process = self.nodes[node].process.as_ref();
                if let Some(end) = process.and_then(|process| process.end(link)) {
                    self.record.refusals += u64::from(refusal.is_some());
                    // A transport that closes in the middle of a cut gives up on what is unsent.
                    let finish = refusal.is_some() || self.dice.chance(500_000);
                    self.close_end(node, end, finish);
                }
            }
            Output::Wake(waiter) => self.retry(node, waiter, false),
            Output::Ready => {
                if let Some(process) = self.nodes[node].process.as_mut() {
                    process.accepting = true;
                }
                self.record.ready(node, self.now_ns);
            }
            Output::Left => self.stop(node, true),
            Output::Note(note) => {
                self.record.note(self.now_ns, node, &note);
            }
        }
    }

    /// Sends `frame` from `end`; a connection whose queue is full is closed.
    pub(crate) fn send(&mut self, end: End, channel: Channel, frame: Arc<[u8]>) {
        let mut out = Vec::new();
        if !self.network.is_open(end) {
            return;
        }
        let sent = self.network.send(self.now_ns, end, channel, frame, &mut out);
        self.schedule(out);
        if sent.is_err() {
            self.record.queues_full += 1;
            self.close(self.network.node(end), end, false);
        }
    }

    /// The transport closes `end` of its own accord, and says so to the cluster.
    pub(crate) fn close(&mut self, node: usize, end: End, finish: bool) {
        self.close_end(node, end, finish);
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let link = self.network.link(end);
        if let Some(process) = self.nodes[node].process.as_mut() {
            process.cluster.closed(local_ns, link);
            // Not at once: this may be called in the middle of what the cluster said.
            self.poll_at(node, local_ns);
        }
    }

    fn close_end(&mut self, node: usize, end: End, finish: bool) {
        let mut out = Vec::new();
        self.network.close(self.now_ns, end, finish, &mut out);
        self.schedule(out);
        let link = self.network.link(end);
        if let Some(process) = self.nodes[node].process.as_mut() {
            process.ends.remove(&link.0);
        }
    }

    /// The node at `node` is killed.
    pub(crate) fn crash(&mut self, node: usize) {
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        if let Some(process) = self.nodes[node].process.as_ref() {
            self.inspector.lost(process, self.now_ns, local_ns);
        }
        self.stop(node, false);
    }

    /// The node at `node` is told to stop.
    pub(crate) fn leave(&mut self, node: usize) {
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        process.accepting = false;
        // What waits is decided before it leaves: nobody hears of what it would let through after.
        for waiter in process.held.keys().copied().collect::<Vec<_>>() {
            self.retry(node, waiter, true);
        }
        if let Some(process) = self.nodes[node].process.as_mut() {
            process.cluster.leave(local_ns);
        }
        self.settle(node);
    }

    /// `node` is told by hand that `gone` is gone for good.
    pub(crate) fn forget(&mut self, node: usize, gone: usize) {
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        if let Err(error) = process.cluster.forget(local_ns, &name(gone)) {
            self.inspector.broken(self.now_ns, format!("node {node} forgets not: {error:?}"));
        }
        self.settle(node);
    }

    /// `node` is told by an operator to reset the key at `key`.
    pub(crate) fn reset(&mut self, node: usize, key: usize) {
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let request = self.questions[key].costing(0);
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        match process.cluster.operate(local_ns, &Operation::Reset { request, limit: None }) {
            Ok(operated) => self.inspector.given(self.now_ns, key, operated.units),
            Err(error) => {
                self.inspector.broken(self.now_ns, format!("node {node} resets not: {error}"));
            }
        }
        self.settle(node);
    }

    /// The process of `node` ends. In order: its connections are finished and closed; else its peers
    /// learn nothing.
    fn stop(&mut self, node: usize, in_order: bool) {
        let Some(process) = self.nodes[node].process.take() else { return };
        self.nodes[node].paused_until_ns = 0;
        if in_order {
            let ends: Vec<End> = process.ends.values().copied().collect();
            ends.into_iter().for_each(|end| self.close_end(node, end, true));
        }
        self.network.vanish_all(node);
        for held in process.held.into_values() {
            self.finish(node, held.arrival, Outcome::unasked(self.now_ns));
        }
    }

    /// Counts a batch once, however many peers it is sent to.
    fn count_batch(&mut self, node: usize, frame: &Arc<[u8]>) {
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        let Process { last_batch, open, .. } = process;
        if last_batch.as_ref().is_some_and(|last| Arc::ptr_eq(last, frame)) {
            return;
        }
        if let Ok(PeerDecoded::Frame(PeerFrame::Batch(batch))) = decode_peer(frame) {
            *last_batch = Some(Arc::clone(frame));
            if self.now_ns >= self.scenario.warm_up_ns {
                open.sent(batch.seq, self.now_ns);
            }
            self.record.batch(node, self.now_ns, frame.len());
        }
    }
}

fn decided(decision: &Decision<'_>, now_ns: u64, held: bool) -> Outcome {
    let verdict = &decision.verdict;
    Outcome {
        allowed: verdict.allowed,
        at_ns: now_ns,
        held,
        share: verdict.reason == Reason::Share,
        delay_ns: verdict.delay.to_ns(),
    }
}
