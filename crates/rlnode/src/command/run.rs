//! `rlnode --config FILE`: the node itself.

use std::path::PathBuf;

use clap::Args;

use super::{Output, host};
use crate::config;
use crate::environment;
use crate::exit::Exit;
use crate::log::{self, LogFormat};
use crate::reload::watch::Watcher;
use crate::server::{self, Source};

/// Run the node.
#[derive(Debug, Args)]
pub struct Run {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Name of this node [default: $RLNODE_NODE, else the host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// What is logged, such as `warn` or `info,rlnode=debug` [default: $RLNODE_LOG, else info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How a log line looks
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

impl Run {
    /// Runs the node until it is told to stop.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let filter = self
            .log
            .or_else(|| environment::text(environment::LOG))
            .unwrap_or_else(|| log::DEFAULT_FILTER.to_owned());
        if let Err(error) = log::init(self.log_format, &filter) {
            output.complain(&format_args!(
                "the log filter `{filter}` cannot be read: {error}; give a level, or levels by \
                 part such as `info,rlnode=debug`"
            ));
            return Exit::Error;
        }
        let watcher = Watcher::new(&self.config);
        let loaded = host(self.node).and_then(|host| {
            let config = config::load(&self.config, &host).map_err(|errors| errors.to_string())?;
            Ok((config, host))
        });
        let (config, host) = match loaded {
            Ok(loaded) => loaded,
            Err(errors) => {
                output.complain(&errors);
                return Exit::Refused;
            }
        };
        let source = Source { file: self.config, host, watcher };
        // The default is one worker for each unit of parallelism that the process may use.
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                output.complain(&format_args!("the runtime cannot start: {error}"));
                return Exit::Refused;
            }
        };
        match runtime.block_on(server::run(config, source)) {
            Ok(()) => Exit::Success,
            Err(error) => {
                output.complain(&error);
                Exit::Refused
            }
        }
    }
}
