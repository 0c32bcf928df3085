//! A question as HTTP brings it, and the JSON body that `POST /v1/check` takes.
//!
//! Parsing is pure: bytes to a question or to words about what is wrong. Nothing is decided here.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use limiter::{ATTRIBUTES_MAX, Attributes, COSTS_MAX, Costs, DEFAULT_UNIT, Op, Request};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Unexpected, Visitor};

/// Most checks in one body, as many as in one frame.
pub const CHECKS_MAX: usize = wire::CHECKS_MAX;
/// Longest `max_wait_ms`, in milliseconds. A caller that would wait longer has no use for a limiter.
pub const MAX_WAIT_MS_MAX: u64 = 60_000;

/// One question, with everything it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What to do.
    pub op: Op,
    /// What is called; may be empty.
    pub endpoint: Vec<u8>,
    /// Who calls. The limiter judges its length.
    pub key: Vec<u8>,
    /// Attribute names and values, at most [`ATTRIBUTES_MAX`].
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Costs by unit, at most [`COSTS_MAX`]; none means one request.
    pub costs: Vec<(Vec<u8>, u64)>,
    /// Longest time the check may be held, in milliseconds, at most [`MAX_WAIT_MS_MAX`]; none: the
    /// node's default. A node without peers never holds one.
    pub max_wait_ms: Option<u64>,
    /// Report every limit that applied.
    pub details: bool,
}

impl Question {
    /// A check that costs one request.
    pub(super) fn of(
        endpoint: Option<String>,
        key: Vec<u8>,
        attributes: Option<Pairs<String>>,
    ) -> Result<Self, QuestionError> {
        let attributes = attributes.map_or_else(Vec::new, |pairs| pairs.0);
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(too_many("attributes", attributes.len(), ATTRIBUTES_MAX));
        }
        let bytes = |(name, value): (String, String)| (name.into_bytes(), value.into_bytes());
        let attributes = attributes.into_iter().map(bytes).collect();
        Ok(Self::of_bytes(endpoint.unwrap_or_default().as_bytes(), &key, attributes))
    }

    /// A check that costs one request, from bytes.
    pub(crate) fn of_bytes(
        endpoint: &[u8],
        key: &[u8],
        attributes: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Self {
        Self {
            op: Op::Check,
            endpoint: endpoint.to_vec(),
            key: key.to_vec(),
            attributes,
            costs: Vec::new(),
            max_wait_ms: None,
            details: false,
        }
    }

    /// The request to the limiter.
    pub fn to_request(&self) -> Request<'_> {
        let attributes = self.attributes.iter().map(|(name, value)| (&**name, &**value));
        let costs = self.costs.iter().map(|(unit, cost)| (&**unit, *cost));
        Request {
            op: self.op,
            endpoint: &self.endpoint,
            key: &self.key,
            // The fields are public: what a caller adds beyond the bounds is not taken.
            attributes: attributes.take(ATTRIBUTES_MAX).collect::<Attributes<'_>>(),
            costs: costs.take(COSTS_MAX).collect::<Costs<'_>>(),
            details: self.details,
            terms: None,
        }
    }
}

/// What a body asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Questions {
    /// One check, answered by one decision.
    One(Box<Question>),
    /// `{"checks": [...]}`: 1 to [`CHECKS_MAX`], answered by a list.
    Many(Vec<Question>),
}

/// What is wrong with a question, in words for whoever sent it. Nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionError {
    pub(super) message: String,
    pub(super) is_too_many: bool,
}

impl QuestionError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_too_many: false }
    }
}

impl fmt::Display for QuestionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for QuestionError {}

/// Reads the body of `POST /v1/check`.
///
/// # Errors
/// If it is not JSON of the documented form, names a field that there is not, or breaks a bound.
pub fn parse_body(body: &[u8]) -> Result<Questions, QuestionError> {
    let Object::<Written>(written) = parse_json(body)?;
    written.check_body()
}

/// The one JSON value that `body` is, or where and why it is none of the wanted form.
pub(super) fn parse_json<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, QuestionError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match path.as_str() {
            "." | "?" => QuestionError::new(inner.to_string()),
            path => QuestionError::new(format!("`{path}`: {inner}")),
        }
    })?;
    json.end().map_err(|error| QuestionError::new(error.to_string()))?;
    Ok(value)
}

/// Bytes of `text` in base64, of either alphabet, with or without padding.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let alphabet = if text.contains(['-', '_']) {
        base64::alphabet::URL_SAFE
    } else {
        base64::alphabet::STANDARD
    };
    GeneralPurpose::new(&alphabet, CONFIG).decode(text).ok()
}

/// `bytes` in base64.
pub(super) fn to_base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The key of a question that may give it as text or as base64, but must give it once.
pub(super) fn key_of(
    text: Option<Vec<u8>>,
    base64: Option<&str>,
) -> Result<Vec<u8>, QuestionError> {
    match (text, base64) {
        (Some(key), None) => Ok(key),
        (None, Some(base64)) => from_base64(base64)
            .ok_or_else(|| QuestionError::new("`key_b64` is not base64; send the key's bytes so")),
        (None, None) => Err(QuestionError::new("there is no key; send `key`, or `key_b64`")),
        (Some(_), Some(_)) => {
            Err(QuestionError::new("`key` and `key_b64` are both there; send one of them"))
        }
    }
}

/// The body, or one of its `checks`, as written.
#[derive(Default, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    checks: Option<Vec<Object<Written>>>,
    op: Option<WrittenOp>,
    endpoint: Option<String>,
    key: Option<String>,
    key_b64: Option<String>,
    attributes: Option<Pairs<String>>,
    cost: Option<Whole>,
    costs: Option<Pairs<Whole>>,
    max_wait_ms: Option<Whole>,
    details: Option<bool>,
}

/// What to do, as a word.
#[derive(PartialEq)]
struct WrittenOp(Op);

impl WrittenOp {
    const WORDS: &[&str] = &["check", "peek", "debit", "refund"];

    fn from_word(word: &str) -> Option<Op> {
        match word {
            "check" => Some(Op::Check),
            "peek" => Some(Op::Peek),
            "debit" => Some(Op::Debit),
            "refund" => Some(Op::Refund),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for WrittenOp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OpVisitor;

        impl Visitor<'_> for OpVisitor {
            type Value = WrittenOp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "one of `{}`", WrittenOp::WORDS.join("`, `"))
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<WrittenOp, E> {
                let op = WrittenOp::from_word(word);
                op.map(WrittenOp).ok_or_else(|| E::unknown_variant(word, WrittenOp::WORDS))
            }
        }

        deserializer.deserialize_str(OpVisitor)
    }
}

/// A `T` that stands there as an object. What serde derives would also take a list, by place.
#[derive(PartialEq)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

fn check_all(checks: Vec<Object<Written>>) -> Result<Vec<Question>, QuestionError> {
    if checks.is_empty() {
        return Err(QuestionError::new("`checks` is empty; send at least one"));
    }
    if checks.len() > CHECKS_MAX {
        let message = format!("`checks` has {} elements; send {CHECKS_MAX} at most", checks.len());
        return Err(QuestionError { message, is_too_many: true });
    }
    checks
        .into_iter()
        .enumerate()
        .map(|(i, Object(check))| {
            check
                .check()
                .map_err(|error| QuestionError::new(format!("`checks[{i}]`: {}", error.message)))
        })
        .collect()
}

impl Written {
    fn check_body(mut self) -> Result<Questions, QuestionError> {
        match self.checks.take() {
            None => self.check().map(Box::new).map(Questions::One),
            Some(checks) if self == Self::default() => check_all(checks).map(Questions::Many),
            Some(_) => Err(QuestionError::new(
                "`checks` stands beside fields of a single check; put them into its elements",
            )),
        }
    }

    fn check(self) -> Result<Question, QuestionError> {
        if self.checks.is_some() {
            return Err(QuestionError::new("`checks` stands inside `checks`; send one list"));
        }
        let key = key_of(self.key.map(String::into_bytes), self.key_b64.as_deref())?;
        let question = Question::of(self.endpoint, key, self.attributes)?;
        let costs = match (self.cost, self.costs) {
            (None, None) => Vec::new(),
            (Some(cost), None) => vec![(DEFAULT_UNIT.as_bytes().to_vec(), cost.0)],
            (None, Some(costs)) => {
                costs.0.into_iter().map(|(unit, cost)| (unit.into_bytes(), cost.0)).collect()
            }
            (Some(_), Some(_)) => {
                return Err(QuestionError::new(
                    "`cost` and `costs` are both there; name the unit `requests` in `costs`",
                ));
            }
        };
        if costs.len() > COSTS_MAX {
            return Err(too_many("costs", costs.len(), COSTS_MAX));
        }
        let max_wait_ms = self.max_wait_ms.map(|wait| wait.0);
        if max_wait_ms.is_some_and(|wait| wait > MAX_WAIT_MS_MAX) {
            return Err(QuestionError::new(format!(
                "`max_wait_ms` is above {MAX_WAIT_MS_MAX}; send less, or leave it out"
            )));
        }
        Ok(Question {
            op: self.op.map_or(Op::Check, |op| op.0),
            costs,
            max_wait_ms,
            details: self.details.unwrap_or(false),
            ..question
        })
    }
}

pub(super) fn too_many(what: &str, count: usize, max: usize) -> QuestionError {
    QuestionError::new(format!("there are {count} {what}; send {max} at most"))
}

/// A whole number from 0 to 2^64 - 1. What is negative, broken or larger is refused, not cut.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Whole(pub(super) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeVisitor;

        impl Visitor<'_> for WholeVisitor {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from 0 to {}", u64::MAX)
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }
        }

        deserializer.deserialize_u64(WholeVisitor)
    }
}

/// The members of an object in their order. A name that comes twice is refused.
#[derive(PartialEq)]
pub(super) struct Pairs<T>(pub(super) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of names and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                // One more than any list may hold is enough to refuse it.
                const PAIRS_MAX: usize =
                    if ATTRIBUTES_MAX > COSTS_MAX { ATTRIBUTES_MAX } else { COSTS_MAX };
                let mut pairs: Vec<(String, T)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if pairs.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    if pairs.len() > PAIRS_MAX {
                        let expected = format!("{PAIRS_MAX} members at most");
                        return Err(A::Error::invalid_value(Unexpected::Map, &expected.as_str()));
                    }
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(body: &str) -> Question {
        match parse_body(body.as_bytes()) {
            Ok(Questions::One(question)) => *question,
            other => panic!("{body}: {other:?}"),
        }
    }

    fn refusal(body: &str) -> String {
        match parse_body(body.as_bytes()) {
            Err(error) => error.message,
            Ok(questions) => panic!("{body} was taken: {questions:?}"),
        }
    }

    #[test]
    fn a_key_is_enough() {
        let question = one(r#"{"key":"alice"}"#);
        assert_eq!(question.key, b"alice");
        assert_eq!(question.op, Op::Check);
        assert_eq!(question.endpoint, b"");
        assert!(question.costs.is_empty() && !question.details && question.max_wait_ms.is_none());
    }

    #[test]
    fn every_field_arrives_in_the_request() {
        let question = one(
            r#"{"op":"debit","endpoint":"POST /x","key_b64":"/w==","details":true,"max_wait_ms":3,
                "costs":{"bytes":18446744073709551615,"requests":0},
                "attributes":{"plan":"pro","ip":"::1"}}"#,
        );
        let request = question.to_request();
        assert_eq!(request.op, Op::Debit);
        assert_eq!(request.endpoint, b"POST /x");
        assert_eq!(request.key, [0xff]);
        assert!(request.details);
        assert_eq!(request.costs.as_slice(), [(&b"bytes"[..], u64::MAX), (&b"requests"[..], 0)]);
        assert_eq!(
            request.attributes.as_slice(),
            [(&b"plan"[..], &b"pro"[..]), (&b"ip"[..], &b"::1"[..])]
        );
        assert_eq!(question.max_wait_ms, Some(3));
    }

    #[test]
    fn cost_is_of_the_default_unit() {
        assert_eq!(one(r#"{"key":"a","cost":7}"#).costs, [(b"requests".to_vec(), 7)]);
    }

    #[test]
    fn numbers_that_are_not_whole_and_unsigned_are_refused() {
        for number in ["-1", "1.5", "1e3", "18446744073709551616", "\"1\"", "true"] {
            let message = refusal(&format!(r#"{{"key":"a","cost":{number}}}"#));
            assert!(message.starts_with("`cost`: "), "{message}");
            assert!(message.contains("a whole number from 0 to 18446744073709551615"), "{message}");
        }
        let message = refusal(r#"{"key":"a","costs":{"bytes":-1}}"#);
        assert!(message.starts_with("`costs.bytes`: "), "{message}");
    }

    #[test]
    fn unknown_fields_are_refused_by_name() {
        let message = refusal(r#"{"key":"a","ednpoint":"x"}"#);
        assert!(message.contains("unknown field `ednpoint`"), "{message}");
        let message = refusal(r#"{"checks":[{"key":"a"},{"key":"a","quota":1}]}"#);
        assert!(message.contains("checks[1]"), "{message}");
        assert!(message.contains("unknown field `quota`"), "{message}");
    }

    #[test]
    fn a_key_is_given_once() {
        assert!(refusal("{}").contains("there is no key"));
        assert!(refusal(r#"{"key":"a","key_b64":"YQ"}"#).contains("both there"));
        assert!(refusal(r#"{"key_b64":"!"}"#).contains("not base64"));
        assert!(refusal(r#"{"key":"a","key":"b"}"#).contains("duplicate field `key`"));
        assert!(refusal(r#"{"key":"a","cost":1,"costs":{}}"#).contains("both there"));
    }

    #[test]
    fn base64_comes_in_either_alphabet_padded_or_not() {
        for text in ["+/8=", "+/8", "-_8=", "-_8"] {
            assert_eq!(from_base64(text).as_deref(), Some(&[0xfb, 0xff][..]), "{text}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        let attributes = |n: usize| {
            let pairs: Vec<_> = (0..n).map(|i| format!(r#""a{i}":"v""#)).collect();
            format!(r#"{{"key":"k","attributes":{{{}}}}}"#, pairs.join(","))
        };
        assert_eq!(one(&attributes(ATTRIBUTES_MAX)).attributes.len(), ATTRIBUTES_MAX);
        assert!(refusal(&attributes(ATTRIBUTES_MAX + 1)).contains("16 at most"));
        refusal(&attributes(1_000));

        let costs = r#"{"key":"k","costs":{"a":1,"b":1,"c":1,"d":1,"e":1}}"#;
        assert!(refusal(costs).contains("4 at most"));

        let checks =
            |n: usize| format!(r#"{{"checks":[{}]}}"#, vec![r#"{"key":"k"}"#; n].join(","));
        assert!(refusal(&checks(0)).contains("is empty"));
        assert!(matches!(
            parse_body(checks(CHECKS_MAX).as_bytes()),
            Ok(Questions::Many(questions)) if questions.len() == CHECKS_MAX
        ));
        assert!(refusal(&checks(CHECKS_MAX + 1)).contains("256 at most"));
        assert!(refusal(r#"{"key":"k","max_wait_ms":60001}"#).contains("above 60000"));
    }

    #[test]
    fn a_name_that_comes_twice_is_refused() {
        let message = refusal(r#"{"key":"k","attributes":{"a":"1","a":"2"}}"#);
        assert!(message.contains("`a` is there twice"), "{message}");
    }

    #[test]
    fn a_batch_does_not_mix_with_a_single_check() {
        assert!(refusal(r#"{"checks":[{"key":"a"}],"key":"b"}"#).contains("beside fields"));
        assert!(refusal(r#"{"checks":[{"checks":[]}]}"#).contains("inside `checks`"));
    }

    #[test]
    fn what_is_not_one_json_object_is_refused() {
        for body in ["", "null", "[]", "{", r#"{"key":"a"} x"#, r#""key""#] {
            refusal(body);
        }
        refusal(&"[".repeat(100_000));
        // A list is no question, though its places could be taken for the fields in their order.
        let message = refusal(r#"[null,null,"GET /","arr"]"#);
        assert!(message.contains("invalid type: sequence, expected an object"), "{message}");
        let message = refusal(r#"{"checks":[{"key":"a"},[null,null,"GET /","arr"]]}"#);
        assert!(message.starts_with("`checks[1]`: "), "{message}");
        assert!(message.contains("invalid type: sequence, expected an object"), "{message}");
        let message = refusal(r#"{"checks":[{"key":"a"},{"key":"a","cost":-1}]}"#);
        assert!(message.starts_with("`checks[1].cost`: "), "{message}");
    }

    #[test]
    fn an_operation_is_one_of_the_words() {
        for op in [r#"{"debit":null}"#, r#"["debit"]"#, "2", r#""reset""#, r#""Check""#] {
            let message = refusal(&format!(r#"{{"key":"a","op":{op}}}"#));
            assert!(message.starts_with("`op`: "), "{message}");
            assert!(message.contains("one of `check`, `peek`, `debit`, `refund`"), "{message}");
        }
        let message = refusal(r#"{"checks":[{"key":"a","op":{"debit":null}}]}"#);
        assert!(message.starts_with("`checks[0].op`: "), "{message}");
        assert_eq!(one(r#"{"key":"a","op":null}"#).op, Op::Check);
        assert_eq!(one(r#"{"key":"a","op":"de\u0062it"}"#).op, Op::Debit);
    }
}
