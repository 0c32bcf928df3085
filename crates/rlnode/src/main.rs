//! The binary `rlnode`; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    rlnode::cli::main().into()
}
