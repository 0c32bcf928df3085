//! Key templates: what has a bucket of its own under a limit.

use arrayvec::ArrayVec;

use crate::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, ENDPOINT_BYTES_MAX,
    KEY_BYTES_MAX, Request, ip,
};

/// Longest template, in bytes of its text.
const TEXT_BYTES_MAX: usize = 1024;
/// Most parts of a template: every attribute, the key and the endpoint once, with text between them.
const PARTS_MAX: usize = 2 * (ATTRIBUTES_MAX + 2) + 1;
/// Longest bytes of a key: the identity of its limit, a length for each part, and all parts.
const BYTES_MAX: usize = 8
    + 8 * PARTS_MAX
    + TEXT_BYTES_MAX
    + KEY_BYTES_MAX
    + ENDPOINT_BYTES_MAX
    + ATTRIBUTES_MAX * (1 + ATTRIBUTE_VALUE_BYTES_MAX);

/// What is hashed to the identity of a bucket. On the stack, so that no key allocates.
pub(crate) type KeyBytes = ArrayVec<u8, BYTES_MAX>;

/// A compiled key template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyTemplate {
    /// Empty for `*`: one bucket for all.
    parts: Vec<Part>,
    ipv6_prefix: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Source(Source),
    Literal(Vec<u8>),
}

/// Where a part of a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Key,
    Endpoint,
    Attribute(String),
}

impl Source {
    /// Longest value that a request can have here, in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        match self {
            Self::Key => KEY_BYTES_MAX,
            Self::Endpoint => ENDPOINT_BYTES_MAX,
            Self::Attribute(_) => ATTRIBUTE_VALUE_BYTES_MAX,
        }
    }
}

/// The request lacks an attribute of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingAttribute;

/// One part's value: as sent, or an address in its normal form.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one look-up, where a box would allocate"
)]
pub(crate) enum Value<'a> {
    Bytes(&'a [u8]),
    Address(ip::Normalised),
}

impl Value<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Address(address) => address,
        }
    }
}

impl KeyTemplate {
    /// Compiles `text`: `*`, or text with at least one `{name}`.
    pub(crate) fn parse(text: &str, ipv6_prefix: u8) -> Result<Self, String> {
        if ipv6_prefix == 0 || ipv6_prefix > 128 {
            return Err(format!("`ipv6_prefix` is `{ipv6_prefix}`; write 1 to 128"));
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("the key is longer than {TEXT_BYTES_MAX} bytes"));
        }
        if text == "*" {
            return Ok(Self { parts: Vec::new(), ipv6_prefix });
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let Some(open) = rest.find('{') else {
                parts.push(Part::Literal(rest.into()));
                break;
            };
            let (literal, from_open) = rest.split_at(open);
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.into()));
            }
            let Some(close) = from_open.find('}') else {
                return Err(format!("the key `{text}` has a `{{` without its `}}`"));
            };
            let part = Part::Source(source(text, &from_open[1..close])?);
            if parts.contains(&part) {
                return Err(format!("the key `{text}` names `{}` twice", &from_open[..=close]));
            }
            parts.push(part);
            rest = &from_open[close + 1..];
        }
        let literals_closed = parts.iter().all(|part| match part {
            Part::Literal(literal) => !literal.contains(&b'}'),
            Part::Source(_) => true,
        });
        if !literals_closed {
            return Err(format!("the key `{text}` has a `}}` without its `{{`"));
        }
        if !parts.iter().any(|part| matches!(part, Part::Source(_))) {
            return Err(format!(
                "the key `{text}` is the same for every request; write `*` for one bucket, or a \
                 name in braces such as `{{key}}`"
            ));
        }
        if parts.len() > PARTS_MAX {
            return Err(format!("the key `{text}` has more than {PARTS_MAX} parts"));
        }
        Ok(Self { parts, ipv6_prefix })
    }

    /// The one source of a template that is a single `{name}`.
    pub(crate) fn single_source(&self) -> Option<&Source> {
        match self.parts.as_slice() {
            [Part::Source(source)] => Some(source),
            _ => None,
        }
    }

    /// Appends the key of `request` to `out`, each part with its length before it, so that no two
    /// lists of parts are the same bytes.
    pub(crate) fn write(
        &self,
        request: &Request<'_>,
        out: &mut KeyBytes,
    ) -> Result<(), MissingAttribute> {
        for part in &self.parts {
            match part {
                Part::Literal(literal) => push_part(out, literal),
                Part::Source(source) => {
                    let value = self.value(source, request).ok_or(MissingAttribute)?;
                    push_part(out, value.as_slice());
                }
            }
        }
        Ok(())
    }

    /// The value that `source` has in `request`; none if the attribute is missing.
    pub(crate) fn value<'a>(&self, source: &Source, request: &Request<'a>) -> Option<Value<'a>> {
        match source {
            Source::Key => Some(Value::Bytes(request.key)),
            Source::Endpoint => Some(Value::Bytes(request.endpoint)),
            Source::Attribute(name) => {
                request.attribute(name).map(|value| self.normalise(source, value))
            }
        }
    }

    /// `value` as it is compared and hashed when it comes from `source`.
    pub(crate) fn normalise<'a>(&self, source: &Source, value: &'a [u8]) -> Value<'a> {
        match source {
            Source::Attribute(name) if name == ip::ATTRIBUTE => {
                Value::Address(ip::normalise(value, self.ipv6_prefix))
            }
            _ => Value::Bytes(value),
        }
    }

    /// Bits of an IPv6 address that make a key.
    pub(crate) fn ipv6_prefix(&self) -> u8 {
        self.ipv6_prefix
    }
}

/// Appends `part` with its length before it, as a little-endian u64.
fn push_part(out: &mut KeyBytes, part: &[u8]) {
    push(out, &(part.len() as u64).to_le_bytes());
    push(out, part);
}

/// Appends `bytes`, for which there is room: see [`BYTES_MAX`].
pub(crate) fn push(out: &mut KeyBytes, bytes: &[u8]) {
    out.try_extend_from_slice(bytes).expect("no request within its bounds makes a longer key");
}

fn source(text: &str, name: &str) -> Result<Source, String> {
    match name {
        "key" => Ok(Source::Key),
        "endpoint" => Ok(Source::Endpoint),
        "" => Err(format!("the key `{text}` has empty braces; name what goes there")),
        _ if name.len() > ATTRIBUTE_NAME_BYTES_MAX || !name.bytes().all(is_of_name) => {
            Err(format!(
                "`{name}` in the key `{text}` cannot be the name of an attribute: it has a space or a \
             brace, or is too long"
            ))
        }
        _ => Ok(Source::Attribute(name.into())),
    }
}

/// Whether names in braces may have `byte`: no space, control character or brace can be meant.
fn is_of_name(byte: u8) -> bool {
    byte >= 0x80 || (byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_bytes(template: &str, request: &Request<'_>) -> Result<KeyBytes, MissingAttribute> {
        let mut bytes = KeyBytes::new();
        KeyTemplate::parse(template, 64).unwrap().write(request, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn joined_parts_never_collide() {
        let pairs: [(&[u8], &[u8]); 10] = [
            (b"a:b", b"c"),
            (b"a", b"b:c"),
            (b"a", b"b|c"),
            (b"a|b", b"c"),
            (b"", b"a"),
            (b"a", b"a"),
            (b"1", b"12"),
            (b"11", b"2"),
            (b"a\0b", b"c"),
            (b"a", b"b\0c"),
        ];
        let keys: std::collections::HashSet<_> = pairs
            .iter()
            .map(|(endpoint, key)| {
                key_bytes("{endpoint}:{key}", &Request::check(endpoint, key)).unwrap()
            })
            .collect();
        assert_eq!(keys.len(), pairs.len());
    }

    #[test]
    fn a_star_is_one_bucket_for_all() {
        let a = key_bytes("*", &Request::check(b"a", b"b"));
        assert_eq!(a, key_bytes("*", &Request::check(b"c", b"d")));
    }

    #[test]
    fn an_attribute_that_is_missing_is_reported() {
        let request = Request::check(b"", b"k");
        assert_eq!(key_bytes("{tenant}", &request), Err(MissingAttribute));
        assert!(key_bytes("{tenant}", &request.with_attribute(b"tenant", b"")).is_ok());
    }

    #[test]
    fn an_address_is_normalised_and_anything_else_is_opaque() {
        let of = |ip: &'static [u8]| {
            key_bytes("{ip}", &Request::check(b"", b"k").with_attribute(b"ip", ip))
        };
        assert_eq!(of(b"2001:db8::1"), of(b"2001:db8::2"));
        assert_eq!(of(b"::ffff:192.0.2.1"), of(b"192.0.2.1"));
        assert_ne!(of(b"fe80::1%eth0"), of(b"fe80::1"));
    }

    #[test]
    fn refuses_templates_that_cannot_be_meant() {
        let refusal = |text: &str| KeyTemplate::parse(text, 64).unwrap_err();
        assert!(refusal("").contains("same for every request"));
        assert!(refusal("all").contains("write `*`"));
        assert!(refusal("{key").contains("without its `}`"));
        assert!(refusal("key}{key}").contains("without its `{`"));
        assert!(refusal("{}").contains("empty braces"));
        for text in ["{{key}}", "{ key }", "{tenant\t}", "{a b}"] {
            assert!(refusal(text).contains("cannot be the name"), "{text}");
        }
        assert!(refusal("{key}{key}").contains("names `{key}` twice"));
        assert!(refusal(&"a".repeat(TEXT_BYTES_MAX + 1)).contains("longer"));
        let many: String = (0..PARTS_MAX + 1).map(|n| format!("{{{n}}}")).collect();
        assert!(refusal(&many).contains("parts"));
        assert!(KeyTemplate::parse("{key}", 0).unwrap_err().contains("1 to 128"));
        assert!(KeyTemplate::parse("{key}", 129).unwrap_err().contains("1 to 128"));
    }

    #[test]
    fn the_longest_key_of_the_longest_template_fits() {
        let names: Vec<String> = (0..ATTRIBUTES_MAX).map(|n| format!("a{n:02}")).collect();
        let mut text: String = names.iter().map(|name| format!("{{{name}}}-")).collect();
        text.push_str("{key}-{endpoint}-");
        text.push_str(&"x".repeat(TEXT_BYTES_MAX - text.len()));
        let longest = [b'k'; KEY_BYTES_MAX];
        let mut request = Request::check(&longest[..ENDPOINT_BYTES_MAX], &longest);
        for name in &names {
            request =
                request.with_attribute(name.as_bytes(), &longest[..ATTRIBUTE_VALUE_BYTES_MAX]);
        }
        let bytes = key_bytes(&text, &request).unwrap();
        assert!(bytes.len() + 8 <= BYTES_MAX);
        // And it is nearly all that was reserved: only the text of the names is not in the key.
        let names_len: usize = names.iter().map(|name| name.len() + 2).sum::<usize>() + 5 + 10;
        assert_eq!(bytes.len() + 8 + names_len + 8 + ATTRIBUTES_MAX, BYTES_MAX);
    }
}
