//! What a client says of itself and asks of the connection.

use super::super::session::NAME_BYTES_MAX;
use super::{After, Call, Reply, is_v3, is_word};
use crate::door::{Door, Fault};
use wire::resp::RespVersion;

/// What the node says that it is: clients choose what they send by the number.
pub(super) const VERSION: &str = "7.4.0";

/// `PING [message]`.
pub(super) fn ping<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    match call.arguments {
        [] => call.reply().word("PONG"),
        [message] => {
            let message = message.to_vec();
            call.reply().bulk(&message);
        }
        _ => return call.refuse("ERR wrong number of arguments for 'ping' command"),
    }
    Reply::Done(After::Go)
}

/// `ECHO message`.
pub(super) fn echo<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let [message] = call.arguments else {
        return call.refuse("ERR wrong number of arguments for 'echo' command");
    };
    let message = message.to_vec();
    call.reply().bulk(&message);
    Reply::Done(After::Go)
}

/// `SELECT 0`: there is one.
pub(super) fn select<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    match call.arguments {
        [b"0"] => call.ok(),
        [_] => call.refuse("ERR DB index is out of range"),
        _ => call.refuse("ERR wrong number of arguments for 'select' command"),
    }
}

/// `RESET`: the connection is as it was when it was opened.
pub(super) fn reset<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    call.session.reset();
    call.reply().word("RESET");
    Reply::Done(After::Go)
}

/// `AUTH [user] token`: from now on the client may act on keys.
pub(super) fn auth<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let ([token] | [_, token]) = call.arguments else {
        return call.refuse("ERR wrong number of arguments for 'auth' command");
    };
    match authenticate(call, token) {
        Ok(()) => call.ok(),
        Err(error) => {
            call.reply().error(error);
            Reply::Done(After::Go)
        }
    }
}

fn authenticate(call: &mut Call<'_, '_>, token: &[u8]) -> Result<(), &'static str> {
    if !call.node.has_admin_token() {
        return Err(
            "ERR AUTH called without any password configured: the node's file has no [admin]",
        );
    }
    if !call.node.is_admin_token(token) {
        call.node.counters().count_fault(Door::Redis, Fault::Forbidden);
        return Err("WRONGPASS invalid username-password pair: it is not the token of [admin]");
    }
    call.session.is_operator = true;
    Ok(())
}

fn set_name(call: &mut Call<'_, '_>, name: &[u8]) -> Result<(), &'static str> {
    let is_plain = name.iter().all(|byte| byte.is_ascii_graphic());
    if name.len() > NAME_BYTES_MAX || !is_plain {
        return Err("ERR Client names are at most 64 printable characters without spaces");
    }
    call.session.name = name.to_vec();
    Ok(())
}

/// `HELLO [2|3 [AUTH user token] [SETNAME name]]`.
pub(super) fn hello<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let (version, mut rest) = match call.arguments {
        [] => (call.session.version, call.arguments),
        [b"2", rest @ ..] => (RespVersion::V2, rest),
        [b"3", rest @ ..] => (RespVersion::V3, rest),
        _ => return call.refuse("NOPROTO unsupported protocol version"),
    };
    while let [option, after @ ..] = rest {
        let (outcome, after) = match after {
            [_, token, after @ ..] if is_word(option, "AUTH") => (authenticate(call, token), after),
            [name, after @ ..] if is_word(option, "SETNAME") => (set_name(call, name), after),
            _ => return call.refuse("ERR Syntax error in HELLO option"),
        };
        if let Err(error) = outcome {
            call.reply().error(error);
            return Reply::Done(After::Go);
        }
        rest = after;
    }
    call.session.version = version;
    let (id, proto) = (call.session.id, if is_v3(version) { 3 } else { 2 });
    let mut reply = call.reply();
    reply.map(7);
    for (name, value) in [("server", "rlnode"), ("version", VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(proto);
    reply.bulk(b"id");
    reply.unsigned(id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Reply::Done(After::Go)
}

/// `CLIENT ...`: what clients send when they connect, and no more.
pub(super) fn client<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let [what, rest @ ..] = call.arguments else {
        return call.refuse("ERR wrong number of arguments for 'client' command");
    };
    let is = |word: &str| is_word(what, word);
    if is("SETNAME") && rest.len() == 1 {
        return match set_name(call, rest[0]) {
            Ok(()) => call.ok(),
            Err(error) => call.refuse(error),
        };
    }
    if is("GETNAME") {
        let name = call.session.name.clone();
        match name.as_slice() {
            b"" => call.reply().null(),
            name => call.reply().bulk(name),
        }
        return Reply::Done(After::Go);
    }
    if is("ID") {
        let id = call.session.id;
        call.reply().unsigned(id);
        return Reply::Done(After::Go);
    }
    if is("INFO") {
        let (id, resp) = (call.session.id, if is_v3(call.session.version) { 3 } else { 2 });
        let name = String::from_utf8_lossy(&call.session.name).into_owned();
        call.reply().bulk(format!("id={id} name={name} db=0 resp={resp}\n").as_bytes());
        return Reply::Done(After::Go);
    }
    let is_harmless = ["SETINFO", "NO-EVICT", "NO-TOUCH", "MAINT_NOTIFICATIONS", "TRACKING"];
    if is_harmless.into_iter().any(is) {
        return call.ok();
    }
    let shown: String = what.escape_ascii().to_string().chars().take(32).collect();
    call.refuse(&format!("ERR unknown subcommand '{shown}' of CLIENT"))
}
