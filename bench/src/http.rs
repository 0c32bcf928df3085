//! One question over HTTP, with a connection of its own: for what a node tells about itself, not for
//! load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a node may take to answer over HTTP.
const HTTP_WITHIN: Duration = Duration::from_secs(2);
/// Longest answer over HTTP that is read.
const HTTP_BYTES_MAX: u64 = 1 << 20;

/// Asks for `path`, and returns the status and the body.
///
/// # Errors
/// If nobody answers, or what comes back is no response.
pub(crate) fn http_get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, HTTP_WITHIN)?;
    stream.set_read_timeout(Some(HTTP_WITHIN))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: rlnode\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.take(HTTP_BYTES_MAX).read_to_string(&mut response)?;
    split_response(&response).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

fn split_response(response: &str) -> Option<(u16, String)> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let code = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_split_into_status_and_body() {
        let response = "HTTP/1.1 503 Service Unavailable\r\na: b\r\n\r\nstarting\n";
        assert_eq!(split_response(response), Some((503, "starting\n".into())));
        assert_eq!(split_response("SSH-2.0\r\n\r\n"), None);
    }
}
