//! The commands: each file has those of one kind.

mod check;
mod connection;
mod operate;
mod server;
mod throttle;

use std::pin::Pin;

use limiter::{Decision, Request};
use wire::resp::{Arguments, RespVersion, RespWriter};

use super::session::Session;
use crate::door::{Door, Fault};
use crate::node::{Asked, Node, Undecided};

/// A reply that comes later. Dropping it gives a check up that is held: nothing is spent for it.
pub(super) type Later<'n> = Pin<Box<dyn Future<Output = Vec<u8>> + Send + 'n>>;

/// What became of a command.
pub(super) enum Reply<'n> {
    /// Its reply is written.
    Done(After),
    /// Its reply comes later; those behind it may be carried out meanwhile.
    Later(Later<'n>),
    /// The same, and those behind it wait until it is carried out.
    First(Later<'n>),
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It goes on.
    Go,
    /// It ends when its replies are written.
    Close,
}

/// What a command has to do with.
struct Call<'c, 'n> {
    node: &'n Node,
    session: &'c mut Session,
    /// What follows the name.
    arguments: &'c [&'c [u8]],
    out: &'c mut Vec<u8>,
}

/// Why a command is refused: the text of the error.
type Refusal = String;

impl<'n> Call<'_, 'n> {
    fn reply(&mut self) -> RespWriter<'_> {
        RespWriter::new(self.out, self.session.version)
    }

    fn ok(&mut self) -> Reply<'n> {
        self.reply().word("OK");
        Reply::Done(After::Go)
    }

    /// Refuses it, as a question that cannot be meant.
    fn refuse(&mut self, text: &str) -> Reply<'n> {
        self.node.counters().count_fault(Door::Redis, Fault::Malformed);
        self.reply().error(text);
        Reply::Done(After::Go)
    }

    /// Puts `request` to the limits and writes what comes of it by `write`.
    fn ask(
        &mut self,
        request: &Request<'_>,
        max_wait: Option<std::time::Duration>,
        write: impl FnOnce(&mut RespWriter<'_>, &Node, u64, &Decision<'_>) + Send + 'n,
    ) -> Reply<'n> {
        let (node, version) = (self.node, self.session.version);
        let is_sampled = node.counters().count_frame(Door::Redis);
        let now_ns = node.clock().now_ns();
        match node.ask(now_ns, request, Door::Redis, max_wait) {
            Ok(Asked::Decided(decision)) => {
                write(&mut self.reply(), node, now_ns, &decision);
                if is_sampled {
                    let took_ns = node.clock().now_ns().saturating_sub(now_ns);
                    node.counters().record_duration(Door::Redis, took_ns);
                }
                Reply::Done(After::Go)
            }
            Ok(Asked::Held(held)) => Reply::Later(Box::pin(async move {
                let decision = held.await;
                let mut out = Vec::new();
                let at_ns = node.clock().now_ns();
                write(&mut RespWriter::new(&mut out, version), node, at_ns, &decision);
                out
            })),
            Err(undecided) => {
                self.reply().error(&undecided_text(undecided));
                Reply::Done(After::Go)
            }
        }
    }
}

/// Clients know `LOADING` as the word of a server that will answer soon.
fn undecided_text(undecided: Undecided) -> String {
    match undecided {
        Undecided::Request(_) => format!("ERR {undecided}"),
        Undecided::Starting => format!("LOADING {undecided}"),
    }
}

/// Carries out one command of `session` and appends its reply to `out`, unless that comes later.
pub(super) fn carry_out<'n>(
    node: &'n Node,
    session: &mut Session,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Reply<'n> {
    let Some((name, arguments)) = arguments.split_first() else { return Reply::Done(After::Go) };
    let mut call = Call { node, session, arguments, out };
    let upper = name.to_ascii_uppercase();
    match upper.as_slice() {
        b"CL.THROTTLE" => throttle::cl_throttle(&mut call),
        b"THROTTLE" => throttle::throttle(&mut call),
        b"RL.CHECK" => check::ask(&mut call, "RL.CHECK", limiter::Op::Check),
        b"RL.PEEK" => check::ask(&mut call, "RL.PEEK", limiter::Op::Peek),
        b"RL.DEBIT" => check::ask(&mut call, "RL.DEBIT", limiter::Op::Debit),
        b"RL.REFUND" => check::ask(&mut call, "RL.REFUND", limiter::Op::Refund),
        b"RL.RESET" => operate::reset(&mut call),
        b"RL.GRANT" => operate::grant(&mut call),
        b"RL.BAN" => operate::ban(&mut call),
        b"RL.UNBAN" => operate::unban(&mut call),
        b"RL.OVERRIDE" => operate::override_key(&mut call),
        b"RL.ENDOVERRIDE" => operate::end_override(&mut call),
        b"PING" => connection::ping(&mut call),
        b"ECHO" => connection::echo(&mut call),
        b"HELLO" => connection::hello(&mut call),
        b"AUTH" => connection::auth(&mut call),
        b"SELECT" => connection::select(&mut call),
        b"CLIENT" => connection::client(&mut call),
        b"RESET" => connection::reset(&mut call),
        b"QUIT" => {
            call.reply().word("OK");
            Reply::Done(After::Close)
        }
        b"INFO" => server::info(&mut call),
        b"COMMAND" => server::command(&mut call),
        _ => {
            let shown: String = name.escape_ascii().to_string().chars().take(64).collect();
            call.refuse(&format!("ERR unknown command '{shown}'"))
        }
    }
}

/// A whole number.
fn integer(argument: &[u8]) -> Option<i64> {
    std::str::from_utf8(argument).ok()?.parse().ok()
}

/// A whole number that is not negative.
fn unsigned(argument: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(argument).ok()?;
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Whether `argument` is `word`, in whatever case.
fn is_word(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

const fn is_v3(version: RespVersion) -> bool {
    matches!(version, RespVersion::V3)
}
