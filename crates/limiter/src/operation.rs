//! What an operator does to a key: acts that every node of the cluster takes over.

use std::net::IpAddr;

use crate::acts::{About, Holds};
use crate::{Bucket, Limiter, Quota, Request};

/// Most bans and overrides of keys that are in force at once, each.
pub const OPERATIONS_MAX: usize = 10_000;
/// Longest time for which a ban or an override of a key may be in force: ten years.
pub const OPERATION_NS_MAX: u64 = 10 * 365 * 86_400 * 1_000_000_000;

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network {
    /// The address; its bits beyond `prefix` are 0. IPv4-mapped addresses are IPv4.
    pub address: IpAddr,
    /// How many bits count: up to 32 or 128.
    pub prefix: u8,
}

/// Who is banned or always allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// Whoever has this key.
    Key(Vec<u8>),
    /// Whoever's attribute `ip` lies in this network.
    Network(Network),
}

/// An operator's act on a key.
#[derive(Clone, Debug)]
pub enum Operation<'a> {
    /// Forgets what the buckets that `request` meets have used. `limit`: of this limit alone.
    Reset {
        /// Whose buckets: endpoint, key and attributes.
        request: Request<'a>,
        /// Name of a limit; none: all that apply.
        limit: Option<&'a str>,
    },
    /// Gives `units` to the buckets that `request` meets, at most until they are full.
    Grant {
        /// Whose buckets: endpoint, key and attributes.
        request: Request<'a>,
        /// Name of a limit; none: all that apply.
        limit: Option<&'a str>,
        /// Units; at least 1.
        units: u64,
    },
    /// Denies every request of `subject`, whatever the limits say.
    Ban {
        /// Who.
        subject: Subject,
        /// For how long, at most [`OPERATION_NS_MAX`]; none: until it is lifted.
        for_ns: Option<u64>,
    },
    /// Ends a ban.
    Unban {
        /// Who.
        subject: Subject,
    },
    /// Gives the bucket that `request` meets in `limit` other numbers. What was used is kept.
    Override {
        /// Whose bucket: endpoint, key and attributes.
        request: Request<'a>,
        /// Name of the limit.
        limit: &'a str,
        /// The numbers; of the same algorithm as the limit, or that nothing or everything passes.
        quota: Quota,
        /// For how long, at most [`OPERATION_NS_MAX`]; none: until it is ended.
        for_ns: Option<u64>,
    },
    /// Ends an override.
    EndOverride {
        /// Whose bucket: endpoint, key and attributes.
        request: Request<'a>,
        /// Name of the limit.
        limit: &'a str,
    },
}

/// What an operation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operated {
    /// Buckets, bans or overrides that it changed.
    pub changed: usize,
    /// Units that a reset or a grant gave back, over all buckets.
    pub units: u64,
}

/// Why an operation was not carried out. Nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationError {
    /// The request breaks a bound.
    Request(crate::RequestError),
    /// No limit applies to the request, or none of that name.
    NoLimit,
    /// There are [`OPERATIONS_MAX`] already.
    Full,
    /// The numbers make no limit, or are of another algorithm; with what to do.
    Quota(String),
    /// The node does not know the counts of its cluster yet.
    Starting,
    /// Too many buckets are in motion for peers to be told of this one.
    NoRoom,
}

impl std::fmt::Display for OperationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::NoLimit => f.write_str("no limit of that name applies to the key"),
            Self::Full => {
                write!(f, "there are {OPERATIONS_MAX} already; end some, or give them a time")
            }
            Self::Quota(why) => f.write_str(why),
            Self::Starting => {
                f.write_str("the node does not know the counts of its cluster yet; ask again")
            }
            Self::NoRoom => f.write_str(
                "too many keys are being counted for the other nodes to be told; ask again",
            ),
        }
    }
}

impl std::error::Error for OperationError {}

/// Who is always allowed, and who never is, whatever the limits say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Always allowed, and charged nowhere.
    pub allow: Vec<Subject>,
    /// Never allowed.
    pub ban: Vec<Subject>,
}

impl Limiter {
    /// Carries out `operation` at `now_ns`, here and in due course on every node.
    ///
    /// A reset or a grant takes no account of bans and lists: they decide who passes, and not what was used.
    ///
    /// # Errors
    /// See [`OperationError`]; nothing is changed.
    pub fn operate(
        &self,
        now_ns: u64,
        operation: &Operation<'_>,
    ) -> Result<Operated, OperationError> {
        self.operate_noting(now_ns, operation, &mut Vec::new())
    }

    /// The same. Appends to `buckets` those to which a reset or a grant gave something back.
    ///
    /// # Errors
    /// See [`OperationError`]; nothing is changed.
    pub fn operate_noting(
        &self,
        now_ns: u64,
        operation: &Operation<'_>,
        buckets: &mut Vec<Bucket>,
    ) -> Result<Operated, OperationError> {
        // No call has a key outside the bounds.
        let about = |subject: &Subject| {
            if let Subject::Key(key) = subject {
                Request::check(b"", key).validate().map_err(OperationError::Request)?;
            }
            Ok(About::Ban(subject.clone()))
        };
        let changed = match operation {
            Operation::Reset { request, limit } => {
                return self.give(now_ns, request, (*limit, u64::MAX), buckets);
            }
            Operation::Grant { request, limit, units } => {
                return self.give(now_ns, request, (*limit, *units), buckets);
            }
            Operation::Ban { subject, for_ns } => {
                let holds = Holds { for_ns: *for_ns, given: None };
                self.act(now_ns, about(subject)?, Some(holds))?
            }
            Operation::Unban { subject } => self.act(now_ns, about(subject)?, None)?,
            Operation::Override { request, limit, quota, for_ns } => {
                let (bucket, rule) = self.bucket_of(request, limit)?;
                // What the limiter refuses must be refused before it is an act.
                self.check_numbers(bucket, quota).map_err(OperationError::Quota)?;
                let holds = Self::holds_of(*for_ns, request.key, quota);
                let about = About::Override { rule, hash: bucket.hash };
                self.act(now_ns, about, Some(holds.ok_or(OperationError::NoLimit)?))?
            }
            Operation::EndOverride { request, limit } => {
                let (bucket, rule) = self.bucket_of(request, limit)?;
                self.act(now_ns, About::Override { rule, hash: bucket.hash }, None)?
            }
        };
        Ok(Operated { changed: usize::from(changed), units: 0 })
    }

    /// The bucket that `request` meets in the limit `name`, and the identity of its rule.
    fn bucket_of(
        &self,
        request: &Request<'_>,
        name: &str,
    ) -> Result<(Bucket, u64), OperationError> {
        request.validate().map_err(OperationError::Request)?;
        let force = self.in_force();
        let rules = force.matched(request).into_iter().map(|index| force.rule_at(index));
        let rule = rules.into_iter().find(|rule| force.is_of(rule, name));
        let rule = rule.ok_or(OperationError::NoLimit)?;
        let hash = self.bucket_hash(rule, request).map_err(|_| OperationError::NoLimit)?;
        Ok((Bucket { slot: rule.slot, hash }, rule.id()))
    }
}
