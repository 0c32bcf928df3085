//! The command line: one definition that gives parsing, help, completions and the man page.

use std::io::{stderr, stdout};

use clap::{CommandFactory, Parser, Subcommand};

use crate::command::Output;
use crate::command::audit::Audit;
use crate::command::cert::Cert;
use crate::command::check::Check;
use crate::command::compare::Compare;
use crate::command::completions::Completions;
use crate::command::demo::Demo;
use crate::command::explain::Explain;
use crate::command::import::Import;
use crate::command::key::Key;
use crate::command::man::Man;
use crate::command::node::Node;
use crate::command::reload::Reload;
use crate::command::run::Run;
use crate::command::status::Status;
use crate::command::validate::Validate;
use crate::command::why::Why;
use crate::exit::Exit;

/// A rate limiter that every host runs. Without a command it runs the node.
#[derive(Debug, Parser)]
#[command(
    name = "rlnode",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Option<Run>,
}

/// Every command; each is a file of `command`.
#[derive(Debug, Subcommand)]
enum Command {
    Check(Check),
    Status(Status),
    Validate(Validate),
    Explain(Explain),
    Why(Why),
    Audit(Audit),
    Cert(Cert),
    Key(Key),
    Node(Node),
    Reload(Reload),
    Demo(Demo),
    Compare(Compare),
    Import(Import),
    Completions(Completions),
    Man(Man),
}

impl Cli {
    /// Runs the command.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        match (self.command, self.run) {
            (Some(Command::Check(check)), _) => check.run(output),
            (Some(Command::Status(status)), _) => status.run(output),
            (Some(Command::Validate(validate)), _) => validate.run(output),
            (Some(Command::Explain(explain)), _) => explain.run(output),
            (Some(Command::Why(why)), _) => why.run(output),
            (Some(Command::Audit(audit)), _) => audit.run(output),
            (Some(Command::Cert(cert)), _) => cert.run(output),
            (Some(Command::Key(key)), _) => key.run(output),
            (Some(Command::Node(node)), _) => node.run(output),
            (Some(Command::Reload(reload)), _) => reload.run(output),
            (Some(Command::Demo(demo)), _) => demo.run(output),
            (Some(Command::Compare(compare)), _) => compare.run(output),
            (Some(Command::Import(import)), _) => import.run(output),
            (Some(Command::Completions(completions)), _) => completions.run(output),
            (Some(Command::Man(man)), _) => man.run(output),
            (None, Some(run)) => run.run(output),
            (None, None) => {
                output.complain(&Self::command().render_usage());
                Exit::Error
            }
        }
    }
}

/// Runs what the process's command line says. A wrong one ends the process with
/// [`Exit::Error`]'s code and says what is wrong.
pub fn main() -> Exit {
    let cli = Cli::parse();
    cli.run(&mut Output { out: &mut stdout(), err: &mut stderr() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_the_node_runs_and_needs_a_file() {
        let cli = parse("rlnode --config cluster.toml --node edge-1").expect("a command line");
        assert!(cli.command.is_none() && cli.run.is_some());
        let error = parse("rlnode").expect_err("no file").to_string();
        assert!(error.contains("--config"), "{error}");
    }

    #[test]
    fn commands_need_no_file_of_the_node() {
        for line in [
            "rlnode check /x alice --cost 3 --unit bytes --attribute plan=pro --op peek --json",
            "rlnode status --addr ./n.sock",
            "rlnode validate cluster.toml",
            "rlnode explain per-key --config cluster.toml",
            "rlnode why /x alice --attribute plan=pro --addr ./n.sock --json",
            "rlnode audit records/edge-1 a.rlaudit --limit per-key --keys 5 --json",
            "rlnode cert init --dir certs",
            "rlnode cert issue --node a --node b --days 30",
            "rlnode node forget edge-3 --addr ./n.sock",
            "rlnode key peek alice --endpoint /x --attribute plan=pro",
            "rlnode key reset alice --limit per-key --addr 127.0.0.1:7480 --token-file t",
            "rlnode key grant alice --units 5",
            "rlnode key refund alice --cost 5 --unit bytes",
            "rlnode key ban alice --for 15m",
            "rlnode key ban --ip 10.0.0.0/8",
            "rlnode key unban alice",
            "rlnode key bans --json",
            "rlnode key override alice --limit per-key --rate 5/s --burst 9 --for 1h",
            "rlnode key override alice --limit login --deny",
            "rlnode key end-override alice --limit per-key",
            "rlnode key overrides",
            "rlnode reload --addr ./n.sock",
            "rlnode demo --plain --seconds 3 --script auto --seed 7 --members 5",
            "rlnode compare --traffic burst --limit 10/s --burst 20 --algorithms sliding-log --nodes 3",
            "rlnode compare --config cluster.toml --trace access.log --key user --top 3 --format json",
            "rlnode import envoy config.yaml",
            "rlnode import envoy a.yaml b.yaml --output cluster.toml --force",
            "rlnode completions bash",
            "rlnode man",
        ] {
            let cli = parse(line).expect(line);
            assert!(cli.command.is_some() && cli.run.is_none(), "{line}");
        }
    }

    #[test]
    fn what_is_done_to_a_key_is_said_once_and_whole() {
        for line in [
            "rlnode key",
            "rlnode key ban",
            "rlnode key ban alice --ip 10.0.0.0/8",
            "rlnode key grant alice",
            "rlnode key grant alice --units 0",
            "rlnode key override alice --rate 5/s",
            "rlnode key override alice --limit a",
            "rlnode key override alice --limit a --rate 5/s --deny",
            "rlnode key override alice --limit a --deny --burst 5",
            "rlnode key ban alice --for 15",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn numbers_that_are_not_whole_and_unsigned_are_refused() {
        for cost in ["-1", "1.5", "18446744073709551616"] {
            assert!(parse(&format!("rlnode check /x alice --cost={cost}")).is_err(), "{cost}");
        }
    }

    #[test]
    fn a_wrong_command_line_has_the_exit_code_of_an_error() {
        let error = parse("rlnode check").expect_err("no endpoint");
        assert_eq!(error.exit_code(), i32::from(Exit::Error.code()));
    }
}
