//! `rlnode explain [LIMIT]`: the limits of a file in words, with live figures if a node answers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::status::{fetch, limit_in_words};
use super::{Output, load_config, words};
use crate::config::{self, Config, Measured};
use crate::endpoint::http::cluster_status::ClusterStatus;
use crate::endpoint::http::status::Status;
use crate::exit::Exit;
use crate::proof::{slowest, warning_of_distance};

/// Say in words what matches what, and how much it lets through
#[derive(Debug, Args)]
pub struct Explain {
    /// Name of one limit, or of an override as LIMIT/OVERRIDE
    limit: Option<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Name of the node that would read it [default: $RLNODE_NODE, else the host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Node to take live figures from: HOST:PORT of its HTTP, or the path of its socket [default:
    /// $RLNODE_ADDR, else the default sockets]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
}

impl Explain {
    /// Prints the words, and the figures if there are any.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let config = match load_config(&self.config, self.node) {
            Ok(config) => config,
            Err(errors) => {
                output.complain(&errors);
                return Exit::Refused;
            }
        };
        let status = fetch(self.addr.as_deref());
        let measured = status.as_ref().ok().and_then(|status| measured_by(status, &config));
        match config::explain_measured(&config, self.limit.as_deref(), measured.as_ref()) {
            Ok(text) => output.say(&text.trim_end()),
            Err(unknown) => {
                output.complain(&unknown);
                return Exit::Refused;
            }
        }
        match status {
            Ok(status) => {
                let uptime = Duration::from_millis(status.uptime_ms);
                output.say(&format_args!(
                    "\nnode {}, in {}:",
                    status.node,
                    words::wait(Some(uptime))
                ));
                if let Some(warning) = status.cluster.as_ref().and_then(distance_in_words) {
                    output.say(&format_args!("  warning: {warning}"));
                }
                let wanted = |name: &str| {
                    self.limit
                        .as_deref()
                        .is_none_or(|limit| name == limit || name.split('/').next() == Some(limit))
                };
                for limit in status.limits.iter().filter(|limit| wanted(&limit.name)) {
                    output.say(&format_args!("  {}", limit_in_words(limit)));
                }
            }
            Err(error) if self.addr.is_some() => {
                output.complain(&error);
                return Exit::Error;
            }
            // Nobody asked for a node, and none is there: the words are the answer.
            Err(_) => {}
        }
        Exit::Success
    }
}

/// What the node that answered knows of the cluster of `config`; none: it is in another, or in none.
fn measured_by(status: &Status, config: &Config) -> Option<Measured> {
    let of_file = config.cluster.as_ref()?;
    let cluster = status.cluster.as_ref().filter(|cluster| cluster.name == of_file.name)?;
    Some(Measured {
        node: status.node.clone(),
        members: usize::try_from(cluster.members).ok()?,
        round_trip_us: cluster.peers.iter().filter_map(|peer| peer.rtt_us).max(),
    })
}

/// What is to be known of a member that is too far away for checks to wait for it.
pub(super) fn distance_in_words(cluster: &ClusterStatus) -> Option<String> {
    let peers = cluster.peers.iter();
    let named = peers.filter_map(|peer| Some((peer.name.as_deref()?, peer.rtt_us)));
    warning_of_distance(slowest(named))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scripted::Scripted;

    fn config(cluster: &str) -> Config {
        let node = config::Node { name: "a".into(), environment: client::Environment::default() };
        let text = format!("[[limit]]\nname = \"l\"\nrate = \"10/s\"\n{cluster}");
        config::parse(text.as_bytes(), Path::new("c.toml"), &node).expect("a sound file")
    }

    fn member_of(name: &str) -> Config {
        config(&format!(
            "[cluster]\nname = \"{name}\"\nlisten = \"127.0.0.1:7401\"\npeers = [\"a:7401\"]\n\
             tls = {{ ca = \"ca.pem\", cert = \"a.pem\", key = \"a.key\" }}\n"
        ))
    }

    #[tokio::test]
    async fn only_a_node_of_the_same_cluster_says_what_its_bounds_depend_on() {
        let (node, _) = Scripted::node(10);
        let status = Status::of(&node).await;
        let measured = measured_by(&status, &member_of("edge")).expect("it is the same cluster");
        let want = Measured { node: "test".into(), members: 3, round_trip_us: Some(400) };
        assert_eq!(measured, want);
        assert_eq!(measured_by(&status, &member_of("other")), None);
        assert_eq!(measured_by(&status, &config("")), None);
        let alone = Status::of(&crate::node::Node::with_burst(1)).await;
        assert_eq!(measured_by(&alone, &member_of("edge")), None);
    }
}
