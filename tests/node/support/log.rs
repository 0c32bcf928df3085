//! What a process writes to its standard error, line by line, and waiting for a line of it.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The lines so far, and whether there will be more.
#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    changed: Condvar,
}

/// A log that is read as it grows.
#[derive(Debug)]
pub(crate) struct Log {
    shared: Arc<Shared>,
}

impl Log {
    /// Reads `source` to its end, in a thread of its own that ends when the writer does.
    pub(crate) fn read(source: impl Read + Send + 'static) -> Self {
        let shared = Arc::<Shared>::default();
        let written = Arc::clone(&shared);
        std::thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                written.lock().lines.push(line);
                written.changed.notify_all();
            }
            written.lock().is_over = true;
            written.changed.notify_all();
        });
        Self { shared }
    }

    /// Every line so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.shared.lock().lines.clone()
    }

    /// The whole of it as one text.
    pub(crate) fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// Lines so far that hold `word`.
    pub(crate) fn count(&self, word: &str) -> usize {
        self.shared.lock().lines.iter().filter(|line| line.contains(word)).count()
    }

    /// Waits until a line holds `word`; false if the log ends, or `at_most` passes, without one.
    pub(crate) fn wait_for(&self, word: &str, at_most: Duration) -> bool {
        let is_missing = |lines: &mut Lines| {
            !lines.is_over && !lines.lines.iter().any(|line| line.contains(word))
        };
        let (lines, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), at_most, is_missing)
            .expect("the reader of the log does not panic");
        lines.lines.iter().any(|line| line.contains(word))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().expect("nobody panics with the lock")
    }
}
