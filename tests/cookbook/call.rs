//! A call of the cookbook: ``5 × `debit POST /chat key=acme plan=pro tokens:1200` ``.

use limiter::{Op, Request};

/// Who asks where a call names no key: limits that have `{key}` in their key say which they mean.
const ANYONE: &str = "anyone";

/// What a row asks, and how often.
#[derive(Debug)]
pub(crate) struct Call<'d> {
    pub(crate) times: u32,
    op: Op,
    endpoint: &'d str,
    key: &'d str,
    attributes: Vec<(&'d str, &'d str)>,
    costs: Vec<(&'d str, u64)>,
}

impl<'d> Call<'d> {
    pub(crate) fn read(text: &'d str) -> Result<Self, String> {
        let (times, quoted) = match text.split_once(" × ") {
            None => (1, text),
            Some((times, quoted)) => {
                (times.parse().map_err(|_| format!("`{times}` is no number of calls"))?, quoted)
            }
        };
        let quoted = quoted.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        let call = quoted.ok_or("a call stands in backticks")?;
        let (op, call) = operation(call);
        let mut words = call.split(' ').filter(|word| parameter(word).is_some());
        let endpoint = match words.next() {
            None => call,
            Some(first) => {
                // It is a part of `call`, so the distance of their beginnings is where it stands.
                let at = first.as_ptr().addr() - call.as_ptr().addr();
                call[..at].trim_end()
            }
        };
        let mut read =
            Self { times, op, endpoint, key: ANYONE, attributes: Vec::new(), costs: Vec::new() };
        for word in call[endpoint.len()..].split_whitespace() {
            match parameter(word) {
                None => return Err(format!("`{word}` is neither `name=value` nor `unit:cost`")),
                Some(Parameter::Attribute("key", key)) => read.key = key,
                Some(Parameter::Attribute(name, value)) => read.attributes.push((name, value)),
                Some(Parameter::Cost(unit, cost)) => read.costs.push((unit, cost)),
            }
        }
        Ok(read)
    }

    /// The request, which asks for every limit that applies.
    pub(crate) fn request(&self) -> Request<'d> {
        let mut request =
            Request::check(self.endpoint.as_bytes(), self.key.as_bytes()).with_op(self.op);
        for (name, value) in &self.attributes {
            request = request.with_attribute(name.as_bytes(), value.as_bytes());
        }
        for (unit, cost) in &self.costs {
            request = request.with_unit_cost(unit.as_bytes(), *cost);
        }
        request.details = true;
        request
    }
}

fn operation(call: &str) -> (Op, &str) {
    let words = [("peek ", Op::Peek), ("debit ", Op::Debit), ("refund ", Op::Refund)];
    let found = words.iter().find_map(|(word, op)| Some((*op, call.strip_prefix(word)?)));
    found.unwrap_or((Op::Check, call))
}

enum Parameter<'d> {
    Attribute(&'d str, &'d str),
    Cost(&'d str, u64),
}

fn parameter(word: &str) -> Option<Parameter<'_>> {
    if let Some((name, value)) = word.split_once('=') {
        return Some(Parameter::Attribute(name, value));
    }
    let (unit, cost) = word.split_once(':')?;
    Some(Parameter::Cost(unit, cost.parse().ok()?))
}

#[test]
fn calls_are_read_as_written() {
    let text = "3 × `debit POST /chat key=acme ip=2001:db8::1 tokens:12`";
    let call = Call::read(text).expect("a call");
    assert_eq!((call.times, call.op, call.endpoint), (3, Op::Debit, "POST /chat"));
    assert_eq!((call.key, call.attributes), ("acme", vec![("ip", "2001:db8::1")]));
    assert_eq!(call.costs, [("tokens", 12)]);
    let call = Call::read("`GET /`").expect("a call");
    assert_eq!((call.times, call.op, call.endpoint, call.key), (1, Op::Check, "GET /", ANYONE));
    assert!(Call::read("x × `GET /`").is_err_and(|error| error.contains("`x`")));
}
