//! The client of rlnode: asks the node on this host whether a request may go on.
//!
//! [`Client`] is for tokio: cheap to clone, with many checks in flight on one socket.
//! [`blocking::Client`] is for one thread and needs no runtime. Both speak the local frame over UDP,
//! unix stream and unix seqpacket, and both answer within the time-out whether or not the node does.
//! This crate decides nothing itself, except from the [`OnSilence::Local`] limiter it is given.
#![doc = include_str!("../README.md")]

pub mod address;
mod answer;
mod backoff;
pub mod blocking;
mod client;
mod clock;
mod counts;
mod driver;
mod error;
mod fallback;
mod inbound;
mod options;
mod pacer;
mod question;
mod reconnect;
mod transport;
mod window;

pub use address::{Address, AddressError, Environment};
pub use answer::{Answer, Detail, Silence, Source};
pub use backoff::Backoff;
pub use client::Client;
pub use counts::Counts;
pub use error::Error;
pub use limiter::{self, Freshness, Rate, Reason, Request};
pub use options::{DEFAULT_TIMEOUT, NODE_MAX_WAIT, OnSilence, Options, OptionsError, TIMEOUT_MAX};
pub use pacer::{AcquireError, DENIED_MAX, Pacer, PacerError};
pub use window::FRAMES_IN_FLIGHT_MAX;
pub use wire::{ErrorCode, Status, WriteError};
