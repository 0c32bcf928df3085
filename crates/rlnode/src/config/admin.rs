//! `[admin]`: what lets an operator act from elsewhere.
//!
//! It opens no file.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::error::Problems;
use super::listen::replace_node;
use super::written::Section;

/// Reads `[admin]` of a file in `folder` as the node `node`: the file with the token.
pub(super) fn read_admin(
    mut section: Section<'_, '_>,
    folder: &Path,
    node: &str,
    problems: &mut Problems,
) -> Option<PathBuf> {
    let parse = |text: &str| match replace_node(text, node)? {
        path if path.is_empty() => Err("`token_file` is empty; name a file".to_owned()),
        path => Ok(folder.join(path)),
    };
    let file = section.take_parsed("token_file", parse, problems).map(Spanned::into_inner);
    if file.is_none() && !section.has("token_file") {
        let message = "`[admin]` does not say where the token is; write `token_file = \"FILE\"`";
        problems.add(section.span(), message);
    }
    section.finish(problems);
    file
}
