//! Which values of an entry a mapping means: any, those like a text with stars, or one.

/// Longest text that says which values are meant, in bytes.
pub const VALUES_BYTES_MAX: usize = 1_024;

/// Which values of an entry are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Every one, the empty one too.
    Any,
    /// Those that have these pieces in this order, the first at the start and the last at the end: what
    /// stands between the stars of a text. There are two at least.
    Like(Vec<String>),
    /// This one.
    Exactly(String),
}

impl Values {
    /// What `text` means: `*` stands for any text, the empty one too.
    pub fn parse(text: &str) -> Self {
        if text.contains('*') {
            Self::Like(text.split('*').map(ToOwned::to_owned).collect())
        } else {
            Self::Exactly(text.to_owned())
        }
    }

    /// Whether `value` is meant.
    pub fn take(&self, value: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(own) => own == value,
            Self::Like(pieces) => is_like(pieces, value),
        }
    }

    /// How much is said: greater is more specific.
    pub fn rank(&self) -> (u8, usize) {
        match self {
            Self::Any => (0, 0),
            Self::Like(pieces) => (1, pieces.iter().map(String::len).sum()),
            Self::Exactly(_) => (2, 0),
        }
    }

    /// Whether some value is meant by both.
    pub fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Exactly(value), values) | (values, Self::Exactly(value)) => values.take(value),
            // What begins as both, then has the pieces of the one and of the other, and ends as both.
            (Self::Like(own), Self::Like(theirs)) => {
                let ends = |pieces: &[String]| pieces.first().cloned().zip(pieces.last().cloned());
                let Some(((start, end), (their_start, their_end))) = ends(own).zip(ends(theirs))
                else {
                    return true;
                };
                (start.starts_with(&their_start) || their_start.starts_with(&start))
                    && (end.ends_with(&their_end) || their_end.ends_with(&end))
            }
        }
    }

    /// Whether every value that `other` means is meant.
    pub fn cover(&self, other: &Self) -> bool {
        match other {
            Self::Any => *self == Self::Any,
            Self::Exactly(value) => self.take(value),
            // No piece has a star, so that one of the other's is met by one of ours.
            Self::Like(pieces) => match self {
                Self::Exactly(_) => false,
                _ => self.take(&pieces.join("*")),
            },
        }
    }
}

/// As it is written; nothing for any.
impl std::fmt::Display for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Exactly(value) => write!(f, "={value}"),
            Self::Like(pieces) => write!(f, "={}", pieces.join("*")),
        }
    }
}

fn is_like(pieces: &[String], value: &str) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(rest) = value.strip_prefix(first.as_str()) else { return false };
    let Some(mut rest) = rest.strip_suffix(last.as_str()) else { return false };
    // The leftmost place of each leaves most to those that follow.
    for piece in middle {
        let Some(at) = rest.find(piece.as_str()) else { return false };
        let Some(after) = rest.get(at + piece.len()..) else { return false };
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the meaning of a star, letter by letter.
    fn model(pattern: &[u8], value: &[u8]) -> bool {
        match pattern {
            [] => value.is_empty(),
            [b'*', rest @ ..] => (0..=value.len()).any(|at| model(rest, &value[at..])),
            [letter, rest @ ..] => value.first() == Some(letter) && model(rest, &value[1..]),
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (text, takes, refuses) in [
            ("a", &["a"][..], &["", "ab"][..]),
            ("*", &["", "a", "/x/y"], &[]),
            ("/static/*", &["/static/", "/static/a/b"], &["/static", "x/static/a"]),
            ("/users/*/posts", &["/users//posts", "/users/1/2/posts"], &["/users/posts"]),
            ("a*a", &["aa", "aba"], &["a", "ab"]),
            ("*a*b*", &["ab", "xaxbx"], &["ba", "a"]),
        ] {
            let values = Values::parse(text);
            assert!(takes.iter().all(|value| values.take(value)), "{text}");
            assert!(!refuses.iter().any(|value| values.take(value)), "{text}");
        }
    }

    #[test]
    fn more_letters_are_more_specific() {
        let ranks = ["*", "a*", "a*b", "a"].map(|text| Values::parse(text).rank());
        assert!(ranks.is_sorted() && Values::Any.rank() < ranks[0]);
    }

    fn pattern() -> impl Strategy<Value = String> {
        "[ab*]{0,5}"
    }

    proptest! {
        #[test]
        fn values_are_taken_as_by_the_letter(text in pattern(), value in "[ab]{0,6}") {
            prop_assert_eq!(
                Values::parse(&text).take(&value),
                model(text.as_bytes(), value.as_bytes())
            );
        }

        #[test]
        fn what_meets_and_covers_is_seen(one in pattern(), other in pattern(), value in "[ab]{0,6}") {
            let (first, second) = (Values::parse(&one), Values::parse(&other));
            let (by_first, by_second) = (first.take(&value), second.take(&value));
            prop_assert!(!(by_first && by_second) || first.meet(&second));
            prop_assert!(!first.cover(&second) || !by_second || by_first);
            prop_assert_eq!(first.meet(&second), second.meet(&first));
            prop_assert!(first.cover(&first) && Values::Any.cover(&first));
        }
    }
}
