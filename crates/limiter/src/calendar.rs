//! Calendar windows: days, weeks, months and years of a time zone.

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};

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
}
