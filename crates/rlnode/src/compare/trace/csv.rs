//! Traces as comma-separated values: `time,key[,endpoint[,cost]]`, with or without a header.

use std::net::IpAddr;

use super::{Call, moment};

/// Most fields of a line that are looked at.
const FIELDS_MAX: usize = 64;

/// Where the parts of a call stand in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    time: usize,
    key: usize,
    endpoint: Option<usize>,
    cost: Option<usize>,
}

impl Columns {
    /// The order of a trace without a header.
    pub(super) fn usual(key: Option<&str>) -> Result<Self, String> {
        match key {
            None | Some("key") => Ok(Self { time: 0, key: 1, endpoint: Some(2), cost: Some(3) }),
            Some(name) => Err(format!("there is no header with a column `{name}`")),
        }
    }

    /// The order that the header `text` says, or why it says none; none if it is no header.
    pub(super) fn of_header(text: &str, key: Option<&str>) -> Option<Result<Self, String>> {
        let names = fields(text).ok()?;
        let place = |name: &str| names.iter().position(|it| it.trim().eq_ignore_ascii_case(name));
        let time = place("time")?;
        let name = key.unwrap_or("key");
        let Some(key) = place(name) else {
            return Some(Err(format!(
                "the header has no column `{name}`; say which it is with `--key NAME`"
            )));
        };
        Some(Ok(Self { time, key, endpoint: place("endpoint"), cost: place("cost") }))
    }

    /// The call in the line `text`.
    pub(super) fn call(&self, text: &str) -> Result<Call, String> {
        let mut fields = fields(text)?;
        let unix_ns = moment::parse(fields.get(self.time).map_or("", String::as_str))?;
        let cost = match self.cost.and_then(|place| fields.get(place)).map(|text| text.trim()) {
            None | Some("") => 1,
            Some(text) => text
                .parse()
                .map_err(|_| "its cost is not a whole number of at most 64 bits".to_owned())?,
        };
        let mut take = |place: usize| fields.get_mut(place).map(std::mem::take).unwrap_or_default();
        let key = take(self.key);
        let endpoint = self.endpoint.map(&mut take).unwrap_or_default();
        let is_address = key.parse::<IpAddr>().is_ok();
        let address = if is_address { key.clone() } else { String::new() };
        Ok(Call {
            unix_ns,
            key: key.into_bytes(),
            endpoint: endpoint.into_bytes(),
            cost,
            address: address.into_bytes(),
        })
    }
}

/// The fields of a line, of which those in quotes may have commas and doubled quotes.
fn fields(text: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = text;
    while fields.len() < FIELDS_MAX {
        let Some(quoted) = rest.strip_prefix('"') else {
            match rest.split_once(',') {
                Some((field, after)) => {
                    fields.push(field.to_owned());
                    rest = after;
                    continue;
                }
                None => {
                    fields.push(rest.to_owned());
                    break;
                }
            }
        };
        let mut field = String::new();
        let mut after = quoted;
        loop {
            let (part, more) =
                after.split_once('"').ok_or("a field begins with a quote and has no end")?;
            field.push_str(part);
            match more.strip_prefix('"') {
                Some(more) => {
                    field.push('"');
                    after = more;
                }
                None => {
                    after = more;
                    break;
                }
            }
        }
        fields.push(field);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => break,
            None => return Err("there is text between a quote and the next comma".into()),
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_where_things_are() {
        let header = "cost, Time ,x,key,client";
        let columns = Columns::of_header(header, None).expect("a header").expect("columns");
        let call = columns.call("7,5,ignored,alice,192.0.2.9").expect("a call");
        assert_eq!((call.unix_ns, call.key.as_slice()), (5_000_000_000, &b"alice"[..]));
        assert_eq!((call.cost, call.endpoint.len(), call.address.len()), (7, 0, 0));
        let columns =
            Columns::of_header(header, Some("client")).expect("a header").expect("columns");
        let call = columns.call(",5,,,192.0.2.9").expect("a call");
        assert_eq!((call.key.as_slice(), call.cost), (&b"192.0.2.9"[..], 1));
        assert_eq!(call.address, b"192.0.2.9", "an address is one wherever it stands");
        assert!(Columns::of_header(header, Some("user")).is_some_and(|it| it.is_err()));
        assert_eq!(Columns::of_header("5,alice", None), None);
        assert_eq!(Columns::of_header("\"time,key", None), None);
    }

    #[test]
    fn quotes_keep_commas_together() {
        let parse = |text: &str| fields(text).expect(text);
        assert_eq!(parse("a,\"b,\"\"c\"\"\",d"), ["a", "b,\"c\"", "d"]);
        assert_eq!(parse("\"\",,"), ["", "", ""]);
        assert_eq!(parse("5,\"a\""), ["5", "a"]);
        for text in ["\"a", "\"a\"b,c", "a,\""] {
            assert!(fields(text).is_err(), "{text}");
        }
        assert_eq!(parse(&",".repeat(1_000)).len(), FIELDS_MAX);
    }

    #[test]
    fn costs_are_whole_numbers_and_one_where_nothing_is_said() {
        let columns = Columns::usual(None).expect("the usual");
        let cost = |text: &str| columns.call(text).map(|call| call.cost);
        assert_eq!([cost("1,a"), cost("1,a,/x"), cost("1,a,/x,")], [Ok(1), Ok(1), Ok(1)]);
        assert_eq!(cost("1,a,/x,18446744073709551615"), Ok(u64::MAX));
        for text in ["1,a,/x,-1", "1,a,/x,1.5", "1,a,/x,18446744073709551616"] {
            assert!(cost(text).is_err(), "{text}");
        }
    }
}
