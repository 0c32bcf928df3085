//! The health service of gRPC: whether the node wants to be asked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{Stream, unfold};
use tonic::Status;

use super::RATE_LIMIT_SERVICE;
use super::messages::{HealthCheckRequest, HealthCheckResponse, Serving};
use crate::node::{Node, Readiness};
use crate::shutdown::{Phase, Shutdown};

/// How often a watcher is told of a change, at most.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What a watcher is sent.
pub(super) type Watched =
    Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

fn is_known(service: &str) -> bool {
    service.is_empty() || service == RATE_LIMIT_SERVICE
}

fn serving(node: &Node) -> Serving {
    match node.readiness() {
        Readiness::Ready => Serving::Serving,
        Readiness::Starting | Readiness::Stopping => Serving::NotServing,
    }
}

/// How the node is now.
pub(super) fn check(
    node: &Node,
    request: &HealthCheckRequest,
) -> Result<HealthCheckResponse, Status> {
    if !is_known(&request.service) {
        return Err(Status::not_found("there is no such service"));
    }
    Ok(HealthCheckResponse { status: serving(node).into() })
}

/// How the node is now, and each time that it is otherwise, until it closes.
pub(super) fn watch(node: Arc<Node>, request: &HealthCheckRequest, shutdown: Shutdown) -> Watched {
    let is_known = is_known(&request.service);
    let told: Option<Serving> = None;
    Box::pin(unfold((node, shutdown, told), move |(node, mut shutdown, told)| async move {
        loop {
            let now = if is_known { serving(&node) } else { Serving::ServiceUnknown };
            if told != Some(now) {
                let response = HealthCheckResponse { status: now.into() };
                return Some((Ok(response), (node, shutdown, Some(now))));
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = shutdown.reached(Phase::Closing) => return None,
            }
        }
    }))
}
