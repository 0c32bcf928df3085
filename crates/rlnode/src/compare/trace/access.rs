//! Access logs: the common and the combined format of nginx, Apache and others.
//!
//! `192.0.2.1 - alice [01/Dec/2026:00:00:00 +0000] "GET /a?b HTTP/1.1" 200 5 "referer" "agent"`; what
//! follows is not looked at.

use super::{Call, endpoint_of, moment};

/// What can be the key.
const KEYS: &str = "`address`, `user` and `agent`";
/// What is said of a line that is of another kind.
pub(super) const NOT_ONE: &str = "it is no line of an access log";

/// The call in the line `text`, whose key is its field `key`.
pub(super) fn call(text: &str, key: Option<&str>) -> Result<Call, String> {
    let (who, rest) = text.split_once(" [").ok_or(NOT_ONE)?;
    let (time, rest) = rest.split_once("] \"").ok_or(NOT_ONE)?;
    let unix_ns = moment::parse_log(time).ok_or("its time is not as in a common log")?;
    let (request, rest) = quoted(rest).ok_or(NOT_ONE)?;
    let mut words = who.split(' ');
    let address = words.next().unwrap_or_default();
    // Apache writes a virtual host before the address if it is told to.
    let is_address = |word: &str| word.parse::<std::net::IpAddr>().is_ok();
    let second = who.split(' ').nth(1).filter(|word| is_address(word) && !is_address(address));
    let address = second.unwrap_or(address);
    let field = match key {
        None | Some("address") => address,
        Some("user") => who.rsplit(' ').next().unwrap_or_default(),
        Some("agent") => agent(rest).unwrap_or_default(),
        Some(other) => {
            return Err(format!("an access log has no field `{other}`; it has {KEYS}"));
        }
    };
    if field.is_empty() || field == "-" {
        return Err(format!("it has no {}", key.unwrap_or("address")));
    }
    Ok(Call {
        unix_ns,
        key: field.as_bytes().to_vec(),
        endpoint: endpoint_of(request).into_bytes(),
        cost: 1,
        address: address.as_bytes().to_vec(),
    })
}

/// What stands before the next quote that is not escaped, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => return Some((text.get(..place)?, text.get(place + 1..)?)),
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}

/// The second of the two quoted texts after status and size.
fn agent(rest: &str) -> Option<&str> {
    let (_, rest) = rest.split_once('"')?;
    let (_, rest) = quoted(rest)?;
    let (_, rest) = rest.split_once('"')?;
    Some(quoted(rest)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "2001:db8::1 - alice [01/Dec/2026:00:00:00 +0000] \"POST /a\\\"b?c HTTP/1.1\" \
                        200 612 \"https://x/\" \"curl \\\"8\\\"\" 0.003";

    #[test]
    fn the_key_is_the_address_unless_said_otherwise() {
        let key = |key| call(LINE, key).map(|call| String::from_utf8(call.key).expect("text"));
        assert_eq!(key(None), Ok("2001:db8::1".into()));
        assert_eq!(key(Some("user")), Ok("alice".into()));
        assert_eq!(key(Some("agent")), Ok("curl \\\"8\\\"".into()));
        assert!(key(Some("cookie")).expect_err("none").contains("`user`"));
        let read = call(LINE, Some("user")).expect("a call");
        assert_eq!(read.endpoint, b"POST /a\\\"b");
        assert_eq!((read.address.as_slice(), read.cost), (&b"2001:db8::1"[..], 1));
    }

    #[test]
    fn what_has_no_user_has_no_key() {
        let line = "192.0.2.1 - - [01/Dec/2026:00:00:00 +0000] \"-\" 408 0";
        assert_eq!(call(line, Some("user")), Err("it has no user".into()));
        let read = call(line, None).expect("a call");
        assert_eq!((read.key.as_slice(), read.endpoint.len()), (&b"192.0.2.1"[..], 0));
    }

    #[test]
    fn a_virtual_host_before_the_address_is_passed_over() {
        let line = "www.example.org:80 192.0.2.1 - - [01/Dec/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1";
        assert_eq!(call(line, None).expect("a call").key, b"192.0.2.1");
        let named = "client.example.org - - [01/Dec/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1";
        assert_eq!(call(named, None).expect("a call").key, b"client.example.org");
    }

    #[test]
    fn anything_else_is_no_such_line() {
        for line in ["", "a b c", "1,alice", "x [y] \"z\"", "x [01/Dec/2026:00:00:00 +0000] \"GET"]
        {
            assert!(call(line, None).is_err(), "{line}");
        }
    }
}
