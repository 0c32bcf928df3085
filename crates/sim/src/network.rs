//! The virtual network: connections as the transport makes them, and what delays, cuts and slow lines
//! do to them.
//!
//! A connection carries three channels each way. A channel delivers its frames whole, once and in the
//! order of sending, as a QUIC stream does; two channels do not wait for each other. Loss therefore
//! shows as delay. A cut lets nothing through: frames wait until it ends, or until either end closes.
//! What a datagram network would duplicate or reorder reaches a cluster only as delay, or as one more
//! or a late connection, which [`Network::dial`] makes on demand.

use std::sync::Arc;

use cluster::LinkId;

use crate::clock::{MS, SECOND};
use crate::dice::Dice;

/// A stream of a connection, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Everything whose order matters.
    Ordered,
    /// Snapshots.
    Bulk,
    /// Signs of life.
    Liveness,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    connection: usize,
    side: usize,
}

impl End {
    fn other(self) -> Self {
        Self { connection: self.connection, side: 1 - self.side }
    }

    /// Whether this end dialled.
    pub fn dialed(self) -> bool {
        self.side == 0
    }
}

/// What reaches an end.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// The connection stands.
    Connected,
    /// A frame.
    Frame(Channel, Arc<[u8]>),
    /// The other end closed it.
    Closed,
}

/// A delivery and when it happens.
#[derive(Clone, Debug)]
pub struct Timed {
    /// True time, in ns.
    pub at_ns: u64,
    /// Where.
    pub end: End,
    /// What.
    pub delivery: Delivery,
}

/// A time in which the nodes of one set do not reach those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Beginning, in ns.
    pub from_ns: u64,
    /// End, in ns.
    pub to_ns: u64,
    /// One set of nodes, by bits.
    pub a: u64,
    /// The other.
    pub b: u64,
    /// Only what `a` sends to `b` is cut.
    pub one_way: bool,
}

impl Cut {
    fn hides(&self, now_ns: u64, from: usize, to: usize) -> bool {
        let (from, to) = (1 << from, 1 << to);
        let forth = self.a & from != 0 && self.b & to != 0;
        let back = self.b & from != 0 && self.a & to != 0;
        (self.from_ns..self.to_ns).contains(&now_ns) && (forth || (back && !self.one_way))
    }
}

/// The lines between nodes.
#[derive(Clone, Debug)]
pub struct Lines {
    /// One-way delay from node to node, in ns.
    pub delay_ns: Vec<Vec<u64>>,
    /// Most that chance adds to a delay, in ns.
    pub jitter_ns: u64,
    /// Millionths of frames that are sent again after a round trip and 25 ms.
    pub loss_ppm: u64,
    /// Bytes per second that a node sends to each peer, and each peer to it; none: no bound.
    pub bytes_per_s: Vec<Option<u64>>,
    /// Most bytes under way from one end to the other: the transport closes a connection with more.
    pub queue_bytes_max: u64,
    /// Times of trouble.
    pub cuts: Vec<Cut>,
}

impl Lines {
    /// Lines of one delay between `nodes` nodes.
    pub fn even(nodes: usize, delay_ns: u64) -> Self {
        Self {
            delay_ns: vec![vec![delay_ns; nodes]; nodes],
            jitter_ns: 0,
            loss_ppm: 0,
            bytes_per_s: vec![None; nodes],
            queue_bytes_max: 64 << 20,
            cuts: Vec::new(),
        }
    }

    /// When what is sent at `now_ns` gets onto the line: now, or after the cuts that hide it.
    fn open_at(&self, now_ns: u64, from: usize, to: usize) -> u64 {
        let mut at = now_ns;
        while let Some(cut) = self.cuts.iter().find(|cut| cut.hides(at, from, to)) {
            at = cut.to_ns;
        }
        at
    }

    /// Whether both directions between two nodes are open.
    pub fn are_open(&self, now_ns: u64, from: usize, to: usize) -> bool {
        self.open_at(now_ns, from, to) == now_ns && self.open_at(now_ns, to, from) == now_ns
    }

    /// When the last cut is over.
    pub fn cuts_end_ns(&self) -> u64 {
        self.cuts.iter().map(|cut| cut.to_ns).max().unwrap_or(0)
    }
}

/// A connection between two nodes.
#[derive(Clone, Debug)]
struct Connection {
    nodes: [usize; 2],
    links: [LinkId; 2],
    open: [bool; 2],
    /// When an end last heard anything.
    heard_ns: [u64; 2],
    /// Bytes under way from an end.
    queued: [u64; 2],
    /// When the last frame of a channel from an end arrives.
    last_ns: [[u64; 3]; 2],
}

/// There is no room for more bytes between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// All connections.
#[derive(Debug)]
pub struct Network {
    lines: Lines,
    connections: Vec<Connection>,
    /// When the line from node to node has sent what it was given.
    sent_ns: Vec<Vec<u64>>,
    links: u64,
    dice: Dice,
}

impl Network {
    /// A network of `lines` without connections.
    pub fn new(lines: Lines, dice: Dice) -> Self {
        let nodes = lines.delay_ns.len();
        let sent_ns = vec![vec![0; nodes]; nodes];
        Self { lines, connections: Vec::new(), sent_ns, links: 0, dice }
    }

    /// The lines.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The node at `end`.
    pub fn node(&self, end: End) -> usize {
        self.connections[end.connection].nodes[end.side]
    }

    /// The node at the other end.
    pub fn peer(&self, end: End) -> usize {
        self.node(end.other())
    }

    /// What `end` is called by its node.
    pub fn link(&self, end: End) -> LinkId {
        self.connections[end.connection].links[end.side]
    }

    /// Whether `end` is open: not closed from here, and not known here to be closed there.
    pub fn is_open(&self, end: End) -> bool {
        self.connections[end.connection].open[end.side]
    }

    /// When `end` last heard anything.
    pub fn heard_ns(&self, end: End) -> u64 {
        self.connections[end.connection].heard_ns[end.side]
    }

    /// Node `from` connects to `to`, which is listening. Nothing comes of it while either direction is
    /// cut. Otherwise the dialler has the connection after a round trip, and the acceptor, who must
    /// see the dialler's certificate, half a round trip later.
    pub fn dial(&mut self, now_ns: u64, from: usize, to: usize, out: &mut Vec<Timed>) -> bool {
        if !self.lines.are_open(now_ns, from, to) {
            return false;
        }
        let links = [LinkId(self.links + 1), LinkId(self.links + 2)];
        self.links += 2;
        let forth = self.travel_ns(from, to);
        let dialed = now_ns + forth + self.travel_ns(to, from);
        let accepted = dialed + self.travel_ns(from, to);
        self.connections.push(Connection {
            nodes: [from, to],
            links,
            open: [true, true],
            heard_ns: [dialed, accepted],
            queued: [0, 0],
            last_ns: [[accepted; 3], [dialed; 3]],
        });
        let connection = self.connections.len() - 1;
        for (side, at_ns) in [(0, dialed), (1, accepted)] {
            let end = End { connection, side };
            out.push(Timed { at_ns, end, delivery: Delivery::Connected });
        }
        true
    }

    /// Sends `frame` from `end`.
    ///
    /// # Errors
    /// The queue is full: nothing was sent, and the caller closes the connection.
    pub fn send(
        &mut self,
        now_ns: u64,
        end: End,
        channel: Channel,
        frame: Arc<[u8]>,
        out: &mut Vec<Timed>,
    ) -> Result<(), QueueFull> {
        let (from, to) = (self.node(end), self.peer(end));
        let connection = &mut self.connections[end.connection];
        let bytes = frame.len() as u64;
        if connection.queued[end.side] + bytes > self.lines.queue_bytes_max {
            return Err(QueueFull);
        }
        connection.queued[end.side] += bytes;
        let at_ns = self.arrival_ns(now_ns, from, to, bytes);
        let last_ns = &mut self.connections[end.connection].last_ns[end.side][place(channel)];
        *last_ns = at_ns.max(*last_ns + 1);
        let delivery = Delivery::Frame(channel, frame);
        out.push(Timed { at_ns: *last_ns, end: end.other(), delivery });
        Ok(())
    }

    /// Closes `end`. The other end hears of it as soon as a packet can get there, which may be before
    /// frames that are still under way; those are then lost. If `finish`, after them.
    pub fn close(&mut self, now_ns: u64, end: End, finish: bool, out: &mut Vec<Timed>) {
        let (from, to) = (self.node(end), self.peer(end));
        let connection = &mut self.connections[end.connection];
        if !std::mem::replace(&mut connection.open[end.side], false) {
            return;
        }
        let last_ns = connection.last_ns[end.side].into_iter().max().unwrap_or(0);
        let at_ns = self.arrival_ns(now_ns, from, to, 0);
        let at_ns = if finish { at_ns.max(last_ns + 1) } else { at_ns };
        out.push(Timed { at_ns, end: end.other(), delivery: Delivery::Closed });
    }

    /// Nobody is at `end` any more, and the other end learns nothing of it.
    pub fn vanish(&mut self, end: End) {
        self.connections[end.connection].open[end.side] = false;
    }

    /// `node` is gone without a word: so are its ends of all connections, standing or not yet.
    pub fn vanish_all(&mut self, node: usize) {
        for connection in &mut self.connections {
            for side in 0..2 {
                if connection.nodes[side] == node {
                    connection.open[side] = false;
                }
            }
        }
    }

    /// A delivery arrives: whether the end is still open to take it.
    pub fn arrive(&mut self, now_ns: u64, timed: &Timed) -> bool {
        let End { connection, side } = timed.end;
        let connection = &mut self.connections[connection];
        if let Delivery::Frame(_, frame) = &timed.delivery {
            connection.queued[1 - side] -= frame.len() as u64;
        }
        let was_open = connection.open[side];
        connection.heard_ns[side] = connection.heard_ns[side].max(now_ns);
        if matches!(timed.delivery, Delivery::Closed) {
            connection.open[side] = false;
        }
        was_open
    }

    /// When `bytes` that are sent now arrive.
    fn arrival_ns(&mut self, now_ns: u64, from: usize, to: usize, bytes: u64) -> u64 {
        let mut at_ns = self.lines.open_at(now_ns, from, to);
        if at_ns > now_ns {
            // After a cut the sender probes again within the interval of its pings.
            at_ns += 20 * MS + self.dice.below(100 * MS);
        }
        let rates = [self.lines.bytes_per_s[from], self.lines.bytes_per_s[to]];
        if let Some(rate) = rates.into_iter().flatten().min() {
            let sent_ns = &mut self.sent_ns[from][to];
            *sent_ns = at_ns.max(*sent_ns) + bytes * SECOND / rate.max(1);
            at_ns = *sent_ns;
        }
        at_ns + self.travel_ns(from, to)
    }

    /// How long a packet is under way, with what is lost sent again.
    fn travel_ns(&mut self, from: usize, to: usize) -> u64 {
        let delay_ns = self.lines.delay_ns[from][to];
        let mut travel_ns = delay_ns + self.dice.below(self.lines.jitter_ns + 1);
        for _ in 0..SENDS_MAX {
            if self.lines.loss_ppm == 0 || !self.dice.chance(self.lines.loss_ppm) {
                break;
            }
            travel_ns += 2 * delay_ns + 25 * MS;
        }
        travel_ns
    }
}

/// Times that a lost packet is sent again before it gets through in any case.
const SENDS_MAX: usize = 20;

fn place(channel: Channel) -> usize {
    match channel {
        Channel::Ordered => 0,
        Channel::Bulk => 1,
        Channel::Liveness => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(byte: u8) -> Arc<[u8]> {
        Arc::from([byte].as_slice())
    }

    /// A connection from node 0 to node 1, standing at both ends.
    fn connected(lines: Lines) -> (Network, End, End) {
        let mut network = Network::new(lines, Dice::new(1));
        let mut out = Vec::new();
        assert!(network.dial(0, 0, 1, &mut out));
        let ends: Vec<End> = out.iter().map(|timed| timed.end).collect();
        (network, ends[0], ends[1])
    }

    #[test]
    fn a_dialled_connection_takes_a_round_trip_and_has_two_ends() {
        let mut network = Network::new(Lines::even(2, MS), Dice::new(1));
        let mut out = Vec::new();
        assert!(network.dial(SECOND, 0, 1, &mut out));
        let times: Vec<u64> = out.iter().map(|timed| timed.at_ns - SECOND).collect();
        assert_eq!(times, [2 * MS, 3 * MS]);
        assert_eq!((network.node(out[1].end), network.peer(out[1].end)), (1, 0));
        assert_ne!(network.link(out[0].end), network.link(out[1].end));
        assert!(out[0].end.dialed() && !out[1].end.dialed());
    }

    #[test]
    fn a_channel_keeps_its_order_whatever_is_lost() {
        let mut lines = Lines::even(2, MS);
        (lines.loss_ppm, lines.jitter_ns) = (500_000, 5 * MS);
        let (mut network, a, _) = connected(lines);
        let mut out = Vec::new();
        for n in 0..100 {
            network.send(u64::from(n) * MS, a, Channel::Ordered, frame(n), &mut out).unwrap();
        }
        assert!(out.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
    }

    #[test]
    fn a_cut_holds_frames_back_and_makes_dialling_fail() {
        let mut lines = Lines::even(2, MS);
        let cut = Cut { from_ns: SECOND, to_ns: 3 * SECOND, a: 1, b: 2, one_way: true };
        lines.cuts = vec![cut];
        let (mut network, a, b) = connected(lines);
        let mut out = Vec::new();
        network.send(2 * SECOND, a, Channel::Ordered, frame(1), &mut out).unwrap();
        network.send(2 * SECOND, b, Channel::Ordered, frame(2), &mut out).unwrap();
        assert!(out[0].at_ns > 3 * SECOND);
        assert_eq!(out[1].at_ns, 2 * SECOND + MS);
        assert!(!network.dial(2 * SECOND, 1, 0, &mut out));
    }

    #[test]
    fn what_arrives_at_a_closed_end_is_void() {
        let (mut network, a, b) = connected(Lines::even(2, MS));
        let mut out = Vec::new();
        network.send(SECOND, a, Channel::Ordered, frame(1), &mut out).unwrap();
        network.close(SECOND, b, false, &mut out);
        assert!(!network.arrive(SECOND + MS, &out[0]));
        assert!(network.is_open(a) && network.arrive(SECOND + MS, &out[1]) && !network.is_open(a));
    }

    #[test]
    fn a_full_queue_takes_nothing_more_and_arrivals_empty_it() {
        let mut lines = Lines::even(2, MS);
        (lines.queue_bytes_max, lines.bytes_per_s[1]) = (2, Some(1));
        let (mut network, a, _) = connected(lines);
        let mut out = Vec::new();
        for _ in 0..2 {
            network.send(0, a, Channel::Ordered, frame(1), &mut out).unwrap();
        }
        assert_eq!(network.send(0, a, Channel::Ordered, frame(1), &mut out), Err(QueueFull));
        assert_eq!(out[1].at_ns, 2 * SECOND + MS);
        network.arrive(SECOND, &out[0]);
        assert_eq!(network.send(SECOND, a, Channel::Ordered, frame(1), &mut out), Ok(()));
    }
}
