//! A few whole nodes, with real limiters, that talk to each other through real frames.

mod acts;
mod bounds;
mod clocks;
mod counting;
mod exchange;
mod handshake;
mod joining;
mod lives;
mod membership;
mod network;
mod operations;
mod renewing;
mod splitting;
mod storm;
