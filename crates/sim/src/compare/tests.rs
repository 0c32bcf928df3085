//! What the comparison must show: exact values on the made traffics, against models that share nothing
//! with the limiter.

use limiter::{Rate, Wait};

use super::*;
use crate::clock::{MS, SECOND};
use crate::exact::ExactBucket;

const MINUTE: u64 = 60 * SECOND;

fn setup(traffic: Traffic, count: u64, period_ns: u64) -> Setup {
    let numbers = Numbers { rate: Rate { count, period_ns }, burst: count };
    Setup { numbers, traffic, seed: 1, algorithms: Algorithm::ALL.to_vec() }
}

fn judgements(traffic: Traffic, count: u64, period_ns: u64) -> Vec<(Algorithm, Judgement)> {
    let found = compare(&setup(traffic, count, period_ns)).unwrap();
    found.lanes.into_iter().map(|(algorithm, lane)| (algorithm, lane.unwrap())).collect()
}

#[test]
fn at_the_edge_of_a_window_the_fixed_window_lets_through_twice_its_limit() {
    let units = |judgement: &Judgement| {
        (judgement.units, judgement.worst_two_seconds.units, judgement.worst_period.units)
    };
    let found: Vec<_> = judgements(Traffic::WindowEdge, 100, MINUTE)
        .iter()
        .map(|(algorithm, judgement)| (algorithm.as_str(), units(judgement)))
        .collect();
    assert_eq!(
        found,
        [
            // Of the second hundred 1.99 s bring back three units.
            ("token-bucket", (103, 103, 103)),
            ("leaky-bucket", (103, 103, 103)),
            // They leave 600 ms apart.
            ("leaky-queue", (103, 4, 100)),
            ("fixed-window", (200, 200, 200)),
            // 600 ms into the window 99 of the hundred before still count.
            ("sliding-window", (101, 101, 101)),
            ("sliding-log", (100, 100, 100)),
        ]
    );
}

#[test]
fn the_queue_spreads_a_burst_and_the_others_let_it_through_at_once() {
    // 200 calls within 100 ms: half of them pass, and of the queue 20 ms apart.
    for (algorithm, judgement) in judgements(Traffic::Burst, 100, 2 * SECOND) {
        let (fullest, longest_ms) =
            (judgement.worst_second.units, judgement.delays.longest_ns / MS);
        match algorithm {
            Algorithm::LeakyQueue => {
                assert_eq!(fullest, 50);
                assert!((1_900..=2_000).contains(&longest_ms), "{longest_ms}");
            }
            Algorithm::SlidingWindow | Algorithm::SlidingLog | Algorithm::FixedWindow => {
                assert_eq!((fullest, longest_ms), (100, 0), "{}", algorithm.as_str());
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                // What comes back within the 20 ms of a burst is one unit.
                assert!((100..=101).contains(&fullest), "{fullest}");
                assert_eq!(longest_ms, 0);
            }
        }
    }
}

/// What passes of calls at `times` by the model of `algorithm`.
fn model(algorithm: Algorithm, count: u64, period_ns: u64, times: &[u64]) -> u64 {
    let mut bucket = ExactBucket::new(count, Rate { count, period_ns });
    let mut passed: Vec<u64> = Vec::new();
    for at_ns in times.iter().copied() {
        let since = |from_ns: u64| passed.iter().filter(|it| **it >= from_ns).count() as u64;
        let begin_ns = at_ns - at_ns % period_ns;
        let fits = match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::LeakyQueue => {
                bucket.try_spend(at_ns, 1)
            }
            Algorithm::FixedWindow => since(begin_ns) < count,
            Algorithm::SlidingLog => {
                let counts = |it: &&u64| **it + period_ns > at_ns;
                (passed.iter().filter(counts).count() as u64) < count
            }
            Algorithm::SlidingWindow => {
                let current = since(begin_ns);
                let previous = since(begin_ns.saturating_sub(period_ns)) - current;
                let previous = if begin_ns == 0 { 0 } else { previous };
                let rest_ms = (begin_ns + period_ns - at_ns).div_ceil(MS);
                let period_ms = period_ns / MS;
                previous * rest_ms + (current + 1) * period_ms <= count * period_ms
            }
        };
        if fits {
            passed.push(at_ns);
        }
    }
    passed.len() as u64
}

#[test]
fn every_algorithm_lets_through_what_its_model_does() {
    for traffic in Traffic::ALL {
        for (count, period_ns) in [(100, MINUTE), (7, SECOND), (1, 3_600 * SECOND)] {
            let setup = setup(traffic, count, period_ns);
            let arrivals = traffic.arrivals(&setup.numbers, setup.seed, 1).unwrap();
            let times: Vec<u64> = arrivals.iter().map(|arrival| arrival.at_ns).collect();
            let start_ns = start_unix_ns(period_ns);
            for algorithm in Algorithm::ALL {
                let judgement = run(algorithm, &setup.numbers, start_ns, &arrivals).unwrap();
                let want = model(algorithm, count, period_ns, &times);
                let what = format!("{} {} {count}", traffic.name(), algorithm.as_str());
                assert_eq!(judgement.allowed, want, "{what}");
                assert_eq!(judgement.denied, times.len() as u64 - want, "{what}");
                let bound = match algorithm {
                    Algorithm::SlidingLog => count,
                    Algorithm::FixedWindow => 2 * count,
                    _ => 2 * count + 1,
                };
                assert!(judgement.worst_period.units <= bound, "{what}");
                assert!(judgement.longest_wait < Wait::NEVER && judgement.never == 0, "{what}");
            }
        }
    }
}

#[test]
fn numbers_that_one_algorithm_cannot_have_leave_the_others() {
    let found = compare(&setup(Traffic::WindowEdge, 10_001, SECOND)).unwrap();
    for (algorithm, lane) in found.lanes {
        match algorithm {
            Algorithm::SlidingLog => {
                let why = lane.unwrap_err();
                assert!(why.contains("10000") || why.contains("10,000"), "{why}");
            }
            _ => assert!(lane.is_ok(), "{}", algorithm.as_str()),
        }
    }
}

#[test]
fn the_memory_of_a_key_is_that_of_its_state_and_little_more() {
    for (algorithm, judgement) in judgements(Traffic::WindowEdge, 100, MINUTE) {
        let bytes = judgement.memory.bytes_per_key();
        let state = match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::LeakyQueue => 16,
            Algorithm::FixedWindow | Algorithm::SlidingWindow => 24,
            Algorithm::SlidingLog => 800,
        };
        assert_eq!(judgement.memory.keys, 375, "{}", algorithm.as_str());
        assert!((state..state * 5).contains(&bytes), "{} {bytes}", algorithm.as_str());
    }
}

#[test]
fn the_same_setup_gives_the_same_answer() {
    let run = |seed| {
        let setup = Setup { seed, ..setup(Traffic::Poisson, 20, SECOND) };
        let found = compare(&setup).unwrap();
        let series = |lane: &Result<Judgement, String>| lane.as_ref().unwrap().series.clone();
        found.lanes.iter().map(|(_, lane)| series(lane)).collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
