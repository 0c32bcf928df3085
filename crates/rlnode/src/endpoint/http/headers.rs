//! A decision as response headers, in the dialects that the node speaks, and `Retry-After`.
//!
//! `RateLimit` and `RateLimit-Policy` are lists of structured fields (RFC 9651) as
//! draft-ietf-httpapi-ratelimit-headers has them since revision 08.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use limiter::{Decision, Verdict, Wait};

use super::dialect::{Dialect, Dialects};

/// Largest integer of a structured field: 15 digits.
const INTEGER_MAX: u64 = 999_999_999_999_999;
const MS_PER_S: u64 = 1_000;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const LIMIT_06: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING_06: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET_06: HeaderName = HeaderName::from_static("ratelimit-reset");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The headers of `decision`, made with details. `reset_at_ms` is the Unix time in milliseconds at
/// which the deciding limit is as if untouched. A limit without numbers has no headers.
///
/// Every time is in seconds, rounded up.
pub(super) fn rate_limit_headers(
    dialects: Dialects,
    decision: &Decision<'_>,
    reset_at_ms: Option<u64>,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let verdict = &decision.verdict;
    let counted = || counted_verdicts(decision);
    for dialect in Dialect::ALL.into_iter().filter(|dialect| dialects.has(*dialect)) {
        let reset = match dialect {
            Dialect::XRateLimit => reset_at_ms.map(|ms| ms.div_ceil(MS_PER_S)),
            _ => verdict.reset_after.to_secs(),
        };
        match dialect {
            Dialect::XRateLimit | Dialect::XRateLimitDelta => {
                insert_numbers(&mut headers, [LIMIT, REMAINING, RESET], verdict, reset);
            }
            Dialect::RateLimit => {
                insert_list(&mut headers, RATE_LIMIT, counted().filter_map(quota_left));
                insert_list(&mut headers, RATE_LIMIT_POLICY, counted().filter_map(policy));
            }
            Dialect::RateLimit06 => {
                let names = [LIMIT_06, REMAINING_06, RESET_06];
                insert_numbers(&mut headers, names, verdict, reset);
                insert_list(&mut headers, RATE_LIMIT_POLICY, counted().filter_map(policy_06));
            }
        }
    }
    if !verdict.allowed
        && let Some(seconds) = verdict.retry_after.to_secs()
    {
        headers.insert(header::RETRY_AFTER, seconds.max(1).into());
    }
    headers
}

/// The deciding limit first, then the others that decide.
fn counted_verdicts<'d>(decision: &'d Decision<'_>) -> impl Iterator<Item = &'d Verdict<'d>> {
    let deciding = &decision.verdict;
    let others = decision
        .details
        .iter()
        .filter(|detail| !detail.shadow && detail.limit_name != deciding.limit_name);
    std::iter::once(deciding).chain(others)
}

/// `"name";r=50;t=30`: in `t` seconds there is more. For a caller that was denied that is the time after
/// which it may come back, as `Retry-After` says; for one that was allowed, the time until full.
fn quota_left(verdict: &Verdict<'_>) -> Option<String> {
    let remaining = verdict.remaining?.min(INTEGER_MAX);
    let mut item = format!("{};r={remaining}", string(verdict.limit_name));
    let wait = if verdict.allowed { verdict.reset_after } else { verdict.retry_after };
    if let Some(seconds) = wait.to_secs() {
        item.push_str(&format!(";t={}", seconds.min(INTEGER_MAX)));
    }
    Some(item)
}

/// `"name";q=100;w=3600`.
fn policy(verdict: &Verdict<'_>) -> Option<String> {
    let limit = verdict.limit?.min(INTEGER_MAX);
    let mut item = format!("{};q={limit}", string(verdict.limit_name));
    if verdict.window != Wait::ZERO
        && let Some(seconds) = verdict.window.to_secs()
    {
        item.push_str(&format!(";w={}", seconds.min(INTEGER_MAX)));
    }
    Some(item)
}

/// `100;w=3600`.
fn policy_06(verdict: &Verdict<'_>) -> Option<String> {
    let limit = verdict.limit?.min(INTEGER_MAX);
    let seconds = verdict.window.to_secs().filter(|_| verdict.window != Wait::ZERO);
    Some(match seconds {
        Some(seconds) => format!("{limit};w={}", seconds.min(INTEGER_MAX)),
        None => limit.to_string(),
    })
}

/// The capacity, what is left and, unless that is never, `reset`, where there are numbers.
fn insert_numbers(
    headers: &mut HeaderMap,
    [limit_name, remaining_name, reset_name]: [HeaderName; 3],
    verdict: &Verdict<'_>,
    reset: Option<u64>,
) {
    let (Some(limit), Some(remaining)) = (verdict.limit, verdict.remaining) else { return };
    headers.insert(limit_name, limit.into());
    headers.insert(remaining_name, remaining.into());
    if let Some(seconds) = reset {
        headers.insert(reset_name, seconds.into());
    }
}

/// A structured field's string. It holds printable ASCII only; whatever else a name has becomes `?`.
fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            _ => quoted.push('?'),
        }
    }
    quoted.push('"');
    quoted
}

fn insert_list(headers: &mut HeaderMap, name: HeaderName, items: impl Iterator<Item = String>) {
    let list = items.collect::<Vec<_>>().join(", ");
    if !list.is_empty()
        && let Ok(value) = HeaderValue::from_str(&list)
    {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use limiter::{Freshness, Reason};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn verdict(name: &'static str, limit: u64, remaining: u64) -> Verdict<'static> {
        Verdict {
            limit_name: name,
            allowed: true,
            reason: Reason::Ok,
            shadow: false,
            limit: Some(limit),
            remaining: Some(remaining),
            reset_after: Wait::from_ns(30 * S),
            retry_after: Wait::ZERO,
            delay: Wait::ZERO,
            window: Wait::from_ns(3_600 * S),
        }
    }

    fn rendered(
        verdict: Verdict<'_>,
        details: Vec<Verdict<'_>>,
        reset_at_ms: Option<u64>,
    ) -> Vec<String> {
        let decision = Decision { verdict, freshness: Freshness::Alone, stale_ms: 0, details };
        rendered_in(Dialects::default(), &decision, reset_at_ms)
    }

    fn rendered_in(
        dialects: Dialects,
        decision: &Decision<'_>,
        reset_at_ms: Option<u64>,
    ) -> Vec<String> {
        rate_limit_headers(dialects, decision, reset_at_ms)
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
            .collect()
    }

    #[test]
    fn an_allowed_request_has_no_retry_after() {
        assert_eq!(
            rendered(verdict("per-key", 100, 50), Vec::new(), Some(1_700_000_000_001)),
            [
                "x-ratelimit-limit: 100",
                "x-ratelimit-remaining: 50",
                "x-ratelimit-reset: 1700000001",
                "ratelimit: \"per-key\";r=50;t=30",
                "ratelimit-policy: \"per-key\";q=100;w=3600",
            ]
        );
    }

    #[test]
    fn each_dialect_says_the_same_in_its_way() {
        let denied = Verdict {
            allowed: false,
            reason: Reason::Limit,
            retry_after: Wait::from_ns(7 * S),
            reset_after: Wait::from_ns(29 * S + 1),
            ..verdict("a", 5, 0)
        };
        let details = vec![verdict("b", 10, 9)];
        let decision =
            Decision { verdict: denied, freshness: Freshness::Alone, stale_ms: 0, details };
        let said =
            |dialect| rendered_in(Dialects::NONE.with(dialect), &decision, Some(1_700_000_000_001));
        let x = ["x-ratelimit-limit: 5", "x-ratelimit-remaining: 0"];
        let wait = "retry-after: 7";
        assert_eq!(
            said(Dialect::XRateLimit),
            [&x[..], &["x-ratelimit-reset: 1700000001", wait]].concat()
        );
        assert_eq!(
            said(Dialect::XRateLimitDelta),
            [&x[..], &["x-ratelimit-reset: 30", wait]].concat()
        );
        assert_eq!(
            said(Dialect::RateLimit),
            [
                "ratelimit: \"a\";r=0;t=7, \"b\";r=9;t=30",
                "ratelimit-policy: \"a\";q=5;w=3600, \"b\";q=10;w=3600",
                wait
            ]
        );
        assert_eq!(
            said(Dialect::RateLimit06),
            [
                "ratelimit-limit: 5",
                "ratelimit-remaining: 0",
                "ratelimit-reset: 30",
                "ratelimit-policy: 5;w=3600, 10;w=3600",
                wait
            ]
        );
        assert_eq!(rendered_in(Dialects::NONE, &decision, None), [wait]);
    }

    #[test]
    fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
        for (wait_ns, seconds) in [(1, "1"), (S, "1"), (S + 1, "2"), (0, "1")] {
            let denied = Verdict {
                allowed: false,
                reason: Reason::Limit,
                retry_after: Wait::from_ns(wait_ns),
                ..verdict("a", 5, 0)
            };
            let headers = rendered(denied, Vec::new(), None);
            assert!(headers.contains(&format!("retry-after: {seconds}")), "{headers:?}");
        }
        let denied = Verdict {
            allowed: false,
            reason: Reason::Limit,
            retry_after: Wait::from_ns(7 * S),
            ..verdict("a", 5, 0)
        };
        let headers = rendered(denied, Vec::new(), None);
        assert!(headers.contains(&"ratelimit: \"a\";r=0;t=7".to_owned()), "{headers:?}");
    }

    #[test]
    fn never_has_no_retry_after_and_no_reset() {
        let denied = Verdict {
            allowed: false,
            reason: Reason::Deny,
            retry_after: Wait::NEVER,
            reset_after: Wait::NEVER,
            window: Wait::ZERO,
            ..verdict("closed", 0, 0)
        };
        assert_eq!(
            rendered(denied, Vec::new(), None),
            [
                "x-ratelimit-limit: 0",
                "x-ratelimit-remaining: 0",
                "ratelimit: \"closed\";r=0",
                "ratelimit-policy: \"closed\";q=0",
            ]
        );
    }

    #[test]
    fn every_limit_that_decides_is_listed_once_the_deciding_one_first() {
        let deciding = verdict("b/override", 5, 1);
        let shadow = Verdict { shadow: true, ..verdict("shadow", 1, 0) };
        let details = vec![verdict("a", 10, 9), deciding, shadow];
        let headers = rendered(deciding, details, None);
        assert_eq!(headers[2], "ratelimit: \"b/override\";r=1;t=30, \"a\";r=9;t=30");
        assert_eq!(headers[3], "ratelimit-policy: \"b/override\";q=5;w=3600, \"a\";q=10;w=3600");
    }

    #[test]
    fn a_limit_without_numbers_has_no_headers() {
        let unlimited = Verdict { limit: None, remaining: None, ..verdict("open", 0, 0) };
        assert_eq!(rendered(unlimited, Vec::new(), Some(1)), Vec::<String>::new());
    }

    #[test]
    fn names_and_numbers_stay_within_structured_fields() {
        assert_eq!(string("a\"b\\c\n\u{e9}~"), r#""a\"b\\c??~""#);
        let headers = rendered(verdict("big", u64::MAX, u64::MAX), Vec::new(), None);
        assert!(headers.contains(&"ratelimit: \"big\";r=999999999999999;t=30".to_owned()));
        assert!(headers.contains(&"x-ratelimit-limit: 18446744073709551615".to_owned()));
    }
}
