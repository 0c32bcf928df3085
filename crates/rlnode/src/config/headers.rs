//! `headers`: which headers tell the clients of a gateway about their limits.

use super::error::{Problems, quoted};
use super::written::Section;
use crate::endpoint::http::{Dialect, Dialects};

/// What says that there are none but `Retry-After`.
const NONE: &str = "none";

/// Reads the setting of the file whose top is `top`.
pub(super) fn read_headers(top: &mut Section<'_, '_>, problems: &mut Problems) -> Dialects {
    let Some(words) = top.take_strings("headers", problems) else { return Dialects::default() };
    let mut dialects = Dialects::NONE;
    for word in &words {
        let text = *word.get_ref();
        let found = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == text);
        let problem = match found {
            None if text == NONE && words.len() == 1 => continue,
            None if text == NONE => format!("`{NONE}` stands alone"),
            None => {
                let known = Dialect::ALL.map(|dialect| format!("`{}`", dialect.as_str()));
                let known = known.join(", ");
                format!("unknown value {} for `headers`; write {known} or `{NONE}`", quoted(text))
            }
            Some(dialect) if dialects.has(dialect) => {
                format!("`headers` has `{text}` twice; drop one")
            }
            Some(dialect) if dialects.has(dialect.rival()) => format!(
                "`{text}` and `{}` give the same headers another meaning; choose one",
                dialect.rival().as_str()
            ),
            Some(dialect) => {
                dialects = dialects.with(dialect);
                continue;
            }
        };
        problems.add(&word.span(), problem);
    }
    dialects
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use client::Environment;

    use super::*;
    use crate::config::{Node, parse};

    fn read(line: &str) -> Result<Dialects, String> {
        let node = Node { name: "n".to_owned(), environment: Environment::default() };
        let text = format!("{line}\n[[limit]]\nname = \"a\"\nrate = \"1/s\"\n");
        let config = parse(text.as_bytes(), Path::new("f.toml"), &node);
        config.map(|config| config.headers).map_err(|errors| errors.to_string())
    }

    #[test]
    fn the_file_chooses_dialects() {
        let both = Dialects::NONE.with(Dialect::XRateLimit).with(Dialect::RateLimit);
        assert_eq!(read(""), Ok(both));
        assert_eq!(read("headers = [\"ratelimit\", \"x-ratelimit\"]"), Ok(both));
        assert_eq!(read("headers = \"none\""), Ok(Dialects::NONE));
        for dialect in Dialect::ALL {
            let line = format!("headers = \"{}\"", dialect.as_str());
            assert_eq!(read(&line), Ok(Dialects::NONE.with(dialect)));
            assert_eq!(dialect.rival().rival(), dialect);
        }
    }

    #[test]
    fn dialects_that_contradict_each_other_are_refused() {
        for (line, said) in [
            ("headers = \"ietf\"", "unknown value `ietf` for `headers`; write `x-ratelimit`, "),
            ("headers = [\"none\", \"ratelimit\"]", "`none` stands alone"),
            ("headers = [\"ratelimit\", \"ratelimit\"]", "`headers` has `ratelimit` twice"),
            (
                "headers = [\"ratelimit-06\", \"ratelimit\"]",
                "give the same headers another meaning",
            ),
            ("headers = [\"x-ratelimit\", \"x-ratelimit-delta\"]", "another meaning; choose one"),
            ("headers = []", "`headers` is empty"),
            ("headers = 6", "a list of strings"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
