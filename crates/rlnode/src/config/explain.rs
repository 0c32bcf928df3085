//! The limits in words: what matches what, and how much it lets through.
//!
//! It tells what the file says, in the numbers that are in force; live figures are not known here.

use std::fmt;

use limiter::{
    CARRIED, Limit, Lists, Missing, Override, Quota, Rule, Selector, Subject, Unmatched,
    WhenIsolated, Window,
};

use super::accuracy::{self, Measured, Place, mode_in_words};
use super::checked::Config;
use super::cluster::Cluster;
use super::error::quoted;
use super::limits::LimitSettings;
use super::value::{show_rate, show_time};
use super::warnings;
use super::window::show_calendar;
use super::written::nearest;

/// Listed keys shown of one limit or override; the rest are counted.
const KEYS_SHOWN_MAX: usize = 5;
/// Names shown to somebody who asked for one that does not exist and is near to none.
const NAMES_SHOWN_MAX: usize = 8;
/// Bytes that a sliding log keeps of each unit: its time.
const LOG_UNIT_BYTES: u64 = 8;

/// No limit has the name that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLimit {
    name: String,
    nearest: Option<String>,
    known: Vec<String>,
}

impl fmt::Display for UnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no limit is named {}; ", quoted(&self.name))?;
        match &self.nearest {
            Some(near) => write!(f, "did you mean `{near}`?"),
            None => write!(f, "the file has {}", self.known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownLimit {}

/// Says in words what the limits of `config` do: all of them, or only the one named `limit`, with
/// its overrides, or only an override named `limit/override` as decisions name it.
///
/// ```text
/// limit `search` (line 12)
///   lets through  20/s sustained, burst 60, one per 50 ms; empty to full in 3 s
///   matches       endpoint `POST /search`
///   key           one bucket for each `{ip}`
///   counts        `requests`
///   proven:       exact: 60 + 20/s x t in any window of t
/// ```
///
/// # Errors
/// There is no such limit; the error names the nearest.
pub fn explain(config: &Config, limit: Option<&str>) -> Result<String, UnknownLimit> {
    explain_measured(config, limit, None)
}

/// The same with what a running node of the cluster `measured`, on which the bounds depend.
///
/// # Errors
/// As [`explain`].
pub fn explain_measured(
    config: &Config,
    limit: Option<&str>,
    measured: Option<&Measured>,
) -> Result<String, UnknownLimit> {
    let place = Place::new(config.cluster.as_ref(), measured);
    let is_short = limit.is_none();
    let explained = |rule| Explained::new(config, rule, place, is_short);
    let rules: Vec<_> = config.plan.rules().iter().filter_map(explained).collect();
    let bounds = place.in_words(measured);
    let Some(name) = limit else {
        let unmatched = match config.plan.unmatched() {
            Unmatched::Allow => "allowed",
            Unmatched::Deny => "denied",
        };
        let mut text = config.cluster.as_ref().map_or_else(String::new, cluster_in_words);
        text.push_str(&format!(
            "Every limit that matches a request applies; of its overrides, the most specific one \
             that matches\ndecides in its place. A request that no limit matches is {unmatched}.\n"
        ));
        text.push_str(&lists_in_words(&config.lists));
        if !bounds.is_empty() {
            text.push_str(&format!("\n{bounds}"));
        }
        for rule in &rules {
            text.push('\n');
            text.push_str(&rule.to_string());
        }
        if has_carried(config) {
            text.push('\n');
            text.push_str(CARRIED_IN_WORDS);
        }
        return Ok(text);
    };
    let is_asked = |rule: &&Explained<'_>| rule.limit.name == name || rule.name == name;
    let mut asked: Vec<_> = rules.iter().filter(is_asked).map(ToString::to_string).collect();
    if name == CARRIED && has_carried(config) {
        asked.push(CARRIED_IN_WORDS.to_owned());
    }
    if asked.is_empty() {
        return Err(UnknownLimit {
            name: name.into(),
            nearest: nearest(name, rules.iter().map(|rule| rule.name)).map(Into::into),
            known: config
                .plan
                .limits()
                .iter()
                .map(|limit| quoted(&limit.name))
                .take(NAMES_SHOWN_MAX)
                .collect(),
        });
    }
    let blank = if bounds.is_empty() { "" } else { "\n" };
    Ok(format!("{bounds}{blank}{}", asked.join("\n")))
}

/// The limit that no file writes: see [`limiter::CARRIED`].
const CARRIED_IN_WORDS: &str = "\
limit `cl.throttle` (of the Redis protocol)
  lets through  what each call says: a token bucket with the numbers that it carries
  matches       CL.THROTTLE and THROTTLE, and nothing else
  key           one bucket for each `{key}`, with the numbers of its last call
  counts        `requests`
";

fn has_carried(config: &Config) -> bool {
    config.plan.rules().iter().any(Rule::is_carried)
}

/// A limit or override with what is said about it.
struct Explained<'c> {
    name: &'c str,
    limit: &'c Limit,
    exception: Option<&'c Override>,
    line: usize,
    quota: &'c Quota,
    place: Place<'c>,
    is_short: bool,
}

impl<'c> Explained<'c> {
    /// None only if the plan is not that of the settings beside it.
    fn new(config: &'c Config, rule: &'c Rule, place: Place<'c>, is_short: bool) -> Option<Self> {
        let at = rule.at();
        let limit = config.plan.limits().get(at.limit)?;
        let settings: &LimitSettings = config.limit_settings.get(at.limit)?;
        let (exception, line) = match at.override_index {
            None => (None, settings.line),
            Some(index) => {
                (Some(limit.overrides.get(index)?), *settings.override_lines.get(index)?)
            }
        };
        let (name, quota) = (rule.name(), rule.quota());
        Some(Self { name, limit, exception, line, quota, place, is_short })
    }

    fn key(&self) -> String {
        let buckets = match self.limit.key.as_str() {
            "*" => "one bucket for all".into(),
            template => format!("one bucket for each {}", quoted(template)),
        };
        let apart = self.exception.map_or("", |_| ", apart from the limit's");
        let bits = self.limit.ipv6_prefix;
        let by_prefix = match self.limit.key.contains("{ip}") {
            true => format!(", IPv6 addresses by their first {bits} bits"),
            false => String::new(),
        };
        format!("{buckets}{apart}{by_prefix}")
    }
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.exception.map_or("limit", |_| "override");
        writeln!(f, "{kind} {} (line {})", quoted(self.name), self.line)?;
        let mut say = |what: &str, words: &str| writeln!(f, "  {what:<13} {words}");
        say("lets through", &quota_in_words(self.quota))?;
        let algorithm = algorithm_in_words(self.quota);
        if !algorithm.is_empty() {
            say("algorithm", &algorithm)?;
        }
        match self.exception {
            None => say("matches", &selector_in_words(&self.limit.selector, "every request"))?,
            Some(exception) => {
                say("matches", &selector_in_words(&exception.selector, "nothing"))?;
                let limit = selector_in_words(&self.limit.selector, "every request");
                say("of", &format!("what limit {} matches: {limit}", quoted(&self.limit.name)))?;
            }
        }
        say("key", &self.key())?;
        say("counts", &quoted(&self.limit.unit))?;
        if self.limit.missing == Missing::Deny {
            say("missing", "denies a request that lacks an attribute of the key")?;
        }
        if self.limit.shadow {
            say("shadow", "counted and reported, decides nothing")?;
        }
        let is_counted = self.quota.algorithm().is_some();
        let mode = mode_in_words(&self.place, self.limit.accuracy);
        let accuracy = if is_counted { mode } else { "" };
        let isolated = match (self.place.cluster(), self.limit.when_isolated) {
            (None, WhenIsolated::Split) => "",
            (None, WhenIsolated::Allow) => "allows everything, once in a cluster",
            (None, WhenIsolated::Deny) => "denies everything, once in a cluster",
            (Some(_), WhenIsolated::Split) => "goes on with the part of the members it reaches",
            (Some(_), WhenIsolated::Allow) => "allows everything, and counts it",
            (Some(_), WhenIsolated::Deny) => "denies everything",
        };
        for (what, words) in [("accuracy", accuracy), ("isolated", isolated)] {
            if !words.is_empty() {
                say(what, words)?;
            }
        }
        for (what, words) in accuracy::in_words(&self.place, self.limit, self.quota, self.is_short)
        {
            say(what, &words)?;
        }
        if let Place::Among(_, around) = &self.place {
            for words in warnings::of_rule(self.name, self.quota, self.limit.accuracy, around) {
                say("warning:", &words)?;
            }
        }
        Ok(())
    }
}

/// A line on each list that names somebody.
fn lists_in_words(lists: &Lists) -> String {
    let in_words = |subjects: &[Subject], what: &str| {
        if subjects.is_empty() {
            return String::new();
        }
        let shown = subjects.iter().take(KEYS_SHOWN_MAX).map(|subject| match subject {
            Subject::Key(key) => quoted(&String::from_utf8_lossy(key)),
            Subject::Network(network) => quoted(&network.to_string()),
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = match subjects.len().saturating_sub(KEYS_SHOWN_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{what} ahead of every limit: {shown}{more}.\n")
    };
    in_words(&lists.allow, "Always allowed, and charged nowhere,")
        + &in_words(&lists.ban, "Banned, for the reason `banned`,")
}

/// A paragraph on the cluster and a blank line.
fn cluster_in_words(cluster: &Cluster) -> String {
    let peers: Vec<_> = cluster.peers.iter().map(|peer| quoted(peer)).collect();
    let begins = match cluster.expected() {
        Some(members) => format!("begins with {members} members"),
        None => "begins with as many members as that name gives".into(),
    };
    format!(
        "A member of the cluster {} that peers reach at `{}` and that looks for peers at {}.\nIt \
         {begins}, tells them every {} what it let through, and forgets one that is missing for \
         {}\nunless it is isolated itself.\n\n",
        quoted(&cluster.name),
        cluster.listen,
        peers.join(", "),
        show_time(u128::from(cluster.sync_interval_ns), 1),
        show_time(u128::from(cluster.forget_after_ns), 1),
    )
}

/// How much passes.
fn quota_in_words(quota: &Quota) -> String {
    match quota {
        Quota::Deny => "nothing".into(),
        Quota::Unlimited => "everything".into(),
        Quota::Carried => "what each call says".into(),
        Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. } => {
            let (period, count) = (u128::from(rate.period_ns), u128::from(rate.count));
            let (one, full) =
                (show_time(period, count), show_time(period * u128::from(*burst), count));
            let rate = show_rate(*rate);
            format!("{rate} sustained, burst {burst}, one per {one}; empty to full in {full}")
        }
        Quota::FixedWindow { limit, window: Window::Period(ns) } => {
            format!("{limit} in each window of {}", show_time(u128::from(*ns), 1))
        }
        Quota::FixedWindow { limit, window: Window::Calendar(calendar) } => {
            format!("{limit} in each {}", show_calendar(calendar.span()))
        }
        Quota::SlidingWindow { limit, period_ns } => {
            format!("{limit} in about any {}", show_time(u128::from(*period_ns), 1))
        }
        Quota::SlidingLog { limit, period_ns } => {
            format!("at most {limit} in any {}", show_time(u128::from(*period_ns), 1))
        }
    }
}

/// What is to be known of how it counts; empty where nothing is, and for a token bucket, of which
/// [`quota_in_words`] says everything.
fn algorithm_in_words(quota: &Quota) -> String {
    let algorithm = quota.algorithm().unwrap_or_default();
    let how = match quota {
        Quota::Deny | Quota::Unlimited | Quota::Carried | Quota::TokenBucket { .. } => {
            return String::new();
        }
        Quota::LeakyBucket { queue: false, .. } => {
            "a meter: what fits passes at once, as with a token bucket".into()
        }
        Quota::LeakyBucket { rate, burst, queue: true } => {
            let (period, count) = (u128::from(rate.period_ns), u128::from(rate.count));
            let last = show_time(period * u128::from(burst.saturating_sub(1)), count);
            format!(
                "a queue: a call that passes is told its turn (`delay_ms`), one per {}, at most \
                 {last} ahead",
                show_time(period, count)
            )
        }
        Quota::FixedWindow { window: Window::Period(ns), .. } => {
            let time = show_time(u128::from(*ns), 1);
            format!("each window begins a whole number of {time} after 1970-01-01 00:00 UTC")
        }
        Quota::FixedWindow { window: Window::Calendar(calendar), .. } => {
            format!("each begins at a midnight of {}", quoted(calendar.zone()))
        }
        Quota::SlidingWindow { .. } => "this window, and of the one before the part that is less \
                                        than a window ago, taken as spread evenly"
            .into(),
        Quota::SlidingLog { limit, .. } => {
            let bytes = u128::from(*limit) * u128::from(LOG_UNIT_BYTES);
            format!(
                "the time of each unit is kept, {LOG_UNIT_BYTES} B for each: {bytes} B for a bucket \
                 that is used up, beside its entry"
            )
        }
    };
    format!("{algorithm}: {how}")
}

fn selector_in_words(selector: &Selector, all: &str) -> String {
    let mut parts = Vec::new();
    if let Some(endpoint) = &selector.endpoint {
        let what = match endpoint.ends_with('*') {
            true => "endpoints that begin like",
            false if endpoint.contains('{') => "endpoints of the form",
            false => "endpoint",
        };
        parts.push(format!("{what} {}", quoted(endpoint)));
    }
    for (name, value) in &selector.attributes {
        parts.push(format!("attribute {} is {}", quoted(name), quoted(value)));
    }
    if !selector.keys.is_empty() {
        let texts = selector.keys.iter().map(|key| quoted(&String::from_utf8_lossy(key)));
        let mut keys: Vec<_> = texts.take(KEYS_SHOWN_MAX).collect();
        match selector.keys.len().saturating_sub(KEYS_SHOWN_MAX) {
            0 => {}
            more => keys.push(format!("one of {more} more")),
        }
        parts.push(format!("key is {}", keys.join(" or ")));
    }
    if parts.is_empty() { all.into() } else { parts.join(", and ") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use client::Environment;

    use super::super::{Node, parse};
    use super::*;

    const FILE: &str = r#"
unmatched = "deny"
[[limit]]
name = "per-key"
rate = "100/h"

  [[limit.override]]
  name = "pro"
  attributes = { is = "x" }
  keys = ["a", "b", "c", "d", "e", "f"]
  rate = "10/3s"
  burst = 40

  [[limit.override]]
  endpoint = "/health/*"
  unlimited = true

[[limit]]
name = "login"
endpoint = "POST /users/{id}/login"
key = "{ip}"
unit = "tries"
rate = "5/15m"
missing = "deny"
shadow = true
accuracy = "fast"
when_isolated = "allow"
"#;

    fn config() -> Config {
        let node = Node { name: "a".into(), environment: Environment::default() };
        parse(FILE.as_bytes(), Path::new("c.toml"), &node).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_limit_is_explained_with_its_overrides() {
        let words = explain(&config(), Some("per-key")).expect("words");
        let want = "\
limit `per-key` (line 4)
  lets through  100/h sustained, burst 100, one per 36 s; empty to full in 1 h
  matches       every request
  key           one bucket for each `{key}`
  counts        `requests`
  proven:       exact: 100 + 100/h x t in any window of t

override `per-key/pro` (line 7)
  lets through  10 per 3 s sustained, burst 40, one per 300 ms; empty to full in 12 s
  matches       attribute `is` is `x`, and key is `a` or `b` or `c` or `d` or `e` or one of 1 more
  of            what limit `per-key` matches: every request
  key           one bucket for each `{key}`, apart from the limit's
  counts        `requests`
  proven:       exact: 40 + 10 per 3 s x t in any window of t

override `per-key//health/*` (line 14)
  lets through  everything
  matches       endpoints that begin like `/health/*`
  of            what limit `per-key` matches: every request
  key           one bucket for each `{key}`, apart from the limit's
  counts        `requests`
";
        assert_eq!(words, want);
    }

    #[test]
    fn settings_that_are_not_the_default_are_told() {
        let words = explain(&config(), Some("login")).expect("words");
        let want = "\
limit `login` (line 19)
  lets through  5 per 15 min sustained, burst 5, one per 3 min; empty to full in 15 min
  matches       endpoints of the form `POST /users/{id}/login`
  key           one bucket for each `{ip}`, IPv6 addresses by their first 64 bits
  counts        `tries`
  missing       denies a request that lacks an attribute of the key
  shadow        counted and reported, decides nothing
  accuracy      fast, once in a cluster
  isolated      allows everything, once in a cluster
  proven:       exact: 5 + 5 per 15 min x t in any window of t
";
        assert_eq!(words, want);
    }

    #[test]
    fn every_algorithm_is_told_in_its_own_words() {
        let rate = limiter::Rate { count: 50, period_ns: 1_000_000_000 };
        let minute = 60_000_000_000;
        let calendar = |span, zone| {
            let calendar = limiter::Calendar::new(span, zone).expect("a zone");
            Quota::FixedWindow { limit: 1_000, window: Window::Calendar(calendar) }
        };
        let week = limiter::CalendarSpan::Week(limiter::Weekday::Sunday);
        let bucket = "50/s sustained, burst 100, one per 20 ms; empty to full in 2 s";
        let cases = [
            (Quota::Deny, "nothing", ""),
            (Quota::TokenBucket { rate, burst: 100 }, bucket, ""),
            (
                Quota::LeakyBucket { rate, burst: 100, queue: false },
                bucket,
                "leaky-bucket: a meter: what fits passes at once, as with a token bucket",
            ),
            (
                Quota::LeakyBucket { rate, burst: 100, queue: true },
                bucket,
                "leaky-bucket: a queue: a call that passes is told its turn (`delay_ms`), one per \
                 20 ms, at most 1.98 s ahead",
            ),
            (
                Quota::FixedWindow { limit: 100, window: Window::Period(15 * minute) },
                "100 in each window of 15 min",
                "fixed-window: each window begins a whole number of 15 min after 1970-01-01 00:00 \
                 UTC",
            ),
            (
                calendar(limiter::CalendarSpan::Month, "Europe/Berlin"),
                "1000 in each calendar month",
                "fixed-window: each begins at a midnight of `Europe/Berlin`",
            ),
            (
                calendar(week, "UTC"),
                "1000 in each calendar week from sunday on",
                "fixed-window: each begins at a midnight of `UTC`",
            ),
            (
                Quota::SlidingWindow { limit: 100, period_ns: minute },
                "100 in about any 1 min",
                "sliding-window: this window, and of the one before the part that is less than a \
                 window ago, taken as spread evenly",
            ),
            (
                Quota::SlidingLog { limit: 5, period_ns: 15 * minute },
                "at most 5 in any 15 min",
                "sliding-log: the time of each unit is kept, 8 B for each: 40 B for a bucket that is \
                 used up, beside its entry",
            ),
        ];
        for (quota, passes, how) in cases {
            assert_eq!(quota_in_words(&quota), passes);
            assert_eq!(algorithm_in_words(&quota), how);
        }
    }

    #[test]
    fn a_member_is_told_how_its_cluster_holds_the_limits() {
        let tls = "tls = { ca = \"ca.pem\", cert = \"a.pem\", key = \"a.key\" }";
        let file = format!(
            "{FILE}\n[cluster]\nname = \"edge\"\nlisten = \"127.0.0.1:7401\"\n\
             peers = [\"edge-1:7401\", \"edge-2:7401\"]\n{tls}\n"
        );
        let node = Node { name: "a".into(), environment: Environment::default() };
        let config = parse(file.as_bytes(), Path::new("c.toml"), &node);
        let config = config.unwrap_or_else(|e| panic!("{e}"));
        let words = explain(&config, None).expect("words");
        let want = "\
A member of the cluster `edge` that peers reach at `127.0.0.1:7401` and that looks for peers at \
`edge-1:7401`, `edge-2:7401`.
It begins with 2 members, tells them every 200 ms what it let through, and forgets one that is \
missing for 1 min
unless it is isolated itself.

Every limit that matches";
        assert!(words.starts_with(want), "{words}");
        let one = explain(&config, Some("per-key/pro")).expect("words");
        assert!(one.contains("  accuracy      balanced: each member spends its share"), "{one}");
        assert!(one.contains("  isolated      goes on with the part"), "{one}");
        let login = explain(&config, Some("login")).expect("words");
        assert!(login.contains("  isolated      allows everything, and counts it\n"), "{login}");
    }

    #[test]
    fn without_a_name_everything_is_explained() {
        let config = config();
        let words = explain(&config, None).expect("words");
        assert!(words.contains("A request that no limit matches is denied."), "{words}");
        for rule in config.plan.rules() {
            assert!(words.contains(&quoted(rule.name())), "{words}");
        }
    }

    #[test]
    fn one_override_can_be_asked_for_by_the_name_that_decisions_give() {
        let words = explain(&config(), Some("per-key/pro")).expect("words");
        assert!(words.starts_with("override `per-key/pro`") && !words.contains("\n\n"), "{words}");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let told = |name| explain(&config(), Some(name)).expect_err(name).to_string();
        assert_eq!(told("per_kye"), "no limit is named `per_kye`; did you mean `per-key`?");
        assert_eq!(told("zzzzzz"), "no limit is named `zzzzzz`; the file has `per-key`, `login`");
    }
}
