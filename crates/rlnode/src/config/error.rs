//! What is wrong with a configuration file, shown with file, line, column and a caret.
//!
//! It collects and renders; it decides nothing about what is right.

use std::fmt;
use std::ops::Range;
use std::path::Path;

/// Bytes of the file that a message is about.
pub(super) type Span = Range<usize>;

/// Most errors shown for one file; the rest are counted. A file of another program would
/// otherwise bury the first, which is the one that helps.
pub const ERRORS_MAX: usize = 20;
/// Most characters of a source line shown, so that a file without line ends cannot flood a
/// terminal.
const EXCERPT_CHARS_MAX: usize = 120;
/// Characters of a long source line shown before the caret.
const EXCERPT_CHARS_BEFORE: usize = 40;
/// Most characters of an offending value that a message repeats.
const QUOTED_CHARS_MAX: usize = 64;

/// Everything that is wrong with one configuration file. Nothing of the file is in force.
///
/// Shown as one message or more, each with the source line and a caret where there is one:
///
/// ```text
/// cluster.toml:4:1: unknown name `bursts` in [[limit]]; did you mean `burst`?
///   |
/// 4 | bursts = 60
///   | ^^^^^^
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    file: String,
    errors: Vec<ConfigError>,
    omitted: usize,
}

impl ConfigErrors {
    /// One error about the file as a whole.
    pub(super) fn about_file(file: &Path, message: impl Into<String>) -> Self {
        let error = ConfigError { message: message.into(), at: None, with: None };
        Self { file: file.display().to_string(), errors: vec![error], omitted: 0 }
    }

    /// The errors by line; at least one, at most [`ERRORS_MAX`].
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// Errors found beyond those that [`ConfigErrors::errors`] gives.
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            match &error.at {
                Some(at) => {
                    write!(f, "{}:{}:{}: {}", self.file, at.line, at.column, error.message)?;
                    let gutter = error.gutter_width();
                    at.render(f, gutter, '^', "")?;
                    if let Some(with) = &error.with {
                        with.render(f, gutter, '-', " the other one")?;
                    }
                }
                None => write!(f, "{}: {}", self.file, error.message)?,
            }
        }
        match self.omitted {
            0 => Ok(()),
            n => write!(f, "\n\n{}: and {n} more", self.file),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    message: String,
    at: Option<Excerpt>,
    with: Option<Excerpt>,
}

impl ConfigError {
    /// What is wrong and what to do: lower case, the offending value in backticks.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Line of the fault, from 1; none where the fault is about the file as a whole.
    pub fn line(&self) -> Option<usize> {
        self.at.as_ref().map(|at| at.line)
    }

    /// Line of the other party where two places of the file collide.
    pub fn other_line(&self) -> Option<usize> {
        self.with.as_ref().map(|with| with.line)
    }

    fn gutter_width(&self) -> usize {
        let last = self.line().max(self.other_line()).unwrap_or(0);
        last.to_string().len()
    }
}

/// A source line and the part of it that a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    line: usize,
    column: usize,
    /// The line, or the part of it around the caret, without control characters.
    text: String,
    /// Characters of `text` before the caret.
    caret_start: usize,
    caret_len: usize,
}

impl Excerpt {
    fn render(
        &self,
        f: &mut fmt::Formatter<'_>,
        gutter: usize,
        mark: char,
        label: &str,
    ) -> fmt::Result {
        let blank = "";
        write!(f, "\n{blank:gutter$} |\n{:>gutter$} | {}", self.line, self.text)?;
        let start = self.caret_start;
        let marks = String::from(mark).repeat(self.caret_len);
        write!(f, "\n{blank:gutter$} | {blank:start$}{marks}{label}")
    }
}

/// Where the lines of a text begin, to find the line of an offset without reading it again.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let after_newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let starts = std::iter::once(0).chain(after_newlines.map(|(i, _)| i + 1)).collect();
        Self { text, starts }
    }

    /// Line of the byte at `offset`, from 1. An offset beyond the end is on the last line.
    pub(super) fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    fn excerpt(&self, span: &Span) -> Excerpt {
        let line = self.line_at(span.start);
        let begin = self.starts.get(line - 1).copied().unwrap_or(0);
        let rest = self.text.get(begin..).unwrap_or("");
        let source = rest.lines().next().unwrap_or("");
        let before =
            |offset: usize| source.char_indices().take_while(|(i, _)| begin + i < offset).count();
        let (first, last) = (before(span.start), before(span.end));
        let skipped = match source.chars().count() {
            n if n <= EXCERPT_CHARS_MAX => 0,
            _ => first.saturating_sub(EXCERPT_CHARS_BEFORE),
        };
        let shown = source.chars().skip(skipped).take(EXCERPT_CHARS_MAX);
        let text: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let caret_start = first - skipped;
        let room = text.chars().count().saturating_sub(caret_start).max(1);
        let caret_len = last.saturating_sub(first).clamp(1, room);
        Excerpt { line, column: first + 1, text: text.trim_end().into(), caret_start, caret_len }
    }
}

/// The errors found so far. Keeps the first [`ERRORS_MAX`] and counts the rest.
#[derive(Default)]
pub(super) struct Problems {
    found: Vec<Problem>,
    omitted: usize,
}

struct Problem {
    message: String,
    at: Option<Span>,
    with: Option<Span>,
}

impl Problems {
    /// Something wrong at `at`.
    pub(super) fn add(&mut self, at: &Span, message: impl Into<String>) {
        self.push(Problem { message: message.into(), at: Some(at.clone()), with: None });
    }

    /// Something wrong at `at`, whose message is made only if it will be shown.
    pub(super) fn add_lazily(&mut self, at: &Span, message: impl FnOnce() -> String) {
        let shown = self.found.len() < ERRORS_MAX;
        self.add(at, if shown { message() } else { String::new() });
    }

    /// Something wrong at `at` that collides with what stands at `with`.
    pub(super) fn add_pair(&mut self, at: &Span, with: &Span, message: impl Into<String>) {
        let (at, with) = (Some(at.clone()), Some(with.clone()));
        self.push(Problem { message: message.into(), at, with });
    }

    /// Something wrong with the file as a whole.
    pub(super) fn add_about_file(&mut self, message: impl Into<String>) {
        self.push(Problem { message: message.into(), at: None, with: None });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    fn push(&mut self, problem: Problem) {
        if self.found.len() < ERRORS_MAX {
            self.found.push(problem);
        } else {
            self.omitted += 1;
        }
    }

    /// The errors as shown, by line.
    pub(super) fn into_errors(mut self, lines: &Lines<'_>, file: &Path) -> ConfigErrors {
        self.found.sort_by_key(|problem| problem.at.as_ref().map(|span| span.start));
        let errors = self.found.into_iter().map(|problem| ConfigError {
            message: problem.message,
            at: problem.at.map(|span| lines.excerpt(&span)),
            with: problem.with.map(|span| lines.excerpt(&span)),
        });
        let file = file.display().to_string();
        ConfigErrors { file, errors: errors.collect(), omitted: self.omitted }
    }
}

/// `value` in backticks for a message, short and printable.
pub(super) fn quoted(value: &str) -> String {
    format!("`{}`", printable(value, QUOTED_CHARS_MAX))
}

/// `text` cut to `chars_max` characters, with its control characters escaped.
pub(super) fn printable(text: &str, chars_max: usize) -> String {
    let mut chars = text.chars();
    let mut out = String::new();
    for c in chars.by_ref().take(chars_max) {
        if c.is_control() {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, fill: impl FnOnce(&mut Problems)) -> String {
        let mut problems = Problems::default();
        fill(&mut problems);
        problems.into_errors(&Lines::new(text), Path::new("cluster.toml")).to_string()
    }

    #[test]
    fn shows_line_column_source_and_caret() {
        let text = "a = 1\n  bursts = 60\n";
        assert_eq!(
            shown(text, |p| p.add(&(8..14), "unknown name")),
            "cluster.toml:2:3: unknown name\n  |\n2 |   bursts = 60\n  |   ^^^^^^"
        );
    }

    #[test]
    fn shows_both_places_of_a_collision() {
        let text = "a\n\n\n\n\n\n\n\n\nb\n";
        assert_eq!(
            shown(text, |p| p.add_pair(&(10..11), &(0..1), "twice")),
            "cluster.toml:10:1: twice\n   |\n10 | b\n   | ^\n   |\n 1 | a\n   | - the other one"
        );
    }

    #[test]
    fn errors_come_by_line_and_those_about_the_file_first() {
        let text = "a\nb\n";
        let all = shown(text, |p| {
            p.add(&(2..3), "second");
            p.add(&(0..1), "first");
            p.add_about_file("whole");
        });
        let heads: Vec<_> = all.lines().filter(|line| line.contains(".toml")).collect();
        assert_eq!(
            heads,
            ["cluster.toml: whole", "cluster.toml:1:1: first", "cluster.toml:2:1: second"]
        );
    }

    #[test]
    fn errors_beyond_the_bound_are_counted() {
        let mut problems = Problems::default();
        for _ in 0..ERRORS_MAX + 3 {
            problems.add(&(0..1), "bad");
        }
        let errors = problems.into_errors(&Lines::new("x"), Path::new("f"));
        assert_eq!((errors.errors().len(), errors.omitted()), (ERRORS_MAX, 3));
        assert!(errors.to_string().ends_with("f: and 3 more"));
    }

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let text = format!("{}bad{}", "x".repeat(5_000), "y".repeat(5_000));
        let all = shown(&text, |p| p.add(&(5_000..5_003), "long"));
        let lines: Vec<_> = all.lines().collect();
        assert!(lines[0].starts_with("cluster.toml:1:5001:"));
        assert!(lines.iter().all(|line| line.chars().count() <= EXCERPT_CHARS_MAX + 10));
        let caret = lines[3].find('^').expect("a caret");
        assert_eq!(&lines[2][caret..caret + 3], "bad");
    }

    #[test]
    fn columns_count_characters_and_control_characters_are_not_printed() {
        let all = shown("é = \u{1b}[31m\tx", |p| p.add(&(5..6), "escape"));
        assert!(all.starts_with("cluster.toml:1:5: escape"), "{all}");
        assert!(!all.contains('\u{1b}') && !all.contains('\t'));
    }

    #[test]
    fn a_span_over_lines_marks_the_first_only() {
        let all = shown("a = [\n1,\n2]", |p| p.add(&(4..11), "list"));
        assert!(all.ends_with("1 | a = [\n  |     ^"), "{all}");
    }

    #[test]
    fn a_span_at_or_beyond_the_end_still_has_a_caret() {
        for text in ["", "a", "a\n"] {
            let all = shown(text, |p| p.add(&(2..2), "end"));
            assert!(all.ends_with('^'), "{all}");
        }
    }

    #[test]
    fn repeated_values_are_short_and_printable() {
        assert_eq!(quoted("10"), "`10`");
        assert_eq!(quoted("a\u{7}\n"), "`a\\u{7}\\n`");
        let long = quoted(&"x".repeat(1_000));
        assert_eq!(long.chars().count(), QUOTED_CHARS_MAX + 3);
    }
}
