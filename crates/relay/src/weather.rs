//! What a direction does to the datagrams that go its way, and what it has done.

use std::time::Duration;

/// What one direction does to datagrams. The default is fair weather: everything passes at once and
/// in order.
///
/// Shares are in parts per million of the datagrams; 1,000,000 and above means all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Every datagram takes this long.
    pub delay: Duration,
    /// Further time, different for each datagram, from nothing to this. It reorders nothing: a
    /// datagram that would overtake another leaves right after it.
    pub jitter: Duration,
    /// Share that is lost.
    pub loss_ppm: u32,
    /// Share of which a copy follows.
    pub duplicate_ppm: u32,
    /// Share that is held back by up to one `delay` and 1 ms more, so that later ones overtake it.
    pub reorder_ppm: u32,
}

/// What became of the datagrams of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed on, copies included.
    pub forwarded: u64,
    /// Bytes of payload of those.
    pub bytes: u64,
    /// Lost by the weather.
    pub lost: u64,
    /// Dropped because the direction was cut, when they came or when they were to leave.
    pub cut: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Held back so that others could overtake.
    pub reordered: u64,
    /// Dropped because too many were waiting to leave, or the system refused to take them.
    pub crowded_out: u64,
}
