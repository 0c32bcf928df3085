//! How a limit or override counts, and how much it lets through: what the two tables have alike.

use limiter::{Calendar, CalendarSpan, LOG_MAX, Quota, Rate, Weekday, Window};
use toml::Spanned;

use super::error::{Problems, Span, printable};
use super::value::parse_rate;
use super::window::{CalendarUnit, Per, WEEKDAYS, WindowLimit, parse_window_limit};
use super::written::Section;

/// The time zone of calendar windows where the file names none.
const DEFAULT_TIME_ZONE: &str = "UTC";

/// Most characters of the limiter's message about a time zone, which repeats what the file says.
const ZONE_MESSAGE_CHARS_MAX: usize = 200;

/// How a limit counts. Its overrides count alike where they say nothing else.
#[derive(Clone, Debug)]
pub(super) struct Manner<'v> {
    algorithm: Algorithm,
    /// Of a leaky bucket.
    queue: bool,
    /// Of calendar windows; one that exists.
    time_zone: Option<&'v str>,
    /// Of calendar weeks.
    week_start: Weekday,
}

impl Default for Manner<'_> {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::TokenBucket,
            queue: false,
            time_zone: None,
            week_start: Weekday::Monday,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    TokenBucket,
    LeakyBucket,
    FixedWindow,
    SlidingWindow,
    SlidingLog,
    /// The word in the file names none, and was reported.
    Unknown,
}

impl Algorithm {
    const WORDS: [(&'static str, Result<Self, &'static str>); 5] = [
        ("token-bucket", Ok(Self::TokenBucket)),
        ("leaky-bucket", Ok(Self::LeakyBucket)),
        ("fixed-window", Ok(Self::FixedWindow)),
        ("sliding-window", Ok(Self::SlidingWindow)),
        ("sliding-log", Ok(Self::SlidingLog)),
    ];

    fn as_str(self) -> &'static str {
        let word = Self::WORDS.into_iter().find(|(_, algorithm)| *algorithm == Ok(self));
        word.map_or("unknown", |(word, _)| word)
    }

    /// It takes a rate, and not a count per window.
    fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }
}

/// The settings as written; those of a wrong type were reported, and are none.
struct Written<'v> {
    algorithm: Option<Algorithm>,
    rate: Option<Rate>,
    burst: Option<Spanned<u64>>,
    queue: Option<bool>,
    limit: Option<Spanned<WindowLimit>>,
    time_zone: Option<&'v str>,
    week_start: Option<Weekday>,
    deny: Option<bool>,
    unlimited: Option<bool>,
}

impl<'v> Written<'v> {
    fn read(section: &mut Section<'v, '_>, problems: &mut Problems) -> Self {
        let algorithm = section.take_word("algorithm", &Algorithm::WORDS, problems);
        let rate = section.take_parsed("rate", parse_rate, problems);
        let burst = section.take_integer("burst", 0..=u64::MAX, problems);
        let queue = section.take_bool("queue", problems);
        let limit = section.take_parsed("limit", parse_window_limit, problems);
        let time_zone = read_time_zone(section, problems);
        let weekdays = WEEKDAYS.map(|(word, day)| (word, Ok(day)));
        let week_start = section.take_word("week_start", &weekdays, problems);
        let deny = section.take_bool("deny", problems);
        let unlimited = section.take_bool("unlimited", problems);
        Self {
            algorithm: match section.has("algorithm") {
                true => Some(algorithm.unwrap_or(Algorithm::Unknown)),
                false => None,
            },
            rate: rate.map(Spanned::into_inner),
            burst,
            queue: queue.map(Spanned::into_inner),
            limit,
            time_zone,
            week_start,
            deny: deny.map(Spanned::into_inner),
            unlimited: unlimited.map(Spanned::into_inner),
        }
    }

    /// How it counts: by what is written, else as `of_limit`.
    fn manner(&self, of_limit: &Manner<'v>) -> Manner<'v> {
        Manner {
            algorithm: self.algorithm.unwrap_or(of_limit.algorithm),
            queue: self.queue.unwrap_or(of_limit.queue),
            time_zone: self.time_zone.or(of_limit.time_zone),
            week_start: self.week_start.unwrap_or(of_limit.week_start),
        }
    }
}

/// The time zone, which must exist whether or not a calendar is counted by it here.
fn read_time_zone<'v>(section: &mut Section<'v, '_>, problems: &mut Problems) -> Option<&'v str> {
    let zone = section.take_string("time_zone", problems)?;
    match Calendar::new(CalendarSpan::Day, zone.get_ref()) {
        Ok(_) => Some(zone.into_inner()),
        Err(message) => {
            problems.add(&zone.span(), printable(&message, ZONE_MESSAGE_CHARS_MAX));
            None
        }
    }
}

/// Reads how much is let through: exactly one of a rate, a count per window, `deny` and `unlimited`; and
/// how it is counted, of which an override takes over from its limit (`of_limit`) what it does not say.
/// No quota where something is wrong, which `problems` then tells.
pub(super) fn read_quota<'v>(
    section: &mut Section<'v, '_>,
    of_limit: &Manner<'v>,
    problems: &mut Problems,
) -> (Manner<'v>, Option<Quota>) {
    let written = Written::read(section, problems);
    let manner = written.manner(of_limit);
    let quota = quota(section, &written, &manner, problems);
    (manner, quota)
}

/// What says how much is let through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Rate,
    Limit,
    Deny,
    Unlimited,
}

fn quota(
    section: &Section<'_, '_>,
    written: &Written<'_>,
    manner: &Manner<'_>,
    problems: &mut Problems,
) -> Option<Quota> {
    let algorithm = manner.algorithm;
    if algorithm == Algorithm::Unknown {
        return None;
    }
    let (said, at) = said(section, written, algorithm, problems)?;
    match said {
        Said::Deny | Said::Unlimited => {
            let (word, quota) = match said {
                Said::Deny => ("deny", Quota::Deny),
                _ => ("unlimited", Quota::Unlimited),
            };
            // Its overrides may count, and then as it says.
            let names = ["algorithm", "queue", "time_zone", "week_start"];
            let useless = names.into_iter().filter(|_| !section.has("override"));
            let mut useless = useless.filter_map(|name| Some((name, section.name_span(name)?)));
            if let Some((name, span)) = useless.next() {
                let message = format!("`{name}` has no effect beside `{word} = true`; drop it");
                problems.add(&span, message);
                return None;
            }
            Some(quota)
        }
        Said::Rate if algorithm.is_bucket() => bucket(section, written, manner, problems),
        Said::Limit if !algorithm.is_bucket() => window(section, written, manner, problems),
        Said::Rate => {
            let word = algorithm.as_str();
            problems.add(
                &at,
                format!(
                    "`rate` is for buckets, and `{word}` takes a count per window; write `limit = \
                     \"5 per 15m\"`, or `algorithm = \"token-bucket\"`"
                ),
            );
            None
        }
        Said::Limit => {
            let word = algorithm.as_str();
            problems.add(
                &at,
                format!(
                    "`limit` is a count per window, and `{word}` takes a rate; write `rate = \
                     \"5/15m\"`, or say how windows are counted: `algorithm = \"fixed-window\"`, \
                     `\"sliding-window\"` or `\"sliding-log\"`"
                ),
            );
            None
        }
    }
}

/// What says how much is let through, and where; exactly one thing may.
fn said(
    section: &Section<'_, '_>,
    written: &Written<'_>,
    algorithm: Algorithm,
    problems: &mut Problems,
) -> Option<(Said, Span)> {
    // A word that is `false` says nothing; one of the wrong type was reported as that.
    let is_said = |said: &Said| match said {
        Said::Deny => written.deny != Some(false),
        Said::Unlimited => written.unlimited != Some(false),
        Said::Rate | Said::Limit => true,
    };
    let names = [
        ("rate", Said::Rate),
        ("limit", Said::Limit),
        ("deny", Said::Deny),
        ("unlimited", Said::Unlimited),
    ];
    let all = names.into_iter().filter(|(_, said)| is_said(said));
    let all = all.filter_map(|(name, said)| Some((said, section.name_span(name)?)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, span)| span.start);
    let has_rate = all.iter().any(|(said, _)| *said == Said::Rate);
    if let Some(burst) = section.name_span("burst").filter(|_| !has_rate) {
        let message = match algorithm.is_bucket() {
            true => "`burst` has no effect without `rate`; write `rate = \"10/s\"` beside it (an \
                     override takes neither from its limit)"
                .into(),
            false => {
                format!("`burst` has no effect: a `{}` has none; drop it", algorithm.as_str())
            }
        };
        problems.add(&burst, message);
        return None;
    }
    let mut all = all.into_iter();
    match (all.next(), all.next()) {
        (None, _) => {
            let example = match algorithm.is_bucket() {
                true => "rate = \"10/s\"",
                false => "limit = \"5 per 15m\"",
            };
            problems.add(
                section.span(),
                format!(
                    "nothing says how much is let through; write `{example}`, `deny = true` or \
                     `unlimited = true`"
                ),
            );
            None
        }
        (Some((_, first)), Some((_, second))) => {
            problems.add_pair(
                &second,
                &first,
                "only one of `rate`, `limit`, `deny` and `unlimited` can hold; drop the others",
            );
            None
        }
        (Some(said), None) => Some(said),
    }
}

fn bucket(
    section: &Section<'_, '_>,
    written: &Written<'_>,
    manner: &Manner<'_>,
    problems: &mut Problems,
) -> Option<Quota> {
    for name in ["time_zone", "week_start"] {
        refuse_without_calendar(section, name, problems)?;
    }
    let is_leaky = manner.algorithm == Algorithm::LeakyBucket;
    if let Some(span) = section.name_span("queue").filter(|_| !is_leaky) {
        let what = "only a leaky bucket has one; write `algorithm = \"leaky-bucket\"`, or drop it";
        problems.add(&span, format!("`queue` has no effect: {what}"));
        return None;
    }
    let rate = written.rate?;
    let burst = match &written.burst {
        Some(burst) => nonzero_burst(burst, problems)?,
        None if section.has("burst") => return None,
        None => rate.count,
    };
    Some(match is_leaky {
        true => Quota::LeakyBucket { rate, burst, queue: manner.queue },
        false => Quota::TokenBucket { rate, burst },
    })
}

fn nonzero_burst(burst: &Spanned<u64>, problems: &mut Problems) -> Option<u64> {
    if *burst.get_ref() == 0 {
        problems.add(
            &burst.span(),
            "a `burst` of `0` lets nothing through; write 1 or more, or `deny = true` alone",
        );
        return None;
    }
    Some(*burst.get_ref())
}

fn window(
    section: &Section<'_, '_>,
    written: &Written<'_>,
    manner: &Manner<'_>,
    problems: &mut Problems,
) -> Option<Quota> {
    let word = manner.algorithm.as_str();
    if let Some(span) = section.name_span("queue") {
        let what = format!("only a leaky bucket has one, and this is a `{word}`; drop it");
        problems.add(&span, format!("`queue` has no effect: {what}"));
        return None;
    }
    let written = written.limit.as_ref()?;
    let (at, WindowLimit { count: limit, per }) = (written.span(), *written.get_ref());
    let period_ns = match per {
        Per::Time(period_ns) => period_ns,
        Per::Calendar(unit) if manner.algorithm == Algorithm::FixedWindow => {
            let calendar = calendar(section, unit, manner, problems)?;
            return Some(Quota::FixedWindow { limit, window: Window::Calendar(calendar) });
        }
        Per::Calendar(unit) => {
            problems.add(
                &at,
                format!(
                    "`{}` is a fixed window, and `{word}` looks back over a time; write \
                     `algorithm = \"fixed-window\"`, or a duration such as `30d`",
                    unit.as_str()
                ),
            );
            return None;
        }
    };
    for name in ["time_zone", "week_start"] {
        refuse_without_calendar(section, name, problems)?;
    }
    match manner.algorithm {
        Algorithm::SlidingLog if limit > LOG_MAX => {
            problems.add(
                &at,
                format!(
                    "a sliding log keeps the time of every unit and allows {LOG_MAX} (`log_max`) \
                     at most, not {limit}; write `algorithm = \"sliding-window\"`, which keeps two \
                     counts"
                ),
            );
            None
        }
        Algorithm::SlidingLog => Some(Quota::SlidingLog { limit, period_ns }),
        Algorithm::SlidingWindow => Some(Quota::SlidingWindow { limit, period_ns }),
        _ => Some(Quota::FixedWindow { limit, window: Window::Period(period_ns) }),
    }
}

fn calendar(
    section: &Section<'_, '_>,
    unit: CalendarUnit,
    manner: &Manner<'_>,
    problems: &mut Problems,
) -> Option<Calendar> {
    let span = unit.span(manner.week_start);
    if let Some(at) = section.name_span("week_start").filter(|_| unit != CalendarUnit::Week) {
        let what = "only a `calendar-week` begins with a day; drop it";
        problems.add(&at, format!("`week_start` has no effect: {what}"));
        return None;
    }
    let calendar = Calendar::new(span, manner.time_zone.unwrap_or(DEFAULT_TIME_ZONE));
    // It was looked up before, so that this never fails.
    calendar.map_err(|message| problems.add(section.span(), message)).ok()
}

/// Refuses a setting of calendar windows where there are none. None if it was written.
fn refuse_without_calendar(
    section: &Section<'_, '_>,
    name: &str,
    problems: &mut Problems,
) -> Option<()> {
    let Some(span) = section.name_span(name) else { return Some(()) };
    let what = "windows of a length, and buckets, know no calendar; write `algorithm = \
                \"fixed-window\"` and `limit = \"1000 per calendar-day\"`, or drop it";
    problems.add(&span, format!("`{name}` has no effect: {what}"));
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use limiter::Limit;
    use toml::de::DeTable;

    use super::super::error::{ConfigErrors, Lines};
    use super::super::limits::read_limits;
    use super::super::settings::TOP;
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    /// The limits of a file before they are compiled, or what is wrong with them.
    fn read(text: &str) -> Result<Vec<Limit>, ConfigErrors> {
        let root = DeTable::parse(text).expect("toml");
        let mut problems = Problems::default();
        let mut top = Section::new(&TOP, root.get_ref(), 0..0);
        let sections = top.take_sections("limit", &super::super::settings::LIMIT, &mut problems);
        let limits = read_limits(sections.expect("limits"), &mut problems);
        match problems.is_empty() {
            true => Ok(limits.into_iter().map(|read| read.limit).collect()),
            false => Err(problems.into_errors(&Lines::new(text), Path::new("c.toml"))),
        }
    }

    /// The quota of a limit of these lines.
    fn quota_of(lines: &str) -> Quota {
        let limits = read(&format!("[[limit]]\nname = \"a\"\n{lines}\n"));
        let limits = limits.unwrap_or_else(|errors| panic!("{errors}"));
        limits[0].quota.clone()
    }

    /// The quota of an override of the lines `own` in a limit of the lines `of_limit`.
    fn quota_of_override(of_limit: &str, own: &str) -> Quota {
        let text = format!(
            "[[limit]]\nname = \"a\"\n{of_limit}\n[[limit.override]]\nkeys = [\"k\"]\n{own}\n"
        );
        let limits = read(&text).unwrap_or_else(|errors| panic!("{errors}"));
        limits[0].overrides[0].quota.clone()
    }

    /// The line within `lines`, 0 for the header above them, and the message of the one fault that a limit of
    /// these lines has.
    fn fault(lines: &str) -> (usize, String) {
        let text = format!("[[limit]]\nname = \"a\"\n{lines}\n");
        let errors = read(&text).expect_err(lines);
        let [error] = errors.errors() else { panic!("{lines}: {errors}") };
        (error.line().expect("a line").saturating_sub(2), error.message().to_owned())
    }

    fn calendar(span: CalendarSpan, zone: &str) -> Window {
        Window::Calendar(Calendar::new(span, zone).expect("a zone"))
    }

    #[test]
    fn every_algorithm_is_read_with_its_numbers() {
        let rate = Rate { count: 20, period_ns: 1_000_000_000 };
        let cases = [
            ("rate = \"20/s\"", Quota::TokenBucket { rate, burst: 20 }),
            (
                "algorithm = \"token-bucket\"\nrate = \"20/s\"\nburst = 60",
                Quota::TokenBucket { rate, burst: 60 },
            ),
            (
                "algorithm = \"leaky-bucket\"\nrate = \"20/s\"",
                Quota::LeakyBucket { rate, burst: 20, queue: false },
            ),
            (
                "algorithm = \"leaky-bucket\"\nrate = \"20/s\"\nburst = 60\nqueue = true",
                Quota::LeakyBucket { rate, burst: 60, queue: true },
            ),
            (
                "algorithm = \"fixed-window\"\nlimit = \"100 per min\"",
                Quota::FixedWindow { limit: 100, window: Window::Period(MINUTE) },
            ),
            (
                "algorithm = \"sliding-window\"\nlimit = \"100 per 1m\"",
                Quota::SlidingWindow { limit: 100, period_ns: MINUTE },
            ),
            (
                "algorithm = \"sliding-log\"\nlimit = \"5 per 15m\"",
                Quota::SlidingLog { limit: 5, period_ns: 15 * MINUTE },
            ),
            (
                "algorithm = \"sliding-log\"\nlimit = \"10000 per 1ms\"",
                Quota::SlidingLog { limit: LOG_MAX, period_ns: 1_000_000 },
            ),
        ];
        for (lines, want) in cases {
            assert_eq!(quota_of(lines), want, "{lines}");
        }
    }

    #[test]
    fn calendar_windows_have_a_time_zone_and_weeks_a_first_day() {
        let window = |lines: &str| {
            let quota = quota_of(&format!("algorithm = \"fixed-window\"\n{lines}"));
            let Quota::FixedWindow { limit: 1000, window } = quota else { panic!("{quota:?}") };
            window
        };
        let berlin = "time_zone = \"Europe/Berlin\"";
        assert_eq!(window("limit = \"1000 per calendar-day\""), calendar(CalendarSpan::Day, "UTC"));
        assert_eq!(
            window(&format!("limit = \"1000 per calendar-month\"\n{berlin}")),
            calendar(CalendarSpan::Month, "Europe/Berlin")
        );
        assert_eq!(
            window(&format!("limit = \"1000 per calendar-year\"\n{berlin}")),
            calendar(CalendarSpan::Year, "Europe/Berlin")
        );
        assert_eq!(
            window("limit = \"1000 per calendar-week\""),
            calendar(CalendarSpan::Week(Weekday::Monday), "UTC")
        );
        for (word, day) in WEEKDAYS {
            assert_eq!(
                window(&format!("limit = \"1000 per calendar-week\"\nweek_start = \"{word}\"")),
                calendar(CalendarSpan::Week(day), "UTC")
            );
        }
        // A day that is not of the calendar is 86,400 seconds, counted from the Unix epoch.
        assert_eq!(window("limit = \"1000 per day\""), Window::Period(1_440 * MINUTE));
    }

    #[test]
    fn an_override_counts_as_its_limit_does_and_has_numbers_of_its_own() {
        let rate = |count| Rate { count, period_ns: 1_000_000_000 };
        let queue = "algorithm = \"leaky-bucket\"\nrate = \"1/s\"\nburst = 9\nqueue = true";
        let berlin = "algorithm = \"fixed-window\"\nlimit = \"9 per calendar-week\"\n\
                      time_zone = \"Europe/Berlin\"\nweek_start = \"sunday\"";
        let cases = [
            (queue, "rate = \"5/s\"", Quota::LeakyBucket { rate: rate(5), burst: 5, queue: true }),
            (
                queue,
                "rate = \"5/s\"\nqueue = false",
                Quota::LeakyBucket { rate: rate(5), burst: 5, queue: false },
            ),
            (
                queue,
                "algorithm = \"token-bucket\"\nrate = \"5/s\"",
                Quota::TokenBucket { rate: rate(5), burst: 5 },
            ),
            (queue, "deny = true", Quota::Deny),
            (
                berlin,
                "limit = \"7 per calendar-week\"",
                Quota::FixedWindow {
                    limit: 7,
                    window: calendar(CalendarSpan::Week(Weekday::Sunday), "Europe/Berlin"),
                },
            ),
            (
                berlin,
                "limit = \"7 per calendar-day\"\ntime_zone = \"UTC\"",
                Quota::FixedWindow { limit: 7, window: calendar(CalendarSpan::Day, "UTC") },
            ),
            (
                berlin,
                "limit = \"7 per 1m\"",
                Quota::FixedWindow { limit: 7, window: Window::Period(MINUTE) },
            ),
            (
                berlin,
                "algorithm = \"sliding-log\"\nlimit = \"7 per 1m\"",
                Quota::SlidingLog { limit: 7, period_ns: MINUTE },
            ),
            (
                "unlimited = true\nalgorithm = \"sliding-window\"",
                "limit = \"7 per 1m\"",
                Quota::SlidingWindow { limit: 7, period_ns: MINUTE },
            ),
        ];
        for (of_limit, own, want) in cases {
            assert_eq!(quota_of_override(of_limit, own), want, "{of_limit}\n{own}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_its_line_and_what_to_write() {
        let fixed = "algorithm = \"fixed-window\"\n";
        let sliding = "algorithm = \"sliding-window\"\n";
        let log = "algorithm = \"sliding-log\"\n";
        let leaky = "algorithm = \"leaky-bucket\"\n";
        let minute = "limit = \"5 per 1m\"\n";
        let day = "limit = \"5 per calendar-day\"\n";
        let cases = [
            (
                format!("{fixed}rate = \"1/s\""),
                "`fixed-window` takes a count per window; write `limit =",
            ),
            (format!("{log}rate = \"1/s\"\nburst = 3"), "`sliding-log` takes a count per window"),
            (minute.into(), "`token-bucket` takes a rate; write `rate = \"5/15m\"`"),
            (format!("{leaky}{minute}"), "`leaky-bucket` takes a rate"),
            (
                format!("{fixed}{minute}burst = 5"),
                "`burst` has no effect: a `fixed-window` has none",
            ),
            (format!("{sliding}burst = 5"), "`burst` has no effect: a `sliding-window` has none"),
            (
                format!("{sliding}{minute}queue = true"),
                "`queue` has no effect: only a leaky bucket",
            ),
            ("rate = \"1/s\"\nqueue = true".into(), "write `algorithm = \"leaky-bucket\"`"),
            ("rate = \"1/s\"\ntime_zone = \"UTC\"".into(), "`time_zone` has no effect"),
            (
                format!("{leaky}rate = \"1/s\"\nweek_start = \"monday\""),
                "`week_start` has no effect",
            ),
            (format!("{fixed}{minute}time_zone = \"UTC\""), "`limit = \"1000 per calendar-day\"`"),
            (format!("{log}{minute}week_start = \"monday\""), "`week_start` has no effect"),
            (format!("{fixed}{day}week_start = \"monday\""), "only a `calendar-week` begins"),
            (format!("{sliding}{day}"), "`calendar-day` is a fixed window, and `sliding-window`"),
            (format!("{log}limit = \"5 per calendar-year\""), "`calendar-year` is a fixed window"),
            (
                format!("{log}limit = \"10001 per 1m\""),
                "allows 10000 (`log_max`) at most, not 10001",
            ),
            (format!("{fixed}{day}time_zone = \"Berlin\""), "there is no time zone `Berlin`"),
            (format!("{fixed}{day}time_zone = \"CEST+2\""), "there is no time zone `CEST+2`"),
            (format!("{fixed}{day}time_zone = \"\""), "there is no time zone ``"),
            (format!("{fixed}{minute}rate = \"1/s\""), "only one of `rate`, `limit`, `deny` and"),
            (format!("{fixed}{minute}deny = true"), "only one of `rate`, `limit`, `deny` and"),
            ("deny = true\nalgorithm = \"fixed-window\"".into(), "no effect beside `deny = true`"),
            ("unlimited = true\nqueue = true".into(), "no effect beside `unlimited = true`"),
        ];
        for (lines, want) in cases {
            let (line, message) = fault(&lines);
            assert!(message.contains(want), "{lines}: {message}");
            // What is wrong is the last that is written, but where the one before decides.
            let before = usize::from(lines.ends_with("burst = 3"));
            assert_eq!(line + before, lines.trim_end().lines().count(), "{lines}");
        }
        let (line, message) = fault(fixed.trim_end());
        assert_eq!(
            (line, message.contains("write `limit = \"5 per 15m\"`")),
            (0, true),
            "{message}"
        );
    }

    #[test]
    fn limits_of_nothing_and_times_that_no_window_can_have_are_refused() {
        for algorithm in ["fixed-window", "sliding-window", "sliding-log"] {
            let cases = [
                ("0 per 1m", "lets nothing through; write `deny = true`"),
                ("5 per 0s", "is no time at all"),
                ("5 per 0ms", "is no time at all"),
                ("5 per 1500us", "no whole milliseconds"),
                ("5 per 1ns", "no whole milliseconds"),
                ("5 per month", "`limit = \"1000 per calendar-month\"`"),
                ("5 per 1y", "`limit = \"1000 per calendar-year\"`"),
                ("-1 per 1m", "does not begin with a whole number"),
                ("inf per 1m", "does not begin with a whole number"),
            ];
            for (limit, want) in cases {
                let lines = format!("algorithm = \"{algorithm}\"\nlimit = \"{limit}\"");
                let (line, message) = fault(&lines);
                assert!(message.contains(want), "{lines}: {message}");
                assert_eq!(line, 2, "{lines}");
            }
            for limit in ["5", "5.0", "nan", "inf", "1e400", "0"] {
                let lines = format!("algorithm = \"{algorithm}\"\nlimit = {limit}");
                let (line, message) = fault(&lines);
                assert!(message.starts_with("`limit` takes a string, not"), "{lines}: {message}");
                assert_eq!(line, 2, "{lines}");
            }
        }
        for (rate, want) in [("0/s", "write `deny = true`"), ("5/0s", "is no time at all")] {
            let (_, message) = fault(&format!("algorithm = \"leaky-bucket\"\nrate = \"{rate}\""));
            assert!(message.contains(want), "{message}");
        }
        let leaky = "algorithm = \"leaky-bucket\"\nrate = \"1/s\"\nburst = 0";
        assert!(fault(leaky).1.contains("a `burst` of `0` lets nothing through"));
    }

    #[test]
    fn names_that_other_programs_have_are_refused_with_the_word_here() {
        let fixed = "algorithm = \"fixed-window\"\nlimit = \"5 per 1m\"\n";
        for (line, want) in [
            ("period = \"month\"", "`limit = \"1000 per calendar-month\"`"),
            ("window = \"15m\"", "`limit = \"5 per 15m\"`"),
            ("log_max = 20000", "is 10000 and cannot be changed"),
            ("timezone = \"UTC\"", "did you mean `time_zone`?"),
        ] {
            let (at, message) = fault(&format!("{fixed}{line}"));
            assert!(message.contains(want), "{message}");
            assert_eq!(at, 3, "{message}");
        }
    }

    #[test]
    fn an_algorithm_that_does_not_exist_is_the_only_fault_told() {
        for rest in ["rate = \"1/s\"\nburst = 5", "limit = \"5 per 1m\"\ntime_zone = \"UTC\""] {
            let over = "[[limit.override]]\nkeys = [\"k\"]\nlimit = \"5 per 1m\"";
            let (line, message) = fault(&format!("algorithm = \"gcra\"\n{rest}\n{over}"));
            assert_eq!(line, 1);
            assert_eq!(
                message,
                "unknown value `gcra` for `algorithm`; write `token-bucket` or `leaky-bucket` or \
                 `fixed-window` or `sliding-window` or `sliding-log`"
            );
        }
    }

    #[test]
    fn what_is_wrong_in_an_override_is_told_by_what_it_takes_from_its_limit() {
        let head = "algorithm = \"fixed-window\"\nlimit = \"5 per 1m\"\n[[limit.override]]\n\
                    keys = [\"k\"]\n";
        for (own, want) in [
            ("rate = \"1/s\"", "`fixed-window` takes a count per window"),
            ("burst = 5", "`burst` has no effect: a `fixed-window` has none"),
            ("queue = true\ndeny = true", "`queue` has no effect beside `deny = true`"),
        ] {
            let (line, message) = fault(&format!("{head}{own}"));
            assert!(message.contains(want), "{message}");
            assert_eq!(line, 5, "{message}");
        }
        let (line, message) = fault(head.trim_end());
        assert!(message.contains("write `limit = \"5 per 15m\"`"), "{message}");
        assert_eq!(line, 3);
    }
}
