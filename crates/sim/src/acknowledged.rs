//! How long the batches of one life of a node take to be acknowledged by every other node.

use std::collections::VecDeque;

use wire::peer::{PeerDecoded, PeerFrame, decode_peer};

/// Bytes of the longest acknowledgement: longer frames are not looked into.
const ACK_BYTES_MAX: usize = 24;

/// Batches that some other node has not acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct OpenBatches {
    /// Number of a batch, and when it was sent.
    sent: VecDeque<(u64, u64)>,
    /// By node: the number after the last batch that it has acknowledged.
    next: Vec<u64>,
}

impl OpenBatches {
    /// Those of `node`, one of `nodes`, that has sent none yet.
    pub(crate) fn new(node: usize, nodes: usize) -> Self {
        let mut next = vec![0; nodes];
        // It needs no acknowledgement of its own.
        next[node] = u64::MAX;
        Self { sent: VecDeque::new(), next }
    }

    /// The batch `seq` was sent.
    pub(crate) fn sent(&mut self, seq: u64, now_ns: u64) {
        self.sent.push_back((seq, now_ns));
    }

    /// A frame came from `peer`: the longest time, in ns, after which a batch is now acknowledged by
    /// all; none if there is no such batch.
    pub(crate) fn received(&mut self, peer: usize, frame: &[u8], now_ns: u64) -> Option<u64> {
        if frame.len() > ACK_BYTES_MAX {
            return None;
        }
        let Ok(PeerDecoded::Frame(PeerFrame::Ack { next })) = decode_peer(frame) else {
            return None;
        };
        self.next[peer] = self.next[peer].max(next);
        let by_all = self.next.iter().copied().min().unwrap_or(0);
        let mut longest_ns = None;
        while let Some((_, at_ns)) = self.sent.front().filter(|(seq, _)| *seq < by_all) {
            longest_ns = longest_ns.max(Some(now_ns - at_ns));
            self.sent.pop_front();
        }
        longest_ns
    }

    /// For how long the oldest batch has been open, in ns; 0 if none is.
    pub(crate) fn open_for_ns(&self, now_ns: u64) -> u64 {
        self.sent.front().map_or(0, |(_, at_ns)| now_ns - at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::peer::write_ack;

    fn ack(next: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        write_ack(&mut frame, next);
        frame
    }

    #[test]
    fn a_batch_is_open_until_the_last_node_has_acknowledged_it() {
        let mut open = OpenBatches::new(1, 3);
        open.sent(4, 100);
        open.sent(5, 200);
        assert_eq!(open.received(0, &ack(6), 300), None);
        assert_eq!(open.open_for_ns(350), 250);
        assert_eq!(open.received(2, &ack(5), 400), Some(300));
        assert_eq!(open.open_for_ns(450), 250);
        assert_eq!(open.received(2, &ack(6), 500), Some(300));
        assert_eq!(open.open_for_ns(600), 0);
    }

    #[test]
    fn the_longest_acknowledgement_is_looked_into() {
        assert!(ack(u64::MAX).len() <= ACK_BYTES_MAX);
    }
}
