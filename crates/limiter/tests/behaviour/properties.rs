//! The properties that hold for every sequence of calls (P1 to P6 of the fault list), and agreement
//! with the obvious model, over random limits and random calls.

use crate::model::{Answer, Model};
use crate::support::{DAY, SECOND};
use limiter::{
    Decision, Limit, Limiter, Op, Override, Plan, Quota, Rate, Request, Selector, StoreConfig,
    Unmatched, WhenFull,
};
use proptest::prelude::*;

/// A limiter of some dozen shards.
fn limiter(limits: Vec<Limit>) -> Limiter {
    limiter_of(limits, None)
}

fn limiter_of(limits: Vec<Limit>, entries_max: Option<u64>) -> Limiter {
    let plan = Plan::compile(limits, Unmatched::Allow).unwrap();
    let config = StoreConfig {
        memory_bytes: 4 << 20,
        entries_max,
        when_full: WhenFull::Overflow,
        secret: [9; 16],
    };
    Limiter::new(plan, config)
}

fn answer(decision: &Decision<'_>) -> Answer {
    let verdict = &decision.verdict;
    let retry = verdict.retry_after.to_ns();
    Answer {
        allowed: verdict.allowed,
        limit_name: verdict.limit_name.into(),
        remaining: verdict.remaining,
        retry_after_ns: (retry != u64::MAX).then_some(retry),
        reset_after_ns: verdict.reset_after.to_ns(),
    }
}

/// Rates of every size: one a year to a billion a second, prime and round.
fn quota() -> impl Strategy<Value = Quota> {
    let count = prop_oneof![1_u64..12, Just(999_983), Just(999_999_937), Just(1_000_000_000)];
    let period = prop_oneof![
        Just(SECOND),
        Just(3 * SECOND),
        Just(60 * SECOND),
        Just(7_919_000_003),
        Just(DAY),
        Just(365 * DAY)
    ];
    let burst = prop_oneof![1_u64..6, Just(100), Just(1_000_000)];
    (count, period, burst).prop_filter_map("more than 64 bits", |(count, period_ns, burst)| {
        let quota = Quota::TokenBucket { rate: Rate { count, period_ns }, burst };
        Plan::compile(vec![Limit::new("probe", quota.clone())], Unmatched::Allow)
            .ok()
            .map(|_| quota)
    })
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let key = prop_oneof![Just("{key}"), Just("{endpoint}"), Just("{tenant}"), Just("*")];
    let unit = prop_oneof![3 => Just("requests"), 1 => Just("bytes")];
    let endpoint = prop::option::of(prop_oneof![Just("/a"), Just("/b")]);
    let limit = (quota(), key, unit, endpoint, prop::collection::vec(quota(), 0..4)).prop_map(
        |(quota, key, unit, endpoint, overrides)| {
            let mut limit = Limit::new("", quota);
            limit.key = key.into();
            limit.unit = unit.into();
            limit.selector.endpoint = endpoint.map(Into::into);
            limit.overrides = with_quotas(key, endpoint.unwrap_or("/b"), overrides);
            limit
        },
    );
    prop::collection::vec(limit, 1..4).prop_map(|mut limits| {
        for (at, limit) in limits.iter_mut().enumerate() {
            limit.name = format!("l{at}");
        }
        limits
    })
}

/// Up to three overrides, one of each kind that the key allows.
fn with_quotas(key: &str, endpoint: &str, quotas: Vec<Quota>) -> Vec<Override> {
    let mut selectors = vec![
        Selector { attributes: vec![("plan".into(), "pro".into())], ..Selector::default() },
        Selector { endpoint: Some(endpoint.into()), ..Selector::default() },
    ];
    if key != "*" {
        selectors.push(Selector { keys: vec![b"k1".to_vec()], ..Selector::default() });
    }
    let named = selectors.into_iter().zip(quotas).enumerate();
    named
        .map(|(o, (selector, quota))| Override { name: Some(format!("o{o}")), selector, quota })
        .collect()
}

#[derive(Clone, Debug)]
struct Call {
    op: Op,
    key: &'static [u8],
    endpoint: &'static [u8],
    tenant: Option<&'static [u8]>,
    pro: bool,
    requests: Option<u64>,
    bytes: Option<u64>,
    /// Time since the last call; negative is a clock that goes back.
    step_ns: i64,
}

impl Call {
    fn request(&self) -> Request<'static> {
        let mut request = Request::check(self.endpoint, self.key).with_op(self.op);
        if let Some(tenant) = self.tenant {
            request = request.with_attribute(b"tenant", tenant);
        }
        if self.pro {
            request = request.with_attribute(b"plan", b"pro");
        }
        if let Some(cost) = self.requests {
            request = request.with_cost(cost);
        }
        if let Some(cost) = self.bytes {
            request = request.with_unit_cost(b"bytes", cost);
        }
        request
    }
}

fn call() -> impl Strategy<Value = Call> {
    let op = prop_oneof![
        8 => Just(Op::Check), 2 => Just(Op::Peek), 1 => Just(Op::Debit), 1 => Just(Op::Refund),
        1 => Just(Op::Reset)
    ];
    let cost = prop_oneof![0_u64..4, Just(100), Just(u64::MAX), Just(1 << 63)];
    let step = prop_oneof![
        4 => Just(0_i64), 4 => 1_i64..2_000_000_000, 1 => -3_000_000_000_i64..0,
        1 => Just(3_600_000_000_000), 1 => Just(10 * 365 * 86_400 * 1_000_000_000)
    ];
    let key = prop_oneof![Just(&b"k1"[..]), Just(&b"k2"[..])];
    let endpoint = prop_oneof![Just(&b"/a"[..]), Just(&b"/b"[..])];
    let tenant = prop::option::of(prop_oneof![Just(&b"t1"[..]), Just(&b"k1"[..])]);
    let costs = (prop::option::of(cost.clone()), prop::option::of(cost));
    (op, key, endpoint, tenant, any::<bool>(), costs, step).prop_map(
        |(op, key, endpoint, tenant, pro, (requests, bytes), step_ns)| Call {
            op,
            key,
            endpoint,
            tenant,
            pro,
            requests,
            bytes,
            step_ns,
        },
    )
}

/// The clock that a caller reads: it may go back, but not below where it started.
fn clock(now_ns: u64, step_ns: i64) -> u64 {
    now_ns.saturating_add_signed(step_ns).max(DAY)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn agrees_with_the_obvious_model(
        limits in limits(), calls in prop::collection::vec(call(), 1..80), one_shard in any::<bool>(),
    ) {
        // Time that goes back is kept by each shard for itself; the model has one time for all.
        let real = limiter_of(limits.clone(), one_shard.then_some(1000));
        let mut model = Model::new(limits);
        let mut now = DAY;
        for (at, call) in calls.iter().enumerate() {
            now = clock(now, if one_shard { call.step_ns } else { call.step_ns.max(0) });
            let request = call.request();
            let decision = real.decide(now, &request).unwrap();
            prop_assert_eq!(answer(&decision), model.decide(now, &request), "call {}: {:?}", at, call);
            let verdict = decision.verdict;
            // P2
            prop_assert!(verdict.remaining.unwrap_or(0) <= verdict.limit.unwrap_or(0));
            if at % 7 == 3 {
                // P6: dropping entries at rest changes no later answer. The reading is an old one, so
                // that the sweep does not move a shard's time, of which the model knows nothing.
                real.sweep(0, real.sweep_round());
            }
        }
    }

    /// P1: what passes in any interval is at most the capacity and the refill of the interval.
    #[test]
    fn no_interval_lets_through_more_than_capacity_and_refill(
        quota in quota(), steps in prop::collection::vec((0_u64..3 * SECOND, 1_u64..4), 1..200),
    ) {
        let Quota::TokenBucket { rate, burst } = quota else { unreachable!() };
        let real = limiter(vec![Limit::new("l", quota)]);
        let mut now = DAY;
        let mut passed: Vec<(u64, u64)> = Vec::new();
        for (step, cost) in steps {
            now += step;
            let decision = real.decide(now, &Request::check(b"", b"k").with_cost(cost)).unwrap();
            if decision.verdict.allowed {
                passed.push((now, cost));
            }
        }
        for (from, (start, _)) in passed.iter().enumerate() {
            let mut total: u128 = 0;
            for (end, cost) in &passed[from..] {
                total += u128::from(*cost);
                // total <= burst + count * (end - start) / period, without dividing.
                let room = u128::from(burst) * u128::from(rate.period_ns)
                    + u128::from(rate.count) * u128::from(end - start);
                prop_assert!(total * u128::from(rate.period_ns) <= room);
            }
        }
    }

    /// P3: waiting exactly as told passes, one nanosecond less fails.
    #[test]
    fn waiting_as_told_passes_and_a_nanosecond_less_fails(
        quota in quota(), spent in 1_u64..8, cost in 1_u64..8, debit in prop::option::of(1_u64..8), idle in 0_u64..SECOND,
    ) {
        let real = limiter(vec![Limit::new("l", quota)]);
        for _ in 0..spent {
            real.decide(DAY, &Request::check(b"", b"k")).unwrap();
        }
        if let Some(debit) = debit {
            real.decide(DAY, &Request::check(b"", b"k").with_op(Op::Debit).with_cost(debit)).unwrap();
        }
        let request = Request::check(b"", b"k").with_cost(cost);
        let now = DAY + idle;
        let told = real.decide(now, &request).unwrap().verdict;
        let wait = told.retry_after.to_ns();
        if told.allowed {
            prop_assert_eq!(wait, 0);
        } else if wait == u64::MAX {
            prop_assert!(!real.decide(now + 100 * 365 * DAY, &request).unwrap().verdict.allowed);
        } else {
            prop_assert!(wait > 0);
            let early = real.decide(now + wait - 1, &request).unwrap().verdict;
            prop_assert_eq!((early.allowed, early.retry_after.to_ns()), (false, 1));
            prop_assert!(real.decide(now + wait, &request).unwrap().verdict.allowed);
        }
    }

    /// P4: denied calls and peeks change no later answer. P5: an older reading of the clock creates
    /// nothing.
    #[test]
    fn denied_calls_peeks_and_stale_readings_change_nothing(
        limits in limits(), calls in prop::collection::vec(call(), 1..60), extra in prop::collection::vec(call(), 60),
    ) {
        let (plain, disturbed) = (limiter(limits.clone()), limiter(limits));
        let mut now = DAY;
        for (call, extra) in calls.iter().zip(&extra) {
            now = clock(now, call.step_ns.max(0));
            let stale = now - u64::from(extra.pro) * (now - DAY).min(SECOND);
            // The other limiter is asked first, at an older time or now, what changes nothing.
            disturbed.decide(now, &extra.request().with_op(Op::Peek)).unwrap();
            let would = disturbed.decide(stale, &extra.request().with_op(Op::Peek)).unwrap();
            if !would.verdict.allowed {
                disturbed.decide(stale, &extra.request().with_op(Op::Check)).unwrap();
            }
            let request = call.request();
            prop_assert_eq!(plain.decide(now, &request).unwrap(), disturbed.decide(now, &request).unwrap());
        }
    }
}
