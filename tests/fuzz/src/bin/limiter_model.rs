//! The limiter answers any calls under any limits as the obvious model does, to the unit.
#![no_main]

#[path = "../../../../crates/limiter/tests/behaviour/model.rs"]
mod model;

use limiter::{
    Limit, Limiter, Op, Override, Plan, Quota, Rate, Request, Selector, StoreConfig, Unmatched,
    WhenFull,
};
use model::{Answer, Model};
use rlnode_fuzz::{Input, fuzz_target};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 86_400 * SECOND;
/// Calls in one run: enough to fill, empty and refill every bucket there is.
const CALLS_MAX: usize = 256;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let limits: Vec<Limit> = (0..1 + input.byte() % 3).map(|at| limit(at, &mut input)).collect();
    // One shard, because the model has one time for all; a small one, so that it is swept and rebuilt
    // but never too full for the few keys there are.
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: Some(64),
        when_full: WhenFull::Deny,
        secret: [3; 16],
    };
    let Ok(plan) = Plan::compile(limits.clone(), Unmatched::Allow) else { return };
    let real = Limiter::new(plan, store);
    let mut model = Model::new(limits);
    let mut now = START;
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        now = step(now, &mut input);
        let request = request(&mut input);
        let verdict = real.decide(now, &request).expect("within the bounds").verdict;
        let retry = verdict.retry_after.to_ns();
        let answer = Answer {
            allowed: verdict.allowed,
            limit_name: verdict.limit_name.into(),
            remaining: verdict.remaining,
            retry_after_ns: (retry != u64::MAX).then_some(retry),
            reset_after_ns: verdict.reset_after.to_ns(),
        };
        assert_eq!(answer, model.decide(now, &request), "{request:?} at {now}");
        assert!(verdict.remaining.unwrap_or(0) <= verdict.limit.unwrap_or(0));
        real.sweep(0, usize::from(input.byte() & 7));
    }
});

fn quota(input: &mut Input<'_>) -> Quota {
    let pick = input.byte();
    let count = [1, 2, 3, 7, 100, 999_983, 999_999_937, SECOND][usize::from(pick & 7)];
    let period_ns = [SECOND, 3 * SECOND, 60 * SECOND, 7_919_000_003][usize::from(pick >> 3 & 3)];
    let burst = [1, 2, 5, 1_000, 1_000_000, u64::MAX, 1 << 40, 3][usize::from(pick >> 5)];
    Quota::TokenBucket { rate: Rate { count, period_ns }, burst }
}

fn limit(at: u8, input: &mut Input<'_>) -> Limit {
    let pick = input.byte();
    let mut limit = Limit::new(format!("l{at}"), quota(input));
    limit.key = ["{key}", "{endpoint}", "{tenant}", "*"][usize::from(pick & 3)].into();
    if pick & 4 != 0 {
        limit.unit = "bytes".into();
    }
    limit.selector.endpoint = (pick & 8 != 0).then(|| "/a".into());
    let selectors = [
        Selector { attributes: vec![("plan".into(), "pro".into())], ..Selector::default() },
        Selector { endpoint: Some("/a".into()), ..Selector::default() },
        Selector { keys: vec![b"k".to_vec()], ..Selector::default() },
    ];
    for (o, selector) in selectors.into_iter().enumerate() {
        if pick >> (4 + o) & 1 != 0 {
            let name = Some(format!("o{o}"));
            limit.overrides.push(Override { name, selector, quota: quota(input) });
        }
    }
    limit
}

/// Time between two calls: mostly little, sometimes years, sometimes back.
fn step(now: u64, input: &mut Input<'_>) -> u64 {
    let pick = input.byte();
    let by = u64::from(pick >> 2) + 1;
    match pick & 3 {
        0 => now,
        1 => now.saturating_add(by * 50_000_000),
        2 => now.saturating_sub(by * 1_000_000).max(START),
        _ => now
            .saturating_add(1_u64.checked_shl(u32::from(pick >> 2)).unwrap_or(0))
            .min(u64::MAX / 4),
    }
}

fn request(input: &mut Input<'_>) -> Request<'static> {
    let pick = input.byte();
    let op =
        [Op::Check, Op::Check, Op::Check, Op::Check, Op::Peek, Op::Debit, Op::Refund, Op::Reset]
            [usize::from(pick & 7)];
    let key: &[u8] = if pick & 8 == 0 { b"k" } else { b"other" };
    let endpoint: &[u8] = if pick & 16 == 0 { b"/a" } else { b"/b" };
    let mut request = Request::check(endpoint, key).with_op(op);
    if pick & 32 != 0 {
        request = request.with_attribute(b"plan", b"pro");
    }
    if pick & 64 != 0 {
        request = request.with_attribute(b"tenant", b"k");
    }
    if pick & 128 != 0 {
        let costs = input.byte();
        let cost = |n: u8| [0, 1, 2, 3, 5, 1_000, 1 << 63, u64::MAX][usize::from(n & 7)];
        request = request.with_cost(cost(costs)).with_unit_cost(b"bytes", cost(costs >> 3));
    }
    request
}
