//! The configuration as checked: the whole file as typed values, or everything wrong with it.
//!
//! It is pure: the text, the file's name and the host are arguments.

use std::path::{Path, PathBuf};

use limiter::{CARRIED, Lists, Plan, RULES_MAX, Unmatched, WhenFull};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::FILE_BYTES_MAX;
use super::admin::read_admin;
use super::audit::read_audit;
use super::cluster::{Cluster, WrittenCluster, WrittenHost};
use super::envoy::read_mappings;
use super::error::{ConfigErrors, Lines, Problems, Span, quoted};
use super::headers::read_headers;
use super::limits::{LimitSettings, ReadLimit, read_limits, report_plan_error};
use super::listen::{Listen, Node, WrittenListen};
use super::lists::read_lists;
use super::settings::{
    ADMIN, AUDIT, CLUSTER, ENVOY, LIMIT, LISTEN, MEMORY, NODE, NODE_CLUSTER, NODE_LISTEN, TOP,
};
use super::value::{check_name, parse_size};
use super::warnings;
use super::written::Section;
use crate::audit::AuditSettings;
use crate::endpoint::envoy::mapping::Mappings;
use crate::endpoint::http::Dialects;

/// Memory for the tables unless the file says otherwise, in bytes.
pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;
/// Least memory for the tables, in bytes. Below it not even a few thousand keys fit.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Most memory for the tables, in bytes. The node makes the header of every table at its start, 128
/// bytes for each 311,440 of memory: 220,000 tables and 28 MB of headers at this bound, a thousand
/// times that if it were in TiB. A node with this much was started, ready in 0.1 s with 42 MB
/// resident; none was filled.
pub const MEMORY_BYTES_MAX: u64 = 64 << 30;
/// Most entries that `max_entries` may allow. More than the largest memory holds is a slip.
pub const ENTRIES_MAX: u64 = 1_000_000_000_000;

/// What a file without limits is answered with.
const MINIMAL_FILE: &str = "there is no limit in it; a file needs one at least, such as\n\n\
                            [[limit]]\nname = \"per-key\"\nrate = \"10/s\"";

/// A configuration that is right as a whole, and can be put in force as it is.
#[derive(Debug)]
pub struct Config {
    /// Name of this node.
    pub node: String,
    /// Where it listens.
    pub listen: Listen,
    /// Its cluster; none: it is alone.
    pub cluster: Option<Cluster>,
    /// Bounds of the tables.
    pub memory: Memory,
    /// Where it records what it lets through; none: it does not.
    pub audit: Option<AuditSettings>,
    /// What descriptors of Envoy mean.
    pub envoy: Mappings,
    /// The file with the token by which operators act from elsewhere; none: they cannot.
    pub admin: Option<PathBuf>,
    /// Logs show keys as they are, not as hashes.
    pub show_keys: bool,
    /// What tells the clients of a gateway about their limits.
    pub headers: Dialects,
    /// The compiled limits, with `lists` ahead of them.
    pub plan: Plan,
    /// Who passes, and who does not, whatever the limits say.
    pub lists: Lists,
    /// What the file says about each limit of the plan beside what the limiter needs, in the same
    /// order.
    pub limit_settings: Vec<LimitSettings>,
    /// What an operator should know although nothing is wrong, one sentence each, to be logged.
    pub warnings: Vec<String>,
}

/// Bounds of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Memory for the tables, in bytes: [`MEMORY_BYTES_MIN`] to [`MEMORY_BYTES_MAX`].
    pub max_bytes: u64,
    /// Most entries, 1 to [`ENTRIES_MAX`]; none: as many as the memory holds.
    pub max_entries: Option<u64>,
    /// What a new key gets when the cap is met and no entry is at rest.
    pub when_full: WhenFull,
}

impl Default for Memory {
    fn default() -> Self {
        Self { max_bytes: DEFAULT_MEMORY_BYTES, max_entries: None, when_full: WhenFull::Overflow }
    }
}

/// Reads the configuration in `bytes`, which came from `file`, as the host `node`.
///
/// `file` is what messages call it, and its folder is where relative paths begin; it is not opened.
///
/// # Errors
/// Everything wrong with the file, up to [`ERRORS_MAX`](super::ERRORS_MAX) faults. Never panics,
/// whatever the bytes.
pub fn parse(bytes: &[u8], file: &Path, node: &Node) -> Result<Config, ConfigErrors> {
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!(
            "the file is larger than {} MiB; is it a configuration of rlnode?",
            FILE_BYTES_MAX >> 20
        );
        return Err(ConfigErrors::about_file(file, message));
    }
    let text = utf8(bytes, file)?;
    let lines = Lines::new(text);
    let mut problems = Problems::default();
    let config = match DeTable::parse(text) {
        Ok(root) => read(root.get_ref(), file, node, &lines, &mut problems),
        Err(error) => {
            report_syntax_error(&error, text, &mut problems);
            None
        }
    };
    match config {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(problems.into_errors(&lines, file)),
    }
}

fn utf8<'b>(bytes: &'b [u8], file: &Path) -> Result<&'b str, ConfigErrors> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = 1 + valid.iter().filter(|b| **b == b'\n').count();
        let message = format!("line {line} is not UTF-8; save the file as UTF-8 text");
        ConfigErrors::about_file(file, message)
    })
}

fn report_syntax_error(error: &toml::de::Error, text: &str, problems: &mut Problems) {
    let span = error.span().unwrap_or(0..0);
    let message = match error.message() {
        "duplicate key" => {
            let name = quoted(text.get(span.clone()).unwrap_or_default());
            format!("{name} is written twice; drop one")
        }
        other => format!("this is not toml: {other}"),
    };
    problems.add(&span, message);
}

/// Reads the whole document. None where something is wrong, which `problems` then tells.
fn read(
    root: &DeTable<'_>,
    file: &Path,
    node: &Node,
    lines: &Lines<'_>,
    problems: &mut Problems,
) -> Option<Config> {
    let mut top = Section::new(&TOP, root, 0..0);
    check_node_name(&node.name, None, problems);
    let unmatched_words = [("allow", Ok(Unmatched::Allow)), ("deny", Ok(Unmatched::Deny))];
    let unmatched = top.take_word("unmatched", &unmatched_words, problems);
    let show_keys = top.take_bool("show_keys", problems).is_some_and(Spanned::into_inner);
    let headers = read_headers(&mut top, problems);
    let (listen, cluster) = read_places(&mut top, file, node, problems);
    let memory = match top.take_section("memory", &MEMORY, problems) {
        Some(section) => read_memory(section, problems),
        None => Memory::default(),
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    let audit = top.take_section("audit", &AUDIT, problems);
    let audit = audit.map(|section| read_audit(section, folder, &node.name, problems));
    let admin = top.take_section("admin", &ADMIN, problems);
    let admin = admin.and_then(|section| read_admin(section, folder, &node.name, problems));
    let mappings = top.take_sections("envoy", &ENVOY, problems).unwrap_or_default();
    let envoy = read_mappings(mappings, problems);
    let sections = top.take_sections("limit", &LIMIT, problems).unwrap_or_default();
    let has_limits = !sections.is_empty();
    let limits = read_limits(sections, problems);
    let lists = read_lists(&mut top, problems);
    top.finish(problems);
    if !problems.is_empty() {
        return None;
    }
    if !has_limits {
        problems.add_about_file(MINIMAL_FILE);
        return None;
    }
    let plan = compile(&limits, unmatched.unwrap_or(Unmatched::Allow), problems)?;
    let plan = match listen.redis.unix || !listen.redis.tcp.is_empty() {
        true => with_carried(plan, &limits, problems)?,
        false => plan,
    };
    // Who stands in both was reported with both places.
    let plan = plan.with_lists(lists.clone()).map_err(|why| problems.add_about_file(why)).ok()?;
    let of_limits = cluster.as_ref().map(|cluster| warnings::of_limits(&plan, cluster));
    Some(Config {
        node: node.name.clone(),
        warnings: [listen.warnings(), of_limits.unwrap_or_default()].concat(),
        listen,
        cluster,
        memory,
        audit,
        admin,
        envoy,
        show_keys,
        headers,
        plan,
        lists,
        limit_settings: limits.iter().map(|read| settings(read, lines)).collect(),
    })
}

fn compile(limits: &[ReadLimit], unmatched: Unmatched, problems: &mut Problems) -> Option<Plan> {
    let list = limits.iter().map(|read| read.limit.clone()).collect();
    Plan::compile(list, unmatched).map_err(|error| report_plan_error(&error, limits, problems)).ok()
}

/// The same plan with the limit of calls that carry their numbers, as the Redis door takes them.
fn with_carried(plan: Plan, limits: &[ReadLimit], problems: &mut Problems) -> Option<Plan> {
    if let Some(read) = limits.iter().find(|read| read.limit.name == CARRIED) {
        let message = format!(
            "`{CARRIED}` is the limit of calls that carry their own numbers, which `[listen] redis` \
             opens; give this one another name"
        );
        problems.add(&read.span, message);
        return None;
    }
    let plan = plan.with_carried();
    if !plan.rules().iter().any(limiter::Rule::is_carried) {
        problems.add_about_file(format!(
            "there are {RULES_MAX} limits and overrides, and `[listen] redis` needs one more for calls \
             that carry their own numbers; take one out"
        ));
        return None;
    }
    Some(plan)
}

fn settings(read: &ReadLimit, lines: &Lines<'_>) -> LimitSettings {
    LimitSettings {
        line: lines.line_at(read.span.start),
        override_lines: read.override_spans.iter().map(|span| lines.line_at(span.start)).collect(),
    }
}

/// Reads `[listen]` and `[cluster]`, and what every `[node.NAME]` has in their place, so that a fault
/// in one shows on all hosts.
fn read_places(
    top: &mut Section<'_, '_>,
    file: &Path,
    node: &Node,
    problems: &mut Problems,
) -> (Listen, Option<Cluster>) {
    let folder = file.parent().unwrap_or(Path::new(""));
    let general = match top.take_section("listen", &LISTEN, problems) {
        Some(section) => {
            WrittenListen::read(section, &node.name, folder, WrittenListen::default(), problems)
        }
        None => WrittenListen::default(),
    };
    let has_cluster = top.has("cluster");
    let cluster = top.take_section("cluster", &CLUSTER, problems);
    let cluster =
        cluster.map(|section| WrittenCluster::read(section, &node.name, folder, problems));
    let (mut own, mut host) = (general.clone(), WrittenHost::default());
    for (name, value) in nodes(top, problems) {
        check_node_name(name.get_ref(), Some(&name.span()), problems);
        let Some(table) = value.get_ref().as_table() else {
            problems.add(
                &value.span(),
                "`node` takes a table per node; write `[node.NAME.listen]` or \
                 `[node.NAME.cluster]`",
            );
            continue;
        };
        let name = name.get_ref();
        let mut section = Section::new(&NODE, table, value.span());
        if let Some(listen) = section.take_section("listen", &NODE_LISTEN, problems) {
            let read = WrittenListen::read(listen, name, folder, general.clone(), problems);
            if *name == node.name {
                own = read;
            }
        }
        if let Some(cluster) = section.take_section("cluster", &NODE_CLUSTER, problems) {
            if !has_cluster {
                let why = "this has no effect without `[cluster]`; write that too, or drop this";
                problems.add(cluster.span(), why);
            }
            let read = WrittenHost::read(cluster, name, problems);
            if *name == node.name {
                host = read;
            }
        }
        section.finish(problems);
    }
    let cluster = cluster.and_then(|cluster| cluster.resolve(host, &node.name, problems));
    (own.resolve(&node.environment, problems), cluster)
}

type Entry<'v, 'a> = (Spanned<&'v str>, &'v Spanned<DeValue<'a>>);

/// The entries of `[node]`: names of nodes with what is said about each.
fn nodes<'v, 'a>(top: &mut Section<'v, 'a>, problems: &mut Problems) -> Vec<Entry<'v, 'a>> {
    let Some(value) = top.take("node") else { return Vec::new() };
    let Some(table) = value.get_ref().as_table() else {
        return top.wrong_type("node", value, "a table", problems).unwrap_or_default();
    };
    table
        .iter()
        .map(|(key, value)| (Spanned::new(key.span(), key.get_ref().as_ref()), value))
        .collect()
}

fn check_node_name(name: &str, at: Option<&Span>, problems: &mut Problems) {
    match (check_name(name, "node"), at) {
        (Ok(()), _) => {}
        (Err(message), Some(at)) => problems.add(at, message),
        (Err(message), None) => {
            problems.add_about_file(format!("{message} (`--node NAME` gives it)"));
        }
    }
}

fn read_memory(mut section: Section<'_, '_>, problems: &mut Problems) -> Memory {
    let default = Memory::default();
    let parse_max = |text: &str| match parse_size(text)? {
        bytes if (MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!(
            "the size {} is out of range for `max`; write `{}MiB` to `{}GiB`",
            quoted(text),
            MEMORY_BYTES_MIN >> 20,
            MEMORY_BYTES_MAX >> 30
        )),
    };
    let max = section.take_parsed("max", parse_max, problems);
    let max_entries = section.take_integer("max_entries", 1..=ENTRIES_MAX, problems);
    let words = [
        ("overflow", Ok(WhenFull::Overflow)),
        ("allow", Ok(WhenFull::Allow)),
        ("deny", Ok(WhenFull::Deny)),
    ];
    let when_full = section.take_word("when_full", &words, problems);
    section.finish(problems);
    Memory {
        max_bytes: max.map_or(default.max_bytes, Spanned::into_inner),
        max_entries: max_entries.map(Spanned::into_inner),
        when_full: when_full.unwrap_or(default.when_full),
    }
}
