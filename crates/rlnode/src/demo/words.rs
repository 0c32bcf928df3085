//! Numbers, names and times of the demo in words. All of it is integer arithmetic.

use super::MEMBERS_MAX;

/// The letters of the nodes, by index.
const LETTERS: [&str; MEMBERS_MAX] = ["A", "B", "C", "D", "E"];

/// The letter by which the node `index` is shown.
pub(super) fn letter(index: usize) -> &'static str {
    LETTERS.get(index).copied().unwrap_or("?")
}

/// The name of the node `index`, as its certificate and its peers have it.
pub(super) fn node_name(index: usize) -> String {
    letter(index).to_ascii_lowercase()
}

/// `12.4 s`, rounded down to the tenth.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

/// `0.6 s`, rounded up to the tenth: how long something took.
pub(super) fn duration(ms: u64) -> String {
    seconds(ms.div_ceil(100) * 100)
}

/// `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Thousandths to one decimal, rounded up: `0`, `0.4`, `12`.
pub(super) fn tenths(milli: u64) -> String {
    let tenths = milli.div_ceil(100);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => grouped(whole),
        (whole, tenth) => format!("{}.{tenth}", grouped(whole)),
    }
}

/// `part` of `whole` in per cent, rounded to the nearest; 0 of nothing.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).saturating_add(whole / 2).checked_div(whole).unwrap_or(0)
}

/// `A`, `A and B`, `A, B and C`.
pub(super) fn letters(nodes: &[usize]) -> String {
    match nodes {
        [] => "nobody".to_owned(),
        [one] => letter(*one).to_owned(),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|node| letter(*node)).collect();
            format!("{} and {}", first.join(", "), letter(*last))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_rounded_in_our_favour() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 400, 401, 12_000].map(tenths), ["0", "0.1", "0.4", "0.5", "12"]);
        assert_eq!([0, 12_499].map(seconds), ["0.0 s", "12.4 s"]);
        assert_eq!([0, 511, 1_500].map(duration), ["0.0 s", "0.6 s", "1.5 s"]);
        assert_eq!([percent(1, 3), percent(2, 3), percent(1, 0)], [33, 67, 0]);
    }

    #[test]
    fn nodes_are_listed_as_people_do() {
        assert_eq!(letters(&[]), "nobody");
        assert_eq!(letters(&[1]), "B");
        assert_eq!(letters(&[0, 2]), "A and C");
        assert_eq!(letters(&[0, 1, 2]), "A, B and C");
        assert_eq!((node_name(4), letter(5)), ("e".to_owned(), "?"));
    }
}
