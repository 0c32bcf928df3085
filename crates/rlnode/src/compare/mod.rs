//! `rlnode compare`: the same traffic through every algorithm, or yesterday's calls through tomorrow's
//! file.
//!
//! What decides is the real limiter on virtual time (crate `sim`). Nothing here reads a clock or asks a
//! node; files are opened by the command.
//!
//! | file | what is there |
//! |---|---|
//! | `trace/` | calls that were made, from access logs, CSV and JSON lines |
//! | `contest.rs` | a trace through every algorithm |
//! | `replay.rs` | a trace through the limits of a file |
//! | `report.rs`, `replay_report.rs` | what is found, as its JSON has it |
//! | `text.rs`, `replay_text.rs` | the same in words |
//! | `picture.rs`, `page.rs` | the same as SVG, and as a page |

mod contest;
mod page;
mod picture;
mod replay;
mod replay_report;
mod replay_text;
mod report;
mod text;
pub mod trace;

pub use contest::run_trace;
pub use page::{GRID, page};
pub use picture::picture;
pub use replay::{DENIED_KEYS_MAX, Replay, replay};
pub use replay_report::ReplayReport;
pub use replay_text::replay_in_words;
pub use report::{Report, TraceReport};
pub use text::in_words;
