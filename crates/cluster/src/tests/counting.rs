//! Windows and logs on several nodes: window edges, wall clocks that differ, snapshots, heals, expiry.

use limiter::{Limit, Quota, Rate, Request, Window};

use super::network::{Network, START_UNIX_MS, config};
use crate::config::{MS, SECOND};

const MINUTE_MS: u64 = 60_000;
const LIMIT: u64 = 300;
const THREE: [&str; 3] = ["a", "b", "c"];

fn fixed() -> Quota {
    Quota::FixedWindow { limit: LIMIT, window: Window::Period(60 * SECOND) }
}

fn sliding() -> Quota {
    Quota::SlidingWindow { limit: LIMIT, period_ns: 60 * SECOND }
}

fn log(limit: u64, period_ns: u64) -> Quota {
    Quota::SlidingLog { limit, period_ns }
}

/// Three nodes with one limit and wall clocks that are ahead by `walls` milliseconds, a second and a
/// half after a full minute.
fn three(quota: &Quota, walls: [i64; 3]) -> Network {
    let mut net = Network::new();
    net.walls.extend(THREE.into_iter().zip(walls));
    for name in THREE {
        net.start(name, config(name, 3), vec![Limit::new("l", quota.clone())]);
    }
    net.run(1_500 * MS);
    net
}

/// Runs until so many milliseconds after the full minute at which the tests begin.
fn run_to(net: &mut Network, ms: u64) {
    let now_ms = net.now_ns / MS - super::network::START_NS / MS;
    net.run((ms - now_ms) * MS);
}

/// Spends, by the minute of the wall clock of whoever spent: before, in, and after that in which the
/// tests begin.
#[derive(Default)]
struct Tally([u64; 4]);

impl Tally {
    fn minute(net: &Network, name: &str) -> usize {
        let minute = net.unix_ms(name) / MINUTE_MS + 1 - START_UNIX_MS / MINUTE_MS;
        usize::try_from(minute).unwrap()
    }

    fn spend(&mut self, net: &mut Network, name: &str, calls: usize) {
        let passed = net.spend(name, calls);
        assert!(passed > 0, "{name} has no share at {} ms", net.unix_ms(name));
        self.0[Self::minute(net, name)] += passed as u64;
    }

    /// What `name` should say is left.
    fn left(&self, net: &Network, name: &str, quota: &Quota) -> u64 {
        let minute = Self::minute(net, name);
        let (current, previous) = (self.0[minute], self.0[minute - 1]);
        if matches!(quota, Quota::FixedWindow { .. }) {
            return LIMIT - current;
        }
        let rest_ms = MINUTE_MS - net.unix_ms(name) % MINUTE_MS;
        (LIMIT * MINUTE_MS - current * MINUTE_MS - previous * rest_ms) / MINUTE_MS
    }

    #[track_caller]
    fn check(&self, net: &Network, names: &[&str], quota: &Quota, what: &str) {
        for name in names {
            let left = net.remaining(name);
            assert_eq!(left, self.left(net, name, quota), "{what}: {name} of {quota:?}");
        }
    }
}

const WALLS: [[i64; 3]; 4] = [[0, 0, 0], [0, 100, -100], [0, 5_000, -5_000], [5_000, 0, 100]];

#[test]
fn a_spend_counts_in_the_window_of_whoever_made_it_whatever_the_clocks_say() {
    for quota in [fixed(), sliding()] {
        for walls in WALLS {
            let mut net = three(&quota, walls);
            let mut tally = Tally::default();
            // Around the edge, at which the clocks are in different minutes.
            for ms in [2_000, 30_000, 54_000, 57_000, 59_900, 60_050, 62_000, 64_000, 66_000] {
                run_to(&mut net, ms);
                for name in THREE {
                    tally.spend(&mut net, name, 3);
                }
            }
            assert!(tally.0[1] >= 30 && tally.0[2] >= 30, "{:?}", tally.0);
            for ms in [70_000, 90_000, 119_900 - 5_000] {
                run_to(&mut net, ms);
                tally.check(&net, &THREE, &quota, &format!("{walls:?} at {ms} ms"));
            }
            run_to(&mut net, 126_000);
            tally.check(&net, &THREE, &quota, &format!("{walls:?}, a minute later"));
        }
    }
}

#[test]
fn a_window_edge_in_the_middle_of_a_cut_loses_and_doubles_nothing() {
    for quota in [fixed(), sliding()] {
        for walls in WALLS {
            let mut net = three(&quota, walls);
            let mut tally = Tally::default();
            run_to(&mut net, 2_000);
            tally.spend(&mut net, "a", 10);
            run_to(&mut net, 48_000);
            net.cut("a", "c");
            net.cut("b", "c");
            for ms in [48_100, 50_000, 53_000, 57_000, 60_050, 62_000, 66_000] {
                run_to(&mut net, ms);
                for name in THREE {
                    tally.spend(&mut net, name, 4);
                }
            }
            assert_eq!((net.members("a"), net.members("c")), ((2, 3), (1, 3)));
            net.mend();
            run_to(&mut net, 70_000);
            assert_eq!(THREE.map(|name| net.members(name)), [(3, 3); 3]);
            tally.check(&net, &THREE, &quota, &format!("{walls:?}, healed"));
            for name in THREE {
                tally.spend(&mut net, name, 2);
            }
            run_to(&mut net, 100_000);
            tally.check(&net, &THREE, &quota, &format!("{walls:?}, later"));
            run_to(&mut net, 126_000);
            tally.check(&net, &THREE, &quota, &format!("{walls:?}, a minute later"));
        }
    }
}

#[test]
fn who_joins_takes_both_windows_and_what_comes_meanwhile() {
    for quota in [fixed(), sliding()] {
        for wall in [0, 100, -5_000] {
            let mut net = three(&quota, [0, 0, 0]);
            let mut tally = Tally::default();
            for ms in [20_000, 61_000] {
                run_to(&mut net, ms);
                tally.spend(&mut net, "a", 20);
            }
            run_to(&mut net, 70_000);
            net.walls.insert("d", wall);
            net.start("d", config("d", 3), vec![Limit::new("l", quota.clone())]);
            for _ in 0..40 {
                net.run(25 * MS);
                tally.spend(&mut net, "b", 1);
            }
            run_to(&mut net, 75_000);
            assert_eq!(net.members("d"), (4, 4));
            tally.check(&net, &["a", "b", "c", "d"], &quota, &format!("{wall} ms"));
        }
    }
}

#[test]
fn a_cluster_lets_a_window_through_once_and_the_next_as_well() {
    let quota = fixed();
    let mut net = three(&quota, [0, 0, 0]);
    let mut passed = [0; 2];
    for step in 0..600 {
        // From 50 s to 70 s.
        run_to(&mut net, 50_000 + step * 33);
        let minute = usize::from(net.unix_ms("a") >= START_UNIX_MS + MINUTE_MS);
        for name in THREE {
            passed[minute] += net.spend(name, 5);
        }
    }
    // The last units of a level belong to a node each.
    assert!(passed.iter().all(|passed| (298..=300).contains(passed)), "{passed:?}");
}

#[test]
fn a_unit_of_a_log_is_free_again_on_every_node_a_period_later() {
    let mut net = three(&log(60, 15 * SECOND), [0; 3]);
    assert_eq!(net.spend("a", 3), 3);
    let spent_ns = net.now_ns;
    net.run(5 * SECOND);
    assert_eq!(net.spend("b", 2), 2);
    net.run(SECOND);
    assert_eq!(THREE.map(|name| net.remaining(name)), [55; 3]);
    net.run(spent_ns + 15 * SECOND - net.now_ns - MS / 4);
    assert_eq!(THREE.map(|name| net.remaining(name)), [55; 3]);
    net.run(MS / 4);
    // It was spent there, and is exact; the others heard of it as a little younger.
    assert_eq!(net.remaining("a"), 58);
    net.run(2 * MS + MS);
    assert_eq!(THREE.map(|name| net.remaining(name)), [58; 3]);
    net.run(5 * SECOND);
    assert_eq!(THREE.map(|name| net.remaining(name)), [60; 3]);
}

#[test]
fn who_joins_takes_a_log_with_its_times() {
    let quota = log(60, 15 * SECOND);
    let mut net = three(&quota, [0; 3]);
    let mut times = Vec::new();
    for _ in 0..20 {
        assert_eq!(net.spend("a", 1), 1);
        times.push(net.now_ns);
        net.run(100 * MS);
    }
    net.start("d", config("d", 3), vec![Limit::new("l", quota)]);
    net.run(3 * SECOND);
    assert_eq!(net.members("d"), (4, 4));
    for (freed, spent_ns) in (1..).zip(times) {
        net.run(spent_ns + 15 * SECOND - net.now_ns);
        assert_eq!((net.remaining("a"), net.remaining("d")), (40 + freed, 39 + freed));
        net.run(4 * MS);
        assert_eq!(net.remaining("d"), 40 + freed);
    }
}

#[test]
fn what_a_log_owes_after_a_cut_counts_for_as_long_as_it_must_and_little_longer() {
    let quota = log(96, 32 * SECOND);
    let mut net = three(&quota, [0; 3]);
    net.cut("a", "c");
    net.cut("b", "c");
    net.run(SECOND);
    let mut times = Vec::new();
    for _ in 0..20 {
        assert_eq!(net.spend("a", 1), 1);
        times.push(net.now_ns);
        net.run(500 * MS);
    }
    net.mend();
    net.run(2 * SECOND);
    assert_eq!(THREE.map(|name| net.remaining(name)), [76; 3]);
    // What is owed is told in sixteenths of a period, each as its youngest.
    for (freed, spent_ns) in (1..).zip(times) {
        net.run(spent_ns + 32 * SECOND - net.now_ns);
        assert_eq!(net.remaining("a"), 76 + freed);
        let left = net.remaining("c");
        assert!((76 + freed - 5..76 + freed + 1).contains(&left), "{left} at {freed}");
    }
    net.run(3 * SECOND);
    assert_eq!(THREE.map(|name| net.remaining(name)), [96; 3]);
}

#[test]
fn the_longest_log_is_taken_by_who_joins_and_by_who_was_cut_off() {
    let quota = log(limiter::LOG_MAX, 3_600 * SECOND);
    let mut net = three(&quota, [0; 3]);
    let mut spent = 0;
    for _ in 0..400 {
        spent += net.spend("a", 40);
        net.run(10 * MS);
    }
    assert!(spent > 9_000, "{spent}");
    let left = limiter::LOG_MAX - spent as u64;
    net.start("d", config("d", 3), vec![Limit::new("l", quota)]);
    net.run(3 * SECOND);
    assert_eq!(["a", "b", "c", "d"].map(|name| net.remaining(name)), [left; 4]);
    assert_eq!(net.counts("d").buckets_taken, 1, "a bucket, of many entries");
}

#[test]
fn many_logs_are_given_in_chunks_that_no_bucket_straddles() {
    let quota = log(300, 3_600 * SECOND);
    let mut net = three(&quota, [0; 3]);
    for round in 0..100u64 {
        for key in 0..1_000u32 {
            assert_eq!(
                net.spend_key(THREE[usize::try_from(round % 3).unwrap()], &key.to_le_bytes(), 1),
                1
            );
        }
        net.run(20 * MS);
    }
    net.run(2 * SECOND);
    net.start("d", config("d", 3), vec![Limit::new("l", quota)]);
    net.run(4 * SECOND);
    assert_eq!(net.members("d"), (4, 4));
    assert_eq!(net.counts("d").buckets_taken, 1_000);
    for key in 0..1_000u32 {
        assert_eq!(net.remaining_key("d", &key.to_le_bytes()), 200, "{key}");
    }
}

#[test]
fn the_queue_drains_at_the_fleets_rate() {
    let rate = Rate { count: 50, period_ns: SECOND };
    let quota = Quota::LeakyBucket { rate, burst: 100, queue: true };
    let mut net = three(&quota, [0; 3]);
    let request = Request::check(b"", b"alice");
    let mut last_ns = 0;
    let mut passed = 0;
    for _ in 0..300 {
        for name in THREE {
            let (now_ns, limiter) = (net.now_ns, net.node(name).limiter.clone());
            let verdict = limiter.decide(now_ns, &request).unwrap().verdict;
            if verdict.allowed {
                passed += 1;
                last_ns = last_ns.max(now_ns + verdict.delay.to_ns());
            }
        }
        net.run(10 * MS);
    }
    // A full queue, and what drains in three seconds.
    assert!((245..=252).contains(&passed), "{passed}");
    // Whoever came last leaves when all before it have drained.
    let drained_ns = net.now_ns + 2 * SECOND;
    assert!(last_ns <= drained_ns && last_ns + 500 * MS >= drained_ns, "{last_ns} {drained_ns}");
}

#[test]
fn nodes_with_other_numbers_for_a_window_count_together() {
    let quotas = [
        Quota::FixedWindow { limit: 300, window: Window::Period(60 * SECOND) },
        Quota::FixedWindow { limit: 200, window: Window::Period(30 * SECOND) },
    ];
    let mut net = Network::new();
    net.walls.extend([("a", 0), ("b", 0)]);
    for (name, quota) in ["a", "b"].into_iter().zip(quotas) {
        net.start(name, config(name, 2), vec![Limit::new("l", quota)]);
    }
    net.run(1_500 * MS);
    assert_eq!(
        (net.peer("a", "b").drift, net.peer("b", "a").drift),
        (vec!["l".into()], vec!["l".into()])
    );
    net.spend_all("a", 20);
    net.run(SECOND);
    assert_eq!([net.remaining("a"), net.remaining("b")], [280, 180]);
    net.spend_all("b", 30);
    net.run(SECOND);
    assert_eq!([net.remaining("a"), net.remaining("b")], [250, 150]);
    // The longer window goes on.
    run_to(&mut net, 31_000);
    assert_eq!([net.remaining("a"), net.remaining("b")], [250, 200]);
}

/// The types of timed sums and timed standings.
const TIMED_SUMS: u8 = 0x02;
const TIMED_STANDINGS: u8 = 0x03;

#[test]
fn an_older_peer_that_skips_timed_frames_is_healed_and_joins_all_the_same() {
    let mut net = Network::new();
    // As an older version does.
    net.lost.extend([("b", TIMED_SUMS), ("c", TIMED_STANDINGS)]);
    let rate = Rate { count: 100, period_ns: 3_600 * SECOND };
    let bucket = Limit::new("bucket", Quota::TokenBucket { rate, burst: 100 });
    let limits = vec![bucket, Limit::new("log", log(100, 3_600 * SECOND))];
    for name in ["a", "b"] {
        net.start(name, config(name, 2), limits.clone());
    }
    net.run(1_500 * MS);
    net.cut("a", "b");
    net.run(SECOND);
    assert_eq!(net.spend("a", 5), 5);
    net.run(SECOND);
    net.mend();
    net.run(SECOND);
    assert_eq!([net.members("a"), net.members("b")], [(2, 2); 2]);
    net.start("c", config("c", 2), limits);
    net.run(2 * SECOND);
    assert_eq!(["a", "b", "c"].map(|name| net.members(name)), [(3, 3); 3]);
    let (told, heard) = (net.counts("a").sums_sent, net.counts("b").sums_received);
    assert_eq!((told, heard), (2, 1), "that of the bucket is heard");
    assert_eq!(net.counts("c").buckets_taken, 1);
}

#[test]
fn parts_of_a_frame_that_does_not_follow_end_the_link() {
    let sum = limiter::Sum {
        bucket: limiter::Bucket { slot: 0, hash: 1 },
        ticks: 1,
        when: limiter::When::At { ns: 0 },
    };
    let sums_of = |seq: u64| {
        let mut bytes = Vec::new();
        assert_eq!(wire::peer::write_timed_sums(&mut bytes, seq, 0, &[sum]), 1);
        bytes
    };
    let heal_of = |seq: u64| {
        let mut bytes = Vec::new();
        wire::peer::write_heal(&mut bytes, (seq, seq), true, &[]);
        bytes
    };
    for (frames, is_sound) in [
        ([sums_of(1 << 40), sums_of(1 << 40), heal_of(1 << 40)], true),
        ([sums_of(1 << 40), sums_of(1 << 41), heal_of(1 << 41)], false),
        ([sums_of(1 << 40), sums_of(1 << 40), heal_of(1 << 41)], false),
    ] {
        let mut net = three(&log(60, 3_600 * SECOND), [0; 3]);
        let link = net.link_of("a", "b");
        for frame in frames {
            net.inject("a", link, &frame);
        }
        assert_eq!(net.members("a"), if is_sound { (3, 3) } else { (2, 3) });
        let refused = net.counts("a").refused.of(wire::peer::Refusal::Malformed);
        assert_eq!(refused, u64::from(!is_sound));
    }
}
