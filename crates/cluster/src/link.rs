//! The handshake: hello, answer, done. Two nodes are linked at the answer or at done, never before.
//!
//! Each side says what it has received of the other, so that what is owed is told exactly once. What
//! was said must still be true when the link begins; where it is not, the connection is closed, and
//! the dialler, who tries again every fifth of a second, says it anew.

use limiter::Members;
use wire::peer::{
    Answer, Cursor, Done, Hello, PEER_VERSION_MAX, PEER_VERSION_MIN, Refusal, Refused,
    write_answer, write_done, write_hello, write_refused,
};

use crate::clock::Skew;
use crate::config::{DETECT_NS, MS, SECOND};
use crate::detect;
use crate::greeting::{BEGAN, Greeting, digest, judge};
use crate::member::Link;
use crate::node::Node;
use crate::output::{Channel, Effect};
use crate::parts::Parts;
use crate::{Cause, Identity, LinkId, Note};

/// A handshake takes three messages; what is not done by then is closed.
const HANDSHAKE_NS: u64 = 2 * SECOND;
/// Most handshakes at once: every member may dial while this node dials it, and strangers may too.
pub(crate) const ATTEMPTS_MAX: usize = 256;
/// A link on which nothing was heard for so long yields to a new connection: more than two pings are
/// missing.
const YIELD_NS: u64 = 250 * MS;

/// A connection whose handshake is not done.
#[derive(Debug)]
pub(crate) struct Attempt {
    dialed: bool,
    identity: Identity,
    since_ns: u64,
    /// What this node said of itself, if it has.
    said: Said,
    /// The hello that was answered, and the cursor in the answer.
    answered: Option<(Greeting, Cursor)>,
}

/// What a hello says that must still be true when the link begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    /// This node knows the counts.
    is_synced: bool,
    /// How many members it has forgotten: the other may be one that is listed as a member.
    forgotten: u64,
    /// Number of the limits in force.
    plan_number: u64,
}

impl Attempt {
    /// Whom the certificate proves the other to be; empty where it leaves that open.
    fn proven(&self) -> &str {
        match &self.identity {
            Identity::Named(name) => name,
            Identity::Fleet => "",
        }
    }
}

/// Why a handshake goes no further.
type Refuse = (Refusal, String);

impl Node {
    pub(crate) fn handle_connected(
        &mut self,
        now_ns: u64,
        link: LinkId,
        dialed: bool,
        identity: Identity,
    ) {
        if self.attempts.len() >= ATTEMPTS_MAX {
            self.counts.refused.count(Refusal::Busy);
            self.effects.push_back(Effect::Close { link, refusal: Some(Refusal::Busy) });
            return;
        }
        let said = self.said();
        let attempt = Attempt { dialed, identity, since_ns: now_ns, said, answered: None };
        self.attempts.insert(link, attempt);
        if dialed {
            let hello = self.hello(now_ns);
            let mut bytes = Vec::new();
            if write_hello(&mut bytes, &hello).is_ok() {
                self.send(link, Channel::Ordered, bytes.into());
            }
        }
    }

    /// A dialler says who it is.
    pub(crate) fn handle_hello(&mut self, now_ns: u64, link: LinkId, hello: Hello) {
        let judged = self.judge_hello(now_ns, link, &hello);
        if let Err((refusal, text)) = judged {
            return self.refuse(now_ns, link, refusal, text);
        }
        let greeting = Greeting::new(hello, &self.limits, self.unix_ms(now_ns));
        self.rejoin_if_given_up(now_ns, &greeting);
        let cursor = self.table.cursor_for(&greeting.node);
        let answer = Answer { hello: self.hello(now_ns), cursor };
        let mut bytes = Vec::new();
        let is_written = write_answer(&mut bytes, &answer).is_ok();
        let said = self.said();
        if let Some(attempt) = self.attempts.get_mut(&link).filter(|_| is_written) {
            attempt.answered = Some((greeting, cursor));
            attempt.said = said;
            self.send(link, Channel::Ordered, bytes.into());
        }
    }

    fn judge_hello(&mut self, now_ns: u64, link: LinkId, hello: &Hello) -> Result<(), Refuse> {
        let Some(attempt) = self.attempts.get(&link) else { return Ok(()) };
        if attempt.dialed || attempt.answered.is_some() {
            return Err((Refusal::Malformed, "a hello at the wrong time".to_owned()));
        }
        judge(&self.config, self.life, &attempt.identity, hello)?;
        self.may_link(&hello.node)?;
        let theirs_wins = hello.node < self.config.node;
        if self.table.index_of(&hello.node).is_some_and(|i| self.table.link(i).is_some()) {
            self.yield_to(now_ns, &hello.node, hello.life, theirs_wins)
        } else if !theirs_wins && self.is_dialing(now_ns, &hello.node) {
            Err((Refusal::Busy, "this node is dialling already".to_owned()))
        } else {
            Ok(())
        }
    }

    /// Whoever was dialled answers.
    pub(crate) fn handle_answer(&mut self, now_ns: u64, link: LinkId, answer: Answer) {
        let Some(attempt) = self.attempts.get(&link) else { return };
        let (said, cursor) = (attempt.said, answer.cursor);
        let judged = if attempt.dialed {
            judge(&self.config, self.life, &attempt.identity, &answer.hello)
        } else {
            Err((Refusal::Malformed, "an answer to no hello".to_owned()))
        };
        if let Err((refusal, text)) = judged.and_then(|()| self.may_link(&answer.hello.node)) {
            return self.refuse(now_ns, link, refusal, text);
        }
        let greeting = Greeting::new(answer.hello, &self.limits, self.unix_ms(now_ns));
        self.rejoin_if_given_up(now_ns, &greeting);
        if said != self.said() {
            return self.give_up(link);
        }
        // Only who is not linked dials: a link that is there now is younger than this dial, and both
        // sides have it or are about to. Nor does a dial go on against one that is to win.
        let may = if self.is_answering(&greeting.node) {
            Err((Refusal::Busy, "dialled by the other already".to_owned()))
        } else {
            self.yield_to(now_ns, &greeting.node, greeting.life, false)
        };
        match may {
            Ok(()) => self.begin_link(now_ns, link, greeting, cursor),
            Err((refusal, text)) => self.refuse(now_ns, link, refusal, text),
        }
    }

    /// The dialler is linked, and says what it has received.
    pub(crate) fn handle_done(&mut self, now_ns: u64, link: LinkId, done: Done) {
        let Some(attempt) = self.attempts.get_mut(&link) else { return };
        let said = attempt.said;
        let Some((greeting, answered)) = attempt.answered.take() else {
            let text = "done without an answer".to_owned();
            return self.refuse(now_ns, link, Refusal::Malformed, text);
        };
        // The peer will send everything from the cursor of the answer on. Had more arrived since, by
        // an older connection, it would be counted twice.
        let next_in = |cursor: Cursor| if cursor.life == greeting.life { cursor.next } else { 0 };
        let has_moved = next_in(answered) != next_in(self.table.cursor_for(&greeting.node));
        if has_moved || said != self.said() {
            return self.give_up(link);
        }
        let theirs_wins = greeting.node < self.config.node;
        let may = self.may_link(&greeting.node);
        match may.and_then(|()| self.yield_to(now_ns, &greeting.node, greeting.life, theirs_wins)) {
            Ok(()) => self.begin_link(now_ns, link, greeting, done.cursor),
            Err((refusal, text)) => self.refuse(now_ns, link, refusal, text),
        }
    }

    fn said(&self) -> Said {
        Said {
            is_synced: self.is_synced(),
            forgotten: self.table.removed,
            plan_number: self.plan_number,
        }
    }

    /// Whether this node takes a further link, to the node `name`.
    fn may_link(&self, name: &str) -> Result<(), Refuse> {
        if self.leaving.is_some() {
            return Err((Refusal::Leaving, format!("`{}` is leaving", self.config.node)));
        }
        if !self.table.has_room(name) {
            return Err((Refusal::TooManyMembers, "the cluster is full".to_owned()));
        }
        Ok(())
    }

    /// Makes way for a new connection to `name`, or says why not. Of two connections the one that
    /// the smaller name dialled stays: `wins` says that the new one is that. Either side decides so.
    fn yield_to(&mut self, now_ns: u64, name: &str, life: u64, wins: bool) -> Result<(), Refuse> {
        let Some(index) = self.table.index_of(name) else { return Ok(()) };
        let Some(link) = self.table.link(index) else { return Ok(()) };
        let silent_ns = now_ns.saturating_sub(link.heard_ns);
        if link.greeting.life != life {
            if silent_ns < DETECT_NS {
                let text = format!("another process is named `{name}` too");
                return Err((Refusal::DuplicateName, text));
            }
        } else if wins {
            // Lost when the new connection is linked: until then this one may still be the only one.
            return Ok(());
        } else if silent_ns < YIELD_NS {
            return Err((Refusal::Busy, "linked already".to_owned()));
        }
        self.lose(now_ns, Members::only(index), Cause::Replaced);
        Ok(())
    }

    /// Whether this node waits for an answer of the node `name`, and not in vain: a dial that reached a
    /// process which then ended is never answered, and must not keep the next process of that name
    /// out until it is given up.
    fn is_dialing(&self, now_ns: u64, name: &str) -> bool {
        self.attempts.values().any(|attempt| {
            let is_fresh = now_ns.saturating_sub(attempt.since_ns) < DETECT_NS;
            attempt.dialed && is_fresh && attempt.proven() == name
        })
    }

    /// Whether the node `name`, whose dial wins over this node's, waits for this node's link.
    fn is_answering(&self, name: &str) -> bool {
        let mut answered = self.attempts.values().filter_map(|attempt| attempt.answered.as_ref());
        name < self.config.node.as_str() && answered.any(|(to, _)| to.node == name)
    }

    fn hello(&self, now_ns: u64) -> Hello {
        Hello {
            protocol_min: PEER_VERSION_MIN,
            protocol_max: PEER_VERSION_MAX,
            capabilities: if self.began_alone { BEGAN } else { 0 },
            cluster: self.config.cluster.clone(),
            region: self.config.region.clone(),
            node: self.config.node.clone(),
            life: self.life,
            synced: self.is_synced(),
            members: self.table.names(),
            members_version: self.table.version,
            limits: self.limits.numbers.clone(),
            digest: digest(&self.config, &self.config.node, self.life),
            unix_ms: self.unix_ms(now_ns).unwrap_or(0),
            size: u32::try_from(self.table.size()).unwrap_or(u32::MAX),
        }
    }

    /// The handshake is done: `cursor` is what the peer has received of this node.
    fn begin_link(&mut self, now_ns: u64, id: LinkId, greeting: Greeting, cursor: Cursor) {
        let Ok((index, is_new)) = self.table.admit(&greeting.node, now_ns) else {
            let text = "the cluster is full".to_owned();
            return self.refuse(now_ns, id, Refusal::TooManyMembers, text);
        };
        let Some(attempt) = self.attempts.remove(&id) else { return };
        self.lose(now_ns, Members::only(index), Cause::Replaced);
        let Some(peer) = self.table.peers.get_mut(&index) else { return };
        if peer.life != greeting.life {
            (peer.life, peer.next) = (greeting.life, 0);
        }
        let ours = Cursor { life: peer.life, next: peer.next };
        if !greeting.synced {
            // The snapshot that it takes contains it.
            self.limiter.owed_cleared(index);
            peer.owed = false;
        } else if cursor.life == self.life {
            self.limiter.owed_received(now_ns, index, cursor.next);
        }
        let quiet_until_ns = detect::quiet_until_ns(peer, now_ns);
        let (name, drift) = (greeting.node.clone(), greeting.slots.drift.clone());
        let is_synced = greeting.synced;
        let skew = Skew::new(greeting.skew_ms);
        peer.link = Some(Link {
            id,
            greeting,
            since_ns: now_ns,
            heard_ns: now_ns,
            acked: self.next_seq,
            ack_due: false,
            counted: false,
            synced_ns: is_synced.then_some(now_ns),
            heal_in: false,
            heal_out: false,
            heal_seq: None,
            upto: 0,
            quiet_until_ns,
            confirm_later: None,
            rtt_ns: None,
            skew,
            parts: Parts::new(),
            acts_told: 0,
            limits_coming: Vec::new(),
        });
        self.links.insert(id, index);
        if is_new {
            self.changed_ns = now_ns;
            self.limiter.grow(now_ns, &self.table.view());
        }
        self.counts.links += 1;
        self.note(Note::Linked { peer: name.clone() });
        if !drift.is_empty() {
            self.note(Note::Drift { peer: name, limits: drift });
        }
        if attempt.dialed {
            self.send_to(index, |out| write_done(out, Done { cursor: ours }));
        }
        match &mut self.join {
            None => self.send_heal(now_ns, index),
            // What the peer owed is dropped there: the snapshot must be younger than the link.
            Some(join) if is_synced => join.restart(now_ns),
            Some(_) => {}
        }
    }

    /// Closes a connection with a reason that the other is told.
    pub(crate) fn refuse(&mut self, now_ns: u64, link: LinkId, refusal: Refusal, text: String) {
        let linked = self.links.get(&link).copied();
        let peer = match (linked, self.attempts.get(&link)) {
            (Some(index), _) => self.table.name(index),
            (None, Some(attempt)) => attempt.proven().to_owned(),
            (None, None) => return,
        };
        self.counts.refused.count(refusal);
        let mut bytes = Vec::new();
        write_refused(&mut bytes, refusal, &text);
        self.send(link, Channel::Ordered, bytes.into());
        self.effects.push_back(Effect::Close { link, refusal: Some(refusal) });
        self.note(Note::Refused { peer, refusal, text, by_peer: false });
        self.attempts.remove(&link);
        if let Some(index) = linked {
            self.links.remove(&link);
            self.lose(now_ns, Members::only(index), Cause::Malformed);
        }
    }

    /// The other closes the connection and says why.
    pub(crate) fn handle_refused(&mut self, now_ns: u64, link: LinkId, refused: Refused) {
        let Refused { refusal, text } = refused;
        self.counts.refused_by_peers.count(refusal);
        if matches!(
            refusal,
            Refusal::Cluster | Refusal::Secret | Refusal::Identity | Refusal::DuplicateName
        ) {
            self.turned_away_ns = Some(now_ns);
        }
        let linked = self.links.remove(&link);
        let peer = match (linked, self.attempts.remove(&link)) {
            (Some(index), _) => self.table.name(index),
            (None, Some(attempt)) => attempt.proven().to_owned(),
            (None, None) => return,
        };
        self.effects.push_back(Effect::Close { link, refusal: Some(refusal) });
        self.note(Note::Refused { peer, refusal, text, by_peer: true });
        if let Some(index) = linked {
            self.lose(now_ns, Members::only(index), Cause::Closed);
        }
    }

    /// Closes a handshake that is to be tried again.
    fn give_up(&mut self, link: LinkId) {
        self.attempts.remove(&link);
        self.effects.push_back(Effect::Close { link, refusal: None });
    }

    pub(crate) fn expire_attempts(&mut self, now_ns: u64) {
        let expired = |attempt: &Attempt| now_ns.saturating_sub(attempt.since_ns) >= HANDSHAKE_NS;
        let expired = self.attempts.iter().filter(|(_, attempt)| expired(attempt));
        for link in expired.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.give_up(link);
        }
    }

    pub(crate) fn attempts_due_ns(&self) -> Option<u64> {
        self.attempts.values().map(|attempt| attempt.since_ns + HANDSHAKE_NS).min()
    }
}
