//! What a node wants done.

use std::sync::Arc;

use limiter::Bucket;
use wire::peer::Refusal;

use crate::{LinkId, Note};

/// Which stream of a connection carries a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Everything whose order matters: handshake, batches, acknowledgements, heals, control.
    Ordered,
    /// Snapshots, which are long and must not be waited for.
    Bulk,
}

/// Something that the owner of a [`crate::Cluster`] must do, in the order in which it is given.
#[derive(Debug)]
pub enum Output<W> {
    /// Send this frame. Frames of one link and channel arrive in order, whole, and once, or the link
    /// is closed.
    Send {
        /// The connection.
        link: LinkId,
        /// The stream.
        channel: Channel,
        /// The frame with its header. The same bytes go to every peer that gets them.
        frame: Arc<[u8]>,
    },
    /// Close this connection after what was sent on it; nothing more will be said on it.
    Close {
        /// The connection.
        link: LinkId,
        /// Why, if either side refused the other. [`Refusal::Itself`]: the address is this node's own.
        refusal: Option<Refusal>,
    },
    /// Try the held check again.
    Wake(W),
    /// The node is ready to answer. Said once.
    Ready,
    /// The node has left: everything that could be told was told. Said once; nothing follows.
    Left,
    /// Something that a person may want to know.
    Note(Note),
}

/// What a node wants done, before held checks are looked up.
#[derive(Debug)]
pub(crate) enum Effect {
    Send { link: LinkId, channel: Channel, frame: Arc<[u8]> },
    Close { link: LinkId, refusal: Option<Refusal> },
    Woken(Bucket),
    Ready,
    Left,
    Note(Note),
}
