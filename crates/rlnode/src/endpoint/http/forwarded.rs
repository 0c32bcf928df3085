//! The question of `GET /v1/auth`: what a gateway forwards, in the query or in headers.
//!
//! Parsing is pure. What both give is refused: a gateway that sends its clients' query along would let them say
//! who they are.

use std::borrow::Cow;

use axum::http::{HeaderMap, StatusCode};
use limiter::{ATTRIBUTES_MAX, COSTS_MAX, DEFAULT_UNIT, Op};

use super::question::{MAX_WAIT_MS_MAX, Question, QuestionError, key_of, too_many};

const METHOD: &str = "x-forwarded-method";
const URI: &str = "x-forwarded-uri";
const KEY: &str = "x-ratelimit-key";
const ENDPOINT: &str = "x-ratelimit-endpoint";
const COST: &str = "x-ratelimit-cost";
/// The rest of the header's name is the attribute's, in lower case as HTTP/2 has it.
const ATTRIBUTE_PREFIX: &str = "x-ratelimit-attribute-";

/// A gateway's question and how it wants a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The question; details are asked for, since the headers list every limit.
    pub question: Question,
    /// Status of a denial: 429, or 403 for gateways that know no other.
    pub denied: StatusCode,
}

/// Reads the question from the query of the URL, without its `?`, and from the headers.
///
/// The query is percent-decoded once, `+` being a space; headers are taken as they are. The endpoint
/// is `endpoint` or `X-RateLimit-Endpoint`, else made of `X-Forwarded-Method` and the path of
/// `X-Forwarded-Uri`, as in `GET /search`.
///
/// # Errors
/// If there is no key, a parameter is unknown, or a number or bound does not hold.
pub fn parse_forwarded(query: &str, headers: &HeaderMap) -> Result<Forwarded, QuestionError> {
    let written = Written::from_query(query)?;
    let header = |name| once(headers, name);
    let has_key = written.key.is_some() || written.key_b64.is_some();
    if has_key && headers.contains_key(KEY) {
        return Err(given_twice("the key", KEY));
    }
    let key = key_of(written.key.or(header(KEY)?), written.key_b64.as_deref())?;
    let endpoint = match (written.endpoint, header(ENDPOINT)?) {
        (Some(_), Some(_)) => return Err(given_twice("the endpoint", ENDPOINT)),
        (Some(endpoint), None) | (None, Some(endpoint)) => endpoint,
        (None, None) => forwarded_endpoint(header(METHOD)?, header(URI)?),
    };
    let cost = match (written.cost, header(COST)?) {
        (Some(_), Some(_)) => return Err(given_twice("the cost", COST)),
        (cost, other) => cost.or(other),
    };
    let cost = cost.map(|text| parse_cost(&text)).transpose()?;
    let mut costs = written.costs;
    if let Some(cost) = cost {
        costs.push((DEFAULT_UNIT.as_bytes().to_vec(), cost));
    }
    if costs.len() > COSTS_MAX {
        return Err(too_many("costs", costs.len(), COSTS_MAX));
    }
    let attributes = with_header_attributes(written.attributes, headers)?;
    if attributes.len() > ATTRIBUTES_MAX {
        return Err(too_many("attributes", attributes.len(), ATTRIBUTES_MAX));
    }
    let question = Question {
        op: Op::Check,
        endpoint,
        key,
        attributes,
        costs,
        max_wait_ms: written.max_wait_ms,
        details: true,
    };
    Ok(Forwarded { question, denied: written.denied.unwrap_or(StatusCode::TOO_MANY_REQUESTS) })
}

/// Reads the question of `GET /v1/why` from the query of the URL, without its `?`: that of a gateway, of
/// which nothing stands in a header.
///
/// # Errors
/// As [`parse_forwarded`], and if it says how a denial is told or how long to wait.
pub(super) fn parse_why(query: &str) -> Result<Question, QuestionError> {
    let written = Written::from_query(query)?;
    if written.denied.is_some() || written.max_wait_ms.is_some() {
        let why = "`deny` and `max_wait_ms` are of a question that is decided; leave them out";
        return Err(QuestionError::new(why));
    }
    Ok(parse_forwarded(query, &HeaderMap::new())?.question)
}

/// The query as written.
#[derive(Default)]
struct Written {
    endpoint: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    key_b64: Option<String>,
    cost: Option<Vec<u8>>,
    costs: Vec<(Vec<u8>, u64)>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    max_wait_ms: Option<u64>,
    denied: Option<StatusCode>,
}

impl Written {
    fn from_query(query: &str) -> Result<Self, QuestionError> {
        let mut written = Self::default();
        written.read_query(query)?;
        Ok(written)
    }

    fn read_query(&mut self, query: &str) -> Result<(), QuestionError> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name);
            let value = decoded(value).into_owned();
            let shown = String::from_utf8_lossy(&name).into_owned();
            let is_new = match &*name {
                b"endpoint" => self.endpoint.replace(value).is_none(),
                b"key" => self.key.replace(value).is_none(),
                b"key_b64" => {
                    let text = String::from_utf8(value)
                        .map_err(|_| QuestionError::new("`key_b64` is not base64"))?;
                    self.key_b64.replace(text).is_none()
                }
                b"cost" => self.cost.replace(value).is_none(),
                b"max_wait_ms" => self.max_wait_ms.replace(parse_max_wait(&value)?).is_none(),
                b"deny" => self.denied.replace(parse_denied(&value)?).is_none(),
                other => {
                    if let Some(name) = other.strip_prefix(b"attr.") {
                        push_new(&mut self.attributes, name, value)
                    } else if let Some(unit) = other.strip_prefix(b"cost.") {
                        push_new(&mut self.costs, unit, parse_cost(&value)?)
                    } else {
                        return Err(QuestionError::new(format!(
                            "unknown parameter `{shown}`; there are endpoint, key, key_b64, cost, \
                             cost.UNIT, attr.NAME, max_wait_ms and deny"
                        )));
                    }
                }
            };
            if !is_new {
                return Err(QuestionError::new(format!("`{shown}` is there twice; send it once")));
            }
        }
        Ok(())
    }
}

/// Adds `name`; false if it is there already.
fn push_new<T>(pairs: &mut Vec<(Vec<u8>, T)>, name: &[u8], value: T) -> bool {
    let is_new = pairs.iter().all(|(known, _)| known != name);
    pairs.push((name.to_vec(), value));
    is_new
}

/// What the query says and a header does too.
fn given_twice(what: &str, header: &str) -> QuestionError {
    QuestionError::new(format!(
        "{what} is in the query and in the header `{header}`; leave one out, and let no client's query through"
    ))
}

/// Names and values.
type Named = Vec<(Vec<u8>, Vec<u8>)>;

/// The value of a header that may be there once: of two, one may be the client's.
fn once(headers: &HeaderMap, name: &str) -> Result<Option<Vec<u8>>, QuestionError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.as_bytes().to_vec());
    match values.next() {
        None => Ok(first),
        Some(_) => Err(QuestionError::new(format!(
            "the header `{name}` is there twice; set it in place of what the client sends"
        ))),
    }
}

/// Adds the attributes of the headers.
fn with_header_attributes(
    mut attributes: Named,
    headers: &HeaderMap,
) -> Result<Named, QuestionError> {
    for header in headers.keys() {
        let Some(name) = header.as_str().strip_prefix(ATTRIBUTE_PREFIX) else { continue };
        if attributes.iter().any(|(known, _)| known == name.as_bytes()) {
            return Err(given_twice("an attribute", header.as_str()));
        }
        let value = once(headers, header.as_str())?.unwrap_or_default();
        attributes.push((name.as_bytes().to_vec(), value));
    }
    Ok(attributes)
}

/// `METHOD PATH` from what a gateway forwards; whichever is missing is left out.
fn forwarded_endpoint(method: Option<Vec<u8>>, uri: Option<Vec<u8>>) -> Vec<u8> {
    let path = uri.map(|mut uri| {
        uri.truncate(uri.iter().position(|byte| *byte == b'?').unwrap_or(uri.len()));
        uri
    });
    match (method, path) {
        (Some(method), Some(path)) => [method, path].join(&b' '),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => Vec::new(),
    }
}

fn parse_cost(text: &[u8]) -> Result<u64, QuestionError> {
    parse_whole(text, "the cost", u64::MAX)
}

fn parse_max_wait(text: &[u8]) -> Result<u64, QuestionError> {
    parse_whole(text, "`max_wait_ms`", MAX_WAIT_MS_MAX)
}

fn parse_whole(text: &[u8], what: &str, max: u64) -> Result<u64, QuestionError> {
    let is_whole = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(text).ok().filter(|_| is_whole);
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number <= max);
    number.ok_or_else(|| {
        let shown = String::from_utf8_lossy(text);
        let shown = shown.escape_debug();
        QuestionError::new(format!("{what} `{shown}` is not a whole number from 0 to {max}"))
    })
}

fn parse_denied(text: &[u8]) -> Result<StatusCode, QuestionError> {
    match text {
        b"429" => Ok(StatusCode::TOO_MANY_REQUESTS),
        b"403" => Ok(StatusCode::FORBIDDEN),
        _ => Err(QuestionError::new("`deny` is the status of a denial: 429 or 403")),
    }
}

/// Percent-decodes once. A `%` that is not followed by two hexadecimal digits stands for itself.
fn decoded(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(bytes);
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [byte, tail @ ..] = rest {
        let (byte, tail) = match (byte, tail) {
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (b'%', tail),
            },
            (b'+', tail) => (b' ', tail),
            (byte, tail) => (*byte, tail),
        };
        decoded.push(byte);
        rest = tail;
    }
    Cow::Owned(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    type Pairs<'p> = &'p [(&'static str, &'static [u8])];

    fn headers(pairs: Pairs<'_>) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let value = HeaderValue::from_bytes(value).expect("a header's value");
                (HeaderName::from_static(name), value)
            })
            .collect()
    }

    fn parsed(query: &str, pairs: Pairs<'_>) -> Forwarded {
        parse_forwarded(query, &headers(pairs)).expect(query)
    }

    fn refusal(query: &str) -> String {
        parse_forwarded(query, &HeaderMap::new()).expect_err(query).message
    }

    #[test]
    fn the_query_is_decoded_once() {
        let question = parsed("key=a%3Ab+c%2Bd%252F&endpoint=GET%20/x", &[]).question;
        assert_eq!(question.key, b"a:b c+d%2F");
        assert_eq!(question.endpoint, b"GET /x");
    }

    #[test]
    fn keys_are_bytes_in_the_query_and_in_headers() {
        assert_eq!(parsed("key=%ff%00", &[]).question.key, b"\xff\x00");
        assert_eq!(parsed("key_b64=/w==", &[]).question.key, b"\xff");
        assert_eq!(parsed("", &[(KEY, b"\xff%2F")]).question.key, b"\xff%2F");
        assert_eq!(parsed("key=100%&cost=1", &[]).question.key, b"100%");
        assert_eq!(parsed("key=%zz%4", &[]).question.key, b"%zz%4");
    }

    #[test]
    fn the_endpoint_comes_from_the_forwarded_method_and_path() {
        let forwarded: Pairs<'_> = &[(METHOD, b"POST"), (URI, b"/search%20x?q=1?2"), (KEY, b"k")];
        assert_eq!(parsed("", forwarded).question.endpoint, b"POST /search%20x");
        assert_eq!(parsed("endpoint=login", forwarded).question.endpoint, b"login");
        let named: Pairs<'_> = &[(METHOD, b"GET"), (ENDPOINT, b"named"), (KEY, b"k")];
        assert_eq!(parsed("", named).question.endpoint, b"named");
        assert_eq!(parsed("", &[(URI, b"/x"), (KEY, b"k")]).question.endpoint, b"/x");
        assert_eq!(parsed("key=k", &[]).question.endpoint, b"");
    }

    #[test]
    fn what_query_and_headers_both_say_is_refused() {
        let pairs: Pairs<'_> = &[
            (KEY, b"header"),
            (ENDPOINT, b"login"),
            (COST, b"9"),
            ("x-ratelimit-attribute-plan", b"free"),
            (METHOD, b"GET"),
        ];
        for query in ["key=me", "key_b64=YQ", "endpoint=free", "cost=0", "attr.plan=pro"] {
            let refused = parse_forwarded(query, &headers(pairs)).expect_err(query).message;
            assert!(
                refused.contains("is in the query and in the header `x-ratelimit-"),
                "{refused}"
            );
        }
        let question = parsed("attr.ip=::1&cost.bytes=5&deny=403", pairs).question;
        assert_eq!((&*question.key, &*question.endpoint), (&b"header"[..], &b"login"[..]));
        assert_eq!(question.costs, [(b"bytes".to_vec(), 5), (b"requests".to_vec(), 9)]);
        let attributes = [(b"ip".to_vec(), b"::1".to_vec()), (b"plan".to_vec(), b"free".to_vec())];
        assert_eq!(question.attributes, attributes);
        // An endpoint goes before what a gateway says of the request.
        let pairs: Pairs<'_> = &[(METHOD, b"GET"), (URI, b"/a")];
        assert_eq!(parsed("key=k&endpoint=login", pairs).question.endpoint, b"login");
    }

    #[test]
    fn a_header_that_is_there_twice_is_refused() {
        for name in [KEY, ENDPOINT, COST, METHOD, URI, "x-ratelimit-attribute-plan"] {
            let mut twice = headers(&[(KEY, b"k")]);
            twice.remove(name);
            for value in ["1", "2"] {
                twice.append(name, HeaderValue::from_static(value));
            }
            let query = if name == KEY { "" } else { "key=k" };
            twice.remove(if name == KEY { COST } else { KEY });
            let refused = parse_forwarded(query, &twice).expect_err(name).message;
            assert!(
                refused.starts_with(&format!("the header `{name}` is there twice")),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_denial_is_429_or_on_request_403() {
        assert_eq!(parsed("key=k", &[]).denied, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(parsed("key=k&deny=403", &[]).denied, StatusCode::FORBIDDEN);
        assert!(refusal("key=k&deny=200").contains("429 or 403"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(refusal("").contains("there is no key"));
        assert!(refusal("key=k&kye=x").contains("unknown parameter `kye`"));
        assert!(refusal("key=k&key=l").contains("`key` is there twice"));
        assert!(refusal("key=k&attr.a=1&attr.a=2").contains("`attr.a` is there twice"));
        assert!(refusal("key=k&key_b64=YQ").contains("both there"));
        for cost in ["-1", "1.5", "+1", "%2B1", "", "18446744073709551616", "x%0a"] {
            let message = refusal(&format!("key=k&cost={cost}"));
            assert!(message.contains("is not a whole number"), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        let attributes = |n: usize| (0..n).map(|i| format!("&attr.a{i}=v")).collect::<String>();
        let taken = parsed(&format!("key=k{}", attributes(ATTRIBUTES_MAX)), &[]);
        assert_eq!(taken.question.attributes.len(), ATTRIBUTES_MAX);
        let message = refusal(&format!("key=k{}", attributes(ATTRIBUTES_MAX + 1)));
        assert!(message.contains("16 at most"), "{message}");
        let message = refusal("key=k&cost=1&cost.a=1&cost.b=1&cost.c=1&cost.d=1");
        assert!(message.contains("4 at most"), "{message}");
    }

    #[test]
    fn a_gateway_may_say_how_long_a_check_may_be_held() {
        let wait = |query: &str| parse_forwarded(query, &HeaderMap::new());
        let held = |query: &str| wait(query).expect(query).question.max_wait_ms;
        assert_eq!(held("key=a"), None);
        assert_eq!(held("key=a&max_wait_ms=0"), Some(0));
        assert_eq!(held("key=a&max_wait_ms=60000"), Some(MAX_WAIT_MS_MAX));
        for query in ["max_wait_ms=60001", "max_wait_ms=", "max_wait_ms=1&max_wait_ms=1"] {
            assert!(wait(&format!("key=a&{query}")).is_err(), "{query}");
        }
    }
}
