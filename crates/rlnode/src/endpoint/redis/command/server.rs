//! What clients ask of the server before they use it.

use super::connection::VERSION;
use super::{After, Call, Reply, is_word};
use crate::node::Readiness;

/// The names of every command.
const COMMANDS: [&str; 22] = [
    "auth",
    "cl.throttle",
    "client",
    "command",
    "echo",
    "hello",
    "info",
    "ping",
    "quit",
    "reset",
    "rl.ban",
    "rl.check",
    "rl.debit",
    "rl.endoverride",
    "rl.grant",
    "rl.override",
    "rl.peek",
    "rl.refund",
    "rl.reset",
    "rl.unban",
    "select",
    "throttle",
];

/// `INFO [section]`: enough for clients that look whether the server is ready.
pub(super) fn info<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    let node = call.node;
    let is_loading = node.readiness() == Readiness::Starting;
    let text = format!(
        "# Server\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\nrlnode_version:{}\r\n\
         rlnode_node:{}\r\nuptime_in_seconds:{}\r\n# Persistence\r\nloading:{}\r\n\
         # Replication\r\nrole:master\r\n",
        env!("CARGO_PKG_VERSION"),
        node.name(),
        node.uptime_ns() / 1_000_000_000,
        u8::from(is_loading),
    );
    call.reply().bulk(text.as_bytes());
    Reply::Done(After::Go)
}

/// `COMMAND [COUNT | LIST | DOCS | INFO ...]`: names, and no descriptions.
pub(super) fn command<'n>(call: &mut Call<'_, 'n>) -> Reply<'n> {
    match call.arguments {
        [what] if is_word(what, "COUNT") => call.reply().unsigned(COMMANDS.len() as u64),
        [what, ..] if is_word(what, "LIST") => {
            let mut reply = call.reply();
            reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        [what, ..] if is_word(what, "DOCS") => call.reply().map(0),
        _ => call.reply().array(0),
    }
    Reply::Done(After::Go)
}
