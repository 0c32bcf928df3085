//! How the two processes of a measurement talk: the sender's asks, that of the peers answers. One line
//! of JSON each, over a unix socket in the folder of the measurement.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::marker::Marker;
use crate::clock;
use crate::failure::Failure;
use crate::process::Process;

const SOCKET: &str = "control";
/// How long the peers may take to link, or an answer may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A question to the process of the peers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// What did the peers use up to now? Answered by a [`Usage`].
    Usage,
    /// When does each peer know of this marker? Answered by [`Seen`].
    Watch(Marker),
}

/// The peers are linked and counted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Whole;

/// What all peers together used and counted since they started.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Usage {
    /// CPU time of the process, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Buckets that found no room to be in motion.
    pub(super) rows_full: u64,
    /// Spends received that found no room.
    pub(super) dropped: u64,
    /// Times that a member lost another.
    pub(super) splits: u64,
}

/// When each peer was first seen to know of a marker, in nanoseconds of the machine's clock; none if
/// some did not come to know of it in time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Seen(pub(super) Option<Vec<u64>>);

/// One end of the line.
#[derive(Debug)]
pub(super) struct Control {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Control {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        let lines = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, lines })
    }

    /// The end of the peers' process.
    ///
    /// # Errors
    /// If nobody listens.
    pub(super) fn connect(folder: &Path) -> Result<Self, Failure> {
        UnixStream::connect(folder.join(SOCKET)).and_then(Self::new).map_err(failed)
    }

    /// Says `message`.
    ///
    /// # Errors
    /// If the other side has gone.
    pub(super) fn say(&mut self, message: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(message).map_err(failed)?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(failed)
    }

    /// Waits for a message; none when the other side has gone.
    ///
    /// # Errors
    /// If it takes too long, where there is a bound, or cannot be read.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let mut line = String::new();
        if self.lines.read_line(&mut line).map_err(failed)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).map_err(failed)
    }

    /// Waits for as long as `time`; true as soon as the other side speaks, or has gone. For when
    /// nothing that it said is left unheard.
    pub(super) fn is_spoken_to_within(&self, time: Duration) -> bool {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut ends = [PollFd::new(&self.stream, PollFlags::IN)];
        poll(&mut ends, Some(&clock::timespec(ns))).is_ok_and(|ready| ready > 0)
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::because("between the processes", error)
}

/// Where the sender's process waits for that of the peers.
#[derive(Debug)]
pub(super) struct Listener(UnixListener);

impl Listener {
    /// Listens in `folder`.
    ///
    /// # Errors
    /// If that is not possible.
    pub(super) fn bind(folder: &Path) -> Result<Self, Failure> {
        let listener = UnixListener::bind(folder.join(SOCKET)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self(listener))
    }

    /// Waits until `process` connects.
    ///
    /// # Errors
    /// If it ends, or does not connect in time.
    pub(super) fn accept(&self, process: &Process) -> Result<Control, Failure> {
        let mut accepted = None;
        process.wait_until(|| {
            accepted = self.0.accept().ok();
            accepted.is_some()
        })?;
        let (stream, _) = accepted.ok_or_else(|| failed("nobody came"))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        Control::new(stream).map_err(failed)
    }
}
