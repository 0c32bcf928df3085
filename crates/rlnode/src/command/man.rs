//! `rlnode man`: the manual page.

use clap::{Args, Command, CommandFactory};

use super::Output;
use crate::cli::Cli;
use crate::exit::Exit;

/// Print the manual page in troff, as in `rlnode man | man -l -`
#[derive(Debug, Args)]
pub struct Man;

impl Man {
    /// Prints the page of the program, then those of its commands.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let mut program = Cli::command();
        // Gives every command its full name and the options that it inherits.
        program.build();
        let mut manual = Vec::new();
        for page in pages(&program) {
            if let Err(error) = clap_mangen::Man::new(page.clone()).render(&mut manual) {
                output.complain(&format_args!("the manual page cannot be written: {error}"));
                return Exit::Error;
            }
        }
        output.print(&manual);
        Exit::Success
    }
}

/// The command and all that is below it, without `help`, which is this very page.
fn pages(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|page| page.get_name() != "help");
    std::iter::once(command).chain(below.flat_map(pages)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_a_page_for_every_command() {
        let mut out = Vec::new();
        let mut output = Output { out: &mut out, err: &mut std::io::sink() };
        assert_eq!(Man.run(&mut output), Exit::Success);
        let manual = String::from_utf8(out).expect("text");
        let pages = manual.lines().filter(|line| line.starts_with(".TH ")).count();
        assert_eq!(pages, 1 + 29);
    }
}
