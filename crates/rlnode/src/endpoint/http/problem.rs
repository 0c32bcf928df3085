//! What went wrong or was denied, as `application/problem+json` (RFC 9457).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use limiter::{Decision, Reason};
use serde::Serialize;

/// The registered type of a denial for want of quota.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// No type of its own: the status says it.
const ABOUT_BLANK: &str = "about:blank";

/// The body of an answer that is not a success.
#[derive(Debug, Serialize)]
pub(super) struct Problem<'d> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    detail: String,
    #[serde(flatten)]
    denial: Option<Denial<'d>>,
}

#[derive(Debug, Serialize)]
struct Denial<'d> {
    #[serde(rename = "violated-policies")]
    violated_policies: Vec<&'d str>,
    limit_name: &'d str,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    reason: &'static str,
}

impl<'d> Problem<'d> {
    /// A problem that the status names, with what to do about it.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: ABOUT_BLANK,
            title: status.canonical_reason().unwrap_or("error"),
            status,
            detail: detail.into(),
            denial: None,
        }
    }

    /// A denial, made with details.
    pub(super) fn denial(status: StatusCode, decision: &'d Decision<'_>) -> Self {
        let verdict = &decision.verdict;
        let (kind, title) = match verdict.reason {
            Reason::Limit | Reason::Share | Reason::Isolated | Reason::Full => {
                (QUOTA_EXCEEDED, "Request cannot be satisfied as assigned quota has been exceeded")
            }
            Reason::Ok | Reason::Deny | Reason::Banned | Reason::Unmatched => {
                (ABOUT_BLANK, "Request is denied")
            }
        };
        let retry = match verdict.retry_after.to_ms() {
            Some(ms) => format!("it would pass in {ms} ms"),
            None => "no wait helps".to_owned(),
        };
        let detail = match verdict.limit_name {
            "" => format!("denied ({}); {retry}", verdict.reason.as_str()),
            name => format!("denied by `{name}` ({}); {retry}", verdict.reason.as_str()),
        };
        let violated = decision.details.iter().filter(|detail| !detail.shadow && !detail.allowed);
        let denial = Denial {
            violated_policies: violated.map(|detail| detail.limit_name).collect(),
            limit_name: verdict.limit_name,
            limit: verdict.limit,
            remaining: verdict.remaining,
            reset_after_ms: verdict.reset_after.to_ms(),
            retry_after_ms: verdict.retry_after.to_ms(),
            reason: verdict.reason.as_str(),
        };
        Self { kind, title, status, detail, denial: Some(denial) }
    }
}

impl IntoResponse for Problem<'_> {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

fn as_number<S: serde::Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}
