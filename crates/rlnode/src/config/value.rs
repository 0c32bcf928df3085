//! The values of the configuration file that are written as text: durations, rates, sizes, modes.
//!
//! Each reader takes the text and gives the exact value, in whole numbers, or a message that says
//! what to write instead. It knows no setting and no line.

use limiter::Rate;

use super::error::quoted;

const NS_PER_US: u64 = 1_000;
const NS_PER_MS: u64 = 1_000 * NS_PER_US;
const NS_PER_SEC: u64 = 1_000 * NS_PER_MS;
const NS_PER_MIN: u64 = 60 * NS_PER_SEC;
const NS_PER_HOUR: u64 = 60 * NS_PER_MIN;
const NS_PER_DAY: u64 = 24 * NS_PER_HOUR;
const NS_PER_WEEK: u64 = 7 * NS_PER_DAY;

/// Units of time and their nanoseconds, longest first. A day is 86,400 seconds.
const TIME_UNITS: [(&[&str], u64); 8] = [
    (&["w", "week"], NS_PER_WEEK),
    (&["d", "day"], NS_PER_DAY),
    (&["h", "hour"], NS_PER_HOUR),
    (&["m", "min"], NS_PER_MIN),
    (&["s", "sec"], NS_PER_SEC),
    (&["ms"], NS_PER_MS),
    (&["us"], NS_PER_US),
    (&["ns"], 1),
];
const TIME_UNIT_LIST: &str = "`ns`, `us`, `ms`, `s`, `m`, `h`, `d`, `w`";
/// Words for spans that have no fixed length, and what each is called as a window of the calendar.
const CALENDAR_UNITS: [(&[&str], &str); 2] = [
    (&["mo", "mon", "month", "months"], "calendar-month"),
    (&["y", "year", "years"], "calendar-year"),
];

const SIZE_UNITS: [(&str, u64); 8] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Longest name of a node, a cluster or a region, in bytes: that of a host name on Linux.
pub const NODE_NAME_BYTES_MAX: usize = 64;

/// Permissions that the owner of a unix socket needs to use it.
const OWNER_READ_WRITE: u32 = 0o600;
const MODE_MAX: u32 = 0o777;

/// A duration in nanoseconds: `200ms`, `15m`, `1h30m`. At least 1 ns, at most 2^64 - 1 (584 years).
pub(super) fn parse_duration(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("a duration is empty; write it with its unit, such as `15m`".into());
    }
    let refuse = |why: &str| {
        let text = quoted(text);
        format!("the duration {text} {why}")
    };
    if text.starts_with('-') {
        return Err(refuse("is negative; write one of at least `1ns`"));
    }
    if text.contains(char::is_whitespace) {
        return Err(refuse("contains a space; write number and unit together, such as `60s`"));
    }
    if text.contains('.') {
        return Err(refuse("is not in whole numbers; write a smaller unit, such as `1500ms`"));
    }
    let too_long = || refuse("is longer than 584 years; write a shorter one");
    let mut total: u64 = 0;
    let mut shortest_unit_ns = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let (digits, after) = split_digits(rest);
        if digits.is_empty() {
            return Err(refuse("does not begin with a number; write it like `15m` or `1h30m`"));
        }
        let unit_len = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_len);
        if unit.is_empty() {
            let example = format!("has no unit; write `{digits}s` or another of {TIME_UNIT_LIST}");
            return Err(refuse(&example));
        }
        let unit_ns = time_unit_ns(unit).map_err(|why| refuse(&why))?;
        if unit_ns >= shortest_unit_ns {
            return Err(refuse("is out of order; write longer units first, each once: `1h30m`"));
        }
        let count: u64 = digits.parse().map_err(|_| too_long())?;
        let part = count.checked_mul(unit_ns).ok_or_else(too_long)?;
        total = total.checked_add(part).ok_or_else(too_long)?;
        shortest_unit_ns = unit_ns;
        rest = next;
    }
    match total {
        0 => Err(refuse("is no time at all; write one of at least `1ns`")),
        ns => Ok(ns),
    }
}

/// A rate: a count and a duration or unit of time, `10/s`, `100/min`, `10/5s`. Both at least 1.
///
/// # Errors
/// What is wrong, and what to write.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let refuse = |why: &str| {
        let text = quoted(text);
        format!("the rate {text} {why}")
    };
    if let Some((count, period)) = text.split_once(" per ") {
        let (count, period) = (count.trim(), period.trim());
        let instead = quoted(&format!("{count}/{period}"));
        return Err(refuse(&format!("is written with `/`: {instead}")));
    }
    let Some((count_text, period_text)) = text.split_once('/') else {
        return Err(refuse("is not a count and a time; write it like `10/s` or `100/15m`"));
    };
    if text.contains(char::is_whitespace) {
        return Err(refuse("contains a space; write it like `10/s`"));
    }
    let (digits, after) = split_digits(count_text);
    if digits.is_empty() || !after.is_empty() {
        return Err(refuse("does not begin with a whole number; write it like `10/s`"));
    }
    let count: u64 =
        digits.parse().map_err(|_| refuse("has a count above 2^64 - 1; write a smaller one"))?;
    if count == 0 {
        return Err(refuse("lets nothing through; write `deny = true`, or `unlimited = true`"));
    }
    let period_ns = parse_period(period_text).map_err(|why| refuse(&why))?;
    Ok(Rate { count, period_ns })
}

/// The time of a rate or a limit in nanoseconds: a duration, `15m`, or a unit alone, `min`. What is wrong
/// with it is told so that it goes on from what it stands in.
pub(super) fn parse_period(text: &str) -> Result<u64, String> {
    let is_unit_alone = !text.is_empty() && split_digits(text).0.is_empty();
    if is_unit_alone && !text.starts_with('-') {
        return time_unit_ns(text);
    }
    parse_duration(text).map_err(|why| format!("has no valid time: {why}"))
}

/// A size in bytes: `64MiB`, `1GB`. At least one of its unit.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let refuse = |why: &str| {
        let text = quoted(text);
        format!("the size {text} {why}")
    };
    let (digits, unit) = split_digits(text);
    if digits.is_empty() {
        return Err(refuse("does not begin with a whole number; write it like `1GiB`"));
    }
    let Some((_, unit_bytes)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) else {
        let letter = unit.chars().next().map(|c| c.to_ascii_uppercase());
        let units = match letter.filter(|c| "KMGT".contains(*c)) {
            Some(c) => format!("`{c}iB` (powers of 1,024) or `{c}B` (powers of 1,000)"),
            None => "`KiB`, `MiB`, `GiB`, `TiB`, `KB`, `MB`, `GB` or `TB`".into(),
        };
        return Err(refuse(&format!("has no known unit; write {units} directly after the number")));
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(*unit_bytes));
    match bytes {
        Some(0) => Err(refuse("is nothing; write one of at least `1KiB`")),
        Some(bytes) => Ok(bytes),
        None => Err(refuse("does not fit in 64 bits; write a smaller one")),
    }
}

/// Refuses what is no name for a `what`, such as a node. Such names stand in paths, metrics and
/// certificates.
pub(super) fn check_name(name: &str, what: &str) -> Result<(), String> {
    if is_node_name(name) {
        return Ok(());
    }
    Err(format!(
        "{} is no name for a {what}; use 1 to {NODE_NAME_BYTES_MAX} letters, digits, `.`, `_` and \
         `-`, beginning with a letter or digit",
        quoted(name)
    ))
}

/// Whether a node may be called `name`: 1 to [`NODE_NAME_BYTES_MAX`] letters, digits, `.`, `_` and
/// `-`, the first a letter or digit.
pub fn is_node_name(name: &str) -> bool {
    let begins_well = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    begins_well && name.len() <= NODE_NAME_BYTES_MAX && name.bytes().all(cluster::is_of_name)
}

/// Permissions of a unix socket, as three or four octal digits: `0660`.
pub(super) fn parse_mode(text: &str) -> Result<u32, String> {
    let is_octal = text.bytes().all(|b| (b'0'..=b'7').contains(&b));
    if !is_octal || !(3..=4).contains(&text.len()) {
        return Err(format!("the mode {} is not octal; write it like \"0660\"", quoted(text)));
    }
    let mode = u32::from_str_radix(text, 8).unwrap_or(u32::MAX);
    check_mode(mode)
}

/// `mode`, if it is one that a socket can be used with.
pub(super) fn check_mode(mode: u32) -> Result<u32, String> {
    if mode > MODE_MAX {
        return Err(format!("the mode `0o{mode:o}` is above 0o777; write it like 0o660"));
    }
    if mode & OWNER_READ_WRITE != OWNER_READ_WRITE {
        return Err(format!(
            "the mode `0o{mode:03o}` keeps the socket's owner from using it; write 0o600 or more"
        ));
    }
    Ok(mode)
}

/// A time of `numerator_ns / denominator` nanoseconds in the one form in which times are shown: a
/// number with up to three decimals and the longest unit that it has one of. Preceded by `about`
/// where the decimals are cut.
pub(super) fn show_time(numerator_ns: u128, denominator: u128) -> String {
    const UNITS: [(&str, u64); 7] = [
        ("d", NS_PER_DAY),
        ("h", NS_PER_HOUR),
        ("min", NS_PER_MIN),
        ("s", NS_PER_SEC),
        ("ms", NS_PER_MS),
        ("us", NS_PER_US),
        ("ns", 1),
    ];
    let denominator = denominator.max(1);
    let has_one_of = |unit_ns: u64| numerator_ns / u128::from(unit_ns) >= denominator;
    let (unit, unit_ns) =
        UNITS.into_iter().find(|(_, unit_ns)| has_one_of(*unit_ns)).unwrap_or(("ns", 1));
    let divisor = denominator.saturating_mul(u128::from(unit_ns));
    let thousandths_exact = numerator_ns.saturating_mul(1_000);
    let thousandths = thousandths_exact / divisor;
    let about = if thousandths_exact.is_multiple_of(divisor) { "" } else { "about " };
    let decimals = format!("{:03}", thousandths % 1_000);
    let decimals = decimals.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    format!("{about}{}{point}{decimals} {unit}", thousandths / 1_000)
}

/// A rate as words: `20/s`, `100/h`, `10 per 5 s`.
pub fn show_rate(rate: Rate) -> String {
    const NAMES: [(&str, u64); 8] = [
        ("week", NS_PER_WEEK),
        ("day", NS_PER_DAY),
        ("h", NS_PER_HOUR),
        ("min", NS_PER_MIN),
        ("s", NS_PER_SEC),
        ("ms", NS_PER_MS),
        ("us", NS_PER_US),
        ("ns", 1),
    ];
    match NAMES.into_iter().find(|(_, unit_ns)| *unit_ns == rate.period_ns) {
        Some((name, _)) => format!("{}/{name}", rate.count),
        None => format!("{} per {}", rate.count, show_time(rate.period_ns.into(), 1)),
    }
}

/// Nanoseconds of a unit of time, or why it is not one.
fn time_unit_ns(unit: &str) -> Result<u64, String> {
    if let Some((_, ns)) = TIME_UNITS.iter().find(|(names, _)| names.contains(&unit)) {
        return Ok(*ns);
    }
    if let Some((_, window)) = CALENDAR_UNITS.iter().find(|(names, _)| names.contains(&unit)) {
        return Err(format!(
            "is in {}, whose length varies; write days, such as `30d`, or in a limit whose \
             `algorithm` is `fixed-window` `limit = \"1000 per {window}\"`",
            quoted(unit)
        ));
    }
    let singular = unit.strip_suffix('s').unwrap_or(unit).to_ascii_lowercase();
    let near = TIME_UNITS
        .iter()
        .flat_map(|(names, _)| *names)
        .find(|name| **name == singular || (name.len() >= 3 && singular.starts_with(**name)));
    let instead = match near {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the units are {TIME_UNIT_LIST}"),
    };
    Err(format!("has the unknown unit {}; {instead}", quoted(unit)))
}

/// The ASCII digits at the start of `text`, and what follows.
pub(super) fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_equal_their_plain_meaning() {
        let cases = [
            ("1ns", 1),
            ("250us", 250_000),
            ("200ms", 200_000_000),
            ("10s", 10_000_000_000),
            ("10sec", 10_000_000_000),
            ("1m", 60_000_000_000),
            ("1min", 60_000_000_000),
            ("15m", 900_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1hour", 3_600_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1w2d3h4m5s6ms7us8ns", 788_645_006_007_008),
            ("30d", 2_592_000_000_000_000),
            ("1day", 86_400_000_000_000),
            ("1w", 604_800_000_000_000),
            ("0h5m", 300_000_000_000),
            ("18446744073709551615ns", u64::MAX),
        ];
        for (text, ns) in cases {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_a_way_out() {
        let cases = [
            ("10", "has no unit; write `10s`"),
            ("1h30", "has no unit; write `30s`"),
            ("", "is empty"),
            ("1M", "did you mean `m`?"),
            ("60 s", "contains a space"),
            ("-1s", "is negative"),
            ("0s", "is no time at all"),
            ("0h0m", "is no time at all"),
            ("inf", "does not begin with a number"),
            ("s", "does not begin with a number"),
            ("nan", "does not begin with a number"),
            ("1e3s", "unknown unit `e`"),
            ("1.5h", "whole numbers"),
            ("99999999999d", "longer than 584 years"),
            ("99999999999999999999999s", "longer than 584 years"),
            ("18446744073709551615ns1ns", "out of order"),
            ("30500w30500d", "longer than 584 years"),
            ("30m1h", "out of order"),
            ("1h1h", "out of order"),
            ("1month", "whose length varies"),
            ("1y", "whose length varies"),
            ("2hours", "did you mean `hour`?"),
            ("5minutes", "did you mean `min`?"),
            ("1µs", "unknown unit `µs`"),
            ("١s", "does not begin with a number"),
        ];
        for (text, want) in cases {
            let message = parse_duration(text).expect_err(text);
            assert!(message.contains(want), "{text}: {message}");
        }
    }

    #[test]
    fn rates_equal_their_plain_meaning() {
        let cases = [
            ("10/s", 10, NS_PER_SEC),
            ("10/sec", 10, NS_PER_SEC),
            ("100/min", 100, NS_PER_MIN),
            ("100/m", 100, NS_PER_MIN),
            ("100/h", 100, NS_PER_HOUR),
            ("100/hour", 100, NS_PER_HOUR),
            ("10000/day", 10_000, NS_PER_DAY),
            ("7/week", 7, NS_PER_WEEK),
            ("10/5s", 10, 5 * NS_PER_SEC),
            ("5/15m", 5, 15 * NS_PER_MIN),
            ("1/1h30m", 1, 90 * NS_PER_MIN),
            ("1/30d", 1, 30 * NS_PER_DAY),
            ("1/365d", 1, 365 * NS_PER_DAY),
            ("1000000000/s", 1_000_000_000, NS_PER_SEC),
            ("18446744073709551615/ns", u64::MAX, 1),
        ];
        for (text, count, period_ns) in cases {
            assert_eq!(parse_rate(text), Ok(Rate { count, period_ns }), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_a_way_out() {
        let cases = [
            ("", "not a count and a time"),
            ("10", "not a count and a time"),
            ("10rps", "not a count and a time"),
            ("s/10", "does not begin with a whole number"),
            ("-10/s", "does not begin with a whole number"),
            ("1.5/s", "does not begin with a whole number"),
            ("1e3/s", "does not begin with a whole number"),
            ("inf/s", "does not begin with a whole number"),
            ("nan/s", "does not begin with a whole number"),
            ("/s", "does not begin with a whole number"),
            ("0/s", "write `deny = true`, or `unlimited = true`"),
            ("5/0s", "is no time at all"),
            ("10/60", "has no unit; write `60s`"),
            ("10/", "is empty"),
            ("10/-1s", "is negative"),
            ("10 / s", "contains a space"),
            ("10/s/s", "unknown unit `s/s`"),
            ("5 per 15m", "written with `/`: `5/15m`"),
            ("10/month", "whose length varies"),
            ("10/month", "`limit = \"1000 per calendar-month\"`"),
            ("10/year", "`limit = \"1000 per calendar-year\"`"),
            ("10/S", "did you mean `s`?"),
            ("10/Day", "did you mean `day`?"),
            ("10/second", "did you mean `sec`?"),
            ("10/inf", "unknown unit `inf`"),
            ("18446744073709551616/s", "above 2^64 - 1"),
            ("1/99999999999d", "longer than 584 years"),
        ];
        for (text, want) in cases {
            let message = parse_rate(text).expect_err(text);
            assert!(message.contains(want), "{text}: {message}");
        }
    }

    #[test]
    fn sizes_equal_their_plain_meaning() {
        let cases = [
            ("1KiB", 1_024),
            ("64MiB", 67_108_864),
            ("1GiB", 1_073_741_824),
            ("2TiB", 2_199_023_255_552),
            ("1KB", 1_000),
            ("3MB", 3_000_000),
            ("1GB", 1_000_000_000),
            ("1TB", 1_000_000_000_000),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_a_way_out() {
        let cases = [
            ("1G", "`GiB` (powers of 1,024) or `GB`"),
            ("1gib", "`GiB` (powers of 1,024) or `GB`"),
            ("1 GiB", "no known unit"),
            ("1024", "no known unit"),
            ("", "does not begin with a whole number"),
            ("-1GiB", "does not begin with a whole number"),
            ("1.5GiB", "no known unit"),
            ("0MiB", "is nothing"),
            ("99999999TiB", "does not fit in 64 bits"),
            ("99999999999999999999KB", "does not fit in 64 bits"),
        ];
        for (text, want) in cases {
            let message = parse_size(text).expect_err(text);
            assert!(message.contains(want), "{text}: {message}");
        }
    }

    #[test]
    fn modes_are_octal_and_leave_the_owner_in() {
        assert_eq!(parse_mode("0660"), Ok(0o660));
        assert_eq!(parse_mode("600"), Ok(0o600));
        assert_eq!(parse_mode("0777"), Ok(0o777));
        let refused = ["", "60", "0o660", "0680", "rw-rw----", "1777", "0060", "+660", "00660"];
        for text in refused {
            assert!(parse_mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_one_form() {
        let cases = [
            (50_000_000, 1, "50 ms"),
            (1_000_000_000, 20, "50 ms"),
            (3_600_000_000_000, 100, "36 s"),
            (5_400_000_000_000, 1, "1.5 h"),
            (86_400_000_000_000, 10_000, "8.64 s"),
            (1_000_000_000, 3, "about 333.333 ms"),
            (1_000_000_000, 1_000_000_000, "1 ns"),
            (1, 2, "0.5 ns"),
            (1, 3_000, "about 0 ns"),
            (2_592_000_000_000_000, 1, "30 d"),
            (60_000_000_000, 1, "1 min"),
            (1_001_000, 1, "1.001 ms"),
        ];
        for (numerator, denominator, want) in cases {
            assert_eq!(show_time(numerator, denominator), want);
        }
    }

    #[test]
    fn rates_are_shown_by_their_unit_or_their_time() {
        let shown = |text| show_rate(parse_rate(text).expect(text));
        assert_eq!(shown("20/s"), "20/s");
        assert_eq!(shown("100/60m"), "100/h");
        assert_eq!(shown("10000/day"), "10000/day");
        assert_eq!(shown("10/5s"), "10 per 5 s");
        assert_eq!(shown("1/30d"), "1 per 30 d");
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic_or_give_zero(
            text in "\\PC{0,12}|[0-9]{0,22}[a-zA-Z/ .-]{0,4}[0-9]{0,3}[a-z]{0,3}",
        ) {
            if let Ok(ns) = parse_duration(&text) {
                prop_assert!(ns > 0);
            }
            if let Ok(rate) = parse_rate(&text) {
                prop_assert!(rate.count > 0 && rate.period_ns > 0);
                let _ = show_rate(rate);
            }
            if let Ok(bytes) = parse_size(&text) {
                prop_assert!(bytes > 0);
            }
            let _ = parse_mode(&text);
        }

        #[test]
        fn a_compound_duration_is_the_sum_of_its_parts(
            h in 0_u64..1_000, m in 0_u64..1_000, s in 1_u64..1_000,
        ) {
            let ns = parse_duration(&format!("{h}h{m}m{s}s"));
            prop_assert_eq!(ns, Ok(h * NS_PER_HOUR + m * NS_PER_MIN + s * NS_PER_SEC));
        }

        #[test]
        fn any_time_can_be_shown(numerator: u128, denominator: u128) {
            prop_assert!(!show_time(numerator, denominator).is_empty());
        }
    }
}
