//! What happened at the edges of a client, since it was made.

/// What a client dropped, lost or answered itself, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Replies to a question that nobody waited for any more: late, or sent twice.
    pub late_replies: u64,
    /// Replies with an id that this client never used.
    pub unknown_replies: u64,
    /// Messages that are no reply.
    pub malformed_replies: u64,
    /// Connections that could not be opened, or broke.
    pub failed_connections: u64,
    /// Checks answered by [`OnSilence`](crate::OnSilence).
    pub fallback_answers: u64,
}

impl Counts {
    /// Counts a reply that nobody waits for. True if its id `was_issued` by this client.
    pub(crate) fn count_stray(&mut self, was_issued: bool) -> bool {
        if was_issued {
            self.late_replies += 1;
        } else {
            self.unknown_replies += 1;
        }
        was_issued
    }
}
