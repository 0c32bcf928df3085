//! The answer to Envoy: from decisions to statuses, headers and a body.

use limiter::{Decision, Verdict, Wait};
use serde_json::json;

use super::messages::{
    Code, DescriptorStatus, Duration, HeaderValue, RateLimit, RateLimitResponse, Unit,
};

const SECOND_NS: u64 = 1_000_000_000;

/// What one descriptor came to: its decision, and whether that can deny.
pub(super) struct Told<'d> {
    pub(super) decision: Decision<'d>,
    /// A debit and a refund are always carried out.
    pub(super) may_deny: bool,
}

/// The answer to a call, whose descriptors came to `told`.
pub(super) fn response(told: &[Told<'_>]) -> RateLimitResponse {
    let denied = told.iter().filter(|it| it.may_deny && !it.decision.verdict.allowed);
    // The one that has the longest wait: before that the call would not pass.
    let worst = denied.map(|it| &it.decision.verdict).max_by_key(|it| it.retry_after);
    let mut response = RateLimitResponse {
        overall_code: Code::Ok.into(),
        statuses: told.iter().map(status).collect(),
        response_headers_to_add: Vec::new(),
        raw_body: Vec::new(),
    };
    if let Some(verdict) = worst {
        response.overall_code = Code::OverLimit.into();
        // Envoy appends headers to what the upstream sends, so that none is added where that answers.
        response.response_headers_to_add = headers(verdict);
        response.raw_body = body(verdict).into_bytes();
    }
    response
}

fn status(told: &Told<'_>) -> DescriptorStatus {
    let verdict = &told.decision.verdict;
    let code = if told.may_deny && !verdict.allowed { Code::OverLimit } else { Code::Ok };
    DescriptorStatus {
        code: code.into(),
        current_limit: verdict.limit.map(|limit| current_limit(verdict, limit)),
        limit_remaining: verdict.remaining.map_or(0, to_u32),
        // Whole seconds, rounded up: Envoy cuts fractions off.
        duration_until_reset: verdict.limit.and(verdict.reset_after.to_secs()).map(|seconds| {
            Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
        }),
    }
}

/// The capacity per window where that is a unit of time, else without one.
fn current_limit(verdict: &Verdict<'_>, limit: u64) -> RateLimit {
    let units = [
        (Unit::Second, 1),
        (Unit::Minute, 60),
        (Unit::Hour, 3_600),
        (Unit::Day, 86_400),
        (Unit::Week, 7 * 86_400),
        (Unit::Month, 30 * 86_400),
        (Unit::Year, 365 * 86_400),
    ];
    let is_window = |(_, seconds): &(Unit, u64)| {
        verdict.window == Wait::from_ns(seconds.saturating_mul(SECOND_NS))
    };
    let unit = units.into_iter().find(is_window).map_or(Unit::Unknown, |(unit, _)| unit);
    RateLimit {
        requests_per_unit: to_u32(limit),
        unit: unit.into(),
        name: verdict.limit_name.to_owned(),
    }
}

fn headers(verdict: &Verdict<'_>) -> Vec<HeaderValue> {
    let header = |key: &str, value: String| HeaderValue { key: key.to_owned(), value };
    let mut headers = vec![header("content-type", "application/problem+json".to_owned())];
    if let Some(seconds) = verdict.retry_after.to_secs() {
        headers.push(header("retry-after", seconds.max(1).to_string()));
    }
    headers
}

/// A problem document, with the fields that HTTP has.
fn body(verdict: &Verdict<'_>) -> String {
    json!({
        "type": "about:blank",
        "title": "Too Many Requests",
        "status": 429,
        "limit_name": verdict.limit_name,
        "limit": verdict.limit,
        "remaining": verdict.remaining,
        "reset_after_ms": verdict.reset_after.to_ms(),
        "retry_after_ms": verdict.retry_after.to_ms(),
        "reason": verdict.reason.as_str(),
    })
    .to_string()
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
