//! The binary `rlnode`; everything is in the library.

use std::process::ExitCode;

/// Tables grow by doubling and are given back when keys come to rest. The system's allocator keeps
/// the holes: a node that a flood had taken to 286 MiB still held 242 MiB when all keys were gone
/// (`rlbench flood`). This one gives them back, from a thread of its own, so that no check pays.
/// `.cargo/config.toml` says how soon.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    rlnode::cli::main().into()
}
