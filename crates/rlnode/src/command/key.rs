//! `rlnode key ...`: what an operator does to keys, told to one node, which tells the others.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use limiter::ATTRIBUTES_MAX;
use serde_json::{Map, Value, json};

use super::Output;
use super::check::parse_attribute;
use super::exchange::{Operator, Target, fetch_as, send_as};
use super::words;
use crate::config::parse_time;
use crate::environment;
use crate::exit::Exit;

/// Act on keys: peek, reset, grant, refund, ban, override; on every node of the cluster
#[derive(Debug, Args)]
pub struct Key {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Show what every limit that applies to a key has left; changes nothing
    Peek(Bucket),
    /// Forget what a key has used
    Reset(Limited),
    /// Give a key units, at most until its buckets are full
    Grant(Grant),
    /// Give back what calls of a key have cost
    Refund(Refund),
    /// Deny every call of a key or a network
    Ban(Ban),
    /// End a ban
    Unban(Unban),
    /// List the bans
    Bans(Whom),
    /// Give one key other numbers in a limit; what it used is kept
    Override(Override),
    /// End an override
    EndOverride(EndOverride),
    /// List the overrides
    Overrides(Whom),
}

/// Which node, and as whom.
#[derive(Debug, Args)]
struct Whom {
    /// Node to tell: the path of its socket, or HOST:PORT of its HTTP [default: $RLNODE_ADDR, else the
    /// default sockets]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
    /// File with the token of the node's `[admin]`; not needed at its socket for its own user
    #[arg(long, value_name = "FILE", env = "RLNODE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Print the JSON object that the node gives
    #[arg(long)]
    json: bool,
}

/// Whose buckets.
#[derive(Debug, Args)]
struct Bucket {
    /// Who calls
    key: String,
    /// What is called, where limits go by it
    #[arg(long, default_value = "")]
    endpoint: String,
    /// A further fact, such as plan=pro; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    attributes: Vec<(String, String)>,
    #[command(flatten)]
    whom: Whom,
}

#[derive(Debug, Args)]
struct Limited {
    #[command(flatten)]
    bucket: Bucket,
    /// In this limit alone [default: in all that apply]
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
}

#[derive(Debug, Args)]
struct Grant {
    #[command(flatten)]
    limited: Limited,
    /// How many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    units: u64,
}

#[derive(Debug, Args)]
struct Refund {
    #[command(flatten)]
    bucket: Bucket,
    /// What they cost
    #[arg(long, value_name = "N", default_value_t = 1)]
    cost: u64,
    /// Unit of the cost
    #[arg(long, default_value = limiter::DEFAULT_UNIT)]
    unit: String,
}

/// Who is banned.
#[derive(Debug, Args)]
#[group(id = "who", required = true, multiple = false)]
struct Who {
    /// The key
    #[arg(group = "who")]
    key: Option<String>,
    /// Whoever has this address, or one of this network: 192.0.2.7, 10.0.0.0/8
    #[arg(long, value_name = "NETWORK", group = "who")]
    ip: Option<String>,
}

#[derive(Debug, Args)]
struct Ban {
    #[command(flatten)]
    who: Who,
    /// For how long, such as 15m [default: until it is ended]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    for_ns: Option<u64>,
    #[command(flatten)]
    whom: Whom,
}

#[derive(Debug, Args)]
struct Unban {
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    whom: Whom,
}

#[derive(Debug, Args)]
struct Override {
    #[command(flatten)]
    bucket: Bucket,
    /// The limit
    #[arg(long, value_name = "NAME")]
    limit: String,
    #[command(flatten)]
    numbers: Numbers,
    /// Capacity of a bucket [default: the rate's count]
    #[arg(long, value_name = "N", conflicts_with_all = ["count", "deny", "unlimited"])]
    burst: Option<u64>,
    /// For how long, such as 1h [default: until it is ended]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    for_ns: Option<u64>,
}

/// How much the key may.
#[derive(Debug, Args)]
#[group(id = "numbers", required = true, multiple = false)]
struct Numbers {
    /// Rate of a bucket: 10/s
    #[arg(long, group = "numbers")]
    rate: Option<String>,
    /// Count per window: "5 per 15m"
    #[arg(long, group = "numbers")]
    count: Option<String>,
    /// Nothing passes
    #[arg(long, group = "numbers")]
    deny: bool,
    /// Everything passes
    #[arg(long, group = "numbers")]
    unlimited: bool,
}

#[derive(Debug, Args)]
struct EndOverride {
    #[command(flatten)]
    bucket: Bucket,
    /// The limit
    #[arg(long, value_name = "NAME")]
    limit: String,
}

impl Key {
    /// Tells the node and prints what it says.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let told = match self.command {
            KeyCommand::Peek(bucket) => bucket.ask("peek", Map::new()),
            KeyCommand::Refund(Refund { bucket, cost, unit }) => {
                bucket.ask("refund", members([("costs", json!({ unit: cost }))]))
            }
            KeyCommand::Reset(limited) => limited.send("reset", Map::new()),
            KeyCommand::Grant(Grant { limited, units }) => {
                limited.send("grant", members([("units", units.into())]))
            }
            KeyCommand::Ban(Ban { who, for_ns, whom }) => {
                let mut body = who.body();
                body.extend(time(for_ns));
                whom.send("ban", body)
            }
            KeyCommand::Unban(Unban { who, whom }) => whom.send("unban", who.body()),
            KeyCommand::Override(Override { bucket, limit, numbers, burst, for_ns }) => {
                let mut body = numbers.body();
                body.extend(burst.map(|burst| ("burst".to_owned(), burst.into())));
                body.extend(time(for_ns));
                Limited { bucket, limit: Some(limit) }.send("override", body)
            }
            KeyCommand::EndOverride(EndOverride { bucket, limit }) => {
                Limited { bucket, limit: Some(limit) }.send("end-override", Map::new())
            }
            KeyCommand::Bans(whom) => whom.list("bans", ban_words),
            KeyCommand::Overrides(whom) => whom.list("overrides", override_words),
        };
        match told {
            Ok(text) => {
                output.say(&text);
                Exit::Success
            }
            Err(error) => {
                output.complain(&error);
                Exit::Refused
            }
        }
    }
}

type Body = Map<String, Value>;

fn members<const N: usize>(members: [(&str, Value); N]) -> Body {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn wait_words(ms: u64) -> String {
    words::wait(Some(Duration::from_millis(ms)))
}

fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A time in milliseconds, rounded up: a ban of less is one of a millisecond.
fn time(for_ns: Option<u64>) -> Body {
    for_ns.map_or_else(Map::new, |ns| members([("for_ms", ns.div_ceil(1_000_000).into())]))
}

impl Whom {
    fn operator(&self) -> Result<Operator, String> {
        let target = Target::choose(self.addr.as_deref(), &environment::of_process())?;
        Operator::new(target, self.token_file.as_deref())
    }

    fn send(self, what: &str, body: Body) -> Result<String, String> {
        let answer: Value =
            send_as(&self.operator()?, &format!("/v1/keys/{what}"), &Value::Object(body))?;
        if self.json {
            return Ok(answer.to_string());
        }
        let number = |name| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (changed, units) = (number("changed"), number("units"));
        Ok(match what {
            "reset" | "grant" => {
                format!("{}, {} given back", count(changed, "bucket"), count(units, "unit"))
            }
            _ if changed == 0 => "nothing to change".to_owned(),
            _ => "done".to_owned(),
        })
    }

    fn list(self, what: &str, words: fn(&Value) -> String) -> Result<String, String> {
        let answer: Value = fetch_as(&self.operator()?, &format!("/v1/keys/{what}"))?;
        if self.json {
            return Ok(answer.to_string());
        }
        let rows = answer.get(what).and_then(Value::as_array).cloned().unwrap_or_default();
        if rows.is_empty() {
            return Ok(format!("no {what}"));
        }
        Ok(rows.iter().map(words).collect::<Vec<_>>().join("\n"))
    }
}

impl Bucket {
    fn body(&self) -> Result<Body, String> {
        if self.attributes.len() > ATTRIBUTES_MAX {
            let given = self.attributes.len();
            return Err(format!("there are {given} attributes; give {ATTRIBUTES_MAX} at most"));
        }
        let mut body = members([("key", self.key.as_str().into())]);
        if !self.endpoint.is_empty() {
            body.extend(members([("endpoint", self.endpoint.as_str().into())]));
        }
        if !self.attributes.is_empty() {
            let pairs = self.attributes.iter();
            let pairs = pairs.map(|(name, value)| (name.clone(), value.as_str().into()));
            body.extend(members([("attributes", Value::Object(pairs.collect()))]));
        }
        Ok(body)
    }

    /// Asks what a question is answered with, limit by limit.
    fn ask(self, what: &str, more: Body) -> Result<String, String> {
        let mut body = self.body()?;
        body.extend(more);
        let path = format!("/v1/keys/{what}");
        let answer: Value = send_as(&self.whom.operator()?, &path, &Value::Object(body))?;
        if self.whom.json {
            return Ok(answer.to_string());
        }
        let details = answer.get("details").and_then(Value::as_array).cloned().unwrap_or_default();
        if details.is_empty() {
            let reason = answer.get("reason").and_then(Value::as_str).unwrap_or("no limit");
            return Ok(format!("no limit applies ({reason})"));
        }
        Ok(details.iter().map(level_words).collect::<Vec<_>>().join("\n"))
    }
}

impl Limited {
    fn send(self, what: &str, more: Body) -> Result<String, String> {
        let mut body = self.bucket.body()?;
        if let Some(limit) = self.limit {
            body.extend(members([("limit_name", limit.into())]));
        }
        body.extend(more);
        self.bucket.whom.send(what, body)
    }
}

impl Who {
    fn body(self) -> Body {
        match (self.key, self.ip) {
            (Some(key), _) => members([("key", key.into())]),
            (None, ip) => members([("ip", ip.into())]),
        }
    }
}

impl Numbers {
    fn body(self) -> Body {
        let mut body = Map::new();
        if let Some(rate) = self.rate {
            body.extend(members([("rate", rate.into())]));
        }
        if let Some(count) = self.count {
            body.extend(members([("limit", count.into())]));
        }
        if self.deny {
            body.extend(members([("deny", true.into())]));
        }
        if self.unlimited {
            body.extend(members([("unlimited", true.into())]));
        }
        body
    }
}

fn text<'v>(row: &'v Value, name: &str) -> Option<&'v str> {
    row.get(name).and_then(Value::as_str)
}

/// Who a row is about.
fn who_words(row: &Value) -> String {
    match (text(row, "key"), text(row, "key_b64"), text(row, "ip")) {
        (Some(key), ..) => key.escape_debug().to_string(),
        (None, Some(base64), _) => format!("base64 {base64}"),
        (None, None, ip) => ip.unwrap_or_default().to_owned(),
    }
}

fn ends_words(row: &Value) -> String {
    match row.get("remaining_ms").and_then(Value::as_u64) {
        Some(ms) => format!("for {}", wait_words(ms)),
        None => "until it is ended".to_owned(),
    }
}

fn ban_words(row: &Value) -> String {
    format!("{} {}", who_words(row), ends_words(row))
}

fn override_words(row: &Value) -> String {
    let (limit, quota) = (text(row, "limit_name"), text(row, "quota"));
    let (limit, quota) = (limit.unwrap_or_default(), quota.unwrap_or_default());
    format!("{} in {limit}: {quota} {}", who_words(row), ends_words(row))
}

fn level_words(detail: &Value) -> String {
    let name = text(detail, "limit_name").unwrap_or_default();
    let number = |name| detail.get(name).and_then(Value::as_u64);
    match (number("remaining"), number("limit"), number("retry_after_ms")) {
        (Some(left), Some(limit), Some(retry)) if retry > 0 => {
            format!("{name}: {left} of {limit} left, the next in {}", wait_words(retry))
        }
        (Some(left), Some(limit), _) => format!("{name}: {left} of {limit} left"),
        _ => format!("{name}: {}", text(detail, "reason").unwrap_or_default()),
    }
}
