//! Names of limits and overrides: checked, or derived from what an override matches.

use crate::identity::unkeyed_hash;
use crate::{NAME_BYTES_MAX, Override, Selector};

pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let printable = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\' | '/');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(printable) {
        return Err(format!(
            "the name `{}` is not 1 to {NAME_BYTES_MAX} printable ASCII characters without `\"`, \
             `\\` and `/`",
            name.escape_debug()
        ));
    }
    Ok(())
}

/// The given name, or one derived from what the override matches and from nothing else: the same on
/// every node, wherever it stands in the file.
pub(crate) fn override_name(over: &Override) -> Result<String, String> {
    if let Some(name) = &over.name {
        check_name(name)?;
    }
    let Selector { endpoint, attributes, keys } = &over.selector;
    if endpoint.is_none() && attributes.is_empty() && keys.is_empty() {
        return Err("the override matches everything that its limit matches; give it `endpoint`, \
                    `attributes` or `keys`"
            .into());
    }
    if let Some(name) = &over.name {
        return Ok(name.clone());
    }
    let mut parts: Vec<String> =
        endpoint.iter().map(|endpoint| printable(endpoint.as_bytes())).collect();
    let mut pairs: Vec<_> = attributes.iter().collect();
    pairs.sort();
    parts.extend(pairs.iter().map(|(name, value)| {
        format!("{}={}", printable(name.as_bytes()), printable(value.as_bytes()))
    }));
    let mut keys: Vec<_> = keys.iter().map(|key| printable(key)).collect();
    keys.sort();
    if !keys.is_empty() {
        parts.push(format!("key={}", keys.join(",")));
    }
    Ok(shortened(parts.join(";")))
}

/// `bytes` with everything but printable ASCII, and what would be ambiguous, as `%XX`.
fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'"' | b'\\' | b'%' | b',' | b';' | b'=' => out.push_str(&format!("%{byte:02X}")),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// `name` itself if it is short enough, else its beginning and a hash of the whole.
fn shortened(name: String) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    format!("{}~{:016x}", &name[..NAME_BYTES_MAX - 17], unkeyed_hash(name.as_bytes()))
}
