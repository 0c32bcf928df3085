//! `rlnode completions SHELL`: a script that teaches a shell this command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Output;
use crate::cli::Cli;
use crate::exit::Exit;

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        // Not straight to the output: the generator takes a reader that is gone for a fault.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "rlnode", &mut script);
        output.print(&script);
        Exit::Success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_knows_every_command() {
        let mut out = Vec::new();
        let mut output = Output { out: &mut out, err: &mut std::io::sink() };
        let exit = Completions { shell: Shell::Bash }.run(&mut output);
        assert_eq!(exit, Exit::Success);
        let script = String::from_utf8(out).expect("text");
        for command in [
            "check",
            "status",
            "validate",
            "explain",
            "cert",
            "node",
            "compare",
            "completions",
            "man",
        ] {
            assert!(script.contains(&format!("rlnode__subcmd__{command}")), "{command}");
        }
    }
}
