//! The configuration file of a node under test: its limits, and doors of its own.

/// More units than any test spends.
pub(crate) const PLENTY: u64 = 1_000_000;

/// What the file says. Doors are on loopback at ports that the system chooses, and at unix sockets
/// in the node's own folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    top: String,
    listen: String,
    tables: String,
}

impl Config {
    /// A file with these limits, or other tables, as they stand in TOML.
    pub(crate) fn new(tables: &str) -> Self {
        Self { tables: tables.to_owned(), ..Self::default() }
    }

    /// One limit `per-key` of `rate` for each key.
    pub(crate) fn of_rate(rate: &str) -> Self {
        Self::new(&format!("[[limit]]\nname = \"per-key\"\nrate = \"{rate}\"\n"))
    }

    /// One limit `per-key` that lets [`PLENTY`] units through, and none comes back while a test runs.
    pub(crate) fn with_plenty() -> Self {
        let limit = format!("[[limit]]\nname = \"per-key\"\nrate = \"1/h\"\nburst = {PLENTY}\n");
        Self::new(&limit)
    }

    /// Adds lines at the top of the file.
    pub(crate) fn top(mut self, lines: &str) -> Self {
        self.top.push_str(lines);
        self.top.push('\n');
        self
    }

    /// Adds lines to `[listen]`.
    pub(crate) fn listen(mut self, lines: &str) -> Self {
        self.listen.push_str(lines);
        self.listen.push('\n');
        self
    }

    /// The file.
    pub(crate) fn text(&self) -> String {
        let Self { top, listen, tables } = self;
        let mut doors = String::new();
        for (name, value) in
            [("udp", "127.0.0.1:0"), ("http", "127.0.0.1:0"), ("unix", super::node::SOCKET_FILE)]
        {
            if !listen.lines().any(|line| line.starts_with(&format!("{name} "))) {
                doors.push_str(&format!("{name} = \"{value}\"\n"));
            }
        }
        format!("{top}[listen]\n{doors}{listen}\n{tables}")
    }
}
