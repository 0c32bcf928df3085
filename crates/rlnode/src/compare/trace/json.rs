//! Traces with a JSON object in each line, as nginx and others can write their logs.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::{Call, endpoint_of, moment, path_of};

/// Names under which the parts of a call are sought, in this order.
const TIMES: [&str; 7] =
    ["time", "time_iso8601", "timestamp", "@timestamp", "msec", "ts", "time_local"];
const KEYS: [&str; 4] = ["key", "remote_addr", "client_ip", "remote_ip"];
const ADDRESSES: [&str; 3] = ["remote_addr", "client_ip", "remote_ip"];

/// The call in the line `text`, whose key is its field `key`.
pub(super) fn call(text: &str, key: Option<&str>) -> Result<Call, String> {
    let object: Map<String, Value> =
        serde_json::from_str(text).map_err(|_| "it is no JSON object".to_owned())?;
    let first = |names: &[&str]| names.iter().find_map(|name| text_of(object.get(*name)?));
    let time = first(&TIMES).ok_or_else(|| format!("it has no time; that is one of {TIMES:?}"))?;
    let unix_ns = moment::parse(&time).or_else(|error| moment::parse_log(&time).ok_or(error))?;
    let named = match key {
        Some(name) => first(&[name]).ok_or_else(|| format!("it has no `{name}`"))?,
        None => first(&KEYS).ok_or_else(|| format!("it has no key; that is one of {KEYS:?}"))?,
    };
    let endpoint = match first(&["endpoint"]) {
        Some(endpoint) => endpoint,
        None => match (first(&["request"]), first(&["request_method", "method"])) {
            (Some(request), _) => endpoint_of(&request),
            (None, Some(method)) => {
                let target = first(&["request_uri", "uri", "path"]).unwrap_or_default();
                format!("{method} {}", path_of(&target))
            }
            (None, None) => String::new(),
        },
    };
    let cost = match object.get("cost") {
        None | Some(Value::Null) => 1,
        Some(cost) => cost
            .as_u64()
            .ok_or_else(|| "its cost is not a whole number of at most 64 bits".to_owned())?,
    };
    let is_address = |text: &String| text.parse::<IpAddr>().is_ok();
    let address = first(&ADDRESSES).or_else(|| Some(named.clone()).filter(is_address));
    Ok(Call {
        unix_ns,
        key: named.into_bytes(),
        endpoint: endpoint.into_bytes(),
        cost,
        address: address.unwrap_or_default().into_bytes(),
    })
}

/// A text, or a number as it is written.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_servers_are_known() {
        for (line, ns, key, endpoint) in [
            (
                r#"{"msec":1.5,"remote_addr":"192.0.2.1","request_method":"GET","request_uri":"/a?b"}"#,
                1_500_000_000,
                "192.0.2.1",
                "GET /a",
            ),
            (r#"{"time":"1","key":"alice","endpoint":"login"}"#, 1_000_000_000, "alice", "login"),
            (
                r#"{"time_local":"01/Jan/1970:00:00:02 +0000","client_ip":"::1","request":"GET /"}"#,
                2_000_000_000,
                "::1",
                "GET /",
            ),
        ] {
            let read = call(line, None).expect(line);
            let texts = [read.key, read.endpoint].map(|it| String::from_utf8(it).expect("text"));
            assert_eq!((read.unix_ns, texts), (ns, [key.to_owned(), endpoint.to_owned()]));
        }
    }

    #[test]
    fn any_field_can_be_the_key() {
        let line = r#"{"time":3,"remote_addr":"192.0.2.1","tenant":7,"cost":4}"#;
        let read = call(line, Some("tenant")).expect("a call");
        assert_eq!((read.key.as_slice(), read.address.as_slice()), (&b"7"[..], &b"192.0.2.1"[..]));
        assert_eq!(read.cost, 4);
        assert!(call(line, Some("user")).expect_err("none").contains("`user`"));
    }

    #[test]
    fn what_lacks_a_part_says_which() {
        for (line, lacks) in [
            ("[1]", "object"),
            ("{\"key\":\"a\"}", "time"),
            ("{\"time\":1}", "key"),
            ("{\"time\":\"soon\",\"key\":\"a\"}", "RFC 3339"),
            ("{\"time\":1,\"key\":\"a\",\"cost\":-1}", "cost"),
        ] {
            let error = call(line, None).expect_err(line);
            assert!(error.contains(lacks), "{line}: {error}");
        }
    }
}
