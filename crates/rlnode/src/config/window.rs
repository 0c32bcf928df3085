//! A count per window as it is written: `5 per 15m`, `1000 per calendar-month`.
//!
//! It reads the text and shows it again; it knows no setting, no line and no time zone.

use limiter::{CalendarSpan, Weekday};

use super::error::quoted;
use super::value::{parse_period, split_digits};

/// Windows are counted in whole milliseconds, in which nodes name them to each other.
const NS_PER_MS: u64 = 1_000_000;

/// The windows of the calendar, by the word for each.
const CALENDAR_WORDS: [(&str, CalendarUnit); 4] = [
    ("calendar-day", CalendarUnit::Day),
    ("calendar-week", CalendarUnit::Week),
    ("calendar-month", CalendarUnit::Month),
    ("calendar-year", CalendarUnit::Year),
];

/// The days that a week may begin with, by the word for each.
pub(super) const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// So many units in each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowLimit {
    /// Units; at least 1.
    pub(super) count: u64,
    /// What a window is.
    pub(super) per: Per,
}

/// What a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    /// Nanoseconds: whole milliseconds, at least one.
    Time(u64),
    /// A window of the calendar.
    Calendar(CalendarUnit),
}

/// A window of the calendar whose week may begin with any day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalendarUnit {
    Day,
    Week,
    Month,
    Year,
}

impl CalendarUnit {
    /// The word for it in the file.
    pub(super) fn as_str(self) -> &'static str {
        let word = CALENDAR_WORDS.into_iter().find(|(_, unit)| *unit == self);
        word.map_or("calendar-day", |(word, _)| word)
    }

    /// The windows, those of a week beginning with `week_start`.
    pub(super) fn span(self, week_start: Weekday) -> CalendarSpan {
        match self {
            Self::Day => CalendarSpan::Day,
            Self::Week => CalendarSpan::Week(week_start),
            Self::Month => CalendarSpan::Month,
            Self::Year => CalendarSpan::Year,
        }
    }
}

/// A count, ` per `, and a duration, a unit of time or a window of the calendar: `5 per 15m`, `100 per
/// min`, `1000 per calendar-day`.
pub(super) fn parse_window_limit(text: &str) -> Result<WindowLimit, String> {
    let refuse = |why: &str| {
        let text = quoted(text);
        format!("the limit {text} {why}")
    };
    let Some((count_text, per_text)) = text.split_once(" per ") else {
        let why = match text.split_once('/') {
            Some((count, period)) => {
                let instead = quoted(&format!("{} per {}", count.trim(), period.trim()));
                format!("is written with ` per `: {instead}")
            }
            None => "is not a count and a time; write it like `5 per 15m` or `1000 per \
                     calendar-day`"
                .into(),
        };
        return Err(refuse(&why));
    };
    let (digits, after) = split_digits(count_text);
    if digits.is_empty() || !after.is_empty() {
        return Err(refuse("does not begin with a whole number; write it like `5 per 15m`"));
    }
    let count: u64 =
        digits.parse().map_err(|_| refuse("has a count above 2^64 - 1; write a smaller one"))?;
    if count == 0 {
        return Err(refuse("lets nothing through; write `deny = true`, or `unlimited = true`"));
    }
    if let Some((_, unit)) = CALENDAR_WORDS.into_iter().find(|(word, _)| *word == per_text) {
        return Ok(WindowLimit { count, per: Per::Calendar(unit) });
    }
    if per_text.starts_with("calendar") {
        let words = CALENDAR_WORDS.map(|(word, _)| format!("`{word}`")).join(", ");
        let why = format!("names no window of the calendar; those are {words}");
        return Err(refuse(&why));
    }
    let period_ns = parse_period(per_text).map_err(|why| refuse(&why))?;
    if !period_ns.is_multiple_of(NS_PER_MS) {
        return Err(refuse("is per a time of no whole milliseconds; write one such as `1ms`"));
    }
    Ok(WindowLimit { count, per: Per::Time(period_ns) })
}

/// The windows of a calendar in words: `calendar day`, `calendar week from sunday on`.
pub(super) fn show_calendar(span: CalendarSpan) -> String {
    match span {
        CalendarSpan::Day => "calendar day".into(),
        CalendarSpan::Week(start) => {
            let day = WEEKDAYS.into_iter().find(|(_, day)| *day == start);
            format!("calendar week from {} on", day.map_or("monday", |(word, _)| word))
        }
        CalendarSpan::Month => "calendar month".into(),
        CalendarSpan::Year => "calendar year".into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn limits_equal_their_plain_meaning() {
        let cases = [
            ("5 per 15m", 5, Per::Time(900 * SECOND)),
            ("100 per min", 100, Per::Time(60 * SECOND)),
            ("100 per 1min", 100, Per::Time(60 * SECOND)),
            ("10 per s", 10, Per::Time(SECOND)),
            ("10 per 200ms", 10, Per::Time(200_000_000)),
            ("1 per 1ms", 1, Per::Time(1_000_000)),
            ("1 per 1000000ns", 1, Per::Time(1_000_000)),
            ("7 per 1h30m", 7, Per::Time(5_400 * SECOND)),
            ("1000 per day", 1_000, Per::Time(86_400 * SECOND)),
            ("1 per 30d", 1, Per::Time(2_592_000 * SECOND)),
            ("1000 per calendar-day", 1_000, Per::Calendar(CalendarUnit::Day)),
            ("1000 per calendar-week", 1_000, Per::Calendar(CalendarUnit::Week)),
            ("1000 per calendar-month", 1_000, Per::Calendar(CalendarUnit::Month)),
            ("1000 per calendar-year", 1_000, Per::Calendar(CalendarUnit::Year)),
            ("18446744073709551615 per s", u64::MAX, Per::Time(SECOND)),
        ];
        for (text, count, per) in cases {
            assert_eq!(parse_window_limit(text), Ok(WindowLimit { count, per }), "{text}");
        }
    }

    #[test]
    fn what_is_no_limit_is_refused_with_a_way_out() {
        let cases = [
            ("", "not a count and a time"),
            ("10", "not a count and a time"),
            ("10 per", "not a count and a time"),
            ("10per1s", "not a count and a time"),
            ("10 Per s", "not a count and a time"),
            ("100/min", "is written with ` per `: `100 per min`"),
            ("5 / 15m", "is written with ` per `: `5 per 15m`"),
            (" per 1s", "does not begin with a whole number"),
            ("five per 1s", "does not begin with a whole number"),
            ("-5 per 1s", "does not begin with a whole number"),
            ("1.5 per 1s", "does not begin with a whole number"),
            ("1_000 per 1s", "does not begin with a whole number"),
            ("inf per 1s", "does not begin with a whole number"),
            ("1e3 per 1s", "does not begin with a whole number"),
            ("0 per 1s", "write `deny = true`, or `unlimited = true`"),
            ("18446744073709551616 per s", "above 2^64 - 1"),
            ("5 per 0s", "is no time at all"),
            ("5 per 60", "has no unit; write `60s`"),
            ("5 per 15 min", "contains a space"),
            ("5 per  15m", "has the unknown unit ` 15m`"),
            ("5 per -1s", "is negative"),
            ("5 per 1.5h", "not in whole numbers"),
            ("5 per 1M", "did you mean `m`?"),
            ("5 per Min", "did you mean `min`?"),
            ("5 per 99999999999d", "longer than 584 years"),
            ("5 per 1500us", "no whole milliseconds; write one such as `1ms`"),
            ("5 per us", "no whole milliseconds"),
            (
                "5 per month",
                "in a limit whose `algorithm` is `fixed-window` `limit = \"1000 per calendar-month\"`",
            ),
            ("5 per 1year", "`limit = \"1000 per calendar-year\"`"),
            ("5 per calendar-hour", "names no window of the calendar; those are `calendar-day`,"),
            ("5 per calendar_day", "names no window of the calendar"),
            ("5 per calendar", "names no window of the calendar"),
        ];
        for (text, want) in cases {
            let message = parse_window_limit(text).expect_err(text);
            assert!(message.contains(want), "{text}: {message}");
        }
    }

    #[test]
    fn every_window_of_the_calendar_is_shown() {
        let shown = |unit: CalendarUnit| show_calendar(unit.span(Weekday::Sunday));
        assert_eq!(shown(CalendarUnit::Day), "calendar day");
        assert_eq!(shown(CalendarUnit::Week), "calendar week from sunday on");
        assert_eq!(shown(CalendarUnit::Month), "calendar month");
        assert_eq!(shown(CalendarUnit::Year), "calendar year");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic_or_give_zero(
            text in "\\PC{0,12}|[0-9]{0,22}( per |/)[a-z0-9 -]{0,14}",
        ) {
            if let Ok(limit) = parse_window_limit(&text) {
                prop_assert!(limit.count > 0);
                if let Per::Time(ns) = limit.per {
                    prop_assert!(ns > 0 && ns % NS_PER_MS == 0);
                }
            }
        }
    }
}
