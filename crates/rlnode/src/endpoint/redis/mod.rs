//! The Redis protocol.

use std::sync::Arc;

use super::accept::{Listener, serve_connections};
use crate::door::Door;
use crate::node::Node;
use crate::shutdown::Shutdown;

/// Serves `listener` until `shutdown` says to close and what was received is answered.
pub(super) async fn serve<L: Listener>(listener: L, node: Arc<Node>, shutdown: Shutdown) {
    serve_connections(
        listener,
        Door::Redis,
        node,
        shutdown,
        |connection, _node, _shutdown| async {
            drop(connection);
        },
    )
    .await;
}
