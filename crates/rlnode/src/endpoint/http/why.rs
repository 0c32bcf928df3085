//! `GET /v1/why`: why a request would be answered as it is, for people and for `rlnode why`.

use limiter::{Applied, BucketState, Counted, Fit, Lack, LimitWhy, Plan, Request, RequestError};
use limiter::{Selector, Wait};
use serde::{Deserialize, Serialize};

use super::cluster_status::PeerStatus;
use crate::engine::MemberStatus;
use crate::node::{Node, Readiness};

const NS_PER_MS: u64 = 1_000_000;

/// Why a request would be answered as it is. Fields may be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// Name of the node.
    pub node: String,
    /// `starting`, `ready` or `stopping`.
    pub readiness: String,
    /// How well it knows the fleet's counts, as in a decision.
    pub freshness: String,
    /// Age of the oldest news from a peer, in milliseconds, where it is `stale`.
    pub stale_ms: u32,
    /// Unix time in seconds at which the configuration was last put in force.
    pub configuration_read_s: u64,
    /// Milliseconds since then.
    pub configuration_age_ms: u64,
    /// The node's wall clock, in milliseconds of Unix time.
    pub now_ms: Option<u64>,
    /// What the check would be answered; none: the node is starting and answers none.
    pub next: Option<NextWhy>,
    /// The limits that apply, and those that name the endpoint or the key and do not, in the order of
    /// the file.
    pub limits: Vec<LimitOfWhy>,
    /// How many limits there are beside.
    pub other_limits: u64,
    /// Its cluster; none: it is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterWhy>,
}

/// What a check would be answered that does not wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextWhy {
    /// It would go on.
    pub allowed: bool,
    /// The limit that decides; empty: none matches.
    pub limit_name: String,
    /// Why, as in a decision.
    pub reason: String,
    /// Milliseconds after which it would pass; none: no wait helps.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds that the caller would have to wait before it acts, although it would go on.
    #[serde(default)]
    pub delay_ms: Option<u64>,
    /// It would be denied, and may pass if it is held until peers know of it.
    pub may_wait: bool,
}

/// A limit that applies, or names the endpoint or the key and does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitOfWhy {
    /// Its name.
    pub name: String,
    /// Its overrides from the most specific on, and itself as the last; alone if it does not apply.
    pub rules: Vec<RuleWhy>,
    /// Overrides that do not match and were left out.
    pub left_out: u64,
    /// What decides, and where it is counted; none: it does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<AppliedWhy>,
}

/// A limit or override that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleWhy {
    /// `name` or `name/override`.
    pub name: String,
    /// `decides`, `less_specific` (it matches, and a more specific one decides) or `lacks`.
    pub fit: String,
    /// Why it does not match, in words.
    pub lacks: Vec<String>,
}

/// The rule that decides for its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedWhy {
    /// `name` or `name/override`.
    pub limit_name: String,
    /// What has a bucket of its own, as written.
    pub key: String,
    /// The unit that it counts.
    pub unit: String,
    /// What the request costs in it.
    pub cost: u64,
    /// How it counts, as the file says; none: it counts nothing.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// Counted and reported, decides nothing.
    pub shadow: bool,
    /// It would let the check pass; none: it is skipped.
    pub allowed: Option<bool>,
    /// Why, as in a decision; none: it is skipped.
    pub reason: Option<String>,
    /// Milliseconds after which it would let it pass; none: no wait helps, or it is skipped.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds until the bucket is full; none: never, or it is skipped.
    pub reset_after_ms: Option<u64>,
    /// Capacity, in units; none: nothing is counted.
    pub limit: Option<u64>,
    /// `bucket`, `overflow` (the one of all keys that found no memory), `no_room` (`when_full` answers),
    /// `nothing` (it denies everything or lets everything pass) or `missing_attribute`.
    pub counted: String,
    /// Identity of the bucket, in hexadecimal digits: the same on every node of the cluster.
    pub hash: Option<String>,
    /// How the bucket stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<BucketWhy>,
}

/// A bucket as the node knows it. All are units of the limit, rounded down, but for what says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketWhy {
    /// The store has an entry for it; else it is full.
    pub has_entry: bool,
    /// The level that all nodes should agree on; negative in debt.
    pub level: i64,
    /// The part of the capacity that belongs to the members that reach each other.
    pub part: u64,
    /// What they may still spend.
    pub remaining: u64,
    /// What this node may have in flight.
    pub allowance: i64,
    /// What it has in flight: of `unpublished` and `unacknowledged` what is not only reserved, without
    /// what batches give back.
    pub in_flight: i64,
    /// Spent here and in no batch yet; negative after a refund.
    pub unpublished: i64,
    /// In batches that some reachable peer has not acknowledged.
    pub unacknowledged: i64,
    /// The part of both that is only reserved.
    pub reserved: u64,
    /// Batches that carry the bucket and are not acknowledged by all.
    pub open_batches: u16,
    /// Spent and not known to members that are missing, rounded up.
    pub charge: i64,
    /// Demand of this node in the last second or so, as its peers know it.
    pub demand: u64,
    /// The same of the peers, as they told it.
    pub demand_of_peers: u64,
    /// Checks that are held and wait for this bucket.
    pub held: u64,
}

/// The cluster of the node, as far as it says why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterWhy {
    /// Name of the cluster.
    pub name: String,
    /// Members, this node included.
    pub members: u64,
    /// Members that it reaches, itself included.
    pub reached: u64,
    /// It reaches too few to take the part of the missing over by itself.
    pub isolated: bool,
    /// The other members by name; those that were never met come last.
    pub peers: Vec<PeerStatus>,
}

impl Why {
    /// Why `node` would answer `request` as it does. Nothing is counted or changed.
    ///
    /// # Errors
    /// The request breaks a bound.
    pub async fn of(node: &Node, request: &Request<'_>) -> Result<Self, RequestError> {
        let member = node.engine().member_status().await;
        let (limiter, now_ns, readiness) =
            (node.limiter(), node.clock().now_ns(), node.readiness());
        let why = limiter.why(now_ns, request)?;
        let verdict = &why.next.verdict;
        let next = NextWhy {
            allowed: verdict.allowed,
            limit_name: verdict.limit_name.to_owned(),
            reason: verdict.reason.as_str().to_owned(),
            retry_after_ms: verdict.retry_after.to_ms(),
            delay_ms: verdict.delay.to_ms(),
            may_wait: why.may_wait,
        };
        let (age_ns, read_s) = node.limits_since();
        Ok(Self {
            node: node.name().to_owned(),
            readiness: readiness.as_str().to_owned(),
            freshness: why.next.freshness.as_str().to_owned(),
            stale_ms: why.next.stale_ms,
            configuration_read_s: read_s,
            configuration_age_ms: age_ns / NS_PER_MS,
            now_ms: node.clock().unix_ms(now_ns, Wait::ZERO),
            next: (readiness != Readiness::Starting).then_some(next),
            limits: why.limits.iter().map(|limit| limit_of(node, &why.plan, limit)).collect(),
            other_limits: why.others as u64,
            cluster: member.as_ref().map(ClusterWhy::new),
        })
    }
}

impl ClusterWhy {
    fn new(member: &MemberStatus) -> Self {
        let status = &member.cluster;
        Self {
            name: status.cluster.clone(),
            members: status.members as u64,
            reached: status.reached as u64,
            isolated: status.isolated,
            peers: status.peers.iter().map(PeerStatus::new).collect(),
        }
    }
}

fn limit_of(node: &Node, plan: &Plan, limit: &LimitWhy<'_>) -> LimitOfWhy {
    let rules = limit.rules.iter().filter_map(|rule| {
        let of_plan = plan.rules().get(usize::from(rule.index))?;
        let (fit, lacks) = match &rule.fit {
            Fit::Decides => ("decides", &[][..]),
            Fit::LessSpecific => ("less_specific", &[][..]),
            Fit::Lacks(lacks) => ("lacks", lacks.as_slice()),
        };
        let in_words = |lack| lack_in_words(plan, of_plan, lack);
        let lacks = lacks.iter().map(in_words).collect();
        Some(RuleWhy { name: of_plan.name().to_owned(), fit: fit.to_owned(), lacks })
    });
    let rules: Vec<_> = rules.collect();
    LimitOfWhy {
        // The limit itself is the last of its rules.
        name: rules.last().map(|rule| rule.name.clone()).unwrap_or_default(),
        rules,
        left_out: limit.left_out as u64,
        applied: limit.applied.as_ref().and_then(|applied| applied_of(node, plan, applied)),
    }
}

/// Why a rule does not match: what the file wants and the request has not.
fn lack_in_words(plan: &Plan, rule: &limiter::Rule, lack: &Lack) -> String {
    let at = rule.at();
    let limit = plan.limits().get(at.limit);
    let own = at
        .override_index
        .and_then(|index| Some(&limit?.overrides.get(index)?.selector))
        .or(limit.map(|limit| &limit.selector));
    // What an override does not say itself its limit says.
    let selectors: [Option<&Selector>; 2] = [own, limit.map(|limit| &limit.selector)];
    let mut selectors = selectors.into_iter().flatten();
    match lack {
        Lack::Endpoint => {
            let wanted = selectors.find_map(|selector| selector.endpoint.as_deref());
            format!("the endpoint is not `{}`", wanted.unwrap_or_default().escape_debug())
        }
        Lack::Attribute(name) => {
            let wanted = selectors
                .flat_map(|selector| &selector.attributes)
                .find(|(known, _)| known == name)
                .map_or("", |(_, value)| value);
            let (name, wanted) = (name.escape_debug(), wanted.escape_debug());
            format!("the attribute `{name}` is not `{wanted}`")
        }
        Lack::Key => "the key is not one of those that it lists".to_owned(),
    }
}

fn applied_of(node: &Node, plan: &Plan, applied: &Applied<'_>) -> Option<AppliedWhy> {
    let rule = plan.rules().get(usize::from(applied.index))?;
    let limit = plan.limits().get(rule.at().limit);
    let verdict = applied.verdict.as_ref();
    let (counted, bucket, state) = match applied.counted {
        Counted::Bucket(bucket, state) => ("bucket", Some(bucket), Some(state)),
        Counted::Overflow(bucket) => ("overflow", Some(bucket), None),
        Counted::NoRoom(bucket) => ("no_room", Some(bucket), None),
        Counted::Nothing => ("nothing", None, None),
        Counted::MissingAttribute => ("missing_attribute", None, None),
    };
    let held = bucket.map_or(0, |bucket| node.waiting().count(bucket));
    Some(AppliedWhy {
        limit_name: rule.name().to_owned(),
        key: limit.map(|limit| limit.key.clone()).unwrap_or_default(),
        unit: limit.map(|limit| limit.unit.clone()).unwrap_or_default(),
        cost: applied.cost,
        algorithm: rule.quota().algorithm().map(str::to_owned),
        shadow: limit.is_some_and(|limit| limit.shadow),
        allowed: verdict.map(|verdict| verdict.allowed),
        reason: verdict.map(|verdict| verdict.reason.as_str().to_owned()),
        retry_after_ms: verdict.and_then(|verdict| verdict.retry_after.to_ms()),
        reset_after_ms: verdict.and_then(|verdict| verdict.reset_after.to_ms()),
        limit: verdict.and_then(|verdict| verdict.limit),
        counted: counted.to_owned(),
        hash: bucket.map(|bucket| format!("{:016x}", bucket.hash)),
        bucket: state.map(|state| bucket_of(&state, held)),
    })
}

fn bucket_of(state: &BucketState, held: usize) -> BucketWhy {
    let per_unit = i128::from(state.per_unit.max(1));
    let whole =
        |units: i128| i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX });
    BucketWhy {
        has_entry: state.has_entry,
        level: whole(state.level.div_euclid(per_unit)),
        part: state.part,
        remaining: state.remaining,
        allowance: state.allowance,
        in_flight: state.flying,
        unpublished: state.unpublished,
        unacknowledged: state.in_flight,
        reserved: state.reserved,
        open_batches: state.open_batches,
        charge: whole(-(-i128::from(state.charge)).div_euclid(per_unit)),
        demand: state.demand,
        demand_of_peers: state.demand_of_peers,
        held: held as u64,
    }
}
