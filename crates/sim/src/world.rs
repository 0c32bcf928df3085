//! The world of a run: nodes on their clocks, the network between them, and one queue of events.
//!
//! Everything is single-threaded and drawn from the scenario's seed, so that a scenario replays to the
//! same trace. What nodes do is in `drive.rs`.

use crate::ceiling;
use crate::clock::{MS, SECOND};
use crate::dice::Dice;
use crate::invariants::Inspector;
use crate::network::{Delivery, Network, Timed};
use crate::process::{Process, Question, name};
use crate::queue::{Event, Life, Queue};
use crate::record::{Outcome, Probe, Record};
use crate::scenario::{Act, Scenario};
use crate::trace::{Trace, digest};

/// Time between the dials of a node to a peer that it has no connection to.
const DIAL_EVERY_NS: u64 = 200 * MS;
/// Time between two signs of life on a connection.
const PING_EVERY_NS: u64 = 100 * MS;
/// Silence after which the transport closes a connection of its own accord.
const IDLE_NS: u64 = 3 * SECOND;
/// Time between two sweeps of a node, and the part of its store that each visits.
const SWEEP_EVERY_NS: u64 = 500 * MS;
const SWEEP_PART: usize = 10;
/// Time between two readings of the wall clock.
const WALL_EVERY_NS: u64 = SECOND;

/// One node, running or not.
pub(crate) struct Node {
    pub(crate) process: Option<Process>,
    /// Stopped as by SIGSTOP until then.
    pub(crate) paused_until_ns: u64,
}

/// A run under way.
pub struct World {
    pub(crate) scenario: Scenario,
    pub(crate) now_ns: u64,
    pub(crate) queue: Queue,
    pub(crate) nodes: Vec<Node>,
    pub(crate) network: Network,
    pub(crate) dice: Dice,
    pub(crate) questions: Vec<Question>,
    pub(crate) record: Record,
    pub(crate) inspector: Inspector,
    pub(crate) trace: Trace,
    /// The next request of the workload.
    asked: usize,
}

impl World {
    /// The world of `scenario`, before anything has happened.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn new(mut scenario: Scenario) -> Result<Self, String> {
        shift(&mut scenario);
        let dice = Dice::new(scenario.seed);
        let question = |(key, limit): (usize, &usize)| Question::new(*limit, key);
        let questions: Vec<_> = scenario.keys.iter().enumerate().map(question).collect();
        let mut buckets = Vec::new();
        for question in &questions {
            let plan = scenario.plan(0).map_err(|error| format!("{error:?}"))?;
            buckets.push(question.bucket(plan).ok_or("a key has no bucket")?);
        }
        let mut world = Self {
            now_ns: 0,
            queue: Queue::default(),
            nodes: (0..scenario.nodes)
                .map(|_| Node { process: None, paused_until_ns: 0 })
                .collect(),
            network: Network::new(scenario.lines.clone(), dice.part(1)),
            dice: dice.part(2),
            questions,
            record: Record::new(&scenario),
            inspector: Inspector::new(&scenario, buckets),
            trace: Trace::default(),
            asked: 0,
            scenario,
        };
        for node in 0..world.scenario.nodes {
            world.boot(node, 0)?;
        }
        for place in 0..world.scenario.script.len() {
            world.queue.push(world.scenario.script[place].0, Event::Act(place));
        }
        for probe in world.scenario.probes.clone() {
            world.queue.push(probe, Event::Probe);
        }
        world.queue.push(world.scenario.inspect_every_ns, Event::Inspect);
        Ok(world)
    }

    /// Runs `scenario` from its beginning to its end.
    ///
    /// # Errors
    /// Numbers that the limiter refuses.
    pub fn run(scenario: Scenario) -> Result<Record, String> {
        let mut world = Self::new(scenario)?;
        world.run_to(world.scenario.last_ns() + world.scenario.settle_ns);
        Ok(world.end())
    }

    /// Lets everything happen up to `end_ns`.
    fn run_to(&mut self, end_ns: u64) {
        loop {
            let asked = self.scenario.arrivals.get(self.asked).map(|arrival| arrival.at_ns);
            let next = self.queue.next_ns();
            let at_ns = asked.into_iter().chain(next).min().unwrap_or(u64::MAX);
            if at_ns > end_ns {
                self.now_ns = end_ns;
                return;
            }
            self.now_ns = at_ns;
            if asked.is_some_and(|asked| next.is_none_or(|next| asked < next)) {
                let place = self.asked;
                self.asked += 1;
                self.arrive(place);
            } else if let Some((_, event)) = self.queue.pop() {
                self.happen(event);
            }
        }
    }

    fn end(mut self) -> Record {
        self.inspect();
        let stuck = self.stuck();
        for process in self.nodes.iter().filter_map(|node| node.process.as_ref()) {
            self.record.acknowledged(process.open.open_for_ns(self.now_ns));
        }
        self.record.close(&self.scenario, self.trace, stuck, &self.inspector);
        let broken = ceiling::broken(&self.scenario, &self.record);
        let end_ns = self.record.scenario_ns(self.now_ns);
        self.record.broken.extend(broken.into_iter().map(|what| (end_ns, what)));
        self.record
    }

    /// A request of the workload comes to its node, or to the next one that takes questions.
    fn arrive(&mut self, place: usize) {
        let first = self.scenario.arrivals[place].node;
        let nodes = self.scenario.nodes;
        let takes = |node: &usize| {
            let Node { process, paused_until_ns } = &self.nodes[*node];
            process.as_ref().is_some_and(|process| process.accepting)
                && *paused_until_ns <= self.now_ns
        };
        match (0..nodes).map(|step| (first + step) % nodes).find(takes) {
            Some(node) => self.ask(node, place),
            None => self.finish(first, place, Outcome::unasked(self.now_ns)),
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some(until_ns) = self.paused(&event) {
            // What waits for a stopped node meets it in the order in which it waited, but the node's
            // own timers may be late by a moment: other threads of it run first.
            let late_ns = if matches!(event, Event::Poll(_)) { self.dice.below(MS) } else { 0 };
            if let Event::Poll(life) = event
                && let Some(process) = self.process(life)
            {
                process.poll_at_ns = until_ns + late_ns;
            }
            self.queue.push(until_ns + late_ns, event);
            return;
        }
        match event {
            Event::Delivery(timed) => self.deliver(&timed),
            Event::Poll(life) => {
                let now_ns = self.now_ns;
                if let Some(process) = self.process(life)
                    && process.poll_at_ns == now_ns
                {
                    process.poll_at_ns = u64::MAX;
                    self.trace.note(&[1, now_ns, life.node as u64]);
                    self.settle(life.node);
                }
            }
            Event::Ping(life) => self.ping(life),
            Event::Dial(life) => self.dial(life),
            Event::Sweep(life) => self.sweep(life),
            Event::Wall(life) => self.read_wall(life),
            Event::HoldEnds(life, waiter) => {
                if self.process(life).is_some() {
                    self.retry(life.node, waiter, true);
                    self.settle(life.node);
                }
            }
            Event::Act(place) => self.act(place),
            Event::Probe => self.probe(),
            Event::Inspect => {
                self.inspect();
                self.queue.push(self.now_ns + self.scenario.inspect_every_ns, Event::Inspect);
            }
        }
    }

    /// The node of `event`, if it is stopped: until when.
    fn paused(&self, event: &Event) -> Option<u64> {
        let node = match event {
            Event::Delivery(timed) => self.network.node(timed.end),
            Event::Poll(life) | Event::Ping(life) | Event::Dial(life) => life.node,
            Event::Sweep(life) | Event::Wall(life) | Event::HoldEnds(life, _) => life.node,
            Event::Act(_) | Event::Probe | Event::Inspect => return None,
        };
        let until_ns = self.nodes[node].paused_until_ns;
        (until_ns > self.now_ns).then_some(until_ns)
    }

    /// The process that is meant, if that life is not over.
    pub(crate) fn process(&mut self, life: Life) -> Option<&mut Process> {
        let process = self.nodes[life.node].process.as_mut()?;
        (process.life == life.life).then_some(process)
    }

    fn deliver(&mut self, timed: &Timed) {
        let end = timed.end;
        if !self.network.arrive(self.now_ns, timed) {
            return;
        }
        let (node, peer, link) =
            (self.network.node(end), self.network.peer(end), self.network.link(end));
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let Some(process) = self.nodes[node].process.as_mut() else {
            self.network.vanish(end);
            return;
        };
        let digested = match &timed.delivery {
            Delivery::Connected => {
                process.ends.insert(link.0, end);
                if end.dialed() {
                    process.dialing[peer] = None;
                }
                let identity = cluster::Identity::Named(name(peer));
                process.cluster.connected(local_ns, link, end.dialed(), identity);
                1
            }
            Delivery::Frame(crate::network::Channel::Liveness, _) => {
                process.cluster.heard(local_ns, link);
                return;
            }
            Delivery::Frame(_, frame) => {
                if let Some(within_ns) = process.open.received(peer, frame, self.now_ns) {
                    self.record.acknowledged(within_ns);
                }
                process.cluster.received(local_ns, link, frame);
                digest(frame)
            }
            Delivery::Closed => {
                process.ends.remove(&link.0);
                process.dialing[peer] = process.dialing[peer].filter(|dialed| *dialed != end);
                process.cluster.closed(local_ns, link);
                2
            }
        };
        self.trace.note(&[2, self.now_ns, node as u64, link.0, digested]);
        self.settle(node);
    }

    /// Signs of life on every connection; one that has been silent for long is closed.
    fn ping(&mut self, life: Life) {
        let now_ns = self.now_ns;
        let Some(process) = self.process(life) else { return };
        let ends: Vec<_> = process.ends.values().copied().collect();
        for end in ends {
            if now_ns.saturating_sub(self.network.heard_ns(end)) > IDLE_NS {
                self.close(life.node, end, false);
            } else {
                self.send(end, crate::network::Channel::Liveness, std::sync::Arc::from([0; 8]));
            }
        }
        self.queue.push(now_ns + PING_EVERY_NS, Event::Ping(life));
    }

    /// Dials every peer that there is no connection to, and now and then one to whom there is.
    fn dial(&mut self, life: Life) {
        if self.process(life).is_none() {
            return;
        }
        self.queue.push(self.now_ns + DIAL_EVERY_NS, Event::Dial(life));
        for peer in (0..self.scenario.nodes).filter(|peer| *peer != life.node) {
            let extra = self.scenario.extra_dials_ppm > 0
                && self.dice.chance(self.scenario.extra_dials_ppm);
            let Some(process) = self.nodes[life.node].process.as_ref() else { return };
            let is_connected = process.ends.values().any(|end| self.network.peer(*end) == peer);
            if extra || !(is_connected || process.dialing[peer].is_some()) {
                self.dial_peer(life.node, peer);
            }
        }
    }

    /// Dials `peer`; nothing comes of it if it does not run.
    fn dial_peer(&mut self, node: usize, peer: usize) {
        let Node { process, paused_until_ns } = &self.nodes[peer];
        if process.is_none() || *paused_until_ns > self.now_ns {
            return;
        }
        let mut out = Vec::new();
        if self.network.dial(self.now_ns, node, peer, &mut out)
            && let Some(process) = self.nodes[node].process.as_mut()
        {
            process.dialing[peer] = out.first().map(|timed| timed.end);
        }
        self.schedule(out);
    }

    fn sweep(&mut self, life: Life) {
        let local_ns = self.scenario.clocks[life.node].local(self.now_ns);
        let Some(process) = self.process(life) else { return };
        let buckets = process.limiter.sweep_round() / SWEEP_PART;
        process.limiter.sweep(local_ns, buckets);
        self.queue.push(self.now_ns + SWEEP_EVERY_NS, Event::Sweep(life));
    }

    /// A node tells its limiter what its wall clock says.
    fn read_wall(&mut self, life: Life) {
        let local_ns = self.scenario.clocks[life.node].local(self.now_ns);
        let unix_ns = self.scenario.wall_ns(life.node, self.now_ns);
        let Some(process) = self.process(life) else { return };
        process.limiter.set_wall(local_ns, unix_ns);
        self.queue.push(self.now_ns + WALL_EVERY_NS, Event::Wall(life));
    }

    pub(crate) fn schedule(&mut self, deliveries: Vec<Timed>) {
        for timed in deliveries {
            self.queue.push(timed.at_ns, Event::Delivery(timed));
        }
    }

    fn act(&mut self, place: usize) {
        let (_, act) = self.scenario.script[place];
        self.trace.note(&[3, self.now_ns, place as u64]);
        match act {
            Act::Crash(node) => self.crash(node),
            Act::Pause(node, until_ns) => self.nodes[node].paused_until_ns = until_ns,
            Act::Leave(node) => self.leave(node),
            Act::Forget(node, gone) => self.forget(node, gone),
            Act::Dial(node, peer) => self.dial_peer(node, peer),
            Act::Reset(node, key) => self.reset(node, key),
            Act::Boot(node, version) => {
                if let Err(error) = self.boot(node, version) {
                    self.inspector.broken(self.now_ns, format!("node {node} starts not: {error}"));
                }
            }
        }
    }

    fn boot(&mut self, node: usize, version: usize) -> Result<(), String> {
        if self.nodes[node].process.is_some() {
            return Ok(());
        }
        let local_ns = self.scenario.clocks[node].local(self.now_ns);
        let life = self.dice.word() | 1;
        let process = Process::start(&self.scenario, node, version, life, local_ns)?;
        self.nodes[node].process = Some(process);
        self.inspector.booted(node);
        let life = Life { node, life };
        self.queue.push(self.now_ns + self.dice.below(PING_EVERY_NS), Event::Ping(life));
        self.queue.push(self.now_ns + self.dice.below(20 * MS), Event::Dial(life));
        self.queue.push(self.now_ns + self.dice.below(SWEEP_EVERY_NS), Event::Sweep(life));
        self.read_wall(life);
        self.settle(node);
        Ok(())
    }

    fn probe(&mut self) {
        let levels = (0..self.scenario.nodes).filter_map(|node| {
            let process = self.nodes[node].process.as_ref().filter(|process| process.accepting)?;
            let local_ns = self.scenario.clocks[node].local(self.now_ns);
            Some(self.inspector.level(process, 0, local_ns))
        });
        let levels: Vec<i128> = levels.collect();
        let truth = self.inspector.truth(0, self.now_ns);
        let at_ns = self.now_ns - self.scenario.warm_up_ns;
        self.record.probes.push(Probe { at_ns, truth, levels });
    }
}

/// Moves all times of a scenario to after the warm-up.
fn shift(scenario: &mut Scenario) {
    let by_ns = scenario.warm_up_ns;
    scenario.arrivals.iter_mut().for_each(|arrival| arrival.at_ns += by_ns);
    scenario.probes.iter_mut().for_each(|probe| *probe += by_ns);
    for (at_ns, act) in &mut scenario.script {
        *at_ns += by_ns;
        if let Act::Pause(_, until_ns) = act {
            *until_ns += by_ns;
        }
    }
    for cut in &mut scenario.lines.cuts {
        cut.from_ns += by_ns;
        cut.to_ns += by_ns;
    }
    scenario.end_ns += by_ns;
    scenario.unix_ns -= by_ns;
}
