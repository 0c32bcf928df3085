//! An answer in one form, whichever door it came from, so that answers can be compared.

use serde_json::Value;

/// A decision as its door told it. Waits are in milliseconds, rounded up as HTTP has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) limit_name: String,
    pub(crate) reason: String,
    pub(crate) freshness: String,
    pub(crate) limit: Option<u64>,
    pub(crate) remaining: Option<u64>,
    pub(crate) reset_after_ms: Option<u64>,
    pub(crate) reset_at_ms: Option<u64>,
    /// None: no wait helps.
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) delay_ms: Option<u64>,
}

/// Why there is no decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The frame was answered, this check was not decided.
    Status(wire::Status),
    /// The frame was refused as a whole.
    Frame(wire::ErrorCode),
    /// The HTTP status, and what the body says.
    Http(u16, String),
}

impl Answer {
    /// Everything in it that does not depend on when it was given.
    pub(crate) fn timeless(&self) -> (bool, &str, &str, &str, Option<u64>, Option<u64>) {
        let Self { allowed, limit_name, reason, freshness, limit, remaining, .. } = self;
        (*allowed, limit_name, reason, freshness, *limit, *remaining)
    }

    pub(crate) fn from_wire(answer: &wire::Answer<'_>) -> Self {
        Self {
            allowed: answer.allowed,
            limit_name: answer.limit_name.to_owned(),
            reason: answer.reason.map_or("?", limiter::Reason::as_str).to_owned(),
            freshness: answer.freshness.map_or("?", limiter::Freshness::as_str).to_owned(),
            limit: answer.limit,
            remaining: answer.remaining,
            reset_after_ms: answer.reset_after.to_ms(),
            reset_at_ms: answer.reset_at_ms,
            retry_after_ms: answer.retry_after.to_ms(),
            delay_ms: answer.delay.to_ms(),
        }
    }

    /// A decision of `POST /v1/check`.
    #[track_caller]
    pub(crate) fn from_json(json: &Value) -> Self {
        let field =
            |name: &str| json.get(name).unwrap_or_else(|| panic!("there is no `{name}` in {json}"));
        let text = |name: &str| {
            let word = field(name).as_str();
            word.unwrap_or_else(|| panic!("`{name}` is no text in {json}")).to_owned()
        };
        let number = |name: &str| {
            let value = field(name);
            assert!(value.is_null() || value.is_u64(), "`{name}` is no number in {json}");
            value.as_u64()
        };
        Self {
            allowed: field("allowed").as_bool().expect("`allowed` is true or false"),
            limit_name: text("limit_name"),
            reason: text("reason"),
            freshness: text("freshness"),
            limit: number("limit"),
            remaining: number("remaining"),
            reset_after_ms: number("reset_after_ms"),
            reset_at_ms: number("reset_at_ms"),
            retry_after_ms: number("retry_after_ms"),
            delay_ms: number("delay_ms"),
        }
    }
}
