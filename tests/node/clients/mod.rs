//! Real programs in front of a node, and real clients of it: none of them is ours.
//!
//! `scripts/doors` brings what they need and runs them. A test whose program is missing says so and is left
//! out; in CI it fails.

mod caddy;
mod contract;
mod envoy;
mod front;
mod haproxy;
mod nginx_lua;
mod redis;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::{HttpConnection, Response, process};

/// The folder of what is brought: beside the programs that are built.
fn folder() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_rlnode"));
    built.ancestors().nth(2).expect("the target folder").join("doors")
}

/// A file below the folder of what is brought; none: it is not there, which is said.
#[track_caller]
fn brought(pattern: &str, what: &str) -> Option<PathBuf> {
    let found = find(&folder(), &pattern.split('/').collect::<Vec<_>>());
    if found.is_none() {
        process::leave_out(&format!("{what} is not here; run scripts/doors"));
    }
    found
}

/// The first path below `folder` that has these names; `*` stands for any one.
fn find(folder: &std::path::Path, names: &[&str]) -> Option<PathBuf> {
    let [name, rest @ ..] = names else { return folder.exists().then(|| folder.to_owned()) };
    if *name != "*" {
        return find(&folder.join(name), rest);
    }
    let entries = std::fs::read_dir(folder).ok()?;
    entries.filter_map(Result::ok).find_map(|entry| find(&entry.path(), rest))
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

/// An application that answers every request with 200 and counts them.
struct Application {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Application {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = Arc::clone(&counted);
                thread::spawn(move || serve(stream, &counted));
            }
        });
        Self { address, requests }
    }

    /// Requests that it was sent since the last call.
    fn seen(&self) -> usize {
        self.requests.swap(0, Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, requests: &AtomicUsize) {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..length]);
        while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            received.drain(..end + 4);
            requests.fetch_add(1, Ordering::SeqCst);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\napplication";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

/// How many answers of `count` GETs of `path` had which of 200, 429 and 5xx, and the last of them.
#[track_caller]
fn flood(front: SocketAddr, path: &str, count: usize) -> ([usize; 3], Response) {
    let mut connection = HttpConnection::tcp(front).expect("the front listens");
    let (mut statuses, mut last) = ([0; 3], None);
    for _ in 0..count {
        let response = connection.get(path);
        match response.status {
            200 => statuses[0] += 1,
            429 => statuses[1] += 1,
            500.. => statuses[2] += 1,
            other => panic!("{other}: {response:?}"),
        }
        if response.header("Connection") == Some("close") {
            connection = HttpConnection::tcp(front).expect("the front listens");
        }
        last = Some(response);
    }
    (statuses, last.expect("an answer"))
}
