//! The decision of rlnode: which limits apply to a request, and whether it may go on.
//!
//! It knows limits, matching, algorithms and the store of counts. It owns no socket, no clock, no
//! thread and no runtime: the time is an argument, in nanoseconds of one monotonic clock.

mod acts;
mod algorithm;
mod answer;
mod calendar;
mod carried;
mod counters;
mod decision;
mod fingerprint;
mod force;
mod giving;
mod hit;
mod identity;
mod ip;
mod limit;
mod limiter;
mod lists;
mod matching;
mod names;
mod naming;
mod network;
mod numbers;
mod operation;
mod plan;
mod question;
mod replace;
mod request;
mod rule;
mod seat;
mod share;
mod store;
mod template;
mod ticket;
mod together;
mod why;
mod witness;

pub use acts::{About, Act, Banned, Given, Holds, Overridden};
pub use calendar::{Calendar, CalendarSpan};
pub use carried::{CARRIED, Terms};
pub use counters::{Counts, RuleCounts};
pub use decision::{Decision, Freshness, Reason, Verdict, Wait};
pub use jiff::civil::Weekday;
pub use limit::{
    Accuracy, LOG_MAX, Limit, Missing, NAME_BYTES_MAX, Override, Quota, RULES_MAX, Rate, Selector,
    Unmatched, WhenFull, WhenIsolated, Window,
};
pub use limiter::{Limiter, ShareConfig, StoreConfig, Usage};
pub use matching::{CONSIDERED_MAX, Consideration, Considered, Fit, Lack};
pub use operation::{
    Lists, Network, OPERATION_NS_MAX, OPERATIONS_MAX, Operated, Operation, OperationError, Subject,
};
pub use plan::{OVERRIDES_MAX, Plan, PlanError};
pub use replace::{ReplaceError, Replaced};
pub use request::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, Attributes, COSTS_MAX,
    Costs, DEFAULT_UNIT, ENDPOINT_BYTES_MAX, KEY_BYTES_MAX, Op, Request, RequestError,
    UNIT_BYTES_MAX,
};
pub use rule::{Rule, RuleAt};
pub use share::bound;
pub use share::{
    Bucket, BucketState, Delta, Loss, MEMBERS_MAX, Members, Numbers, ShareCounts, Standing,
    StorePart, Sum, Tail, View, ViewMember, When, member_id, rendezvous,
};
pub use ticket::{Answer, Ticket};
pub use why::{Applied, Counted, LimitWhy, Why};
pub use witness::{Spend, SpendKind, Witness};
