//! Times as logs write them, in whole numbers.

use time::{Date, Month};

const NS_PER_S: i128 = 1_000_000_000;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time in Unix nanoseconds, written as Unix seconds with an optional fraction, or as RFC 3339.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    unix(text).or_else(|| rfc3339(text)).ok_or_else(|| {
        "its time is neither Unix seconds, such as `1796083200.25`, nor RFC 3339, such as \
         `2026-12-01T00:00:00.25Z`, from 1970 to 2554"
            .to_owned()
    })
}

/// The time of the common log format: `01/Dec/2026:00:00:00 +0100`.
pub(super) fn parse_log(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(':')?;
    let mut parts = date.splitn(3, '/');
    let day = number(parts.next()?, 2)?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year = number(parts.next()?, 4)?;
    let (clock, zone) = rest.split_once(' ')?;
    let (second, ns) = time_of_day(clock)?;
    unix_ns(days(year, month, day)?, second - offset_s(zone, false)?, ns)
}

fn unix(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: u64 = digits(seconds)?.parse().ok()?;
    unix_ns(0, i64::try_from(seconds).ok()?, fraction_ns(fraction)?)
}

fn rfc3339(text: &str) -> Option<u64> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let mut parts = date.splitn(3, '-');
    let (year, month, day) =
        (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let end = rest.find(['Z', 'z', '+', '-'])?;
    let (second, ns) = time_of_day(rest.get(..end)?)?;
    unix_ns(days(year, month, day)?, second - offset_s(rest.get(end..)?, true)?, ns)
}

/// `12:34:56.789` in seconds of the day and nanoseconds. A leap second is the one after.
fn time_of_day(text: &str) -> Option<(i64, u64)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.splitn(3, ':');
    let mut part = |most| number(parts.next()?, 2).filter(|part| *part <= most);
    let (hour, minute, second) = (part(23)?, part(59)?, part(60)?);
    let seconds = i64::try_from(hour * 3_600 + minute * 60 + second).ok()?;
    Some((seconds, fraction_ns(fraction)?))
}

/// `Z`, `+01:00` or, without the colon, `+0100`: seconds ahead of UTC.
fn offset_s(text: &str, with_colon: bool) -> Option<i64> {
    if with_colon && matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) =
        if with_colon { rest.split_once(':')? } else { rest.split_at_checked(2)? };
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let seconds = i64::try_from(hours * 3_600 + minutes * 60).ok()?;
    (hours < 24 && minutes < 60).then_some(sign * seconds)
}

/// Days since the Unix epoch.
fn days(year: u64, month: u64, day: u64) -> Option<i64> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let year = i32::try_from(year).ok()?;
    let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
    Some(
        i64::from(date.to_julian_day())
            - i64::from(time::OffsetDateTime::UNIX_EPOCH.to_julian_day()),
    )
}

fn unix_ns(days: i64, seconds: i64, ns: u64) -> Option<u64> {
    let seconds = i128::from(days) * 86_400 + i128::from(seconds);
    u64::try_from(seconds * NS_PER_S + i128::from(ns)).ok()
}

/// Digits after the point in nanoseconds; finer ones are cut off.
fn fraction_ns(text: &str) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let digits = digits(text)?;
    let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
    nine.parse().ok()
}

/// A number of exactly so many digits.
fn number(text: &str, len: usize) -> Option<u64> {
    if text.len() == len { digits(text)?.parse().ok() } else { None }
}

fn digits(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIDNIGHT: u64 = 1_796_083_200_000_000_000;

    #[test]
    fn times_mean_the_same_however_they_are_written() {
        for text in [
            "1796083200",
            "1796083200.0",
            "2026-12-01T00:00:00Z",
            "2026-12-01 00:00:00.000Z",
            "2026-12-01T01:00:00+01:00",
            "2026-11-30T18:30:00-05:30",
            "2026-11-30T23:59:60Z",
        ] {
            assert_eq!(parse(text), Ok(MIDNIGHT), "{text}");
        }
        assert_eq!(parse("1796083200.25"), Ok(MIDNIGHT + 250_000_000));
        assert_eq!(parse("2026-12-01T00:00:00.1234567899Z"), Ok(MIDNIGHT + 123_456_789));
        assert_eq!(parse_log("01/Dec/2026:01:00:00 +0100"), Some(MIDNIGHT));
        assert_eq!(parse_log("30/Nov/2026:18:30:00 -0530"), Some(MIDNIGHT));
        assert_eq!(parse("1970-01-01T00:00:00Z"), Ok(0));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "-1",
            "1e9",
            "1.x",
            ".5",
            "2026-12-01",
            "2026-12-01T00:00:00",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-12-01T24:00:00Z",
            "2026-12-01T00:00:00+0100",
            "1969-12-31T23:59:59Z",
            "18446744074",
            "+1796083200",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in [
            "",
            "01/Dec/2026",
            "01/dec/2026:00:00:00 +0000",
            "1/Dec/2026:00:00:00 +0000",
            "01/Dec/2026:00:00:00 +01:00",
            "01/Dec/2026:00:00:00 Z",
        ] {
            assert_eq!(parse_log(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "\\PC{0,40}") {
            let _ = (parse(&text), parse_log(&text));
        }

        #[test]
        fn unix_times_come_through(seconds in 0_u64..18_000_000_000, ns in 0_u64..1_000_000_000) {
            prop_assert_eq!(parse(&format!("{seconds}.{ns:09}")), Ok(seconds * 1_000_000_000 + ns));
        }
    }
}
