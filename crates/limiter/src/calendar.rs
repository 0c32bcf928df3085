//! Calendar windows: days, weeks, months and years of a time zone.

use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp};

/// The windows of a calendar in a time zone.
///
/// The zones are those that are compiled in, so that nodes of one version agree on every window
/// whatever their hosts know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    span: CalendarSpan,
    zone: TimeZone,
}

/// What one window of a calendar is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarSpan {
    /// From midnight to midnight.
    Day,
    /// Seven days from the midnight that begins this day of the week.
    Week(Weekday),
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

impl Calendar {
    /// The windows of `span` in the IANA time zone `zone`, such as `Europe/Berlin`.
    ///
    /// # Errors
    /// There is no such zone.
    pub fn new(span: CalendarSpan, zone: &str) -> Result<Self, String> {
        let zone = TimeZoneDatabase::bundled().get(zone).map_err(|_| {
            format!("there is no time zone `{zone}`; write one such as `Europe/Berlin` or `UTC`")
        })?;
        Ok(Self { span, zone })
    }

    /// What one window is.
    pub fn span(&self) -> CalendarSpan {
        self.span
    }

    /// The IANA name of the time zone.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The window in which `unix_ms` lies: its start and its end, in milliseconds of Unix time. Each
    /// ends where the next begins. What lies before 1970 is cut off, and what lies beyond the last
    /// year that has a number of four digits is one window.
    pub(crate) fn window_at(&self, unix_ms: u64) -> (u64, u64) {
        let unix_ms = unix_ms.min(Timestamp::MAX.as_millisecond().unsigned_abs());
        let Some((mut first, mut start)) = self.window_of_date(unix_ms) else {
            return (0, u64::MAX);
        };
        // More than one round only where a clock that is set back over midnight shows a day again that
        // has ended: that hour belongs to the new day, or its count would start twice.
        loop {
            let next = self.next_first_day(first).and_then(|day| Some((day, self.begin_ms(day)?)));
            match next {
                None => return (start, u64::MAX),
                Some((_, end)) if unix_ms < end => return (start, end),
                Some(next) => (first, start) = next,
            }
        }
    }

    /// The first day of the window to which the local date at `unix_ms` belongs, and where it begins.
    fn window_of_date(&self, unix_ms: u64) -> Option<(Date, u64)> {
        let time = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
        let date = self.zone.to_datetime(time).date();
        let first = match self.span {
            CalendarSpan::Day => date,
            CalendarSpan::Week(begins) => {
                date.checked_sub(days(date.weekday().since(begins))).ok()?
            }
            CalendarSpan::Month => date.first_of_month(),
            CalendarSpan::Year => date.first_of_year(),
        };
        Some((first, self.begin_ms(first)?))
    }

    /// The first day of the window after the one whose first day is `first`.
    fn next_first_day(&self, first: Date) -> Option<Date> {
        let span = match self.span {
            CalendarSpan::Day => days(1),
            CalendarSpan::Week(_) => days(7),
            CalendarSpan::Month => Span::new().months(1),
            CalendarSpan::Year => Span::new().years(1),
        };
        first.checked_add(span).ok()
    }

    /// The first instant of a day, in milliseconds of Unix time: the earlier midnight where there are
    /// two, the first time after the gap where there is none.
    fn begin_ms(&self, day: Date) -> Option<u64> {
        let midnight =
            self.zone.to_ambiguous_timestamp(day.to_datetime(jiff::civil::Time::midnight()));
        let in_gap = matches!(midnight.offset(), AmbiguousOffset::Gap { .. });
        let begin = if in_gap {
            // The last change of the zone before a time that is surely after it.
            let after = midnight.later().ok()?.checked_add(Span::new().nanoseconds(1)).ok()?;
            self.zone.preceding(after).next()?.timestamp()
        } else {
            midnight.earlier().ok()?
        };
        Some(u64::try_from(begin.as_millisecond()).unwrap_or(0))
    }
}

fn days(count: i8) -> Span {
    Span::new().days(i64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;

    fn ms(time: &str) -> u64 {
        u64::try_from(time.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    /// The window at a time lies there, and those beside it meet it.
    #[track_caller]
    fn assert_window(span: CalendarSpan, zone: &str, at: &str, start: &str, end: &str) {
        let calendar = Calendar::new(span, zone).unwrap();
        let window = calendar.window_at(ms(at));
        assert_eq!(window, (ms(start), ms(end)), "{span:?} {zone} {at}");
        assert_eq!(calendar.window_at(window.0), window, "its first millisecond");
        assert_eq!(calendar.window_at(window.1 - 1), window, "its last millisecond");
        assert_eq!(calendar.window_at(window.1).0, window.1, "the next begins where it ends");
        assert_eq!(
            calendar.window_at(window.0 - 1).1,
            window.0,
            "the one before ends where it begins"
        );
    }

    #[test]
    fn a_day_of_a_change_to_winter_time_has_25_hours() {
        assert_window(
            CalendarSpan::Day,
            "Europe/Berlin",
            "2026-10-24T22:30:00Z",
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
        );
        let berlin = Calendar::new(CalendarSpan::Day, "Europe/Berlin").unwrap();
        let at = ms("2026-10-24T22:30:00Z");
        assert_eq!(berlin.window_at(at).1 - at, 88_200_000);
    }

    #[test]
    fn a_day_of_a_change_to_summer_time_has_23_hours() {
        assert_window(
            CalendarSpan::Day,
            "Europe/Berlin",
            "2027-03-27T23:30:00Z",
            "2027-03-27T23:00:00Z",
            "2027-03-28T22:00:00Z",
        );
        let berlin = Calendar::new(CalendarSpan::Day, "Europe/Berlin").unwrap();
        let at = ms("2027-03-27T23:30:00Z");
        assert_eq!(berlin.window_at(at).1 - at, 81_000_000);
    }

    #[test]
    fn a_month_begins_on_the_first_whatever_the_day() {
        let month = |at, start, end| assert_window(CalendarSpan::Month, "UTC", at, start, end);
        month("2027-03-31T12:00:00Z", "2027-03-01T00:00:00Z", "2027-04-01T00:00:00Z");
        month("2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z");
        month("2027-02-28T23:59:59Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z");
        month("2027-12-31T23:59:59Z", "2027-12-01T00:00:00Z", "2028-01-01T00:00:00Z");
    }

    #[test]
    fn a_month_of_a_zone_begins_at_its_midnight() {
        assert_window(
            CalendarSpan::Month,
            "Europe/Berlin",
            "2026-10-31T23:30:00Z",
            "2026-10-31T23:00:00Z",
            "2026-11-30T23:00:00Z",
        );
    }

    #[test]
    fn a_week_begins_on_the_day_that_is_named() {
        // 2026-12-02 is a Wednesday.
        let week = |begins, start, end| {
            let at = "2026-12-02T10:00:00Z";
            assert_window(CalendarSpan::Week(begins), "UTC", at, start, end);
        };
        week(Weekday::Monday, "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z");
        week(Weekday::Sunday, "2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z");
        week(Weekday::Wednesday, "2026-12-02T00:00:00Z", "2026-12-09T00:00:00Z");
        week(Weekday::Thursday, "2026-11-26T00:00:00Z", "2026-12-03T00:00:00Z");
    }

    #[test]
    fn a_week_of_a_change_of_time_is_an_hour_shorter_or_longer() {
        let week = Calendar::new(CalendarSpan::Week(Weekday::Monday), "Europe/Berlin").unwrap();
        let (start, end) = week.window_at(ms("2027-03-28T12:00:00Z"));
        assert_eq!(end - start, 7 * DAY - HOUR);
        let (start, end) = week.window_at(ms("2026-10-25T12:00:00Z"));
        assert_eq!(end - start, 7 * DAY + HOUR);
    }

    #[test]
    fn a_year_begins_on_the_first_of_january_and_a_leap_year_has_366_days() {
        assert_window(
            CalendarSpan::Year,
            "Asia/Tokyo",
            "2028-06-01T00:00:00Z",
            "2027-12-31T15:00:00Z",
            "2028-12-31T15:00:00Z",
        );
        let tokyo = Calendar::new(CalendarSpan::Year, "Asia/Tokyo").unwrap();
        let (start, end) = tokyo.window_at(ms("2028-06-01T00:00:00Z"));
        assert_eq!(end - start, 366 * DAY);
    }

    #[test]
    fn a_day_without_midnight_begins_at_the_first_time_that_exists() {
        // The clocks went from 2018-11-03 23:59:59 to 2018-11-04 01:00:00.
        assert_window(
            CalendarSpan::Day,
            "America/Sao_Paulo",
            "2018-11-04T12:00:00Z",
            "2018-11-04T03:00:00Z",
            "2018-11-05T02:00:00Z",
        );
        // And from 2027-04-29 23:59:59 to 2027-04-30 01:00:00.
        assert_window(
            CalendarSpan::Day,
            "Africa/Cairo",
            "2027-04-29T23:00:00Z",
            "2027-04-29T22:00:00Z",
            "2027-04-30T21:00:00Z",
        );
    }

    #[test]
    fn a_day_that_a_zone_left_out_is_no_window() {
        // Samoa went from the end of 2011-12-29 to the beginning of 2011-12-31.
        assert_window(
            CalendarSpan::Day,
            "Pacific/Apia",
            "2011-12-30T09:59:59Z",
            "2011-12-29T10:00:00Z",
            "2011-12-30T10:00:00Z",
        );
        assert_window(
            CalendarSpan::Day,
            "Pacific/Apia",
            "2011-12-30T10:00:00Z",
            "2011-12-30T10:00:00Z",
            "2011-12-31T10:00:00Z",
        );
    }

    #[test]
    fn an_hour_before_midnight_that_is_shown_again_belongs_to_the_day_that_has_begun() {
        // In Newfoundland at 2010-11-07 00:01 (02:31Z) it was 2010-11-06 23:01 again.
        assert_window(
            CalendarSpan::Day,
            "America/St_Johns",
            "2010-11-07T03:00:00Z",
            "2010-11-07T02:30:00Z",
            "2010-11-08T03:30:00Z",
        );
    }

    #[test]
    fn a_midnight_that_is_shown_twice_begins_one_day() {
        // In Cuba at 2020-11-01 01:00 it was 00:00 again.
        assert_window(
            CalendarSpan::Day,
            "America/Havana",
            "2020-11-01T05:30:00Z",
            "2020-11-01T04:00:00Z",
            "2020-11-02T05:00:00Z",
        );
    }

    #[test]
    fn no_time_is_out_of_range() {
        let week = CalendarSpan::Week(Weekday::Sunday);
        for span in [CalendarSpan::Day, week, CalendarSpan::Month, CalendarSpan::Year] {
            for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York"] {
                let calendar = Calendar::new(span, zone).unwrap();
                let (start, end) = calendar.window_at(0);
                assert_eq!(start, 0, "{span:?} {zone}");
                assert!(end > 0, "{span:?} {zone}");
                let last = Timestamp::MAX.as_millisecond().unsigned_abs();
                let (start, end) = calendar.window_at(last);
                assert_eq!((start <= last, end), (true, u64::MAX), "{span:?} {zone}");
                assert_eq!(calendar.window_at(u64::MAX), (start, end), "{span:?} {zone}");
                assert_eq!(calendar.window_at(last + 1), (start, end), "{span:?} {zone}");
            }
        }
    }

    #[test]
    fn refuses_a_zone_that_does_not_exist() {
        let refusal = Calendar::new(CalendarSpan::Day, "Europe/Atlantis").unwrap_err();
        assert!(refusal.contains("`Europe/Atlantis`"), "{refusal}");
        assert!(refusal.contains("`Europe/Berlin`"), "{refusal}");
        assert_eq!(Calendar::new(CalendarSpan::Day, "Asia/Tokyo").unwrap().zone(), "Asia/Tokyo");
    }
}
