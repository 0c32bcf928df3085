//! Times of the cookbook: `1h 30m` behind midnight of a Monday, or a date and a time in UTC.

use time::{Date, Month, PrimitiveDateTime, Time};

/// What `0s` means: Monday, 1 June 2026, midnight UTC.
const MONDAY: (i32, u8, u8) = (2026, 6, 1);

/// When a row is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// Nanoseconds since the Unix epoch.
    pub(crate) unix_ns: u64,
    /// It was written as a date.
    pub(crate) is_date: bool,
}

impl At {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let midnight_ns = unix_ns(MONDAY, Time::MIDNIGHT)?;
        if let Some(since_ns) = duration_ns(text) {
            return Some(Self { unix_ns: midnight_ns.checked_add(since_ns)?, is_date: false });
        }
        let (date, time) = text.split_once(' ')?;
        let [year, month, day] = numbers(date, '-')?;
        let [hour, minute, second] = numbers(time, ':')?;
        let [month, day, hour, minute, second] =
            [month, day, hour, minute, second].map(|number| u8::try_from(number).ok());
        let time = Time::from_hms(hour?, minute?, second?).ok()?;
        let date = (i32::try_from(year).ok()?, month?, day?);
        Some(Self { unix_ns: unix_ns(date, time)?, is_date: true })
    }
}

fn unix_ns((year, month, day): (i32, u8, u8), time: Time) -> Option<u64> {
    let date = Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()?;
    let instant = PrimitiveDateTime::new(date, time).assume_utc();
    u64::try_from(instant.unix_timestamp_nanos()).ok()
}

fn numbers(text: &str, between: char) -> Option<[u32; 3]> {
    let numbers: Option<Vec<u32>> = text.split(between).map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// A duration in nanoseconds: whole numbers with their units, summed.
pub(crate) fn duration_ns(text: &str) -> Option<u64> {
    let mut sum_ns = None;
    for part in text.split_whitespace() {
        let (number, unit) = part.split_at(part.find(|c: char| !c.is_ascii_digit())?);
        let unit_ns = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return None,
        };
        let ns = number.parse::<u64>().ok()?.checked_mul(unit_ns)?;
        sum_ns = Some(ns.checked_add(sum_ns.unwrap_or(0))?);
    }
    sum_ns
}

#[test]
fn times_are_read_as_written() {
    let at = |text| At::read(text).map(|at| (at.unix_ns / 1_000_000, at.is_date));
    assert_eq!(at("0s"), Some((1_780_272_000_000, false)));
    assert_eq!(at("1h 30m 5ms"), Some((1_780_277_400_005, false)));
    assert_eq!(at("2026-10-24 22:30:00"), Some((1_792_881_000_000, true)));
    for text in ["", "0", "soon", "5 s", "2026-02-30 00:00:00", "2026-10-24", "2026-10-24 22:30"] {
        assert_eq!(At::read(text), None, "{text}");
    }
}
