//! What operators did to keys and is in force: bans, and numbers of single keys. Each is a register that the
//! last act wins, so that nodes agree on all of them in whatever order they hear.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use crate::counters::Event;
use crate::lists::Subjects;
use crate::{
    Bucket, Limiter, OPERATION_NS_MAX, OPERATIONS_MAX, OperationError, Quota, Rate, Subject, Window,
};

/// What an act is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A ban.
    Ban(Subject),
    /// The numbers of one bucket.
    Override {
        /// [`crate::Rule::id`] of its limit.
        rule: u64,
        /// [`Bucket::hash`] of the bucket.
        hash: u64,
    },
}

/// Numbers that an operator gave one bucket, in the words of whatever algorithm its limit has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Given {
    /// Nothing passes.
    Deny,
    /// Everything passes.
    Unlimited,
    /// A bucket.
    Level {
        /// Units per `period_ns`.
        count: u64,
        /// Nanoseconds.
        period_ns: u64,
        /// Capacity.
        burst: u64,
    },
    /// A count.
    Count {
        /// Units.
        limit: u64,
        /// Length of the window, in nanoseconds; none: that of the limit.
        period_ns: Option<u64>,
    },
}

impl Given {
    fn of(quota: &Quota) -> Option<Self> {
        let level = |rate: &Rate, burst: u64| {
            let Rate { count, period_ns } = *rate;
            Self::Level { count, period_ns, burst }
        };
        let count = |limit, period_ns| Self::Count { limit, period_ns };
        Some(match quota {
            Quota::Deny => Self::Deny,
            Quota::Unlimited => Self::Unlimited,
            Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. } => {
                level(rate, *burst)
            }
            Quota::FixedWindow { limit, window } => match window {
                Window::Period(period_ns) => count(*limit, Some(*period_ns)),
                Window::Calendar(_) => count(*limit, None),
            },
            Quota::SlidingWindow { limit, period_ns } | Quota::SlidingLog { limit, period_ns } => {
                count(*limit, Some(*period_ns))
            }
            Quota::Carried => return None,
        })
    }

    /// The quota of a bucket of a limit with the quota `of`; none: it is of another kind.
    fn quota(self, of: &Quota) -> Option<Quota> {
        Some(match (self, of) {
            (Self::Deny, _) => Quota::Deny,
            (Self::Unlimited, _) => Quota::Unlimited,
            (Self::Level { count, period_ns, burst }, Quota::TokenBucket { .. }) => {
                Quota::TokenBucket { rate: Rate { count, period_ns }, burst }
            }
            (Self::Level { count, period_ns, burst }, Quota::LeakyBucket { queue, .. }) => {
                Quota::LeakyBucket { rate: Rate { count, period_ns }, burst, queue: *queue }
            }
            (Self::Count { limit, period_ns }, Quota::FixedWindow { window, .. }) => {
                let window = period_ns.map_or_else(|| window.clone(), Window::Period);
                Quota::FixedWindow { limit, window }
            }
            (Self::Count { limit, period_ns: Some(period_ns) }, Quota::SlidingWindow { .. }) => {
                Quota::SlidingWindow { limit, period_ns }
            }
            (Self::Count { limit, period_ns: Some(period_ns) }, Quota::SlidingLog { .. }) => {
                Quota::SlidingLog { limit, period_ns }
            }
            _ => return None,
        })
    }
}

/// What holds by an act.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holds {
    /// For how long still; none: until it is ended.
    pub for_ns: Option<u64>,
    /// Of an override: the key that the operator named, and its numbers.
    pub given: Option<(Vec<u8>, Given)>,
}

/// An act, as nodes tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// What it is about.
    pub about: About,
    /// Of two acts about the same, the one with the larger version holds: milliseconds of Unix time and,
    /// in the low 16 bits, something of the node, and always more than whoever acted had heard of.
    pub version: u64,
    /// What holds since; none: it was ended.
    pub holds: Option<Holds>,
}

/// A ban in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banned {
    /// Who.
    pub subject: Subject,
    /// For how long still; none: until it is ended.
    pub for_ns: Option<u64>,
}

/// Numbers of a key in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overridden {
    /// The key that the operator named.
    pub key: Vec<u8>,
    /// Name of the limit or override whose bucket it is.
    pub limit: String,
    /// The numbers.
    pub quota: Quota,
    /// For how long still; none: until it is ended.
    pub for_ns: Option<u64>,
}

/// Most registers of each kind, those of acts that were ended among them.
const REGISTERS_MAX: usize = 2 * OPERATIONS_MAX;

#[derive(Debug)]
struct Register {
    version: u64,
    /// When the register was changed, in changes since the start.
    changed: u64,
    /// None: ended.
    holds: Option<Held>,
}

#[derive(Debug)]
struct Held {
    until_ns: Option<u64>,
    given: Option<(Vec<u8>, Given)>,
}

#[derive(Debug, Default)]
struct Registers {
    rows: BTreeMap<About, Register>,
    changes: u64,
    /// Largest version met.
    version: u64,
}

impl Registers {
    fn is_full(&self, about: &About) -> bool {
        let live = self.rows.iter().filter(|(it, row)| is_alike(it, about) && row.holds.is_some());
        live.count() >= OPERATIONS_MAX
    }

    /// Takes `holds` over; what is there is older.
    fn set(&mut self, about: About, version: u64, holds: Option<Held>) {
        self.changes += 1;
        self.version = self.version.max(version);
        self.rows.insert(about.clone(), Register { version, changed: self.changes, holds });
        let alike = || self.rows.iter().filter(|(it, _)| is_alike(it, &about));
        if alike().count() > REGISTERS_MAX {
            // What was ended longest ago is the least likely to be met again.
            let ended = alike().filter(|(_, row)| row.holds.is_none());
            let oldest = ended.min_by_key(|(_, row)| row.version).map(|(about, _)| about.clone());
            oldest.map(|about| self.rows.remove(&about));
        }
    }

    fn due_ns(&self) -> u64 {
        let due = self.rows.values().filter_map(|row| row.holds.as_ref()?.until_ns);
        due.min().unwrap_or(u64::MAX)
    }
}

fn is_alike(a: &About, b: &About) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// What operators did.
#[derive(Debug)]
pub(crate) struct Acts {
    /// Keeps versions of two nodes that act at the same time apart.
    salt: u16,
    registers: Mutex<Registers>,
    has_bans: AtomicBool,
    bans: ArcSwap<Subjects<Option<u64>>>,
    /// Registers changed since the start.
    changes: AtomicU64,
    /// When the next ban or override ends.
    due_ns: AtomicU64,
}

impl Acts {
    /// Nothing done yet, on the member `id` of a cluster, or on a node alone.
    pub(crate) fn new(id: Option<u64>) -> Self {
        let [low, high, ..] = id.unwrap_or(0).to_le_bytes();
        Self {
            salt: u16::from_le_bytes([low, high]),
            registers: Mutex::default(),
            has_bans: AtomicBool::new(false),
            bans: ArcSwap::default(),
            changes: AtomicU64::new(0),
            due_ns: AtomicU64::new(u64::MAX),
        }
    }

    #[inline]
    pub(crate) fn has_bans(&self) -> bool {
        self.has_bans.load(Ordering::Relaxed)
    }

    pub(crate) fn bans(&self) -> Guard<Arc<Subjects<Option<u64>>>> {
        self.bans.load()
    }

    /// Puts what `registers` say before whoever reads.
    fn publish(&self, registers: &Registers, has_bans_changed: bool) {
        if has_bans_changed {
            let mut subjects = Subjects::default();
            for (about, row) in &registers.rows {
                if let (About::Ban(subject), Some(held)) = (about, &row.holds) {
                    subjects.insert(subject.clone(), held.until_ns);
                }
            }
            let has_bans = !subjects.is_empty();
            self.bans.store(Arc::new(subjects));
            self.has_bans.store(has_bans, Ordering::Relaxed);
        }
        self.changes.store(registers.changes, Ordering::Release);
        self.due_ns.store(registers.due_ns(), Ordering::Relaxed);
    }
}

impl Limiter {
    /// Bans and overrides of keys that changed since the start: whoever tells peers asks for those that
    /// came since, by [`Limiter::acts_since`].
    pub fn act_changes(&self) -> u64 {
        self.acts().changes.load(Ordering::Acquire)
    }

    /// Up to `max` acts that came after the change `since` (0: all), and the change up to which they are
    /// told.
    pub fn acts_since(&self, now_ns: u64, since: u64, max: usize) -> (Vec<Act>, u64) {
        let registers = self.acts().registers.lock();
        let mut rows: Vec<_> =
            registers.rows.iter().filter(|(_, row)| row.changed > since).collect();
        rows.sort_unstable_by_key(|(_, row)| row.changed);
        let is_all = rows.len() <= max;
        rows.truncate(max);
        let told = match rows.last() {
            Some((_, row)) if !is_all => row.changed,
            _ => registers.changes,
        };
        let act = |(about, row): (&About, &Register)| Act {
            about: about.clone(),
            version: row.version,
            holds: row.holds.as_ref().map(|held| Holds {
                for_ns: held.until_ns.map(|until| until.saturating_sub(now_ns).max(1)),
                given: held.given.clone(),
            }),
        };
        (rows.into_iter().map(act).collect(), told)
    }

    /// Takes over what a peer knows; gives how many of `acts` found no room.
    pub fn take_acts(&self, now_ns: u64, acts: Vec<Act>) -> usize {
        let mut registers = self.acts().registers.lock();
        let (mut dropped, mut has_bans_changed) = (0, false);
        for act in acts {
            let known = registers.rows.get(&act.about);
            if known.is_some_and(|row| row.version >= act.version) {
                continue;
            }
            let held = known.is_some_and(|row| row.holds.is_some());
            if act.holds.is_some() && !held && registers.is_full(&act.about) {
                dropped += 1;
                continue;
            }
            has_bans_changed |= matches!(act.about, About::Ban(_));
            let holds = act.holds.map(|holds| Held {
                until_ns: holds.for_ns.map(|ns| now_ns.saturating_add(ns.min(OPERATION_NS_MAX))),
                given: holds.given,
            });
            self.set_given(now_ns, &act.about, holds.as_ref());
            registers.set(act.about, act.version, holds);
        }
        self.acts().publish(&registers, has_bans_changed);
        dropped
    }

    /// Carries out an act of an operator here; whether it changed anything.
    pub(crate) fn act(
        &self,
        now_ns: u64,
        about: About,
        holds: Option<Holds>,
    ) -> Result<bool, OperationError> {
        let mut registers = self.acts().registers.lock();
        let held = registers.rows.get(&about).is_some_and(|row| row.holds.is_some());
        match &holds {
            None if !held => return Ok(false),
            Some(_) if !held && registers.is_full(&about) => return Err(OperationError::Full),
            _ => {}
        }
        let holds = holds.map(|holds| Held {
            until_ns: holds.for_ns.map(|ns| now_ns.saturating_add(ns.min(OPERATION_NS_MAX))),
            given: holds.given,
        });
        let unix_ms = self.store().unix_ns(now_ns) / 1_000_000;
        let time = unix_ms.max((registers.version >> 16) + 1).min(u64::MAX >> 16);
        let version = time << 16 | u64::from(self.acts().salt);
        self.set_given(now_ns, &about, holds.as_ref());
        let has_bans_changed = matches!(about, About::Ban(_));
        registers.set(about, version, holds);
        self.acts().publish(&registers, has_bans_changed);
        Ok(true)
    }

    /// Ends what is due.
    pub(crate) fn end_acts(&self, now_ns: u64) {
        if self.acts().due_ns.load(Ordering::Relaxed) > now_ns {
            return;
        }
        let mut registers = self.acts().registers.lock();
        let is_due = |row: &Register| {
            row.holds.as_ref().and_then(|held| held.until_ns).is_some_and(|until| until <= now_ns)
        };
        let due = registers.rows.iter().filter(|(_, row)| is_due(row));
        let due: Vec<About> = due.map(|(about, _)| about.clone()).collect();
        for about in &due {
            self.set_given(now_ns, about, None);
            // Every node ends it by itself: there is nothing to tell.
            registers.rows.remove(about);
        }
        self.acts().publish(&registers, true);
    }

    /// Gives every bucket of which an operator said so its numbers, after other limits came.
    pub(crate) fn renew_acts(&self, now_ns: u64) {
        let registers = self.acts().registers.lock();
        let first = About::Override { rule: 0, hash: 0 };
        for (about, row) in registers.rows.range((Bound::Included(first), Bound::Unbounded)) {
            if row.holds.is_some() {
                self.set_given(now_ns, about, row.holds.as_ref());
            }
        }
    }

    /// The bans in force.
    pub fn bans(&self, now_ns: u64) -> Vec<Banned> {
        let registers = self.acts().registers.lock();
        let ban = |(about, row): (&About, &Register)| match (about, &row.holds) {
            (About::Ban(subject), Some(held)) => {
                Some(Banned { subject: subject.clone(), for_ns: held.left_ns(now_ns)? })
            }
            _ => None,
        };
        registers.rows.iter().filter_map(ban).collect()
    }

    /// The overrides of keys in force.
    pub fn overridden(&self, now_ns: u64) -> Vec<Overridden> {
        let (registers, plan) = (self.acts().registers.lock(), self.plan());
        let overridden = |(about, row): (&About, &Register)| {
            let (About::Override { rule, .. }, Some(held)) = (about, &row.holds) else {
                return None;
            };
            let rule = plan.rules().iter().find(|it| it.id() == *rule)?;
            let (key, given) = held.given.clone()?;
            let quota = given.quota(rule.quota())?;
            let limit = rule.name().to_owned();
            Some(Overridden { key, limit, quota, for_ns: held.left_ns(now_ns)? })
        };
        registers.rows.iter().filter_map(overridden).collect()
    }

    /// Gives the bucket that `about` names the numbers of `held`, where this node has such a limit.
    fn set_given(&self, now_ns: u64, about: &About, held: Option<&Held>) {
        let About::Override { rule, hash } = about else { return };
        let plan = self.plan();
        let Some(rule) = plan.rules().iter().find(|it| it.id() == *rule) else { return };
        let given = held.and_then(|held| held.given.as_ref());
        let quota = given.and_then(|(_, given)| given.quota(rule.quota()));
        let bucket = Bucket { slot: rule.slot(), hash: *hash };
        // A peer with another file may have given what makes no limit here: the limit's own hold then.
        let _: Result<(), String> = self.set_numbers(now_ns, bucket, quota.as_ref());
    }

    /// What an operator's override of a bucket holds.
    pub(crate) fn holds_of(for_ns: Option<u64>, key: &[u8], quota: &Quota) -> Option<Holds> {
        Some(Holds { for_ns, given: Some((key.to_vec(), Given::of(quota)?)) })
    }

    /// Counts a request that the lists decided.
    pub(crate) fn note_listed(&self, now_ns: u64, is_banned: bool) {
        let event = if is_banned { Event::Banned } else { Event::Listed };
        self.event(now_ns, event, 1);
    }
}

impl Held {
    /// How long it holds still; none: no longer.
    #[expect(clippy::option_option, reason = "no longer, or without an end")]
    fn left_ns(&self, now_ns: u64) -> Option<Option<u64>> {
        match self.until_ns {
            None => Some(None),
            Some(until) => until.checked_sub(now_ns).filter(|left| *left > 0).map(Some),
        }
    }
}
