//! An answer of the cookbook: ``denied by `login`, again in 15m``.

use limiter::{Decision, Reason, Verdict, Wait};

use crate::time::duration_ns;

/// What a row expects. What it does not name may be anything.
#[derive(Debug, Default)]
pub(crate) struct Expected<'d> {
    allowed: bool,
    limit_name: Option<&'d str>,
    remaining: Option<u64>,
    retry_after: Option<Wait>,
    reset_after: Option<Wait>,
    delay: Option<Wait>,
    reason: Option<&'d str>,
    /// A shadow limit that would deny.
    would_deny: Option<&'d str>,
}

impl<'d> Expected<'d> {
    pub(crate) fn read(text: &'d str) -> Result<Self, String> {
        let mut parts = text.split(", ");
        let verdict = parts.next().unwrap_or_default();
        let mut expected = Self::default();
        match verdict {
            "allowed" => expected.allowed = true,
            "denied" => {}
            _ => {
                let name = verdict.strip_prefix("denied by ").and_then(quoted);
                expected.limit_name = Some(name.ok_or_else(|| unknown(verdict))?);
            }
        }
        for part in parts {
            expected.read_part(part).ok_or_else(|| unknown(part))?;
        }
        Ok(expected)
    }

    fn read_part(&mut self, part: &'d str) -> Option<()> {
        let wait = |text| duration_ns(text).map(Wait::from_ns);
        if let Some(left) = part.strip_suffix(" left") {
            self.remaining = Some(left.parse().ok()?);
        } else if part == "never again" {
            self.retry_after = Some(Wait::NEVER);
        } else if let Some(text) = part.strip_prefix("again in ") {
            self.retry_after = Some(wait(text)?);
        } else if let Some(text) = part.strip_prefix("full in ") {
            self.reset_after = Some(wait(text)?);
        } else if let Some(text) = part.strip_prefix("leaves in ") {
            self.delay = Some(wait(text)?);
        } else if let Some(name) = part.strip_prefix("for reason ") {
            self.reason = Some(quoted(name)?);
        } else {
            self.would_deny = Some(quoted(part.strip_suffix(" would deny")?)?);
        }
        Some(())
    }

    /// Compares a decision: its verdict for each call of a row, its numbers for the last.
    pub(crate) fn compare(&self, decision: &Decision<'_>, is_last: bool) -> Result<(), String> {
        let verdict = &decision.verdict;
        if verdict.allowed != self.allowed {
            return Err(shown(verdict));
        }
        if let Some(name) = self.limit_name {
            same("by", verdict.limit_name, name)?;
        }
        if !is_last {
            return Ok(());
        }
        if let Some(remaining) = self.remaining
            && verdict.remaining != Some(remaining)
        {
            return Err(format!("{} left, not {remaining}", number(verdict.remaining)));
        }
        same_wait("again in", verdict.retry_after, self.retry_after)?;
        same_wait("full in", verdict.reset_after, self.reset_after)?;
        same_wait("leaves in", verdict.delay, self.delay)?;
        if let Some(reason) = self.reason {
            same("reason", verdict.reason.as_str(), reason)?;
        }
        let Some(name) = self.would_deny else { return Ok(()) };
        let shadow = decision.details.iter().find(|detail| detail.limit_name == name);
        match shadow {
            Some(detail) if detail.shadow && !detail.allowed => Ok(()),
            Some(_) => Err(format!("`{name}` would allow, or decides")),
            None => Err(format!("`{name}` does not apply")),
        }
    }
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.strip_suffix('`')
}

fn unknown(part: &str) -> String {
    format!("`{part}` is no part of an answer")
}

fn shown(verdict: &Verdict<'_>) -> String {
    if verdict.allowed {
        return format!("allowed, {} left", number(verdict.remaining));
    }
    let by = match verdict.reason {
        Reason::Unmatched => String::new(),
        _ => format!(" by `{}`", verdict.limit_name),
    };
    format!("denied{by}, again in {} ns", verdict.retry_after.to_ns())
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "no number".into(), |number| number.to_string())
}

fn same(what: &str, is: &str, expected: &str) -> Result<(), String> {
    if is == expected { Ok(()) } else { Err(format!("{what} `{is}`, not `{expected}`")) }
}

fn same_wait(what: &str, is: Wait, expected: Option<Wait>) -> Result<(), String> {
    match expected {
        Some(expected) if is != expected => {
            Err(format!("{what} {} ns, not {}", is.to_ns(), expected.to_ns()))
        }
        _ => Ok(()),
    }
}
