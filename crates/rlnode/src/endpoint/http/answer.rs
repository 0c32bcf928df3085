//! A decision as JSON, by the names of the design.

use limiter::{Decision, Verdict};
use serde::Serialize;

use crate::clock::Clock;

/// A decision as `POST /v1/check` gives it. A wait that never ends is null, and so is a number that
/// there is not.
#[derive(Debug, Serialize)]
pub(super) struct DecisionJson<'d> {
    #[serde(flatten)]
    verdict: VerdictJson<'d>,
    freshness: &'static str,
    stale_ms: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Vec<DetailJson<'d>>>,
}

impl<'d> DecisionJson<'d> {
    /// The decision made at `now_ns`, with its details if they were asked for.
    pub(super) fn new(
        decision: &'d Decision<'_>,
        has_details: bool,
        clock: &Clock,
        now_ns: u64,
    ) -> Self {
        let detail = |verdict: &'d Verdict<'_>| DetailJson {
            verdict: VerdictJson::new(verdict, clock, now_ns),
            shadow: verdict.shadow,
        };
        Self {
            verdict: VerdictJson::new(&decision.verdict, clock, now_ns),
            freshness: decision.freshness.as_str(),
            stale_ms: decision.stale_ms,
            details: has_details.then(|| decision.details.iter().map(detail).collect()),
        }
    }
}

#[derive(Debug, Serialize)]
struct VerdictJson<'d> {
    allowed: bool,
    limit_name: &'d str,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    reset_at_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    delay_ms: Option<u64>,
    reason: &'static str,
}

impl<'d> VerdictJson<'d> {
    fn new(verdict: &'d Verdict<'_>, clock: &Clock, now_ns: u64) -> Self {
        Self {
            allowed: verdict.allowed,
            limit_name: verdict.limit_name,
            limit: verdict.limit,
            remaining: verdict.remaining,
            reset_after_ms: verdict.reset_after.to_ms(),
            reset_at_ms: clock.unix_ms(now_ns, verdict.reset_after),
            retry_after_ms: verdict.retry_after.to_ms(),
            delay_ms: verdict.delay.to_ms(),
            reason: verdict.reason.as_str(),
        }
    }
}

#[derive(Debug, Serialize)]
struct DetailJson<'d> {
    #[serde(flatten)]
    verdict: VerdictJson<'d>,
    shadow: bool,
}

#[cfg(test)]
mod tests {
    use limiter::{Freshness, Reason, Wait};

    use super::*;

    #[test]
    fn waits_are_rounded_up_to_milliseconds_and_never_is_null() {
        let clock = Clock::new();
        let decision = Decision {
            verdict: Verdict {
                limit_name: "per-key",
                allowed: false,
                reason: Reason::Limit,
                shadow: false,
                limit: Some(5),
                remaining: Some(0),
                reset_after: Wait::NEVER,
                retry_after: Wait::from_ns(1),
                delay: Wait::ZERO,
                window: Wait::ZERO,
            },
            freshness: Freshness::Alone,
            stale_ms: 0,
            details: Vec::new(),
        };
        let json = DecisionJson::new(&decision, false, &clock, 0);
        assert_eq!(
            serde_json::to_string(&json).expect("json"),
            r#"{"allowed":false,"limit_name":"per-key","limit":5,"remaining":0,"#.to_owned()
                + r#""reset_after_ms":null,"reset_at_ms":null,"retry_after_ms":1,"delay_ms":0,"#
                + r#""reason":"limit","freshness":"alone","stale_ms":0}"#
        );
    }
}
