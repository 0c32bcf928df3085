//! Sends 100 calls at 50 a second to a third party that allows no more.
//!
//! ```text
//! cargo run -p rlnode-client --example pacer
//! cargo run -p rlnode-client --example pacer -- --addr 127.0.0.1:7400
//! ```
//!
//! The first paces this process. The second asks the node there before each call, so that any number of
//! these processes are paced together; its file has the limit of `docs/pacing.md`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use client::{Address, Client, Options, Pacer, Rate};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

/// What the third party allows.
const ALLOWED: Rate = Rate { count: 50, period_ns: 1_000_000_000 };
/// A tenth of it, for ten processes that no node answers.
const ALONE: Rate = Rate { count: 5, period_ns: 1_000_000_000 };
const CALLS: u32 = 100;
/// Calls that may wait. One beyond is refused at once, with the time to come back.
const QUEUE_MAX: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let pacer = match address()? {
        None => Pacer::new(ALLOWED, QUEUE_MAX)?,
        Some(address) => {
            let client = Client::new(address, Options::default())?;
            Pacer::of_limit(client, b"POST /webhook", b"partner.example", ALONE, QUEUE_MAX)?
        }
    };
    let began = now();
    let mut calls = JoinSet::new();
    for call in 0..CALLS {
        let pacer = pacer.clone();
        calls.spawn(async move {
            match pacer.acquire().await {
                Ok(()) => send(call, began.elapsed()).await,
                Err(error) => println!("call {call} is not sent: {error}"),
            }
        });
    }
    calls.join_all().await;
    Ok(())
}

/// Stands for the call. It takes longer than the pace, which does not matter: the pace is of beginnings.
async fn send(call: u32, at: Duration) {
    println!("{:>5} ms  call {call}", at.as_millis());
    sleep(Duration::from_millis(30)).await;
}

/// The address behind `--addr`, if it is given.
fn address() -> Result<Option<Address>, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => Ok(None),
        (Some("--addr"), Some(address)) => Ok(Some(address.parse()?)),
        _ => Err("give nothing, or `--addr ADDRESS`".into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "it is only shown")]
fn now() -> Instant {
    Instant::now()
}
