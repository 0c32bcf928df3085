//! `[audit]`: where a node records what it lets through, of which keys, and how much at most.
//!
//! It opens no file.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::error::{Problems, quoted};
use super::listen::replace_node;
use super::value::parse_size;
use super::written::Section;
use crate::audit::{
    AuditSettings, DEFAULT_MAX_BYTES, DEFAULT_SAMPLE, MAX_BYTES_MAX, MAX_BYTES_MIN, SAMPLE_MAX,
    Sample,
};

/// Folder of the record unless the file names another.
const DEFAULT_DIR: &str = "audit";

/// Reads `[audit]` of a file in `folder` as the node `node`.
pub(super) fn read_audit(
    mut section: Section<'_, '_>,
    folder: &Path,
    node: &str,
    problems: &mut Problems,
) -> AuditSettings {
    let parse_dir = |text: &str| match replace_node(text, node)? {
        path if path.is_empty() => Err("`dir` is empty; name a folder".to_owned()),
        path => Ok(PathBuf::from(path)),
    };
    let dir = section.take_parsed("dir", parse_dir, problems).map(Spanned::into_inner);
    let sample = section.take_parsed("sample", parse_sample, problems).map(Spanned::into_inner);
    let max_bytes = section.take_parsed("max_bytes", parse_max_bytes, problems);
    section.finish(problems);
    AuditSettings {
        dir: folder.join(dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DIR))),
        sample: sample.unwrap_or_else(|| Sample::one_in(DEFAULT_SAMPLE)),
        max_bytes: max_bytes.map_or(DEFAULT_MAX_BYTES, Spanned::into_inner),
    }
}

/// `1/64`: one key in 64.
fn parse_sample(text: &str) -> Result<Sample, String> {
    let one_in = text.strip_prefix("1/").filter(|digits| !digits.starts_with(['+', '0']));
    match one_in.and_then(|digits| digits.parse().ok()) {
        Some(one_in) if one_in <= SAMPLE_MAX => Ok(Sample::one_in(one_in)),
        _ => Err(format!(
            "{} is no part of all keys; write `1/1`, which is every key, to `1/{SAMPLE_MAX}`",
            quoted(text)
        )),
    }
}

fn parse_max_bytes(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if (MAX_BYTES_MIN..=MAX_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!(
            "the size {} is out of range for `max_bytes`; write `{}MiB` to `{}GiB`",
            quoted(text),
            MAX_BYTES_MIN >> 20,
            MAX_BYTES_MAX >> 30
        )),
    }
}
