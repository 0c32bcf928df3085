//! Reading the file again while the node runs: all of it or nothing, and what came of it.

mod state;
pub mod watch;

use std::fmt;
use std::path::PathBuf;

use limiter::{ReplaceError, Replaced};
use tokio::sync::Mutex;

pub use state::{FileState, Pending, Reloads};

use crate::config::{self, Config, ConfigErrors};
use crate::node::Node;

/// What only a restart puts in force, by the names of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settled(Vec<(&'static str, String)>);

impl Settled {
    fn of(config: &Config) -> Self {
        // Compared and never shown: what it looks like means nothing.
        let text = |value: &dyn fmt::Debug| format!("{value:?}");
        Self(vec![
            ("listen", text(&config.listen)),
            ("memory", text(&config.memory)),
            ("audit", text(&config.audit)),
            ("admin", text(&config.admin)),
            ("cluster", text(&config.cluster)),
        ])
    }

    /// The tables that `other` has differently.
    fn differing(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(own, theirs)| own != theirs).map(|((name, _), _)| *name).collect()
    }
}

/// The file of a node, to be read again.
#[derive(Debug)]
pub struct Reloader {
    file: PathBuf,
    host: config::Node,
    settled: Settled,
    /// One at a time.
    turn: Mutex<()>,
}

/// What a reload did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// What became of the limits.
    pub limits: Replaced,
    /// Tables whose settings differ from those in force and wait for a restart.
    pub needs_restart: Vec<&'static str>,
}

/// Why the file is not in force. What was in force still is.
#[derive(Debug)]
pub enum ReloadError {
    /// The file has faults or cannot be read.
    Config(ConfigErrors),
    /// Its limits cannot take the place of those in force while the node runs.
    Limits(ReplaceError),
    /// The node was not started from a file.
    NoFile,
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(errors) => errors.fmt(f),
            Self::Limits(error) => error.fmt(f),
            Self::NoFile => f.write_str("the node was not started from a file"),
        }
    }
}

impl std::error::Error for ReloadError {}

impl Reloader {
    /// The file that gave `config` to `host`.
    pub fn new(file: PathBuf, host: config::Node, config: &Config) -> Self {
        Self { file, host, settled: Settled::of(config), turn: Mutex::new(()) }
    }

    /// The file.
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    /// Reads the file and puts it in force at `node`: limits, overrides, lists and what descriptors of Envoy
    /// mean, as a whole. What needs a restart is named.
    ///
    /// # Errors
    /// See [`ReloadError`]; nothing is changed.
    pub async fn reload(&self, node: &Node) -> Result<Reloaded, ReloadError> {
        let _turn = self.turn.lock().await;
        let outcome = match config::load(&self.file, &self.host) {
            Ok(config) => self.put_in_force(node, config).await,
            Err(errors) => Err(ReloadError::Config(errors)),
        };
        node.reloads().note(crate::clock::unix_ms(), &outcome);
        match &outcome {
            Ok(reloaded) => tracing::info!(
                kept = reloaded.limits.kept,
                changed = reloaded.limits.changed,
                added = reloaded.limits.added,
                removed = reloaded.limits.removed,
                needs_restart = reloaded.needs_restart.join(", "),
                "the file is in force"
            ),
            Err(error) => tracing::error!(
                "the file is not in force, and the limits before still are: {error}"
            ),
        }
        outcome
    }

    async fn put_in_force(&self, node: &Node, config: Config) -> Result<Reloaded, ReloadError> {
        let needs_restart = self.settled.differing(&Settled::of(&config));
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let now_ns = node.clock().now_ns();
        let limits = node.engine().replace(now_ns, config.plan).await;
        let limits = limits.map_err(ReloadError::Limits)?;
        node.set_mappings(config.envoy);
        node.set_show_keys(config.show_keys);
        if let Some(audit) = node.audit() {
            audit.handle_limits(node.limiter().plan());
        }
        Ok(Reloaded { limits, needs_restart })
    }
}
