//! `RL.RESET`, `RL.GRANT`, `RL.BAN`, `RL.UNBAN`, `RL.OVERRIDE` and `RL.ENDOVERRIDE`: what operators do to keys.

use limiter::{Network, Operated, Operation, OperationError, Subject};
use wire::resp::{RespVersion, RespWriter};

use super::{Call, Refusal, Reply, is_word, unsigned};
use crate::config::{Exception, parse_time};
use crate::door::{Door, Fault};
use crate::endpoint::http::question::Question;

/// Options with one value each.
struct Options<'c> {
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    limit: Option<&'c str>,
    rate: Option<&'c str>,
    burst: Option<u64>,
    count: Option<&'c str>,
    for_ns: Option<u64>,
    deny: bool,
    unlimited: bool,
}

fn text(argument: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(argument).map_err(|_| "ERR an argument is no text".to_owned())
}

impl<'c> Options<'c> {
    /// Reads options; only those in `known` mean anything.
    fn read(mut rest: &'c [&'c [u8]], known: &[&str]) -> Result<Self, Refusal> {
        let mut options = Self {
            attributes: Vec::new(),
            limit: None,
            rate: None,
            burst: None,
            count: None,
            for_ns: None,
            deny: false,
            unlimited: false,
        };
        while let [option, after @ ..] = rest {
            let word = known.iter().find(|word| is_word(option, word)).copied();
            rest = match (word, after) {
                (Some("ATTR"), [name, value, after @ ..]) => {
                    options.attributes.push((name.to_vec(), value.to_vec()));
                    after
                }
                (Some("LIMIT"), [name, after @ ..]) => {
                    options.limit = Some(text(name)?);
                    after
                }
                (Some("RATE"), [rate, after @ ..]) => {
                    options.rate = Some(text(rate)?);
                    after
                }
                (Some("BURST"), [burst, after @ ..]) => {
                    options.burst = Some(unsigned(burst).ok_or("ERR BURST is no whole number")?);
                    after
                }
                (Some("COUNT"), [count, after @ ..]) => {
                    options.count = Some(text(count)?);
                    after
                }
                (Some("FOR"), [time, after @ ..]) => {
                    let ns = parse_time(text(time)?).map_err(|error| format!("ERR {error}"))?;
                    options.for_ns = Some(ns);
                    after
                }
                (Some("DENY"), after) => {
                    options.deny = true;
                    after
                }
                (Some("UNLIMITED"), after) => {
                    options.unlimited = true;
                    after
                }
                _ => {
                    let shown: String =
                        option.escape_ascii().to_string().chars().take(32).collect();
                    return Err(format!("ERR syntax error near '{shown}'"));
                }
            };
        }
        Ok(options)
    }

    /// Whose buckets.
    fn question(&mut self, key: &[u8], endpoint: &[u8]) -> Question {
        Question::of_bytes(endpoint, key, std::mem::take(&mut self.attributes))
    }
}

/// Whether the client may act, which it is told if it may not.
fn may_act(call: &mut Call<'_, '_>) -> bool {
    if !call.session.is_operator {
        call.node.counters().count_fault(Door::Redis, Fault::Forbidden);
        call.reply().error(
            "NOPERM operations are for the user of the node and root, at its unix socket, and after \
             AUTH with the token of [admin]",
        );
    }
    call.session.is_operator
}

/// Waits for what `operation` gives, and replies with what was changed: buckets or registers, and units.
fn act<'n>(
    call: &Call<'_, 'n>,
    operation: impl Future<Output = Result<Operated, OperationError>> + Send + 'n,
) -> Reply<'n> {
    let version = call.session.version;
    Reply::First(Box::pin(async move { written(version, operation.await) }))
}

fn written(version: RespVersion, outcome: Result<Operated, OperationError>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = RespWriter::new(&mut out, version);
    match outcome {
        Ok(Operated { changed, units }) => {
            reply.array(2);
            reply.unsigned(changed as u64);
            reply.unsigned(units);
        }
        Err(error) => reply.error(&format!("ERR {error}")),
    }
    out
}

/// `RL.RESET key endpoint [ATTR name value]... [LIMIT name]`.
pub(super) fn reset<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    const USAGE: &str =
        "ERR Usage: RL.RESET <key> <endpoint> [ATTR <name> <value>]... [LIMIT <name>]";
    let [key, endpoint, rest @ ..] = call.arguments else { return call.refuse(USAGE) };
    let mut options = match Options::read(rest, &["ATTR", "LIMIT"]) {
        Ok(options) => options,
        Err(refusal) => return call.refuse(&refusal),
    };
    if !may_act(call) {
        return Reply::Done(super::After::Go);
    }
    let question = options.question(key, endpoint);
    let limit = options.limit.map(str::to_owned);
    let node = call.node;
    act(call, async move {
        let request = question.to_request();
        node.operate(&Operation::Reset { request, limit: limit.as_deref() }).await
    })
}

/// `RL.GRANT key endpoint units [ATTR name value]... [LIMIT name]`.
pub(super) fn grant<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    const USAGE: &str =
        "ERR Usage: RL.GRANT <key> <endpoint> <units> [ATTR <name> <value>]... [LIMIT <name>]";
    let [key, endpoint, units, rest @ ..] = call.arguments else { return call.refuse(USAGE) };
    let Some(units) = unsigned(units).filter(|units| *units > 0) else {
        return call.refuse("ERR units is no whole number of at least 1");
    };
    let mut options = match Options::read(rest, &["ATTR", "LIMIT"]) {
        Ok(options) => options,
        Err(refusal) => return call.refuse(&refusal),
    };
    if !may_act(call) {
        return Reply::Done(super::After::Go);
    }
    let question = options.question(key, endpoint);
    let limit = options.limit.map(str::to_owned);
    let node = call.node;
    act(call, async move {
        let request = question.to_request();
        node.operate(&Operation::Grant { request, limit: limit.as_deref(), units }).await
    })
}

/// Who is meant: `KEY key` or `IP network`.
fn subject(kind: &[u8], who: &[u8]) -> Result<Subject, Refusal> {
    if is_word(kind, "KEY") {
        return Ok(Subject::Key(who.to_vec()));
    }
    if !is_word(kind, "IP") {
        return Err("ERR say who is meant: KEY <key>, or IP <network>".to_owned());
    }
    text(who)?.parse::<Network>().map(Subject::Network).map_err(|error| format!("ERR {error}"))
}

/// `RL.BAN KEY key [FOR time]`, `RL.BAN IP network [FOR time]`.
pub(super) fn ban<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let [kind, who, rest @ ..] = call.arguments else {
        return call.refuse("ERR Usage: RL.BAN KEY <key> | IP <network> [FOR <time>]");
    };
    let read = subject(kind, who)
        .and_then(|subject| Options::read(rest, &["FOR"]).map(|it| (subject, it.for_ns)));
    let (subject, for_ns) = match read {
        Ok(read) => read,
        Err(refusal) => return call.refuse(&refusal),
    };
    if !may_act(call) {
        return Reply::Done(super::After::Go);
    }
    let node = call.node;
    act(call, async move { node.operate(&Operation::Ban { subject, for_ns }).await })
}

/// `RL.UNBAN KEY key`, `RL.UNBAN IP network`.
pub(super) fn unban<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let [kind, who] = call.arguments else {
        return call.refuse("ERR Usage: RL.UNBAN KEY <key> | IP <network>");
    };
    let subject = match subject(kind, who) {
        Ok(subject) => subject,
        Err(refusal) => return call.refuse(&refusal),
    };
    if !may_act(call) {
        return Reply::Done(super::After::Go);
    }
    let node = call.node;
    act(call, async move { node.operate(&Operation::Unban { subject }).await })
}

/// `RL.OVERRIDE key endpoint limit RATE rate [BURST n] | COUNT count | DENY | UNLIMITED [FOR time]
/// [ATTR name value]...`.
pub(super) fn override_key<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    const KNOWN: [&str; 7] = ["ATTR", "RATE", "BURST", "COUNT", "DENY", "UNLIMITED", "FOR"];
    let [key, endpoint, limit, rest @ ..] = call.arguments else {
        return call.refuse(
            "ERR Usage: RL.OVERRIDE <key> <endpoint> <limit> RATE <rate> [BURST <n>] | COUNT \
             <count> | DENY | UNLIMITED [FOR <time>] [ATTR <name> <value>]...",
        );
    };
    let read = Options::read(rest, &KNOWN).and_then(|options| Ok((options, text(limit)?)));
    let (mut options, limit) = match read {
        Ok(read) => read,
        Err(refusal) => return call.refuse(&refusal),
    };
    if !may_act(call) {
        return Reply::Done(super::After::Go);
    }
    let exception = Exception {
        rate: options.rate,
        burst: options.burst,
        limit: options.count,
        deny: options.deny,
        unlimited: options.unlimited,
    };
    let quota = match call.node.exception(limit, &exception) {
        Ok(quota) => quota,
        Err(error) => return call.refuse(&format!("ERR {error}")),
    };
    let question = options.question(key, endpoint);
    let (limit, for_ns) = (limit.to_owned(), options.for_ns);
    let node = call.node;
    act(call, async move {
        let request = question.to_request();
        node.operate(&Operation::Override { request, limit: &limit, quota, for_ns }).await
    })
}

/// `RL.ENDOVERRIDE key endpoint limit [ATTR name value]...`.
pub(super) fn end_override<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let [key, endpoint, limit, rest @ ..] = call.arguments else {
        return call
            .refuse("ERR Usage: RL.ENDOVERRIDE <key> <endpoint> <limit> [ATTR <name> <value>]...");
    };
    let read = Options::read(rest, &["ATTR"]).and_then(|options| Ok((options, text(limit)?)));
    let (mut options, limit) = match read {
        Ok(read) => read,
        Err(refusal) => return call.refuse(&refusal),
    };
    if !may_act(call) {
        return Reply::Done(super::After::Go);
    }
    let (question, limit) = (options.question(key, endpoint), limit.to_owned());
    let node = call.node;
    act(call, async move {
        let request = question.to_request();
        node.operate(&Operation::EndOverride { request, limit: &limit }).await
    })
}
