//! P1 to P6 of the fault list over random calls, for every algorithm, and agreement with the obvious models.

use limiter::{CalendarSpan, Decision, Limit, Limiter, Op, Quota, Request, Verdict, WhenFull};
use proptest::prelude::*;

use super::model::{Answer, Model, Moment};
use super::{NOON, calendar, fixed, log, meter, queue, sliding};
use crate::support::{DAY, HOUR, MS, SECOND, START, bounded, bucket};

fn answer(verdict: &Verdict<'_>) -> Answer {
    let retry_after_ns = verdict.retry_after.to_ns();
    Answer {
        allowed: verdict.allowed,
        limit: verdict.limit.unwrap(),
        remaining: verdict.remaining.unwrap(),
        retry_after_ns: (retry_after_ns != u64::MAX).then_some(retry_after_ns),
        reset_after_ns: verdict.reset_after.to_ns(),
        delay_ns: verdict.delay.to_ns(),
        window_ns: verdict.window.to_ns(),
    }
}

/// A bucket of any of the three kinds: rates of every size, prime and round.
fn level() -> impl Strategy<Value = Quota> {
    let count = prop_oneof![1_u64..12, Just(999_983), Just(1_000_000_000)];
    let period = prop_oneof![
        Just(SECOND),
        Just(60 * SECOND),
        Just(7_919_000_003),
        Just(DAY),
        Just(30 * DAY)
    ];
    let burst = prop_oneof![1_u64..6, Just(100)];
    (count, period, burst, 0..3).prop_map(|(count, period_ns, burst, kind)| match kind {
        0 => bucket(burst, count, period_ns),
        1 => meter(burst, count, period_ns),
        _ => queue(burst, count, period_ns),
    })
}

fn windows() -> impl Strategy<Value = Quota> {
    let period_ms = [1, 7, 250, 1_000, 60_000, 3_600_000, 86_400_000];
    let limit = prop_oneof![4 => 1_u64..6, 1 => Just(100), 1 => Just(1_000_000_000)];
    let period_ns = prop::sample::select(period_ms.map(|ms| ms * MS).to_vec());
    (limit, period_ns, any::<bool>()).prop_map(|(limit, period_ns, slides)| {
        if slides { sliding(limit, period_ns) } else { fixed(limit, period_ns) }
    })
}

fn logs() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![
        Just(1_u64),
        Just(7 * MS),
        Just(SECOND),
        Just(7_919_000_003),
        Just(60 * SECOND),
        Just(DAY)
    ];
    (prop_oneof![1_u64..6, Just(100)], period).prop_map(|(limit, period_ns)| log(limit, period_ns))
}

fn quota() -> impl Strategy<Value = Quota> {
    prop_oneof![level(), windows(), logs()]
}

fn limits_of(quotas: &[Quota]) -> Vec<Limit> {
    let named = quotas.iter().enumerate();
    named.map(|(at, quota)| Limit::new(format!("l{at}"), quota.clone())).collect()
}

#[derive(Clone, Copy, Debug)]
struct Call {
    op: Op,
    key: &'static [u8],
    cost: u64,
    /// Time since the last call; negative is a clock that goes back.
    step_ns: i64,
}

impl Call {
    fn request(&self) -> Request<'static> {
        let request = Request::check(b"", self.key).with_op(self.op).with_cost(self.cost);
        Request { details: true, ..request }
    }
}

fn call() -> impl Strategy<Value = Call> {
    let op = prop_oneof![
        10 => Just(Op::Check), 2 => Just(Op::Peek), 2 => Just(Op::Debit), 2 => Just(Op::Refund),
        1 => Just(Op::Reset)
    ];
    let cost = prop_oneof![
        16 => 0_u64..4, 1 => 4_u64..9, 1 => Just(100), 1 => Just(u64::MAX), 1 => Just(1 << 63)
    ];
    let whole = [MS, 7 * MS, SECOND, 30 * SECOND, 60 * SECOND, HOUR, DAY, 3 * 365 * DAY];
    let whole = prop::sample::select(whole.map(u64::cast_signed).to_vec());
    let step_ns = prop_oneof![
        6 => Just(0_i64), 2 => 1_i64..10_000_000, 4 => 1_i64..2_000_000_000,
        2 => 1_i64..100_000_000_000, 4 => whole, 1 => -3_000_000_000_i64..0
    ];
    let key = prop_oneof![4 => Just(&b"k1"[..]), 1 => Just(&b"k2"[..])];
    (op, key, cost, step_ns).prop_map(|(op, key, cost, step_ns)| Call { op, key, cost, step_ns })
}

/// How far the wall clock is set: not at all as a rule, by what two readings may differ, or by more.
fn wall_step() -> impl Strategy<Value = i64> {
    let whole = [SECOND, 30 * SECOND, 60 * SECOND, HOUR, DAY].map(u64::cast_signed);
    let whole = prop::sample::select(whole.to_vec());
    prop_oneof![
        12 => Just(0_i64), 1 => -2_000_000_i64..2_000_000, 1 => -90_000_000_000_i64..90_000_000_000,
        1 => whole.clone(), 1 => whole.prop_map(|ns| -ns)
    ]
}

/// A model of every limit for each of the two keys.
struct Models {
    keys: [(&'static [u8], Vec<Model>); 2],
}

impl Models {
    fn new(quotas: &[Quota], beginnings: &[u64]) -> Self {
        let all = || quotas.iter().map(|quota| Model::new(quota, beginnings)).collect();
        Self { keys: [(b"k1", all()), (b"k2", all())] }
    }

    /// What each limit says.
    fn decide(&mut self, now: Moment, call: &Call) -> Vec<Answer> {
        let (_, models) = self.keys.iter_mut().find(|(key, _)| *key == call.key).unwrap();
        let tests = matches!(call.op, Op::Check | Op::Peek);
        let asked: Vec<_> = models
            .iter()
            .map(|it| (if tests { it.wait(now, call.cost) } else { Some(0) }, it.missing(now)))
            .collect();
        if asked.iter().all(|(wait, _)| *wait == Some(0)) {
            models.iter_mut().for_each(|model| model.change(now, call.op, call.cost));
        }
        let models = models.iter().zip(asked);
        models.map(|(it, (wait, missing))| it.answer(now, call.op, wait, missing)).collect()
    }
}

/// The real answer is that of the models, of which all must let a request pass.
fn assert_agrees(
    decision: &Decision<'_>,
    models: &[Answer],
    at: usize,
    call: &Call,
) -> Result<(), TestCaseError> {
    let real: Vec<_> = decision.details.iter().map(answer).collect();
    prop_assert_eq!(&real[..], models, "call {}: {:?}", at, call);
    let all_allow = models.iter().all(|model| model.allowed);
    prop_assert_eq!(decision.verdict.allowed, all_allow, "call {}: {:?}", at, call);
    let longest = models.iter().map(|model| model.delay_ns).max().unwrap();
    let delay_ns = if all_allow { longest } else { 0 };
    prop_assert_eq!(decision.verdict.delay.to_ns(), delay_ns, "call {}: {:?}", at, call);
    // P2
    for verdict in &decision.details {
        prop_assert!(verdict.remaining <= verdict.limit);
    }
    Ok(())
}

/// The clock that a caller reads: it may go back, but not below where it started.
fn clock(now_ns: u64, step_ns: i64) -> u64 {
    now_ns.saturating_add_signed(step_ns).max(START)
}

fn unix_of(ns: u64, offset_ns: i64) -> u64 {
    ns.checked_add_signed(offset_ns).unwrap()
}

/// A limiter of a few shards.
fn limiter(quotas: &[Quota]) -> Limiter {
    bounded(limits_of(quotas), 50_000, WhenFull::Overflow)
}

/// A limiter of one shard, so that it has one time, as the models have.
fn one_shard(quotas: &[Quota]) -> Limiter {
    bounded(limits_of(quotas), 60, WhenFull::Overflow)
}

/// The midnights of Berlin from 2026-10-01 on, by the rule of the European Union: summer time ends at 1:00
/// UTC on the last Sunday of October and begins at that hour on the last Sunday of March.
fn berlin_midnights() -> Vec<u64> {
    // 2026-10-01, 2026-10-25, 2027-03-28 and 2027-10-31, in days since 1970.
    let (first, winter, summer, end) = (20_727, 20_751, 20_905, 21_122);
    let is_winter = |day: &u64| *day > winter && *day <= summer;
    (first..=end).map(|day| day * DAY - if is_winter(&day) { HOUR } else { 2 * HOUR }).collect()
}

proptest! {
    #[test]
    fn every_algorithm_agrees_with_its_model(
        quotas in prop::collection::vec(quota(), 1..4),
        calls in prop::collection::vec(call(), 1..80),
    ) {
        let real = one_shard(&quotas);
        let offset_ns = (NOON - START).cast_signed();
        real.set_wall(START, NOON);
        let mut models = Models::new(&quotas, &[]);
        let (mut now_ns, mut last_ns) = (START, START);
        for (at, call) in calls.iter().enumerate() {
            now_ns = clock(now_ns, call.step_ns);
            last_ns = last_ns.max(now_ns);
            let now = Moment { ns: last_ns, unix_ns: unix_of(last_ns, offset_ns) };
            let decision = real.decide(now_ns, &call.request()).unwrap();
            assert_agrees(&decision, &models.decide(now, call), at, call)?;
            if at % 7 == 3 {
                // P6. The reading is an old one, so that the sweep does not move time.
                real.sweep(0, real.sweep_round());
            }
        }
    }

    #[test]
    fn windows_agree_with_their_model_while_the_wall_clock_is_set(
        quotas in prop::collection::vec(windows(), 1..3),
        calls in prop::collection::vec((call(), wall_step()), 1..80),
    ) {
        let real = one_shard(&quotas);
        let mut offset_ns = (NOON - START).cast_signed();
        let mut models = Models::new(&quotas, &[]);
        let (mut now_ns, mut last_ns) = (START, START);
        for (at, (call, wall_step_ns)) in calls.iter().enumerate() {
            now_ns = clock(now_ns, call.step_ns);
            last_ns = last_ns.max(now_ns);
            offset_ns += wall_step_ns;
            real.set_wall(now_ns, unix_of(now_ns, offset_ns));
            let now = Moment { ns: last_ns, unix_ns: unix_of(last_ns, offset_ns) };
            let decision = real.decide(now_ns, &call.request()).unwrap();
            assert_agrees(&decision, &models.decide(now, call), at, call)?;
        }
    }

    #[test]
    fn days_of_a_zone_agree_with_their_model(
        limit in 1_u64..6, from in 1_usize..320,
        calls in prop::collection::vec((call(), 0..20 * HOUR), 1..80),
    ) {
        let midnights = berlin_midnights();
        let quotas = [calendar(limit, CalendarSpan::Day, "Europe/Berlin")];
        let real = one_shard(&quotas);
        let mut models = Models::new(&quotas, &midnights);
        let start = midnights[from];
        real.set_wall(START, start);
        let mut ns = START;
        for (at, (call, step_ns)) in calls.iter().enumerate() {
            ns += step_ns;
            let now = Moment { ns, unix_ns: start + (ns - START) };
            let decision = real.decide(ns, &call.request()).unwrap();
            assert_agrees(&decision, &models.decide(now, call), at, call)?;
            if at % 7 == 3 {
                real.sweep(ns, real.sweep_round());
            }
        }
    }

    /// P1 of a fixed window: no window lets through more than the limit.
    #[test]
    fn no_window_lets_through_more_than_the_limit(
        limit in 1_u64..6, steps in prop::collection::vec((0..SECOND / 2, 1_u64..4), 1..100),
    ) {
        let passed = passed(&fixed(limit, SECOND), &steps);
        for (at_ns, _) in &passed {
            let same = passed.iter().filter(|(other_ns, _)| other_ns / SECOND == at_ns / SECOND);
            prop_assert!(same.map(|(_, call)| call.cost).sum::<u64>() <= limit);
        }
    }

    /// P1 of a sliding log: no period lets through more than the limit.
    #[test]
    fn no_period_lets_through_more_than_the_limit(
        limit in 1_u64..6, steps in prop::collection::vec((0..SECOND / 2, 1_u64..4), 1..100),
    ) {
        let passed = passed(&log(limit, SECOND), &steps);
        for (at_ns, _) in &passed {
            let within = passed.iter().filter(|(other_ns, _)| (at_ns..&(at_ns + SECOND)).contains(&other_ns));
            prop_assert!(within.map(|(_, call)| call.cost).sum::<u64>() <= limit);
        }
    }

    /// P1 of a leaky bucket as a meter: no interval lets through more than it holds and drains.
    #[test]
    fn no_interval_lets_through_more_than_a_bucket_holds_and_drains(
        burst in 1_u64..6, count in 1_u64..9, steps in prop::collection::vec((0..SECOND / 2, 1_u64..4), 1..100),
    ) {
        let passed = passed(&meter(burst, count, SECOND), &steps);
        for (first, (start_ns, _)) in passed.iter().enumerate() {
            let mut total = 0;
            for (end_ns, call) in &passed[first..] {
                total += call.cost;
                prop_assert!(total * SECOND <= burst * SECOND + count * (end_ns - start_ns));
            }
        }
    }

    /// P1 of a leaky bucket as a queue: calls leave in their order and at the rate, and no more wait than
    /// it holds.
    #[test]
    fn a_queue_lets_calls_leave_at_its_rate(
        burst in 1_u64..9, count in 1_u64..9, steps in prop::collection::vec((0..SECOND / 2, 1_u64..4), 1..100),
    ) {
        let passed = passed(&queue(burst, count, SECOND), &steps);
        let leaves = |(at_ns, call): &(u64, Passed)| at_ns + call.delay_ns;
        for (first, one) in passed.iter().enumerate() {
            let mut units = one.1.cost;
            for other in &passed[first + 1..] {
                prop_assert!(leaves(other) >= leaves(one));
                // The delays are rounded up to the nanosecond.
                prop_assert!((leaves(other) - leaves(one) + 1) * count >= units * SECOND);
                units += other.1.cost;
            }
            let waiting = passed[..=first].iter().filter(|it| leaves(it) > one.0);
            prop_assert!(waiting.map(|(_, call)| call.cost).sum::<u64>() <= burst);
        }
    }

    /// P3: waiting exactly as told passes, one nanosecond less fails.
    #[test]
    fn waiting_as_told_passes_and_a_nanosecond_less_fails(
        quota in quota(), calls in prop::collection::vec(call(), 0..20), cost in 1_u64..6,
    ) {
        let real = one_shard(std::slice::from_ref(&quota));
        real.set_wall(START, NOON);
        let mut now_ns = START;
        for call in &calls {
            now_ns = clock(now_ns, call.step_ns.max(0));
            let call = Call { key: b"k1", ..*call };
            real.decide(now_ns, &call.request()).unwrap();
        }
        let request = Request::check(b"", b"k1").with_cost(cost);
        let told = real.decide(now_ns, &request).unwrap().verdict;
        let wait_ns = told.retry_after.to_ns();
        if told.allowed {
            prop_assert_eq!(wait_ns, 0);
        } else if wait_ns == u64::MAX {
            prop_assert!(cost > told.limit.unwrap());
        } else {
            prop_assert!(wait_ns > 0);
            let early = real.decide(now_ns + wait_ns - 1, &request).unwrap().verdict;
            prop_assert_eq!((early.allowed, early.retry_after.to_ns()), (false, 1));
            prop_assert!(real.decide(now_ns + wait_ns, &request).unwrap().verdict.allowed);
        }
    }

    /// The reset is exact: a nanosecond before it something is missing still.
    #[test]
    fn the_reset_is_when_nothing_is_missing(
        quota in quota(), calls in prop::collection::vec(call(), 1..20),
    ) {
        let real = one_shard(std::slice::from_ref(&quota));
        real.set_wall(START, NOON);
        let mut now_ns = START;
        for call in &calls {
            now_ns = clock(now_ns, call.step_ns.max(0));
            real.decide(now_ns, &Call { key: b"k1", ..*call }.request()).unwrap();
        }
        let peek = |ns| real.decide(ns, &Request::check(b"", b"k1").with_op(Op::Peek)).unwrap().verdict;
        let told_ns = peek(now_ns).reset_after.to_ns();
        if told_ns > 0 {
            prop_assert_eq!(peek(now_ns + told_ns - 1).reset_after.to_ns(), 1);
        }
        let after = peek(now_ns + told_ns);
        prop_assert_eq!((after.reset_after.to_ns(), after.remaining), (0, after.limit));
    }

    /// P4: denied calls and peeks change no later answer. P5: an older reading of the clock creates
    /// nothing.
    #[test]
    fn denied_calls_peeks_and_stale_readings_change_nothing(
        quotas in prop::collection::vec(quota(), 1..4),
        calls in prop::collection::vec((call(), call(), 0..3 * SECOND), 1..60),
    ) {
        let (plain, disturbed) = (limiter(&quotas), limiter(&quotas));
        let mut now_ns = START;
        for (call, extra, back_ns) in &calls {
            now_ns = clock(now_ns, call.step_ns.max(0));
            let stale_ns = now_ns.saturating_sub(*back_ns).max(START);
            // The other limiter is asked first, now or at an older time, what changes nothing.
            disturbed.decide(now_ns, &extra.request().with_op(Op::Peek)).unwrap();
            let would = disturbed.decide(stale_ns, &extra.request().with_op(Op::Peek)).unwrap();
            if !would.verdict.allowed {
                disturbed.decide(stale_ns, &extra.request().with_op(Op::Check)).unwrap();
            }
            let request = call.request();
            prop_assert_eq!(
                plain.decide(now_ns, &request).unwrap(),
                disturbed.decide(now_ns, &request).unwrap()
            );
        }
    }

    /// P6: dropping entries at rest changes no later answer.
    #[test]
    fn dropping_what_is_at_rest_changes_nothing(
        quotas in prop::collection::vec(quota(), 1..4),
        calls in prop::collection::vec(call(), 1..60),
    ) {
        let (plain, swept) = (limiter(&quotas), limiter(&quotas));
        let mut now_ns = START;
        for call in &calls {
            now_ns = clock(now_ns, call.step_ns.max(0));
            swept.sweep(now_ns, swept.sweep_round());
            let request = call.request();
            prop_assert_eq!(
                plain.decide(now_ns, &request).unwrap(),
                swept.decide(now_ns, &request).unwrap()
            );
        }
        prop_assert_eq!(plain.counts().expired, 0);
    }
}

/// A call that passed.
#[derive(Clone, Copy, Debug)]
struct Passed {
    cost: u64,
    delay_ns: u64,
}

/// Which of calls of such costs after such steps of time pass, and when.
fn passed(quota: &Quota, steps: &[(u64, u64)]) -> Vec<(u64, Passed)> {
    let real = limiter(std::slice::from_ref(quota));
    let mut now_ns = START;
    let call = |&(step_ns, cost): &(u64, u64)| {
        now_ns += step_ns;
        let request = Request::check(b"", b"k").with_cost(cost);
        let verdict = real.decide(now_ns, &request).unwrap().verdict;
        let passed = Passed { cost, delay_ns: verdict.delay.to_ns() };
        verdict.allowed.then_some((now_ns, passed))
    };
    steps.iter().filter_map(call).collect()
}
