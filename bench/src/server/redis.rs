//! redis-server with a token bucket in a script, on free sockets and without persistence.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Endpoints, Limit, Running, Server};
use crate::driver::codec::resp::{Reply, read_reply, write_command};
use crate::driver::codec::{Bucket, Codec};
use crate::driver::{Address, Endpoint};
use crate::failure::Failure;
use crate::pin::CpuList;
use crate::process::{Folder, Process, free_tcp_port};

/// The script that every check runs.
const SCRIPT: &str = include_str!("token_bucket.lua");
/// How long redis may take to answer a command of the preparation.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Longest reply to such a command.
const REPLY_BYTES_MAX: usize = 4096;

/// Where redis listens, and the script that it holds.
#[derive(Debug)]
pub(super) struct Doors {
    tcp: SocketAddr,
    unix: PathBuf,
    bucket: Bucket,
}

impl Doors {
    pub(super) fn endpoint(&self, is_unix: bool) -> Endpoint {
        let address =
            if is_unix { Address::Unix(self.unix.clone()) } else { Address::Tcp(self.tcp) };
        Endpoint { address, codec: Codec::Redis(self.bucket.clone()) }
    }
}

impl Server {
    /// Starts `program` on `cpus` and loads the script into it.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub(crate) fn start_redis(
        program: &Path,
        cpus: Option<&CpuList>,
        limit: Limit,
    ) -> Result<Self, Failure> {
        Self::start_redis_with(program, cpus, |digest| {
            Bucket::new(digest, limit.period_ms, limit.burst)
        })
    }

    /// The same with the bucket that `bucket` makes of the script's digest.
    ///
    /// # Errors
    /// As [`Server::start_redis`].
    pub(crate) fn start_redis_with(
        program: &Path,
        cpus: Option<&CpuList>,
        bucket: impl FnOnce(&str) -> Bucket,
    ) -> Result<Self, Failure> {
        // It is started from another folder; a bare name is looked up in the PATH.
        let absolute = program.components().count() > 1;
        let program = if absolute { std::path::absolute(program) } else { Ok(program.into()) }
            .map_err(|error| Failure::because("cannot find redis", error))?;
        let version = version(&program)?;
        let folder = Folder::new()?;
        let port = free_tcp_port()?;
        let unix = folder.path().join("redis.sock");
        let mut command = Command::new(&program);
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .arg("--unixsocket")
            .arg(&unix)
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(folder.path());
        let process = Process::start("redis", &mut command, &folder, cpus)?;
        process.wait_until(|| ask(&unix, &[b"PING"]).is_ok_and(|reply| reply == b"PONG"))?;
        let digest = ask(&unix, &[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()])
            .map_err(|error| Failure::because("redis does not take the script", error))?;
        let digest = String::from_utf8_lossy(&digest).into_owned();
        let bucket = bucket(&digest);
        let tcp = SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Self {
            name: "redis",
            version,
            process: Running::Started { process, _folder: folder },
            endpoints: Endpoints::Redis(Doors { tcp, unix, bucket }),
        })
    }
}

/// The version that `program` tells.
fn version(program: &Path) -> Result<String, Failure> {
    let fail =
        |error: String| Failure::because(format!("cannot run `{}`", program.display()), error);
    let output = Command::new(program)
        .arg("--version")
        .output()
        .map_err(|error| fail(format!("{error}; install redis-server, or leave out --redis")))?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| fail("it does not tell its version".into()))
}

/// The version in `Redis server v=7.0.15 sha=...`.
fn parse_version(text: &str) -> Option<String> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix("v=")).map(str::to_owned)
}

/// Sends one command, and returns the text of the reply.
fn ask(unix: &Path, words: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(unix)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut command = Vec::new();
    write_command(&mut command, words);
    stream.write_all(&command)?;
    let mut bytes = [0; REPLY_BYTES_MAX];
    let mut received = 0;
    loop {
        match stream.read(&mut bytes[received..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => received += more,
        }
        match read_reply(&bytes[..received]).map_err(io::Error::other)? {
            None => {}
            Some((Reply::Text(text), _)) => return Ok(text.to_vec()),
            Some((Reply::Error(text), _)) => {
                return Err(io::Error::other(String::from_utf8_lossy(text).into_owned()));
            }
            Some(_) => return Err(io::Error::other("it answers with something else than text")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_word_after_v() {
        let text = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n";
        assert_eq!(parse_version(text).as_deref(), Some("7.0.15"));
        assert_eq!(parse_version("redis"), None);
    }

    #[test]
    fn a_program_that_is_not_installed_is_named() {
        let error = version(Path::new("/nonexistent/redis-server")).unwrap_err().to_string();
        assert!(error.contains("`/nonexistent/redis-server`"), "{error}");
        assert!(error.contains("--redis"), "{error}");
    }
}
