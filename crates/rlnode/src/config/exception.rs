//! The numbers that an operator gives a single key while the node runs, in the words of the file.

use limiter::{Calendar, LOG_MAX, Quota, Window};

use super::value::{parse_duration, parse_rate, show_rate, show_time};
use super::window::{Per, WindowLimit, parse_window_limit, show_calendar};

/// How much a key may, as an operator says it. Exactly one of `rate`, `limit`, `deny` and `unlimited` holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exception<'t> {
    /// `10/s`: of a limit that is a bucket.
    pub rate: Option<&'t str>,
    /// Capacity beside `rate`; none: the rate's count.
    pub burst: Option<u64>,
    /// `5 per 15m`: of a limit that counts per window.
    pub limit: Option<&'t str>,
    /// Nothing passes.
    pub deny: bool,
    /// Everything passes.
    pub unlimited: bool,
}

impl Exception<'_> {
    /// The quota in place of `of`, by its algorithm. A limit that counts nothing is taken for a token bucket.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn quota(&self, of: &Quota) -> Result<Quota, String> {
        let said = [self.rate.is_some(), self.limit.is_some(), self.deny, self.unlimited];
        match said.iter().filter(|is_said| **is_said).count() {
            1 => {}
            0 => {
                return Err("nothing says how much the key may; give a rate, a limit, `deny` or \
                            `unlimited`"
                    .into());
            }
            _ => return Err("only one of a rate, a limit, `deny` and `unlimited` can hold".into()),
        }
        if self.burst.is_some() && self.rate.is_none() {
            return Err("`burst` has no effect without a rate".into());
        }
        match (self.rate, self.limit) {
            (Some(rate), _) => self.bucket(of, rate),
            (None, Some(limit)) => window(of, limit),
            (None, None) if self.deny => Ok(Quota::Deny),
            (None, None) => Ok(Quota::Unlimited),
        }
    }

    fn bucket(&self, of: &Quota, rate: &str) -> Result<Quota, String> {
        let rate = parse_rate(rate)?;
        let burst = self.burst.unwrap_or(rate.count);
        if burst == 0 {
            return Err("a burst of 0 lets nothing through; say `deny` instead".into());
        }
        match of {
            Quota::LeakyBucket { queue, .. } => {
                Ok(Quota::LeakyBucket { rate, burst, queue: *queue })
            }
            Quota::TokenBucket { .. } | Quota::Deny | Quota::Unlimited | Quota::Carried => {
                Ok(Quota::TokenBucket { rate, burst })
            }
            Quota::FixedWindow { .. } | Quota::SlidingWindow { .. } | Quota::SlidingLog { .. } => {
                let word = of.algorithm().unwrap_or_default();
                Err(format!("the limit is a `{word}`; give a count per window, as `5 per 15m`"))
            }
        }
    }
}

/// `quota` as an operator says it: `100/s burst 500`, `3 per 1h`, `deny`.
pub fn exception_in_words(quota: &Quota) -> String {
    let time = |ns: u64| show_time(u128::from(ns), 1).replace(' ', "");
    let per = |limit: u64, ns: u64| format!("{limit} per {}", time(ns));
    match quota {
        Quota::Deny => "deny".into(),
        Quota::Unlimited => "unlimited".into(),
        Quota::Carried => "what each call says".into(),
        Quota::TokenBucket { rate, burst } | Quota::LeakyBucket { rate, burst, .. } => {
            format!("{} burst {burst}", show_rate(*rate))
        }
        Quota::FixedWindow { limit, window: Window::Period(ns) } => per(*limit, *ns),
        Quota::FixedWindow { limit, window: Window::Calendar(calendar) } => {
            format!("{limit} per {}", show_calendar(calendar.span()))
        }
        Quota::SlidingWindow { limit, period_ns } | Quota::SlidingLog { limit, period_ns } => {
            per(*limit, *period_ns)
        }
    }
}

fn window(of: &Quota, limit: &str) -> Result<Quota, String> {
    let WindowLimit { count: limit, per } = parse_window_limit(limit)?;
    let looks_back = "a window of the calendar is for a limit that is a `fixed-window`";
    match (of, per) {
        (Quota::FixedWindow { window, .. }, Per::Calendar(unit)) => {
            let Window::Calendar(calendar) = window else {
                return Err("the limit counts windows of a length; give one, as `5 per 15m`".into());
            };
            let week_start = match calendar.span() {
                limiter::CalendarSpan::Week(day) => day,
                _ => limiter::Weekday::Monday,
            };
            let calendar = Calendar::new(unit.span(week_start), calendar.zone())?;
            Ok(Quota::FixedWindow { limit, window: Window::Calendar(calendar) })
        }
        (Quota::FixedWindow { window: Window::Calendar(_), .. }, Per::Time(_)) => {
            Err("the limit counts windows of the calendar; give one, as `1000 per calendar-day`"
                .into())
        }
        (Quota::FixedWindow { .. }, Per::Time(period_ns)) => {
            Ok(Quota::FixedWindow { limit, window: Window::Period(period_ns) })
        }
        (Quota::SlidingWindow { .. }, Per::Time(period_ns)) => {
            Ok(Quota::SlidingWindow { limit, period_ns })
        }
        (Quota::SlidingLog { .. }, Per::Time(_)) if limit > LOG_MAX => {
            Err(format!("a sliding log allows {LOG_MAX} at most, not {limit}"))
        }
        (Quota::SlidingLog { .. }, Per::Time(period_ns)) => {
            Ok(Quota::SlidingLog { limit, period_ns })
        }
        (Quota::SlidingWindow { .. } | Quota::SlidingLog { .. }, Per::Calendar(_)) => {
            Err(looks_back.into())
        }
        (
            Quota::TokenBucket { .. }
            | Quota::LeakyBucket { .. }
            | Quota::Deny
            | Quota::Unlimited
            | Quota::Carried,
            _,
        ) => Err("the limit is a bucket; give a rate, as `10/s`, and a burst".into()),
    }
}

/// A time for which a ban or an exception holds: `15m`, `30d`.
///
/// # Errors
/// What is wrong, and what to write.
pub fn parse_time(text: &str) -> Result<u64, String> {
    parse_duration(text)
}

#[cfg(test)]
mod tests {
    use limiter::{CalendarSpan, Rate, Weekday};

    use super::*;

    const RATE: Rate = Rate { count: 10, period_ns: 1_000_000_000 };
    const BUCKET: Quota = Quota::TokenBucket { rate: RATE, burst: 100 };

    fn rate(text: &str) -> Exception<'_> {
        Exception { rate: Some(text), ..Exception::default() }
    }

    fn limit(text: &str) -> Exception<'_> {
        Exception { limit: Some(text), ..Exception::default() }
    }

    #[test]
    fn an_exception_counts_as_its_limit_does() {
        let leaky = Quota::LeakyBucket { rate: RATE, burst: 1, queue: true };
        let five = Rate { count: 5, ..RATE };
        assert_eq!(rate("5/s").quota(&BUCKET), Ok(Quota::TokenBucket { rate: five, burst: 5 }));
        assert_eq!(
            Exception { burst: Some(7), ..rate("5/s") }.quota(&leaky),
            Ok(Quota::LeakyBucket { rate: five, burst: 7, queue: true })
        );
        let log = Quota::SlidingLog { limit: 1, period_ns: 1 };
        assert_eq!(
            limit("5 per 1s").quota(&log),
            Ok(Quota::SlidingLog { limit: 5, period_ns: 1_000_000_000 })
        );
        let span = CalendarSpan::Week(Weekday::Sunday);
        let calendar = |span| Calendar::new(span, "Europe/Berlin").expect("a zone");
        let week = Quota::FixedWindow { limit: 1, window: Window::Calendar(calendar(span)) };
        assert_eq!(
            limit("5 per calendar-week").quota(&week),
            Ok(Quota::FixedWindow { limit: 5, window: Window::Calendar(calendar(span)) })
        );
        let deny = Exception { deny: true, ..Exception::default() };
        assert_eq!(deny.quota(&log), Ok(Quota::Deny));
        let unlimited = Exception { unlimited: true, ..Exception::default() };
        assert_eq!(unlimited.quota(&BUCKET), Ok(Quota::Unlimited));
    }

    #[test]
    fn what_does_not_go_with_the_limit_is_refused_with_what_to_give() {
        let window = Quota::SlidingWindow { limit: 1, period_ns: 1_000_000 };
        let log = Quota::SlidingLog { limit: 1, period_ns: 1 };
        for (exception, of, why) in [
            (Exception::default(), &BUCKET, "nothing says"),
            (Exception { deny: true, ..rate("5/s") }, &BUCKET, "only one"),
            (Exception { burst: Some(1), ..limit("5 per 1s") }, &window, "without a rate"),
            (Exception { burst: Some(0), ..rate("5/s") }, &BUCKET, "burst of 0"),
            (rate("5/s"), &window, "is a `sliding-window`"),
            (rate("5"), &BUCKET, "write it like"),
            (limit("5 per 1s"), &BUCKET, "is a bucket"),
            (limit("10001 per 1s"), &log, "10000 at most"),
            (limit("5 per calendar-day"), &window, "is a `fixed-window`"),
        ] {
            let error = exception.quota(of).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}
