//! YAML as a tree of texts, lists and tables with their lines, bounded in size and depth.
//!
//! Anchors, aliases and merged tables (`<<`) are resolved; what a text means is left to who reads it.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

/// Deepest nesting.
pub(super) const DEPTH_MAX: usize = 64;
/// Most nodes, those that aliases repeat included: a short text could stand for more than any memory holds.
pub(super) const NODES_MAX: usize = 200_000;

/// The name under which a table takes over what another has.
const MERGE: &str = "<<";

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Line where it begins, from 1.
    pub(super) line: usize,
    /// What it is.
    pub(super) kind: Kind,
    /// Nodes of it, itself included.
    size: usize,
}

/// What a part is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing: left out, `null` or `~`.
    Nothing,
    /// A text, a number or a truth value, as it is written.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Names and what they stand for, in the order of the text. No name stands twice.
    Table(Vec<(String, Node)>),
}

impl Node {
    /// What `name` stands for; none: not in a table, or nothing.
    pub(super) fn at(&self, name: &str) -> Option<&Self> {
        let Kind::Table(entries) = &self.kind else { return None };
        let found = entries.iter().find(|(own, _)| own == name)?;
        Some(&found.1).filter(|node| node.kind != Kind::Nothing)
    }
}

/// Why a text is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    /// Line, from 1.
    pub(super) line: usize,
    /// What is wrong.
    pub(super) message: String,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// The first document.
    pub(super) document: Node,
    /// Line of a second one, of which nothing is read.
    pub(super) second: Option<usize>,
}

/// Reads the first document of `text`.
///
/// # Errors
/// It is not YAML, a name stands twice in a table or is no text, or it is larger or deeper than the bounds.
pub(super) fn read(text: &str) -> Result<Read, YamlError> {
    let mut reader =
        Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), nodes: 0 };
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => {
                return Ok(Read { document: nothing(line_of(&span)), second: None });
            }
            Event::DocumentStart(_) => break,
            _ => {}
        }
    }
    let document = reader.node(0)?;
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(Read { document, second: None }),
            (Event::DocumentStart(_), span) => {
                return Ok(Read { document, second: Some(line_of(&span)) });
            }
            _ => {}
        }
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), YamlError> {
        match self.parser.next_event() {
            Some(event) => event.map_err(YamlError::from),
            None => Err(YamlError { line: 1, message: "the text ends in the middle".into() }),
        }
    }

    /// The node that comes next.
    fn node(&mut self, depth: usize) -> Result<Node, YamlError> {
        let (event, span) = self.next()?;
        self.node_of(event, &span, depth)
    }

    fn node_of(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<Node, YamlError> {
        let line = line_of(span);
        if depth > DEPTH_MAX {
            let message = format!("it is nested deeper than {DEPTH_MAX}");
            return Err(YamlError { line, message });
        }
        let (kind, anchor) = match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let Some(node) = node else {
                    let message = "an alias stands within what it names".to_owned();
                    return Err(YamlError { line, message });
                };
                self.count(node.size, line)?;
                return Ok(Node { line, ..node });
            }
            Event::Scalar(text, style, anchor, _) => (kind_of(&text, style), anchor),
            Event::SequenceStart(anchor, _) => (Kind::List(self.list(depth)?), anchor),
            Event::MappingStart(anchor, _) => (Kind::Table(self.table(depth)?), anchor),
            _ => (Kind::Nothing, 0),
        };
        self.count(1, line)?;
        let node = Node { line, size: 1 + size_within(&kind), kind };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, YamlError> {
        let mut list = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(list);
            }
            list.push(self.node_of(event, &span, depth + 1)?);
        }
    }

    fn table(&mut self, depth: usize) -> Result<Vec<(String, Node)>, YamlError> {
        let (mut table, mut merged): (Vec<(String, Node)>, Vec<Node>) = (Vec::new(), Vec::new());
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let name = self.node_of(event, &span, depth + 1)?;
            let Kind::Text(text) = name.kind else {
                let message = "what stands before a `:` is no text".to_owned();
                return Err(YamlError { line: name.line, message });
            };
            let value = self.node(depth + 1)?;
            if text == MERGE {
                merged.push(value);
            } else if table.iter().any(|(known, _)| *known == text) {
                let message = format!("`{}` stands twice in a table", text.escape_debug());
                return Err(YamlError { line: name.line, message });
            } else {
                table.push((text, value));
            }
        }
        for node in merged {
            merge(&mut table, node)?;
        }
        Ok(table)
    }

    fn count(&mut self, nodes: usize, line: usize) -> Result<(), YamlError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        let message =
            format!("it has more than {NODES_MAX} values, with those that aliases repeat");
        Err(YamlError { line, message })
    }
}

/// Adds what `node`, a table or a list of tables, has and `table` has not.
fn merge(table: &mut Vec<(String, Node)>, node: Node) -> Result<(), YamlError> {
    match node.kind {
        Kind::Table(entries) => {
            for (name, value) in entries {
                if table.iter().all(|(known, _)| *known != name) {
                    table.push((name, value));
                }
            }
            Ok(())
        }
        Kind::List(nodes) if nodes.iter().all(|it| matches!(it.kind, Kind::Table(_))) => {
            nodes.into_iter().try_for_each(|node| merge(table, node))
        }
        _ => {
            let message = format!("`{MERGE}` stands before something that is no table");
            Err(YamlError { line: node.line, message })
        }
    }
}

fn kind_of(text: &str, style: ScalarStyle) -> Kind {
    let is_nothing = matches!(text, "" | "~" | "null" | "Null" | "NULL");
    if style == ScalarStyle::Plain && is_nothing { Kind::Nothing } else { Kind::Text(text.into()) }
}

fn size_within(kind: &Kind) -> usize {
    match kind {
        Kind::Nothing | Kind::Text(_) => 0,
        Kind::List(nodes) => nodes.iter().map(|node| node.size).sum(),
        Kind::Table(entries) => entries.iter().map(|(_, node)| node.size).sum(),
    }
}

fn nothing(line: usize) -> Node {
    Node { line, kind: Kind::Nothing, size: 1 }
}

fn line_of(span: &Span) -> usize {
    span.start.line()
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self { line: error.marker().line(), message: error.info().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Node {
        read(text).unwrap_or_else(|error| panic!("{error:?}\n{text}")).document
    }

    fn text_at<'n>(node: &'n Node, path: &[&str]) -> Option<&'n str> {
        let found = path.iter().try_fold(node, |node, name| node.at(name))?;
        match &found.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn texts_lists_and_tables_have_their_lines() {
        let read = document("a: 1\nb:\n  - c: \"x y\"\n    d: ~\n  - [e, 'null']\n");
        assert_eq!(text_at(&read, &["a"]), Some("1"));
        let Kind::List(list) = &read.at("b").expect("a list").kind else { panic!("{read:?}") };
        assert_eq!((list[0].line, text_at(&list[0], &["c"])), (3, Some("x y")));
        assert_eq!(list[0].at("d"), None);
        let Kind::List(inner) = &list[1].kind else { panic!("{list:?}") };
        assert_eq!(inner[1].kind, Kind::Text("null".into()), "it is quoted");
        assert_eq!(document("").kind, Kind::Nothing);
        assert_eq!(document("# no more\n").kind, Kind::Nothing);
    }

    #[test]
    fn aliases_and_merged_tables_are_resolved() {
        let text = "base: &base\n  unit: day\n  n: 1\none:\n  <<: *base\n  n: 2\n\
                    two:\n  <<: [{n: 3}, *base]\nsame: *base\n";
        let read = document(text);
        let at = |path: &[&str]| text_at(&read, path).map(ToOwned::to_owned);
        assert_eq!(
            (at(&["one", "unit"]), at(&["one", "n"])),
            (Some("day".into()), Some("2".into()))
        );
        assert_eq!(
            (at(&["two", "unit"]), at(&["two", "n"])),
            (Some("day".into()), Some("3".into()))
        );
        assert_eq!(at(&["same", "n"]), Some("1".into()));
    }

    #[test]
    fn a_second_document_is_seen() {
        assert_eq!(read("a: 1\n---\nb: 2\n").expect("YAML").second, Some(2));
        assert_eq!(read("---\na: 1\n...\n").expect("YAML").second, None);
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_line() {
        for (text, line) in [
            ("a: 1\nb: [", 3),
            ("a: 1\na: 2\n", 2),
            ("? [a]\n: 1\n", 1),
            ("a: 1\n<<: 2\n", 2),
            ("a: &a [*a]\n", 1),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.line <= line, "{text:?}: {error:?}");
        }
    }

    /// A few lines of aliases could stand for any number of values.
    #[test]
    fn size_and_depth_are_bounded() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..20 {
            let before = format!("*a{}", level - 1);
            let repeated = vec![before; 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{repeated}]\n"));
        }
        let error = read(&bomb).expect_err("too large");
        assert!(error.message.contains("200000"), "{error:?}");
        let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
        assert!(read(&deep).expect_err("too deep").message.contains("64"));
        assert!(read(&format!("{}{}", "[".repeat(60), "]".repeat(60))).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[ab:\\-\\[\\]{}&*<'\" \n#|>!?,~]{0,40}") {
            let _ = read(&text);
        }
    }
}
