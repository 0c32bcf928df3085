//! Every algorithm at every door: one random sequence of questions, asked by turns at all of them, and
//! each answer compared with that of a limiter in this process that was asked the same.

use std::time::Duration;

use client::blocking::Client;
use client::{Address, Options};
use limiter::{
    DEFAULT_UNIT, Limit, Limiter, Op, Plan, Reason, Request, StoreConfig, Unmatched, Verdict, Wait,
    WhenFull,
};
use rlnode::clock::{boot_ns, unix_ns};

use crate::support::algorithm::Algorithm;
use crate::support::http::percent_encoded;
use crate::support::{Caller, Config, HttpConnection, Node, Noise, Surface, check, pause};

const NS_PER_MS: u64 = 1_000_000;
/// Units of each limit, in thirty days: so long that no unit comes back, and no window ends, while a
/// test runs, but for one run in a million.
const LIMIT: u64 = 20;
const PERIOD: &str = "30d";
const PERIOD_NS: u64 = 30 * 86_400 * 1_000 * NS_PER_MS;
const KEYS: [&str; 3] = ["alice", "bob", "carol"];
/// What rounding, and a wall clock that is told once a second, may make of a time.
const ROUNDING_MS: u64 = 5;

/// What a door told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    allowed: bool,
    limit: Option<u64>,
    remaining: Option<u64>,
    /// Which limit decided and why; the gateway's door tells it of denials alone, and no reason.
    limit_name: Option<String>,
    reason: Option<String>,
    times: Times,
}

/// Times in milliseconds; none inside for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Exact {
        retry_after: Option<u64>,
        reset_after: Option<u64>,
        delay: Option<u64>,
    },
    /// `Retry-After`, in seconds; none also where the call was allowed.
    Headers {
        retry_after_s: Option<u64>,
    },
}

/// A place to ask.
enum Door {
    Surface(Surface, Caller),
    Auth(HttpConnection),
    /// The client library.
    Library(Box<Client>),
}

impl Door {
    fn all(node: &Node) -> Vec<Self> {
        let surfaces = Surface::ALL.map(|it| Self::Surface(it, node.caller(it)));
        let client = |address| {
            let options = Options { timeout: Duration::from_secs(5), ..Options::default() };
            let client = Client::new(address, options).expect("options that fit together");
            Self::Library(Box::new(client))
        };
        let udp = Address::Udp { host: node.udp().ip().to_string(), port: node.udp().port() };
        let mut doors = Vec::from(surfaces);
        doors.push(Self::Auth(node.connection()));
        doors.extend([udp, Address::Stream(node.stream_path())].map(client));
        doors
    }

    fn name(&self) -> String {
        match self {
            Self::Surface(surface, _) => format!("{surface:?}"),
            Self::Auth(_) => "GET /v1/auth".to_owned(),
            Self::Library(_) => "the client library".to_owned(),
        }
    }

    /// The gateway's door takes checks alone.
    fn takes(&self, op: Op) -> bool {
        !matches!(self, Self::Auth(_)) || op == Op::Check
    }

    #[track_caller]
    fn ask(&mut self, request: &Request<'_>) -> Told {
        match self {
            Self::Surface(_, caller) => {
                let answer = caller.decide(request);
                Told {
                    allowed: answer.allowed,
                    limit: answer.limit,
                    remaining: answer.remaining,
                    limit_name: Some(answer.limit_name),
                    reason: Some(answer.reason),
                    times: Times::Exact {
                        retry_after: answer.retry_after_ms,
                        reset_after: answer.reset_after_ms,
                        delay: answer.delay_ms,
                    },
                }
            }
            Self::Auth(connection) => {
                let (_, cost) = request.costs.iter().next().expect("a cost is named");
                let target = format!(
                    "/v1/auth?key={}&endpoint={}&cost={cost}",
                    percent_encoded(request.key),
                    percent_encoded(request.endpoint),
                );
                let answer = connection.get(&target);
                assert!([200, 429].contains(&answer.status), "{answer:?}");
                let allowed = answer.status == 200;
                let retry_after_s =
                    answer.header("Retry-After").map(|it| it.parse().expect("whole seconds"));
                let name = |it: serde_json::Value| it["limit_name"].as_str().map(str::to_owned);
                Told {
                    allowed,
                    limit: Some(answer.number("X-RateLimit-Limit")),
                    remaining: Some(answer.number("X-RateLimit-Remaining")),
                    limit_name: if allowed { None } else { name(answer.json()) },
                    reason: None,
                    times: Times::Headers { retry_after_s },
                }
            }
            Self::Library(client) => {
                let answer = match request.op {
                    Op::Check => client.check(request),
                    Op::Peek => client.peek(request),
                    Op::Debit => client.debit(request),
                    Op::Refund => client.refund(request),
                    Op::Reset => panic!("no client resets"),
                };
                let answer = answer.expect("a decision");
                let ms = |it: Option<Duration>| it.map(|it| rounded_up_ms(it.as_nanos()));
                Told {
                    allowed: answer.allowed,
                    limit: answer.limit,
                    remaining: answer.remaining,
                    limit_name: Some(answer.limit_name),
                    reason: answer.reason.map(|it| it.as_str().to_owned()),
                    times: Times::Exact {
                        retry_after: ms(answer.retry_after),
                        reset_after: ms(answer.reset_after),
                        delay: ms(answer.delay),
                    },
                }
            }
        }
    }
}

fn rounded_up_ms(ns: u128) -> u64 {
    u64::try_from(ns.div_ceil(u128::from(NS_PER_MS))).expect("a time of this century")
}

/// A limiter in this process with the limits of the node, told this time of both clocks.
fn twin((now_ns, unix_ns): (u64, u64)) -> Limiter {
    let limits = Algorithm::ALL.map(|it| {
        let mut limit = Limit::new(it.name(), it.quota(LIMIT, PERIOD_NS));
        limit.selector.endpoint = Some(it.name().to_owned());
        limit
    });
    let plan = Plan::compile(limits.into(), Unmatched::Allow).expect("limits that can be meant");
    let when_full = WhenFull::Overflow;
    let store =
        StoreConfig { memory_bytes: 1 << 24, entries_max: None, when_full, secret: [3; 16] };
    let limiter = Limiter::new(plan, store);
    limiter.set_wall(now_ns, unix_ns);
    limiter
}

fn decide<'l>(limiter: &'l Limiter, now_ns: u64, request: &Request<'_>) -> Verdict<'l> {
    limiter.decide(now_ns, request).expect("a request within the bounds").verdict
}

/// A random question: mostly checks, some of more than there is, some of nothing.
fn question(noise: &mut Noise) -> (Op, u64) {
    let op = match noise.below(20) {
        0..=13 => Op::Check,
        14..=16 => Op::Peek,
        17 => Op::Debit,
        _ => Op::Refund,
    };
    let most = [1, 1, 2, 3, 5, 8, LIMIT, LIMIT + 1, u64::MAX];
    let cost = match op {
        Op::Check | Op::Peek if noise.below(10) == 0 => 0,
        Op::Check | Op::Peek => most[noise.below(most.len())],
        _ => 1 + noise.next() % 4,
    };
    (op, cost)
}

/// Expects that a door told what `verdict` says, times within `slack_ms`.
#[track_caller]
fn assert_same(told: &Told, verdict: &Verdict<'_>, slack_ms: u64, what: &str) {
    let known = (told.allowed, told.limit, told.remaining);
    assert_eq!(known, (verdict.allowed, verdict.limit, verdict.remaining), "{what}");
    if let Some(name) = &told.limit_name {
        assert_eq!(name, verdict.limit_name, "{what}");
    }
    if let Some(reason) = &told.reason {
        assert_eq!(reason, verdict.reason.as_str(), "{what}");
    }
    let near = |told: Option<u64>, wait: Wait, what_time: &str| {
        let is_near = match (told, wait.to_ms()) {
            (Some(told), Some(expected)) => told.abs_diff(expected) <= slack_ms,
            (told, expected) => told == expected,
        };
        assert!(is_near, "{what}: {what_time} is {told:?}, and {:?} here", wait.to_ms());
    };
    match told.times {
        Times::Exact { retry_after, reset_after, delay } => {
            near(retry_after, verdict.retry_after, "retry_after");
            near(reset_after, verdict.reset_after, "reset_after");
            near(delay, verdict.delay, "delay");
        }
        Times::Headers { retry_after_s } => {
            let expected = if verdict.allowed { None } else { verdict.retry_after.to_ms() };
            assert_eq!(retry_after_s.is_some(), expected.is_some(), "{what}: Retry-After");
            if let (Some(told_s), Some(expected_ms)) = (retry_after_s, expected) {
                let least_s = expected_ms.saturating_sub(slack_ms).div_ceil(1_000).max(1);
                let most_s = (expected_ms + slack_ms).div_ceil(1_000);
                assert!((least_s..=most_s).contains(&told_s), "{what}: {told_s} s");
            }
        }
    }
}

/// P7, P2, P4: the same sequence has the same answers at every door and in the library, `remaining`
/// is within 0 and the limit, and what was denied or only asked changes no later answer.
#[test]
fn a_random_sequence_has_the_same_answers_at_every_door() {
    const QUESTIONS: usize = 1_500;
    for seed in [1, 2] {
        let node = Node::start(&Config::new(&Algorithm::limit_of_each(LIMIT, PERIOD)));
        let mut doors = Door::all(&node);
        let clocks = (boot_ns(), unix_ns());
        let (same, spared) = (twin(clocks), twin(clocks));
        let mut noise = Noise::seeded(seed);
        let mut slack_ms = ROUNDING_MS;
        let (mut passed, mut denied) = (0, 0);
        for number in 0..QUESTIONS {
            let algorithm = Algorithm::ALL[noise.below(Algorithm::ALL.len())];
            let key = KEYS[noise.below(KEYS.len())];
            let (op, cost) = question(&mut noise);
            let mut request = check(algorithm.name(), key).with_op(op);
            request.costs.push((DEFAULT_UNIT.as_bytes(), cost));
            let start = noise.below(doors.len());
            let count = doors.len();
            let door = (0..count).map(|it| (start + it) % count).find(|it| doors[*it].takes(op));
            let door = &mut doors[door.expect("most doors take everything")];

            let before_ns = boot_ns();
            let told = door.ask(&request);
            let took_ms = (boot_ns() - before_ns).div_ceil(NS_PER_MS);
            slack_ms = slack_ms.max(took_ms + ROUNDING_MS);
            let what = format!(
                "seed {seed}, question {number}: {op:?} of {cost} by {key} at {}: {told:?}",
                door.name()
            );
            let expected = decide(&same, before_ns, &request);
            assert_same(&told, &expected, slack_ms, &format!("{what}, {}", algorithm.name()));
            assert!(told.remaining.is_some_and(|it| it <= LIMIT), "{what}");

            let changes = told.allowed && cost > 0 && op != Op::Peek;
            if changes {
                let spared = decide(&spared, before_ns, &request);
                assert_eq!(spared, expected, "{what}: a denial or a peek changed something");
            }
            *if told.allowed { &mut passed } else { &mut denied } += 1;
        }
        assert!(passed > QUESTIONS / 10 && denied > QUESTIONS / 10, "{passed} and {denied}");
        assert_eq_everywhere(&mut doors, &same, slack_ms);
    }
}

/// Every door tells the same of every key in the end.
#[track_caller]
fn assert_eq_everywhere(doors: &mut [Door], same: &Limiter, slack_ms: u64) {
    for algorithm in Algorithm::ALL {
        for key in KEYS {
            let mut request = check(algorithm.name(), key);
            request.costs.push((DEFAULT_UNIT.as_bytes(), 0));
            for door in doors.iter_mut() {
                let before_ns = boot_ns();
                let told = door.ask(&request);
                let took_ms = (boot_ns() - before_ns).div_ceil(NS_PER_MS);
                let expected = decide(same, before_ns, &request);
                let what = format!("{key} by {algorithm:?} at {}", door.name());
                assert_same(&told, &expected, slack_ms.max(took_ms + ROUNDING_MS), &what);
            }
        }
    }
}

/// P3, as far as a real clock shows it: whoever waits as told passes, by every algorithm. That a
/// nanosecond less fails is shown on virtual time.
#[test]
fn waiting_as_told_passes_by_every_algorithm() {
    let node = Node::start(&Config::new(&Algorithm::limit_of_each(3, "150ms")));
    std::thread::scope(|scope| {
        for (algorithm, surface) in Algorithm::ALL.into_iter().zip(Surface::ALL.into_iter().cycle())
        {
            let node = &node;
            scope.spawn(move || {
                let mut caller = node.caller(surface);
                let mut waits = 0;
                while waits < 8 {
                    let answer = caller.decide(&check(algorithm.name(), "alice").with_cost(2));
                    if answer.allowed {
                        continue;
                    }
                    assert_eq!(answer.reason, Reason::Limit.as_str(), "{algorithm:?}");
                    let wait_ms = answer.retry_after_ms.expect("a wait helps");
                    assert!(wait_ms > 0, "{algorithm:?}: {answer:?}");
                    pause(Duration::from_millis(wait_ms));
                    let again = caller.decide(&check(algorithm.name(), "alice").with_cost(2));
                    assert!(again.allowed, "{algorithm:?}: {again:?} after {answer:?}");
                    waits += 1;
                }
            });
        }
    });
}

/// A burst of a hundred at fifty a second leaves the queue twenty milliseconds apart, as every door
/// tells it; the next one waits outside.
#[test]
fn a_queue_tells_every_door_when_each_call_may_leave() {
    let limit = "[[limit]]\nname = \"queue\"\nalgorithm = \"leaky-bucket\"\nqueue = true\n\
                 rate = \"50/s\"\nburst = 100\n";
    let node = Node::start(&Config::new(limit));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let burst = vec![check("", &key); 101];
        let answers = node.caller(surface).ask_all(&burst);
        let answers: Vec<_> = answers.into_iter().map(|it| it.expect("a decision")).collect();
        let told: Vec<_> = answers.iter().map(|it| (it.allowed, it.delay_ms)).collect();
        let mut expected: Vec<_> = (0..100).map(|it| (true, Some(it * 20))).collect();
        expected.push((false, Some(0)));
        assert_eq!(told, expected, "{surface:?}");
        assert_eq!(answers[100].retry_after_ms, Some(20), "{surface:?}");
    }
}
