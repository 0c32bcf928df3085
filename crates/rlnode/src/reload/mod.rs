//! Reading the file again while the node runs: all of it or nothing, and what came of it.

mod settled;
mod state;
pub mod watch;

use std::fmt;
use std::path::PathBuf;

use limiter::{CARRIED, Plan, ReplaceError, Replaced, Rule};
use tokio::sync::Mutex;

use self::settled::Values;
pub use self::state::{FileState, Pending, Reloads};
use self::watch::{Seen, look};
use crate::config::{self, Config, ConfigErrors};
use crate::node::Node;

/// The file of a node, to be read again.
#[derive(Debug)]
pub struct Reloader {
    file: PathBuf,
    host: config::Node,
    /// What the node was started with, and keeps until it is restarted.
    settled: Values,
    /// A door is open at which calls carry their limits.
    has_carried: bool,
    /// One reload at a time, and what the last left.
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    /// What was read, whatever came of it.
    seen: Seen,
    /// What is in force beside the limits.
    in_force: Values,
}

/// What a reload did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// What became of the limits.
    pub limits: Replaced,
    /// What else changed, by the names of the file.
    pub also_changed: Vec<&'static str>,
    /// Settings that differ from those in force and wait for a restart, by the names of the file.
    pub needs_restart: Vec<&'static str>,
}

/// Why the file is not in force. What was in force still is.
#[derive(Debug)]
pub enum ReloadError {
    /// The file has faults or cannot be read.
    Config(ConfigErrors),
    /// Its limits cannot take the place of those in force while the node runs.
    Limits(ReplaceError),
    /// A limit has the name of the one that the open Redis door needs, or leaves no room for it.
    Carried,
    /// The node was not started from a file.
    NoFile,
    /// The node is stopping.
    Stopping,
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(errors) => errors.fmt(f),
            Self::Limits(error) => error.fmt(f),
            Self::Carried => write!(
                f,
                "the node's Redis door is open until it is restarted, and needs the limit \
                 `{CARRIED}` for itself; give the limit of that name another, or, where there are \
                 too many limits, take one out"
            ),
            Self::NoFile => f.write_str("the node was not started from a file"),
            Self::Stopping => f.write_str("the node is stopping"),
        }
    }
}

impl std::error::Error for ReloadError {}

impl Node {
    /// Reads the file again and puts it in force.
    ///
    /// # Errors
    /// See [`ReloadError`]; nothing is changed.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        match self.reloader() {
            Some(reloader) => reloader.reload(self).await,
            None => Err(ReloadError::NoFile),
        }
    }
}

impl Reloader {
    /// The file that gave `config` to `host`, and was `seen` before it was read.
    pub fn new(file: PathBuf, host: config::Node, config: &Config, seen: Seen) -> Self {
        let last = Last { seen, in_force: Values::while_running(config) };
        Self {
            file,
            host,
            settled: Values::until_restart(config),
            has_carried: config.plan.rules().iter().any(Rule::is_carried),
            last: Mutex::new(last),
        }
    }

    /// The file.
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    /// Reads the file and puts it in force at `node`, as a whole: limits, overrides, lists, what descriptors
    /// of Envoy mean, and where to look for peers. What needs a restart is named.
    ///
    /// # Errors
    /// See [`ReloadError`]; nothing is changed.
    pub async fn reload(&self, node: &Node) -> Result<Reloaded, ReloadError> {
        let mut last = self.last.lock().await;
        let (seen, config) = self.read().await?;
        self.finish(node, &mut last, seen, config).await
    }

    /// The same if the file is still as `settled`, and that is not what was read last. What came of it is
    /// noted at the node.
    pub async fn reload_settled(&self, node: &Node, settled: Seen) {
        let mut last = self.last.lock().await;
        if last.seen == settled {
            return;
        }
        // A file that is being written again is taken when it has settled again.
        if let Ok((seen, config)) = self.read().await
            && seen == settled
        {
            // It is logged, counted and shown.
            let _ = self.finish(node, &mut last, seen, config).await;
        }
    }

    /// What the file is now. It waits for a disk and may be large, so that whoever answers checks does not do
    /// it.
    async fn read(&self) -> Result<(Seen, Result<Config, ConfigErrors>), ReloadError> {
        let (file, host) = (self.file.clone(), self.host.clone());
        let read = tokio::task::spawn_blocking(move || {
            let bytes = config::read(&file);
            let config = bytes.as_ref().map_err(Clone::clone);
            let config = config.and_then(|bytes| config::parse(bytes, &file, &host));
            (look(bytes.ok().as_deref()), config)
        });
        read.await.map_err(|_| ReloadError::Stopping)
    }

    async fn finish(
        &self,
        node: &Node,
        last: &mut Last,
        seen: Seen,
        config: Result<Config, ConfigErrors>,
    ) -> Result<Reloaded, ReloadError> {
        last.seen = seen;
        let outcome = match config {
            Ok(config) => self.put_in_force(node, last, config).await,
            Err(errors) => Err(ReloadError::Config(errors)),
        };
        node.reloads().note(node.clock().now_ns(), crate::clock::unix_ms(), &outcome);
        match &outcome {
            Ok(reloaded) => tracing::info!(
                kept = reloaded.limits.kept,
                changed = reloaded.limits.changed,
                added = reloaded.limits.added,
                removed = reloaded.limits.removed,
                also_changed = reloaded.also_changed.join(", "),
                needs_restart = reloaded.needs_restart.join(", "),
                "the file is in force"
            ),
            Err(error) => tracing::error!(
                "the file is not in force, and the limits before still are: {error}"
            ),
        }
        outcome
    }

    async fn put_in_force(
        &self,
        node: &Node,
        last: &mut Last,
        config: Config,
    ) -> Result<Reloaded, ReloadError> {
        let needs_restart = self.settled.differing(&Values::until_restart(&config));
        let values = Values::while_running(&config);
        let Config { plan, warnings, envoy, show_keys, headers, cluster, .. } = config;
        let plan = self.with_carried(plan)?;
        let now_ns = node.clock().now_ns();
        let limits = node.engine().replace(now_ns, plan).await.map_err(ReloadError::Limits)?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        node.set_mappings(envoy);
        node.set_show_keys(show_keys);
        node.headers().set(headers);
        if let Some(cluster) = cluster {
            node.engine().set_peers(cluster.peers).await;
        }
        if let Some(audit) = node.audit() {
            audit.handle_limits(node.limiter().plan());
        }
        let also_changed = last.in_force.differing(&values);
        last.in_force = values;
        Ok(Reloaded { limits, also_changed, needs_restart })
    }

    /// The plan with the limit that the doors need which are open, whatever the file says of doors.
    fn with_carried(&self, plan: Plan) -> Result<Plan, ReloadError> {
        if !self.has_carried || plan.rules().iter().any(Rule::is_carried) {
            return Ok(plan);
        }
        let is_taken = plan.limits().iter().any(|limit| limit.name == CARRIED);
        let plan = plan.with_carried();
        match !is_taken && plan.rules().iter().any(Rule::is_carried) {
            true => Ok(plan),
            false => Err(ReloadError::Carried),
        }
    }
}
