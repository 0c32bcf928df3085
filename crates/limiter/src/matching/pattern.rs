//! Endpoint patterns: exact, template and prefix, each with an optional method.
//!
//! An endpoint is a method and a path where it looks like one (`GET /users/7`), else all path. Bytes
//! are compared as they are: nothing is decoded, folded or cleaned.

use crate::ENDPOINT_BYTES_MAX;

/// A compiled endpoint pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    /// None: any method, or none.
    pub(crate) method: Option<Vec<u8>>,
    pub(crate) path: PathPattern,
}

/// What a path must look like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathPattern {
    /// These bytes.
    Exact(Vec<u8>),
    /// These segments, between slashes.
    Template(Vec<Segment>),
    /// These bytes, then anything.
    Prefix(Vec<u8>),
}

/// One segment of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Segment {
    Literal(Vec<u8>),
    /// Any segment that is not empty.
    Any,
}

/// How specific a pattern is: greater is more. By kind, then by how much it spells out, then whether
/// it names a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PatternRank {
    kind: u8,
    spelled_out: usize,
    method: bool,
}

impl Pattern {
    /// Parses `POST /search`, `/users/{id}` or `/static/*`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the endpoint is empty; leave it out to match every endpoint".into());
        }
        if text.len() > ENDPOINT_BYTES_MAX {
            return Err(format!("the endpoint is longer than {ENDPOINT_BYTES_MAX} bytes"));
        }
        let (method, path) = split_method(text.as_bytes());
        let path_text = &text[text.len() - path.len()..];
        if path_text.contains(char::is_whitespace) {
            return Err(format!(
                "the endpoint `{text}` has a space that stands after no method; write a method in \
                 capitals, one space and a path, as in `POST /search`"
            ));
        }
        Ok(Self { method: method.map(<[u8]>::to_vec), path: PathPattern::parse(text, path_text)? })
    }

    /// How specific it is.
    pub(crate) fn rank(&self) -> PatternRank {
        let (kind, spelled_out) = match &self.path {
            PathPattern::Exact(_) => (3, 0),
            PathPattern::Template(segments) => {
                (2, segments.iter().filter(|s| matches!(s, Segment::Literal(_))).count())
            }
            PathPattern::Prefix(prefix) => (1, prefix.len()),
        };
        PatternRank { kind, spelled_out, method: self.method.is_some() }
    }

    /// Whether the method part lets a request with `method` through.
    pub(crate) fn takes_method(&self, method: Option<&[u8]>) -> bool {
        self.method.is_none() || self.method.as_deref() == method
    }

    /// Whether some endpoint matches both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let methods_meet = match (&self.method, &other.method) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        methods_meet && self.path.overlaps(&other.path)
    }
}

impl PathPattern {
    fn parse(text: &str, path: &str) -> Result<Self, String> {
        if let Some(prefix) = path.strip_suffix('*') {
            if prefix.contains('*') {
                return Err(format!("the endpoint `{text}` has more than one `*`; one may end it"));
            }
            if prefix.contains(['{', '}']) {
                return Err(format!(
                    "the endpoint `{text}` mixes `{{name}}` and `*`; write a template or a prefix"
                ));
            }
            return Ok(Self::Prefix(prefix.into()));
        }
        if path.contains('*') {
            return Err(format!("the endpoint `{text}` has a `*` inside; it may only end it"));
        }
        if !path.contains(['{', '}']) {
            return Ok(Self::Exact(path.into()));
        }
        let segments = path.split('/').map(|segment| {
            let inner = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
            match inner {
                Some(name) if !name.is_empty() && !name.contains(['{', '}']) => Ok(Segment::Any),
                None if !segment.contains(['{', '}']) => Ok(Segment::Literal(segment.into())),
                _ => Err(format!(
                    "`{segment}` in the endpoint `{text}` is no segment; write a whole segment as \
                     `{{name}}`"
                )),
            }
        });
        Ok(Self::Template(segments.collect::<Result<_, _>>()?))
    }

    fn overlaps(&self, other: &Self) -> bool {
        use PathPattern::{Exact, Prefix, Template};
        match (self, other) {
            (Exact(a), Exact(b)) => a == b,
            (Exact(path), Template(segments)) | (Template(segments), Exact(path)) => {
                template_matches(segments, path)
            }
            (Exact(path), Prefix(prefix)) | (Prefix(prefix), Exact(path)) => {
                path.starts_with(prefix)
            }
            (Template(a), Template(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| segments_meet(a, b))
            }
            (Template(segments), Prefix(prefix)) | (Prefix(prefix), Template(segments)) => {
                template_meets_prefix(segments, prefix)
            }
            (Prefix(a), Prefix(b)) => a.starts_with(b) || b.starts_with(a),
        }
    }
}

/// Splits an endpoint into method and path: upper-case letters, a space, then a path that starts
/// with `/` (or a bare `*` in a pattern). Anything else is all path.
pub(crate) fn split_method(endpoint: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let letters = endpoint.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let (method, rest) = endpoint.split_at(letters);
    match rest {
        [b' ', path @ ..] if letters > 0 && (path.starts_with(b"/") || path == b"*") => {
            (Some(method), path)
        }
        _ => (None, endpoint),
    }
}

/// Whether `path` is one of the paths that the template `segments` stands for.
pub(crate) fn template_matches(segments: &[Segment], path: &[u8]) -> bool {
    let mut parts = path.split(|b| *b == b'/');
    segments.iter().all(|segment| parts.next().is_some_and(|part| segment_matches(segment, part)))
        && parts.next().is_none()
}

fn segment_matches(segment: &Segment, part: &[u8]) -> bool {
    match segment {
        Segment::Literal(literal) => literal == part,
        Segment::Any => !part.is_empty(),
    }
}

fn segments_meet(a: &Segment, b: &Segment) -> bool {
    match (a, b) {
        (Segment::Literal(a), b) => segment_matches(b, a),
        (Segment::Any, Segment::Literal(b)) => !b.is_empty(),
        (Segment::Any, Segment::Any) => true,
    }
}

fn template_meets_prefix(segments: &[Segment], prefix: &[u8]) -> bool {
    let parts: Vec<&[u8]> = prefix.split(|b| *b == b'/').collect();
    let Some((last, whole)) = parts.split_last() else { return true };
    if segments.len() < parts.len() {
        return false;
    }
    let whole_meet =
        whole.iter().zip(segments).all(|(part, segment)| segment_matches(segment, part));
    let last_meets = match &segments[whole.len()] {
        Segment::Literal(literal) => literal.starts_with(last),
        Segment::Any => true,
    };
    whole_meet && last_meets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn splits_a_method_only_where_a_path_follows() {
        assert_eq!(split_method(b"GET /a"), (Some(&b"GET"[..]), &b"/a"[..]));
        for path in ["/a", "login", "GET", "GET a", "get /a", " /a", "*", ""] {
            assert_eq!(split_method(path.as_bytes()), (None, path.as_bytes()));
        }
    }

    #[test]
    fn ranks_exact_over_template_over_longer_prefix() {
        let in_order = [
            "POST /users/list",
            "/users/list",
            "POST /users/{id}",
            "/users/{id}",
            "/{a}/{b}",
            "POST /users/*",
            "/users/*",
            "/*",
            "*",
        ];
        let ranks: Vec<_> = in_order.iter().map(|text| pattern(text).rank()).collect();
        assert!(ranks.windows(2).all(|pair| pair[0] > pair[1]), "{ranks:?}");
        assert!(PatternRank::default() < ranks[8]);
    }

    #[test]
    fn overlap_is_found_between_every_two_kinds() {
        let meet = [
            ("/a", "/a"),
            ("/a", "GET /a"),
            ("/users/7", "/users/{id}"),
            ("/users/7", "/users/*"),
            ("/users/{id}", "/{any}/7"),
            ("/users/{id}", "/use*"),
            ("/users/{id}", "/users/7*"),
            ("/a*", "/abc*"),
            ("GET *", "/a/{b}"),
        ];
        let miss = [
            ("/a", "/b"),
            ("GET /a", "POST /a"),
            ("/users", "/users/{id}"),
            ("/users/", "/users/{id}"),
            ("/users/{id}", "/users/{id}/x"),
            ("/users/{id}", "/teams/{id}"),
            ("/users/{id}", "/users/7/*"),
            ("/users/{id}", "/userx*"),
            ("/{a}/x", "//x"),
            ("/a*", "/b*"),
        ];
        for (a, b) in meet {
            assert!(
                pattern(a).overlaps(&pattern(b)) && pattern(b).overlaps(&pattern(a)),
                "{a} {b}"
            );
        }
        for (a, b) in miss {
            assert!(
                !pattern(a).overlaps(&pattern(b)) && !pattern(b).overlaps(&pattern(a)),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn refuses_patterns_that_cannot_be_meant() {
        let refusal = |text: &str| Pattern::parse(text).unwrap_err();
        assert!(refusal("").contains("leave it out"));
        for text in ["post /login", "POST  /login", "POST login", "/a b", " /a", "/a\t"] {
            assert!(refusal(text).contains("as in `POST /search`"), "{text}");
        }
        assert!(refusal("/a*b").contains("inside"));
        assert!(refusal("/**").contains("more than one"));
        assert!(refusal("/{a}/*").contains("mixes"));
        assert!(refusal("/a{b}").contains("`a{b}`"));
        assert!(refusal("/{}").contains("whole segment"));
        assert!(refusal(&"a".repeat(ENDPOINT_BYTES_MAX + 1)).contains("longer"));
    }
}
