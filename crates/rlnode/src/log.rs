//! Structured logs: how they are set up, and how one that repeats is held back.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// A warning that could repeat with every request is written at most once in this time.
pub const REPEAT_NS: u64 = 60 * 1_000_000_000;
/// What is logged unless the operator says otherwise.
pub const DEFAULT_FILTER: &str = "info";

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people: one line of words and fields.
    #[default]
    Text,
    /// For machines: one JSON object per line.
    Json,
}

/// Sends logs to standard error, for the life of the process.
///
/// # Errors
/// If `filter` is not a list of `level` or `target=level`. Nothing is set up then.
pub fn init(format: LogFormat, filter: &str) -> Result<(), ParseError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter)?)
        .with_writer(std::io::stderr);
    // An error says that a subscriber is set already, as in a test that runs two nodes: keep it.
    let _ = match format {
        LogFormat::Text => {
            builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// Lets a warning through once a minute and counts what it held back.
#[derive(Debug, Default)]
pub struct Throttle {
    /// When the next may pass, in nanoseconds of the daemon's clock.
    next_ns: AtomicU64,
    held_back: AtomicU64,
}

impl Throttle {
    /// Some, with the number held back since the last, if the warning may be written now.
    pub fn pass(&self, now_ns: u64) -> Option<u64> {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        let may_pass = now_ns >= next_ns
            && self
                .next_ns
                .compare_exchange(
                    next_ns,
                    now_ns.saturating_add(REPEAT_NS),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok();
        if may_pass {
            return Some(self.held_back.swap(0, Ordering::Relaxed));
        }
        self.held_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// A key as a log may show it: its text where the operator allows that, else a hash that stays the
/// same while the node runs.
#[derive(Clone, Copy, Debug)]
pub enum ShownKey<'k> {
    /// The key itself.
    Text(&'k [u8]),
    /// A keyed hash of it.
    Hash(u64),
}

impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(key) => write!(f, "{}", key.escape_ascii()),
            Self::Hash(hash) => write!(f, "#{hash:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_warning_passes_once_a_minute_and_says_how_many_were_held_back() {
        let throttle = Throttle::default();
        assert_eq!(throttle.pass(1), Some(0));
        assert_eq!(throttle.pass(2), None);
        assert_eq!(throttle.pass(REPEAT_NS), None);
        assert_eq!(throttle.pass(1 + REPEAT_NS), Some(2));
    }

    #[test]
    fn a_shown_key_cannot_break_the_line() {
        assert_eq!(ShownKey::Text(b"a\nb\xff").to_string(), "a\\nb\\xff");
        assert_eq!(ShownKey::Hash(7).to_string(), "#0000000000000007");
    }
}
