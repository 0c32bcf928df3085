//! Who is banned and who is always allowed, ahead of every limit.

use std::net::IpAddr;
use std::sync::OnceLock;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::force::InForce;
use crate::question::Question;
use crate::{
    Decision, Freshness, Limiter, Lists, Network, Op, Plan, Reason, Request, Subject, Verdict,
    Wait, ip,
};

/// Subjects, with what is known of each.
#[derive(Clone, Debug)]
pub(crate) struct Subjects<T> {
    keys: HashMap<Vec<u8>, T>,
    networks: HashMap<Network, T>,
    /// How many bits the networks have, the longest first: of IPv4, and of IPv6.
    prefixes: [SmallVec<[u8; 8]>; 2],
}

impl<T> Default for Subjects<T> {
    fn default() -> Self {
        Self { keys: HashMap::new(), networks: HashMap::new(), prefixes: Default::default() }
    }
}

impl<T> Subjects<T> {
    /// Adds `subject`; what was known of it before is given back.
    pub(crate) fn insert(&mut self, subject: Subject, known: T) -> Option<T> {
        match subject {
            Subject::Key(key) => self.keys.insert(key, known),
            Subject::Network(network) => {
                let prefixes = &mut self.prefixes[family(network.address)];
                let at = prefixes.partition_point(|longer| *longer > network.prefix);
                if prefixes.get(at) != Some(&network.prefix) {
                    prefixes.insert(at, network.prefix);
                }
                self.networks.insert(network, known)
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.networks.is_empty()
    }

    fn of_key(&self, key: &[u8]) -> Option<&T> {
        self.keys.get(key)
    }

    /// What is known of the smallest network that `address` lies in, and how many bits that has.
    fn of_address(&self, address: IpAddr) -> Option<(u8, &T)> {
        self.prefixes[family(address)].iter().find_map(|prefix| {
            let known = self.networks.get(&Network::new(address, *prefix)?)?;
            Some((*prefix, known))
        })
    }
}

fn family(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

/// What the lists say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It passes, and is charged nowhere.
    Allowed,
    /// It does not pass, for so long.
    Banned(Wait),
}

/// The lists of a plan.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    subjects: Subjects<bool>,
}

impl Listed {
    fn new(lists: Lists) -> Result<Self, String> {
        let mut subjects = Subjects::default();
        for subject in lists.allow {
            subjects.insert(subject, false);
        }
        for subject in lists.ban {
            let shown = subject.to_string();
            if subjects.insert(subject, true) == Some(false) {
                return Err(format!(
                    "{shown} is both allowed and banned; take it out of one of the lists"
                ));
            }
        }
        Ok(Self { subjects })
    }
}

impl Listed {
    /// Everybody, with whether they are banned, in one order whatever the order of the file was.
    pub(crate) fn in_order(&self) -> Vec<(Subject, bool)> {
        let Subjects { keys, networks, .. } = &self.subjects;
        let keys = keys.iter().map(|(key, is_banned)| (Subject::Key(key.clone()), *is_banned));
        let networks = networks.iter().map(|(network, is)| (Subject::Network(*network), *is));
        let mut all: Vec<_> = keys.chain(networks).collect();
        all.sort_unstable();
        all
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => write!(f, "the key `{}`", key.escape_ascii()),
            Self::Network(network) => write!(f, "the network {network}"),
        }
    }
}

impl Plan {
    /// The same limits, with `lists` ahead of them. A key decides before a network, and the smaller of two
    /// networks before the larger.
    ///
    /// # Errors
    /// Somebody stands in both lists; the message says who.
    pub fn with_lists(mut self, lists: Lists) -> Result<Self, String> {
        let listed = Listed::new(lists)?;
        self.listed = (!listed.subjects.is_empty()).then(|| Box::new(listed));
        self.fingerprint = OnceLock::new();
        Ok(self)
    }
}

impl Limiter {
    /// What the lists and the bans say of `request`; none: nothing, so that the limits decide. Of two that
    /// are equally narrow, the ban of an operator decides before the lists of the file.
    #[inline]
    pub(crate) fn standing(
        &self,
        now_ns: u64,
        force: &InForce,
        request: &Request<'_>,
    ) -> Option<Standing> {
        if force.listed.is_none() && !self.acts().has_bans() {
            return None;
        }
        self.find_standing(now_ns, force, request)
    }

    #[cold]
    fn find_standing(
        &self,
        now_ns: u64,
        force: &InForce,
        request: &Request<'_>,
    ) -> Option<Standing> {
        let bans = self.acts().bans();
        let listed = force.listed.as_deref();
        let by_ban = |until: &Option<u64>| match until {
            None => Some(Standing::Banned(Wait::NEVER)),
            Some(until) if *until > now_ns => Some(Standing::Banned(Wait::from_ns(until - now_ns))),
            Some(_) => None,
        };
        let by_list = |is_banned: &bool| match is_banned {
            true => Standing::Banned(Wait::NEVER),
            false => Standing::Allowed,
        };
        let of_key = bans
            .of_key(request.key)
            .and_then(by_ban)
            .or_else(|| listed.and_then(|listed| listed.subjects.of_key(request.key)).map(by_list));
        if of_key.is_some() {
            return of_key;
        }
        let text = std::str::from_utf8(request.attribute(ip::ATTRIBUTE)?).ok()?;
        let address = text.parse::<IpAddr>().ok()?.to_canonical();
        let banned = bans.of_address(address);
        let banned = banned.and_then(|(prefix, until)| Some((prefix, by_ban(until)?)));
        let listed = listed.and_then(|listed| listed.subjects.of_address(address));
        let listed = listed.map(|(prefix, is_banned)| (prefix, by_list(is_banned)));
        match (banned, listed) {
            (Some((ban, _)), Some((list, standing))) if list > ban => Some(standing),
            (Some((_, standing)), _) | (None, Some((_, standing))) => Some(standing),
            (None, None) => None,
        }
    }

    /// The answer to `question` where the lists say it; none: they do not mean that. What a banned caller is
    /// charged or given back counts as ever: it is of calls that passed before.
    pub(crate) fn listed(
        &self,
        now_ns: u64,
        question: &Question,
        standing: Standing,
    ) -> Option<Decision<'_>> {
        match (standing, question.op) {
            (Standing::Banned(_), Op::Debit | Op::Refund | Op::Reset) | (_, Op::Reset) => None,
            _ => {
                self.note_listed(now_ns, matches!(standing, Standing::Banned(_)));
                Some(self.said_by_lists(standing))
            }
        }
    }

    /// The answer to a check by `standing`.
    pub(crate) fn said_by_lists(&self, standing: Standing) -> Decision<'_> {
        let verdict = match standing {
            Standing::Banned(wait) => {
                let mut verdict = Verdict::without_numbers("", Reason::Banned);
                verdict.retry_after = wait;
                verdict
            }
            Standing::Allowed => Verdict::without_numbers("", Reason::Ok),
        };
        let (freshness, stale_ms) =
            self.fleet().map_or((Freshness::Alone, 0), crate::share::Fleet::freshness);
        Decision { verdict, freshness, stale_ms, details: Vec::new() }
    }
}
