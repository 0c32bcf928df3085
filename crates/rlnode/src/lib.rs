//! The daemon `rlnode`: its doors, its configuration file and its commands, around the limiter.
//!
//! It is a library so that tests and fuzz targets can reach the parts; the binary is `main.rs`.
//! Decisions are made by the crate `limiter`, bytes are read and written by the crate `wire`.

pub mod admin;
pub mod audit;
pub mod bind;
pub mod certificate;
pub mod cli;
pub mod clock;
pub mod command;
pub mod compare;
pub mod config;
pub mod counters;
pub mod demo;
pub mod door;
pub mod endpoint;
pub mod engine;
pub mod environment;
pub mod exit;
pub mod frame;
pub mod histogram;
pub mod holder;
pub mod import;
pub mod log;
pub mod metrics;
pub mod node;
pub mod operation;
pub mod proof;
pub mod refusals;
pub mod reload;
#[cfg(test)]
mod scripted;
pub mod server;
pub mod shutdown;
pub mod socket_file;
pub mod waiting;
