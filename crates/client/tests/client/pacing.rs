//! Pacers: of a process on the runtime's stopped clock, of a limit with a node that says when.

use std::sync::mpsc;
use std::time::Duration;

use crate::asynchronous::patient;
use crate::fake_node::{Door, FakeNode, Folder, Kind, PATIENCE, answer, decision, keys, refuse};
use client::{
    AcquireError, Address, Client, Error, OnSilence, Options, Pacer, PacerError, Rate, Status,
    blocking,
};
use limiter::{Decision, Reason, RequestError, Wait};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const MS: Duration = Duration::from_millis(1);
const FIFTY: Rate = Rate { count: 50, period_ns: 1_000_000_000 };
const FIVE: Rate = Rate { count: 5, period_ns: 1_000_000_000 };

fn pacer(queue_max: usize) -> Pacer {
    Pacer::new(FIFTY, queue_max).expect("a pace")
}

/// A pacer of the limit that the key `partner` meets, and five a second of its own.
fn of_limit(address: Address) -> Pacer {
    of_limit_of(&patient(address, OnSilence::Open))
}

fn of_limit_of(client: &Client) -> Pacer {
    Pacer::of_limit(client.clone(), b"POST /hook", b"partner", FIVE, 100).expect("a pace")
}

/// The clock that the runtime's timers go by. Most tests here stop it.
#[expect(clippy::disallowed_methods, reason = "what is compared is the runtime's own clock")]
fn now() -> Instant {
    Instant::now()
}

/// Puts `callers` into the line one after the other, and gives who had its turn when, in that order.
async fn turns(pacer: &Pacer, callers: usize) -> Vec<(usize, Duration)> {
    let began = now();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let pacer = pacer.clone();
        tasks.spawn(async move {
            pacer.acquire().await.expect("a turn");
            (caller, began.elapsed())
        });
    }
    let mut turns = Vec::new();
    while let Some(turn) = tasks.join_next().await {
        turns.push(turn.expect("a caller that ends"));
    }
    turns
}

/// As many callers, each so much behind the one before.
fn spaced(callers: usize, apart: Duration) -> Vec<(usize, Duration)> {
    let times = (0_u32..).map(|behind| apart * behind);
    (0..callers).zip(times).collect()
}

/// What a queue says: the turn is in `delay`.
fn turn(delay: Duration) -> Decision<'static> {
    let mut decision = decision(true, Some(0), Wait::ZERO);
    decision.verdict.delay = Wait::from_ns(delay.as_nanos().try_into().expect("a short delay"));
    decision
}

#[tokio::test(start_paused = true)]
async fn burst_leaves_evenly_spaced_in_the_order_in_which_it_came() {
    assert_eq!(turns(&pacer(99), 100).await, spaced(100, MS * 20));
}

#[tokio::test(start_paused = true)]
async fn timers_of_a_millisecond_cost_no_rate() {
    let pacer = Pacer::new(Rate { count: 3, period_ns: 1_000_000_000 }, 1).expect("a pace");
    let began = now();
    for _ in 0..3_001 {
        pacer.acquire().await.expect("a turn");
    }
    // The runtime's timers fire at the next whole millisecond.
    assert_eq!(began.elapsed().as_millis(), 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn caller_beyond_the_queue_is_told_when_there_is_room() {
    let pacer = pacer(2);
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let pacer = pacer.clone();
        tasks.spawn(async move { pacer.acquire().await });
    }
    tokio::time::sleep(MS * 5).await;
    assert_eq!(pacer.acquire().await, Err(AcquireError::Full { retry_after: MS * 15 }));
    tokio::time::sleep(MS * 16).await;
    assert_eq!(pacer.acquire().await, Ok(()));
    assert!(tasks.join_all().await.into_iter().all(|turn| turn.is_ok()));
}

#[tokio::test(start_paused = true)]
async fn turn_of_a_caller_that_goes_away_is_the_nexts() {
    let pacer = pacer(10);
    assert_eq!(pacer.acquire().await, Ok(()));
    let began = now();
    // The first of these gives up while it waits for its turn, the second in the line behind it.
    let (first, second, third, fourth) = tokio::join!(
        timeout(MS * 19, pacer.acquire()),
        timeout(MS * 3, pacer.acquire()),
        async { pacer.acquire().await.map(|()| began.elapsed()) },
        async { pacer.acquire().await.map(|()| began.elapsed()) },
    );
    assert!(first.is_err() && second.is_err());
    assert_eq!((third, fourth), (Ok(MS * 20), Ok(MS * 40)));
}

#[tokio::test(start_paused = true)]
async fn no_turn_is_lost_or_used_twice_whoever_goes_away() {
    let pacer = pacer(400);
    let began = now();
    let mut tasks = JoinSet::new();
    for caller in 0..400_u32 {
        let pacer = pacer.clone();
        // From 0 to 4 s, in no order; the last waits for ever.
        let patience = if caller == 399 { PATIENCE } else { MS * (caller * 7_919 % 4_001) };
        tasks.spawn(async move {
            timeout(patience, pacer.acquire()).await.ok().map(|turn| (turn, began.elapsed()))
        });
    }
    let mut turns: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    turns.sort_by_key(|(_, at)| *at);
    let expected: Vec<_> = spaced(turns.len(), MS * 20).into_iter().map(|(_, at)| at).collect();
    assert_eq!(turns.iter().map(|(_, at)| *at).collect::<Vec<_>>(), expected);
    assert!(turns.iter().all(|(turn, _)| turn.is_ok()));
    assert!((100..300).contains(&turns.len()), "some had a turn and some went away: {turns:?}");
}

#[tokio::test(start_paused = true)]
async fn room_in_the_queue_comes_back_with_each_caller_that_goes_away() {
    let pacer = pacer(1);
    assert_eq!(pacer.acquire().await, Ok(()));
    for _ in 0..100 {
        assert!(timeout(Duration::ZERO, pacer.acquire()).await.is_err());
    }
    assert_eq!(pacer.acquire().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn trying_takes_a_turn_only_if_it_is_now() {
    let pacer = pacer(1);
    assert_eq!(pacer.try_acquire().await, Ok(()));
    let not_yet = |retry_after| Err(AcquireError::NotYet { retry_after });
    assert_eq!(pacer.try_acquire().await, not_yet(MS * 20));
    tokio::time::sleep(MS * 19).await;
    assert_eq!(pacer.try_acquire().await, not_yet(MS));
    tokio::time::sleep(MS).await;
    assert_eq!(pacer.try_acquire().await, Ok(()));
}

#[test]
fn what_paces_nothing_is_refused() {
    let rate = Rate { count: 0, period_ns: 1 };
    assert_eq!(Pacer::new(rate, 1).err(), Some(PacerError::Rate(rate)));
    let rate = Rate { count: 1, period_ns: 0 };
    assert_eq!(Pacer::new(rate, 1).err(), Some(PacerError::Rate(rate)));
    assert_eq!(Pacer::new(FIFTY, 0).err(), Some(PacerError::Queue));
}

#[tokio::test]
async fn key_that_no_node_takes_is_refused() {
    let client = patient("127.0.0.1:9".parse().expect("an address"), OnSilence::Open);
    let refused = Pacer::of_limit(client, b"", b"", FIFTY, 1).err();
    assert_eq!(refused, Some(PacerError::Request(RequestError::KeyEmpty)));
}

/// The client is told to allow everything then, and is not asked.
#[tokio::test(start_paused = true)]
async fn own_pace_holds_where_no_node_is() {
    let folder = Folder::new();
    let pacer = of_limit(Address::Stream(folder.0.join("none.sock")));
    assert_eq!(turns(&pacer, 10).await, spaced(10, MS * 200));
}

#[tokio::test]
async fn node_is_asked_for_each_turn_and_says_when_it_is() {
    let node = FakeNode::run(Kind::Stream, |door| {
        for delay in [Duration::ZERO, MS * 30, MS * 30] {
            let frame = door.receive();
            assert_eq!(keys(&frame), ["partner"], "one turn at a time");
            door.send(&answer(&frame, |_| turn(delay)));
        }
        assert_eq!(door.try_receive(), None);
    });
    let client = patient(node.address(), OnSilence::Open);
    let pacer = of_limit_of(&client);
    let turns = turns(&pacer, 3).await;
    let callers: Vec<_> = turns.iter().map(|(caller, _)| *caller).collect();
    assert_eq!(callers, [0, 1, 2]);
    assert!(turns[1].1 >= MS * 30 && turns[2].1 >= turns[1].1 + MS * 30, "{turns:?}");
    drop(pacer);
    client.close().await;
    node.finish();
}

#[tokio::test]
async fn denial_is_waited_for_and_then_asked_again() {
    let node = FakeNode::run(Kind::Seqpacket, |door| {
        for retry_after in [MS * 10, MS * 20] {
            let frame = door.receive();
            let wait = Wait::from_ns(retry_after.as_nanos().try_into().expect("a short wait"));
            door.send(&answer(&frame, |_| decision(false, Some(0), wait)));
        }
        door.serve_one();
    });
    let began = now();
    assert_eq!(of_limit(node.address()).acquire().await, Ok(()));
    assert!(began.elapsed() >= MS * 30);
    node.finish();
}

#[tokio::test]
async fn denial_that_lasts_too_long_is_an_error() {
    let node = FakeNode::run(Kind::Udp, |door| {
        for wait in [Wait::from_ns(10_000_000_001), Wait::NEVER, Wait::from_ns(1_000_000)] {
            let frame = door.receive();
            door.send(&answer(&frame, |_| decision(false, Some(0), wait)));
        }
    });
    let denied =
        |retry_after| Err(AcquireError::Denied { limit_name: "per-key/pro".into(), retry_after });
    let pacer = of_limit(node.address());
    assert_eq!(pacer.acquire().await, denied(Some(Duration::from_nanos(10_000_000_001))));
    assert_eq!(pacer.acquire().await, denied(None));
    let hasty = pacer.with_denied_max(Duration::ZERO);
    assert_eq!(hasty.acquire().await, denied(Some(MS)));
    node.finish();
}

#[tokio::test]
async fn question_outlives_the_caller_that_asked_it() {
    let (received, asked) = tokio::sync::oneshot::channel();
    let (go, gone) = mpsc::channel();
    let node = FakeNode::run(Kind::Stream, move |door| {
        let frame = door.receive();
        received.send(()).expect("the test waits");
        gone.recv().expect("the test goes on");
        door.send(&answer(&frame, |_| turn(MS * 1_000)));
        assert_eq!(door.try_receive(), None, "nothing was asked twice");
    });
    let client = patient(node.address(), OnSilence::Open);
    let pacer = of_limit_of(&client);
    tokio::select! {
        turn = pacer.acquire() => panic!("nobody answered: {turn:?}"),
        asked = asked => asked.expect("the node received it"),
    }
    go.send(()).expect("the node waits");
    assert_eq!(pacer.acquire().await, Ok(()));
    drop(pacer);
    client.close().await;
    node.finish();
}

/// A denial of long ago that nobody waited for is over.
#[tokio::test]
async fn denial_of_who_has_gone_is_no_longer_than_it_was_told() {
    let (received, asked) = tokio::sync::oneshot::channel();
    let node = FakeNode::run(Kind::Stream, move |door| {
        let frame = door.receive();
        received.send(()).expect("the test waits");
        door.send(&answer(&frame, |_| decision(false, Some(0), Wait::from_ns(300_000_000))));
        door.serve_one();
    });
    let pacer = of_limit(node.address()).with_denied_max(MS * 200);
    tokio::select! {
        turn = pacer.acquire() => panic!("nobody answered: {turn:?}"),
        asked = asked => asked.expect("the node received it"),
    }
    tokio::time::sleep(MS * 400).await;
    assert_eq!(pacer.acquire().await, Ok(()));
    node.finish();
}

#[tokio::test]
async fn trying_asks_the_limit_and_leaves_a_later_turn_to_the_next() {
    let node = FakeNode::run(Kind::Stream, |door| {
        for delay in [Duration::ZERO, MS * 1_000] {
            let frame = door.receive();
            door.send(&answer(&frame, |_| turn(delay)));
        }
        assert_eq!(door.try_receive(), None, "the turn that was left was enough");
    });
    let client = patient(node.address(), OnSilence::Open);
    let pacer = of_limit_of(&client);
    assert_eq!(pacer.try_acquire().await, Ok(()));
    let Err(AcquireError::NotYet { retry_after }) = pacer.try_acquire().await else {
        panic!("the turn is later")
    };
    assert!(retry_after <= MS * 1_000);
    assert_eq!(pacer.acquire().await, Ok(()));
    drop(pacer);
    client.close().await;
    node.finish();
}

/// A limit that nobody wrote lets everything through at once; its pacer does not.
#[tokio::test]
async fn own_pace_holds_where_no_limit_applies() {
    let node = FakeNode::run(Kind::Stream, |door: &mut Door| {
        for _ in 0..2 {
            let frame = door.receive();
            door.send(&answer(&frame, |_| {
                let mut decision = turn(Duration::ZERO);
                decision.verdict.reason = Reason::Unmatched;
                decision
            }));
        }
    });
    let turns = turns(&of_limit(node.address()), 2).await;
    assert!(turns[1].1 >= MS * 200, "{turns:?}");
    node.finish();
}

#[tokio::test]
async fn what_the_node_refuses_to_decide_is_an_error() {
    let node = FakeNode::run(Kind::Udp, |door| {
        let frame = door.receive();
        door.send(&refuse(&frame, Status::KeyTooLong));
    });
    let refused = AcquireError::Client(Error::Refused(Status::KeyTooLong));
    assert_eq!(of_limit(node.address()).acquire().await, Err(refused));
    node.finish();
}

fn blocking_of_limit(address: Address) -> blocking::Pacer {
    let options = Options { timeout: PATIENCE, ..Options::default() };
    let client = blocking::Client::new(address, options).expect("sound options");
    blocking::Pacer::of_limit(client, b"POST /hook", b"partner", FIVE).expect("a pace")
}

#[test]
fn blocking_pacer_holds_its_thread_up_until_each_turn() {
    let mut pacer = blocking::Pacer::new(FIFTY).expect("a pace");
    let began = now();
    for _ in 0..4 {
        assert_eq!(pacer.acquire(), Ok(()));
    }
    assert!(began.elapsed() >= MS * 60);
}

#[test]
fn blocking_pacer_asks_its_node_for_each_turn() {
    let node = FakeNode::run(Kind::Stream, |door| {
        for delay in [MS * 30, MS * 30] {
            let frame = door.receive();
            door.send(&answer(&frame, |_| turn(delay)));
        }
        let frame = door.receive();
        door.send(&answer(&frame, |_| decision(false, Some(0), Wait::NEVER)));
        assert_eq!(door.try_receive(), None);
    });
    let mut pacer = blocking_of_limit(node.address());
    let began = now();
    assert_eq!((pacer.acquire(), pacer.acquire()), (Ok(()), Ok(())));
    assert!(began.elapsed() >= MS * 60);
    let denied = AcquireError::Denied { limit_name: "per-key/pro".into(), retry_after: None };
    assert_eq!(pacer.acquire(), Err(denied));
    drop(pacer);
    node.finish();
}

#[test]
fn blocking_pacer_keeps_its_own_pace_where_no_node_is() {
    let folder = Folder::new();
    let mut pacer = blocking_of_limit(Address::Stream(folder.0.join("none.sock")));
    let began = now();
    assert_eq!((pacer.acquire(), pacer.acquire()), (Ok(()), Ok(())));
    assert!(began.elapsed() >= MS * 200);
}
