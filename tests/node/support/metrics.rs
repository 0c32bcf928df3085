//! The metrics of a node, as a reader of Prometheus's text format sees them.

/// One reading.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// The series as written, name and labels, with its value.
    series: Vec<(String, String)>,
}

impl Metrics {
    /// Reads the text format.
    pub(crate) fn parse(text: &str) -> Self {
        let series = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(|line| {
                let (series, value) = line.rsplit_once(' ').expect("a series and its value");
                (series.to_owned(), value.to_owned())
            })
            .collect();
        Self { series }
    }

    /// Every series, name and labels as written.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.series.iter().map(|(series, _)| series.as_str()).collect()
    }

    /// The sum of every series of this name that has all of these labels.
    ///
    /// # Panics
    /// If there is none: a name that was misspelt would count nothing for ever.
    #[track_caller]
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let matching: Vec<u64> = self
            .series
            .iter()
            .filter(|(series, _)| series.split('{').next() == Some(name))
            .filter(|(series, _)| labels.iter().all(|label| series.contains(label.as_str())))
            .map(|(series, value)| {
                value.parse().unwrap_or_else(|_| panic!("`{series}` is no whole number: `{value}`"))
            })
            .collect();
        assert!(!matching.is_empty(), "no `{name}` with {labels:?} in {:#?}", self.names());
        matching.iter().sum()
    }

    /// The one series of this name with these labels; none: there is none.
    #[track_caller]
    pub(crate) fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        let has = |series: &str| {
            let mut labels = labels.iter();
            labels.all(|(label, value)| series.contains(&format!("{label}=\"{value}\"")))
        };
        let found = self.series.iter().filter(|(it, _)| it.split('{').next() == Some(name));
        let mut found = found.filter(|(series, _)| has(series));
        found.next().map(|(_, value)| value.parse().expect("a whole number"))
    }

    /// Checks at a door that ended so.
    #[track_caller]
    pub(crate) fn checks(&self, door: &str, outcome: &str) -> u64 {
        self.sum("rlnode_checks_total", &[("door", door), ("outcome", outcome)])
    }

    /// Errors of one kind at a door.
    #[track_caller]
    pub(crate) fn errors(&self, door: &str, kind: &str) -> u64 {
        self.sum("rlnode_errors_total", &[("door", door), ("kind", kind)])
    }
}
