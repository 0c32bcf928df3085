//! `rlnode check ENDPOINT KEY`: one question to the node, its answer in words and numbers.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use client::{Address, Answer, Detail, OnSilence, Options, Source, blocking};
use limiter::{ATTRIBUTES_MAX, DEFAULT_UNIT, Op, Reason, Request, Wait};
use serde::Serialize;

use super::{Output, words};
use crate::clock::Clock;
use crate::environment;
use crate::exit::Exit;

/// Ask the node once; exit 0 if allowed, 1 if denied, 2 if there is no answer
#[derive(Debug, Args)]
pub struct Check {
    /// What is called, such as `POST /login`
    endpoint: String,
    /// Who calls
    key: String,
    /// What it costs [default: 1]
    #[arg(long, value_name = "N")]
    cost: Option<u64>,
    /// Unit of the cost
    #[arg(long, default_value = DEFAULT_UNIT, requires = "cost")]
    unit: String,
    /// A further fact, such as plan=pro; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    attributes: Vec<(String, String)>,
    /// What to do
    #[arg(long, value_enum, default_value_t)]
    op: OpName,
    /// Node: HOST:PORT for UDP, or the path of a socket [default: $RLNODE_ADDR, else the default
    /// sockets]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
    /// How long to wait for the answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    timeout: u64,
    /// Show every limit that applied
    #[arg(long)]
    details: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What to do, as written.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OpName {
    /// Spend the cost if there is room
    #[default]
    Check,
    /// Ask and change nothing
    Peek,
    /// Spend the cost whatever is left
    Debit,
    /// Give the cost back
    Refund,
}

pub(super) fn parse_attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Check {
    /// Asks and prints the answer.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        match self.ask() {
            Ok(answer) => {
                if self.json {
                    output.say(&self.as_json(&answer));
                } else {
                    output.say(&in_words(&answer));
                }
                if answer.allowed { Exit::Success } else { Exit::Refused }
            }
            Err(error) => {
                output.complain(&error);
                Exit::Error
            }
        }
    }

    fn ask(&self) -> Result<Answer, String> {
        let address = Address::choose(self.addr.as_deref(), &environment::of_process())
            .map_err(|error| error.to_string())?;
        let options = Options {
            timeout: Duration::from_millis(self.timeout),
            on_silence: OnSilence::Closed,
            ..Options::default()
        };
        let mut client =
            blocking::Client::new(address.clone(), options).map_err(|error| error.to_string())?;
        let request = self.to_request()?;
        let answered = match request.op {
            Op::Peek => client.peek(&request),
            Op::Debit => client.debit(&request),
            Op::Refund => client.refund(&request),
            Op::Check | Op::Reset => client.check(&request),
        };
        let answer = answered.map_err(|error| error.to_string())?;
        match answer.source {
            Source::Node => Ok(answer),
            Source::Fallback(silence) => {
                let spent = if silence.may_have_been_spent() {
                    "; the cost may have been spent all the same"
                } else {
                    "; nothing was spent"
                };
                Err(format!("no answer from `{address}`: {silence}{spent}"))
            }
        }
    }

    fn to_request(&self) -> Result<Request<'_>, String> {
        if self.attributes.len() > ATTRIBUTES_MAX {
            return Err(format!(
                "there are {} attributes; give {ATTRIBUTES_MAX} at most",
                self.attributes.len()
            ));
        }
        let op = match self.op {
            OpName::Check => Op::Check,
            OpName::Peek => Op::Peek,
            OpName::Debit => Op::Debit,
            OpName::Refund => Op::Refund,
        };
        let mut request = Request::check(self.endpoint.as_bytes(), self.key.as_bytes()).with_op(op);
        request.details = self.details;
        if let Some(cost) = self.cost {
            request = request.with_unit_cost(self.unit.as_bytes(), cost);
        }
        for (name, value) in &self.attributes {
            request = request.with_attribute(name.as_bytes(), value.as_bytes());
        }
        Ok(request)
    }

    fn as_json(&self, answer: &Answer) -> String {
        let decided_at = decided_at(answer);
        let json = AnswerJson {
            allowed: answer.allowed,
            limit_name: &answer.limit_name,
            limit: answer.limit,
            remaining: answer.remaining,
            reset_after_ms: ms(answer.reset_after),
            reset_at_ms: answer.reset_at.and_then(unix_ms),
            retry_after_ms: ms(answer.retry_after),
            delay_ms: ms(answer.delay),
            reason: answer.reason.map(Reason::as_str),
            freshness: answer.freshness.map(limiter::Freshness::as_str),
            stale_ms: ms(Some(answer.stale)),
            details: self.details.then(|| {
                answer.details.iter().map(|detail| DetailJson::new(detail, decided_at)).collect()
            }),
        };
        serde_json::to_string(&json).unwrap_or_default()
    }
}

/// The answer by the names of the design, as HTTP gives it.
#[derive(Serialize)]
struct AnswerJson<'a> {
    allowed: bool,
    limit_name: &'a str,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    reset_at_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    delay_ms: Option<u64>,
    reason: Option<&'static str>,
    freshness: Option<&'static str>,
    stale_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Vec<DetailJson<'a>>>,
}

#[derive(Serialize)]
struct DetailJson<'a> {
    allowed: bool,
    limit_name: &'a str,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    reset_at_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    delay_ms: Option<u64>,
    reason: Option<&'static str>,
    shadow: bool,
}

impl<'a> DetailJson<'a> {
    fn new(detail: &'a Detail, decided_at: SystemTime) -> Self {
        let reset_at = detail.reset_after.and_then(|after| decided_at.checked_add(after));
        Self {
            allowed: detail.allowed,
            limit_name: &detail.limit_name,
            limit: detail.limit,
            remaining: detail.remaining,
            reset_after_ms: ms(detail.reset_after),
            reset_at_ms: reset_at.and_then(unix_ms),
            retry_after_ms: ms(detail.retry_after),
            delay_ms: ms(detail.delay),
            reason: detail.reason.map(Reason::as_str),
            shadow: detail.shadow,
        }
    }
}

/// When the node decided, so that the waits of the details can be told as dates, which a frame gives
/// for the deciding limit alone. Where that one never resets, the time here is taken.
fn decided_at(answer: &Answer) -> SystemTime {
    let of_node = answer.reset_at.zip(answer.reset_after);
    of_node.and_then(|(at, after)| at.checked_sub(after)).unwrap_or_else(|| {
        let clock = Clock::new();
        let now_ms = clock.unix_ms(clock.now_ns(), Wait::ZERO).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_millis(now_ms)
    })
}

/// Unix time in milliseconds, rounded up; none before 1970.
fn unix_ms(at: SystemTime) -> Option<u64> {
    ms(at.duration_since(SystemTime::UNIX_EPOCH).ok())
}

/// Milliseconds, rounded up; none for never.
fn ms(wait: Option<Duration>) -> Option<u64> {
    wait.and_then(|wait| u64::try_from(wait.as_nanos().div_ceil(1_000_000)).ok())
}

/// The answer in a line, and a line for each detail.
fn in_words(answer: &Answer) -> String {
    let mut text = sentence(
        answer.allowed,
        &answer.limit_name,
        (answer.remaining, answer.limit),
        answer.reason,
        answer.retry_after,
        answer.reset_after,
    );
    if answer.delay != Some(Duration::ZERO) {
        let _ = write!(text, "; wait {} before acting", words::wait(answer.delay));
    }
    for detail in &answer.details {
        let line = sentence(
            detail.allowed,
            &detail.limit_name,
            (detail.remaining, detail.limit),
            detail.reason,
            detail.retry_after,
            detail.reset_after,
        );
        let _ = write!(text, "\n  {line}");
        if detail.delay != Some(Duration::ZERO) {
            let _ = write!(text, "; wait {} before acting", words::wait(detail.delay));
        }
        if detail.shadow {
            text.push_str(" (shadow: decides nothing)");
        }
    }
    if answer.details_cut {
        text.push_str("\n  and more limits, which found no room in the reply");
    }
    text
}

fn sentence(
    allowed: bool,
    limit_name: &str,
    (remaining, limit): (Option<u64>, Option<u64>),
    reason: Option<Reason>,
    retry_after: Option<Duration>,
    reset_after: Option<Duration>,
) -> String {
    let mut text = if allowed { "allowed" } else { "denied" }.to_owned();
    let _ = match limit_name {
        "" if reason == Some(Reason::Banned) => write!(text, " ahead of every limit"),
        "" => write!(text, ": no limit matches"),
        name => write!(text, " by `{name}`"),
    };
    // What denies without counting has a capacity and nothing of it to give.
    let is_counted = reason != Some(Reason::Deny);
    if let (true, Some(remaining), Some(limit)) = (is_counted, remaining, limit) {
        let _ = write!(text, ": {remaining} of {limit} left");
    }
    if !allowed {
        let word = reason.map_or("unknown reason", Reason::as_str);
        let _ = match retry_after {
            // When there is memory for the key again nobody knows.
            Some(_) if reason == Some(Reason::Full) => {
                write!(text, " ({word}); try again in {}", words::wait(retry_after))
            }
            Some(_) => write!(text, " ({word}); would pass in {}", words::wait(retry_after)),
            None => write!(text, " ({word}); no wait helps"),
        };
    }
    if limit.is_some() && reset_after.is_some_and(|wait| !wait.is_zero()) {
        let _ = write!(text, "; full again in {}", words::wait(reset_after));
    }
    text
}

#[cfg(test)]
mod tests {
    use limiter::Freshness;

    use super::*;

    fn answer() -> Answer {
        Answer {
            source: Source::Node,
            allowed: true,
            limit_name: "per-key".to_owned(),
            limit: Some(100),
            remaining: Some(99),
            reset_after: Some(Duration::from_millis(100)),
            reset_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(7)),
            retry_after: Some(Duration::ZERO),
            delay: Some(Duration::ZERO),
            reason: Some(Reason::Ok),
            freshness: Some(Freshness::Alone),
            stale: Duration::ZERO,
            details: Vec::new(),
            details_cut: false,
        }
    }

    #[test]
    fn an_allowed_answer_says_what_is_left() {
        assert_eq!(
            in_words(&answer()),
            "allowed by `per-key`: 99 of 100 left; full again in 100 ms"
        );
    }

    #[test]
    fn a_denied_answer_says_how_long_to_wait() {
        let denied = Answer {
            allowed: false,
            remaining: Some(0),
            reason: Some(Reason::Limit),
            retry_after: Some(Duration::from_millis(800)),
            reset_after: Some(Duration::from_secs(5)),
            ..answer()
        };
        assert_eq!(
            in_words(&denied),
            "denied by `per-key`: 0 of 100 left (limit); would pass in 800 ms; full again in 5 s"
        );
        let never = Answer {
            limit_name: "closed".to_owned(),
            limit: Some(0),
            reason: Some(Reason::Deny),
            retry_after: None,
            reset_after: None,
            reset_at: None,
            ..denied.clone()
        };
        assert_eq!(in_words(&never), "denied by `closed` (deny); no wait helps");
        // An attribute is missing: the limit has a capacity, which is not what is short.
        let missing = Answer { limit: Some(5), ..never };
        assert_eq!(in_words(&missing), "denied by `closed` (deny); no wait helps");
        let full = Answer {
            reason: Some(Reason::Full),
            retry_after: Some(Duration::from_secs(1)),
            reset_after: None,
            ..denied
        };
        assert_eq!(in_words(&full), "denied by `per-key`: 0 of 100 left (full); try again in 1 s");
    }

    #[test]
    fn a_turn_in_a_queue_is_told_with_what_to_do() {
        let delay = Some(Duration::from_millis(1_980));
        let detail = |limit_name: &str, delay, shadow| Detail {
            limit_name: limit_name.to_owned(),
            allowed: true,
            reason: Some(Reason::Ok),
            shadow,
            limit: Some(100),
            remaining: Some(0),
            reset_after: Some(Duration::ZERO),
            retry_after: Some(Duration::ZERO),
            delay,
        };
        let details = vec![detail("a", Some(Duration::ZERO), false), detail("b", delay, true)];
        let told = in_words(&Answer { delay, details, ..answer() });
        assert_eq!(
            told,
            "allowed by `per-key`: 99 of 100 left; full again in 100 ms; wait 1.98 s before acting\n  \
             allowed by `a`: 0 of 100 left\n  allowed by `b`: 0 of 100 left; wait 1.98 s before \
             acting (shadow: decides nothing)"
        );
    }

    #[test]
    fn what_is_full_is_not_said_to_be_full_again() {
        let untouched =
            Answer { remaining: Some(100), reset_after: Some(Duration::ZERO), ..answer() };
        assert_eq!(in_words(&untouched), "allowed by `per-key`: 100 of 100 left");
    }

    #[test]
    fn details_say_when_they_reset() {
        let detail = |reset_after| Detail {
            limit_name: "per-key".to_owned(),
            allowed: true,
            reason: Some(Reason::Ok),
            shadow: false,
            limit: Some(100),
            remaining: Some(99),
            reset_after,
            retry_after: Some(Duration::ZERO),
            delay: Some(Duration::ZERO),
        };
        let decided_at = decided_at(&answer());
        let at_ms = |reset_after| DetailJson::new(&detail(reset_after), decided_at).reset_at_ms;
        assert_eq!(at_ms(answer().reset_after), Some(7_000));
        assert_eq!(at_ms(Some(Duration::from_secs(2))), Some(8_900));
        assert_eq!(at_ms(None), None);
    }

    #[test]
    fn an_answer_without_a_limit_says_so() {
        let unmatched =
            Answer { limit_name: String::new(), limit: None, remaining: None, ..answer() };
        assert_eq!(in_words(&unmatched), "allowed: no limit matches");
    }

    #[test]
    fn a_ban_is_no_limit_that_is_missing() {
        let banned = Answer {
            allowed: false,
            limit_name: String::new(),
            limit: None,
            remaining: None,
            reason: Some(Reason::Banned),
            retry_after: Some(Duration::from_secs(900)),
            ..answer()
        };
        assert_eq!(in_words(&banned), "denied ahead of every limit (banned); would pass in 15 min");
    }

    #[test]
    fn an_attribute_needs_its_name() {
        assert_eq!(parse_attribute("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(parse_attribute("a").is_err());
    }
}
