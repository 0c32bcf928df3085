//! What the tests are made of: a node as a process, callers at its doors, and what it says of itself.

pub(crate) mod algorithm;
pub(crate) mod answer;
pub(crate) mod caller;
pub(crate) mod config;
pub(crate) mod fleet;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod noise;
pub(crate) mod process;
pub(crate) mod resp;
pub(crate) mod time;

pub(crate) use answer::{Answer, Refusal};
pub(crate) use caller::{Caller, Surface, check, frame_of};
pub(crate) use config::Config;
pub(crate) use fleet::Fleet;
pub(crate) use http::{HttpConnection, Response};
pub(crate) use load::Load;
pub(crate) use metrics::Metrics;
pub(crate) use network::Network;
pub(crate) use node::{Node, Place};
pub(crate) use noise::Noise;
pub(crate) use process::{Ended, run, run_in};
pub(crate) use time::{Stopwatch, pause, wait_until};
