//! Tests of the record as a whole: written by the writer, damaged, merged, examined.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use limiter::{
    Limit, Limiter, Op, Plan, Quota, Rate, Request, Spend, SpendKind, StoreConfig, Unmatched,
    WhenFull, Witness,
};
use proptest::prelude::*;

use super::block::append_block;
use super::examine::{ClusterFindings, Findings, Options, Totals, examine, examine_within};
use super::files::EXTENSION;
use super::reader::{BlockReader, Fault};
use super::record::{
    Begin, Gap, LimitRecord, OtherRecord, PeerRecord, Record, Records, Removed, Span, State,
    TIME_MAX_NS,
};
use super::recorder::{Audit, QUEUE_LEN, Tail};
use super::survey::{Unjudged, next_records};
use super::writer::{Clocks, Writer};
use super::{AuditSettings, MAX_BYTES_MIN, Sample};

const S: u64 = 1_000_000_000;
/// Unix time less the test's clock.
const WALL_AHEAD_NS: u64 = 1_700_000_000 * S;
/// The identity of the limit in files that tests write themselves.
const LIMIT_ID: u64 = 77;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(100 * S) };
}

fn now_ns() -> u64 {
    NOW_NS.get()
}

fn wall_ns() -> u64 {
    NOW_NS.get() + WALL_AHEAD_NS
}

fn pass(ns: u64) {
    NOW_NS.set(NOW_NS.get() + ns);
}

fn plan(burst: u64) -> Plan {
    let rate = Rate { count: 10, period_ns: S };
    let limit = Limit::new("per-key", Quota::TokenBucket { rate, burst });
    Plan::compile(vec![limit], Unmatched::Allow).unwrap()
}

fn limiter(burst: u64, witness: Arc<dyn Witness>) -> Limiter {
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [7; 16],
    };
    Limiter::new(plan(burst), store).with_witness(witness)
}

fn writer(dir: &Path, node: &str, max_bytes: u64, tail: Tail) -> Writer {
    let settings = AuditSettings { dir: dir.to_owned(), sample: Sample::one_in(1), max_bytes };
    let begin = Begin { life: 5, fingerprint: 9, node: node.to_owned(), ..Begin::default() };
    Writer::new(&settings, begin, &plan(10), tail, Clocks { now_ns, wall_ns }).unwrap()
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    paths.sort();
    paths
}

fn examined(dir: &Path) -> Findings {
    examine(&files_in(dir), &Options::default()).unwrap()
}

fn only(findings: &Findings) -> &ClusterFindings {
    assert_eq!(findings.clusters.len(), 1);
    &findings.clusters[0]
}

fn spend(at_ns: u64, hash: u64, units: u64) -> Spend {
    Spend { at_ns, slot: 0, hash, kind: SpendKind::Check, units }
}

#[test]
fn what_a_limiter_let_through_is_found_again_to_the_unit() {
    let place = tempfile::tempdir().unwrap();
    let (audit, tail) = Audit::new(Sample::one_in(1));
    let limiter = limiter(10, audit.witness());
    let mut writer = writer(place.path(), "a", MAX_BYTES_MIN, tail);
    let mut admitted = 0;
    for step in 0..400 {
        pass(30_000_000);
        let key = [b'a' + u8::try_from(step % 3).unwrap()];
        let request = Request::check(b"", &key).with_cost(1 + step % 4);
        if limiter.decide(now_ns(), &request).unwrap().verdict.allowed {
            admitted += 1 + step % 4;
        }
        if step % 10 == 0 {
            writer.look();
        }
    }
    let debit = Request::check(b"", b"a").with_op(Op::Debit).with_cost(3);
    limiter.decide(now_ns(), &debit).unwrap();
    let refund = Request::check(b"", b"a").with_op(Op::Refund).with_cost(2);
    limiter.decide(now_ns(), &refund).unwrap();
    writer.finish(None);
    let findings = examined(place.path());
    let cluster = only(&findings);
    assert!(findings.damages.is_empty() && cluster.lives[0].has_end);
    let [limit] = cluster.limits.as_slice() else { panic!("one limit") };
    let totals = limit.totals();
    assert_eq!((totals.admitted, totals.debited, totals.refunded), (admitted, 3, 2));
    assert_eq!(limit.keys, 3);
    // One node holds its limit exactly: the whole burst was spent, and what refilled, and not more.
    let (_, window) = limit.judged(cluster.members).unwrap();
    let by = limit.measurer();
    assert!(by.excess(window) <= 0 && window.units > 10, "{window:?}");
    assert_eq!(cluster.lives[0].covered.iter().count(), 1);
}

/// Windows and logs have no rate and burst to judge them by; they are named and summed up, and do not look
/// as if nothing of them had been there.
#[test]
fn limits_that_are_no_buckets_are_named_with_their_sums_and_not_judged() {
    let place = tempfile::tempdir().unwrap();
    let (audit, tail) = Audit::new(Sample::one_in(1));
    let rate = Rate { count: 10, period_ns: S };
    let limits = || {
        vec![
            Limit::new("leaky", Quota::LeakyBucket { rate, burst: 4, queue: true }),
            Limit::new("log", Quota::SlidingLog { limit: 3, period_ns: S }),
            Limit::new("page", Quota::SlidingWindow { limit: 9, period_ns: S }),
        ]
    };
    let plan = || Plan::compile(limits(), Unmatched::Allow).unwrap();
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [7; 16],
    };
    let limiter = Limiter::new(plan(), store).with_witness(audit.witness());
    let settings = AuditSettings {
        dir: place.path().to_owned(),
        sample: Sample::one_in(1),
        max_bytes: MAX_BYTES_MIN,
    };
    let begin = Begin { life: 5, fingerprint: 9, node: "a".to_owned(), ..Begin::default() };
    let clocks = Clocks { now_ns, wall_ns };
    let mut writer = Writer::new(&settings, begin, &plan(), tail, clocks).unwrap();
    let request = Request::check(b"", b"alice");
    let allowed =
        (0..5).filter(|_| limiter.decide(now_ns(), &request).unwrap().verdict.allowed).count();
    assert_eq!(allowed, 3, "the log is the narrowest");
    let debit = Request::check(b"", b"alice").with_op(Op::Debit).with_cost(2);
    limiter.decide(now_ns(), &debit).unwrap();
    writer.look();
    writer.finish(None);
    let findings = examined(place.path());
    let cluster = only(&findings);
    let [leaky] = cluster.limits.as_slice() else { panic!("one bucket: {:?}", cluster.limits) };
    assert_eq!((leaky.limit.name.as_str(), leaky.totals().admitted), ("leaky", 3));
    let mut told: Vec<_> = cluster.unjudged.iter().collect();
    told.sort_by_key(|limit| &limit.name);
    let unjudged = |name: &str, algorithm: &str| Unjudged {
        name: name.to_owned(),
        algorithm: algorithm.to_owned(),
        spends: 4,
        admitted: 3,
    };
    assert_eq!(told, [&unjudged("log", "sliding-log"), &unjudged("page", "sliding-window")]);
    let options = |limit: &str| Options { limit: Some(limit.to_owned()), keys: 1 };
    let only_log = examine(&files_in(place.path()), &options("log")).unwrap();
    assert_eq!(only(&only_log).unjudged, [unjudged("log", "sliding-log")]);
    assert!(only(&only_log).limits.is_empty());
    let refused = examine(&files_in(place.path()), &options("other")).expect_err("there is none");
    assert!(refused.ends_with("those with any: `leaky`, `log`, `page`"), "{refused}");
}

#[test]
fn only_sampled_keys_are_recorded() {
    let (audit, tail) = Audit::new(Sample::one_in(4));
    let limiter = limiter(10, audit.witness());
    for key in 0..400_u32 {
        limiter.decide(now_ns(), &Request::check(b"", &key.to_le_bytes())).unwrap();
    }
    let hashes: Vec<_> = tail.spends.try_iter().map(|spend| spend.hash).collect();
    assert!((60..140).contains(&hashes.len()), "{}", hashes.len());
    assert!(hashes.iter().all(|hash| Sample::one_in(4).takes(*hash)));
}

#[test]
fn what_found_no_room_in_the_queue_is_a_gap_that_says_how_much() {
    let place = tempfile::tempdir().unwrap();
    let (audit, tail) = Audit::new(Sample::one_in(1));
    let mut writer = writer(place.path(), "a", MAX_BYTES_MIN << 4, tail);
    let witness = audit.witness();
    pass(S / 10);
    (0..QUEUE_LEN as u64 + 7).for_each(|hash| witness.handle_spend(spend(now_ns(), hash, 1)));
    writer.look();
    writer.finish(None);
    let findings = examined(place.path());
    let life = &only(&findings).lives[0];
    assert_eq!(life.spends, QUEUE_LEN as u64);
    assert_eq!(life.gaps.iter().map(|gap| gap.spends).sum::<u64>(), 7);
    assert!(life.gaps[0].from_ns < life.gaps[0].until_ns);
}

#[test]
fn a_disk_that_fails_loses_what_was_due_and_the_record_says_so_when_it_is_back() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("audit");
    let (audit, tail) = Audit::new(Sample::one_in(1));
    let mut writer = writer(&dir, "a", MAX_BYTES_MIN, tail);
    fs::remove_dir(&dir).unwrap();
    let witness = audit.witness();
    for round in 0..5 {
        witness.handle_spend(spend(now_ns(), round, 1));
        writer.look();
        pass(S);
    }
    let read =
        |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(read(&audit.counts().unwritten), 5);
    assert!((4..=6).contains(&read(&audit.counts().failures)), "once a second");
    fs::create_dir(&dir).unwrap();
    pass(2 * S);
    witness.handle_spend(spend(now_ns(), 9, 1));
    writer.look();
    writer.finish(None);
    assert_eq!(read(&audit.counts().recorded), 1);
    let findings = examined(&dir);
    let life = &only(&findings).lives[0];
    assert_eq!((life.spends, life.gaps.len(), life.gaps[0].spends), (1, 1, 5));
    assert_eq!(life.gaps[0].from_ns, 100 * S);
}

#[test]
fn a_crash_loses_what_was_not_written_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let (audit, tail) = Audit::new(Sample::one_in(1));
    let mut writer = writer(place.path(), "a", MAX_BYTES_MIN, tail);
    let witness = audit.witness();
    for hash in 0..25 {
        pass(S / 10);
        witness.handle_spend(spend(now_ns(), hash, 1));
        writer.look();
    }
    drop(writer);
    let findings = examined(place.path());
    let life = &only(&findings).lives[0];
    assert!((15..25).contains(&life.spends), "{}", life.spends);
    assert!(!life.has_end && findings.damages.is_empty());
}

#[test]
fn the_oldest_files_go_and_what_is_left_says_how_many() {
    let place = tempfile::tempdir().unwrap();
    let (audit, tail) = Audit::new(Sample::one_in(1));
    let mut writer = writer(place.path(), "a", MAX_BYTES_MIN, tail);
    let witness = audit.witness();
    for _ in 0..120 {
        pass(S);
        (0..1_000).for_each(|hash| witness.handle_spend(spend(now_ns(), hash, 1)));
        writer.look();
    }
    writer.finish(None);
    let bytes: u64 = files_in(place.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(bytes <= MAX_BYTES_MIN + 64 * 1024, "{bytes}");
    let findings = examined(place.path());
    let cluster = only(&findings);
    let life = &cluster.lives[0];
    assert!(life.removed > 5 && life.files[0].number == life.removed + 1, "{life:?}");
    // Each file says itself what its slots are.
    assert_eq!(cluster.limits[0].totals().spends, life.spends);
    assert_eq!(audit.counts().dropped.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// A file as another program might write it, of blocks of these records.
fn file(
    dir: &Path,
    begin: &Begin,
    blocks: &[(u64, u64, Vec<Record>)],
    wall_ahead_ns: u64,
) -> PathBuf {
    let mut bytes = super::block::MAGIC.to_vec();
    for (index, (from_ns, until_ns, records)) in blocks.iter().enumerate() {
        let mut body = Vec::new();
        let span =
            Span { from_ns: *from_ns, until_ns: *until_ns, wall_ns: until_ns + wall_ahead_ns };
        Record::Span(span).append(&mut body);
        if index == 0 {
            Record::Begin(begin.clone()).append(&mut body);
            Record::Limit(limit_record()).append(&mut body);
        }
        records.iter().for_each(|record| record.append(&mut body));
        append_block(&mut bytes, &body);
    }
    let path = dir.join(format!("{}-{}-{}.{EXTENSION}", begin.node, begin.life, begin.file));
    fs::write(&path, bytes).unwrap();
    path
}

fn limit_record() -> LimitRecord {
    LimitRecord {
        slot: 0,
        id: LIMIT_ID,
        count: 10,
        period_ns: S,
        burst: 5,
        name: "per-key".to_owned(),
        ..LimitRecord::default()
    }
}

fn begin(node: &str, life: u64, boot: u8) -> Begin {
    Begin {
        life,
        file: 1,
        fingerprint: 9,
        sample: 1,
        boot: [boot; 16],
        sync_interval_ns: 200_000_000,
        node: node.to_owned(),
        cluster: "edge".to_owned(),
        version: "1".to_owned(),
    }
}

fn state(at_ns: u64, reached: u16, peers: &[(&str, u64, i64, u64)]) -> Record {
    let peers = peers.iter().map(|(name, life, skew_ms, rtt_us)| PeerRecord {
        life: *life,
        counted: true,
        skew_ms: Some(*skew_ms),
        rtt_us: Some(*rtt_us),
        name: (*name).to_owned(),
    });
    Record::State(State {
        at_ns,
        since_ns: at_ns - S / 2,
        members: 2,
        reached,
        splits: 0,
        joins: 0,
        peers: peers.collect(),
    })
}

fn spends(times: &[u64]) -> Vec<Record> {
    times.iter().map(|at_ns| Record::Spend(spend(*at_ns, 42, 1))).collect()
}

/// Two machines whose clocks have nothing in common: `b` started 50 s later, its wall clock is 300 ms
/// ahead of that of `a`, and a hello takes 2 ms.
fn two_machines(dir: &Path, measured: bool) -> Vec<PathBuf> {
    let (a, b) = (begin("a", 1, 1), begin("b", 2, 2));
    let peers_of_a: &[_] = if measured { &[("b", 2, 298, 4_000)] } else { &[] };
    let peers_of_b: &[_] = if measured { &[("a", 1, -302, 4_000)] } else { &[] };
    // Each spends its five at the same moment: 110 s after the start of `a`, 60 s after that of `b`.
    let of = |start: u64, peers| {
        let mut records = vec![state(start + S, 2, peers)];
        records.extend(spends(&[start + 10 * S; 5]));
        vec![(start, start + 20 * S, records)]
    };
    vec![
        file(dir, &a, &of(100 * S, peers_of_a), WALL_AHEAD_NS),
        file(dir, &b, &of(50 * S, peers_of_b), WALL_AHEAD_NS + 50 * S + 300_000_000),
    ]
}

#[test]
fn clocks_of_machines_are_put_into_one_by_what_they_measured() {
    let place = tempfile::tempdir().unwrap();
    let paths = two_machines(place.path(), true);
    let findings = examine(&paths, &Options::default()).unwrap();
    let cluster = only(&findings);
    let by_name =
        |name: &str| cluster.lives.iter().position(|life| life.begin.node == name).expect("a life");
    let (a, b) = (by_name("a"), by_name("b"));
    let apart = cluster.alignment.common(a, 110 * S) - cluster.alignment.common(b, 60 * S);
    let error_ns = cluster.alignment.between_ns().unwrap();
    assert!(apart.unsigned_abs() <= error_ns, "{apart} {error_ns}");
    assert!(error_ns <= 5_000_000, "{error_ns}");
    assert_eq!(cluster.alignment.disagreement_ns, 0);
    let (hash, window) = cluster.limits[0].judged(2).unwrap();
    assert_eq!((*hash, window.units, window.nodes), (42, 10, 0b11));
    let by = cluster.limits[0].measurer();
    assert_eq!(by.units(by.excess(window), true), 5);
}

#[test]
fn clocks_that_nobody_measured_are_said_to_be_so() {
    let place = tempfile::tempdir().unwrap();
    let paths = two_machines(place.path(), false);
    let findings = examine(&paths, &Options::default()).unwrap();
    let cluster = only(&findings);
    assert_eq!(cluster.alignment.between_ns(), None);
    // Their wall clocks are 300 ms apart, in which three units come back.
    let (_, window) = cluster.limits[0].judged(2).unwrap();
    assert_eq!(window.length_ns(), 300_000_000);
}

#[test]
fn times_in_which_a_member_was_missing_are_not_judged() {
    let place = tempfile::tempdir().unwrap();
    let first = begin("a", 1, 1);
    let at = |s: u64| 100 * S + s * S;
    let mut records = vec![state(at(1), 2, &[("b", 2, 0, 100)])];
    records.extend(spends(&[at(5); 7]));
    records.push(state(at(10), 1, &[]));
    records.extend(spends(&[at(15); 9]));
    records.push(state(at(20), 2, &[("b", 2, 0, 100)]));
    records.extend(spends(&[at(30); 6]));
    file(place.path(), &first, &[(at(0), at(40), records)], WALL_AHEAD_NS);
    let findings = examined(place.path());
    let cluster = only(&findings);
    let [b] = cluster.unrecorded.as_slice() else { panic!("one start of b") };
    assert_eq!((b.node.as_str(), b.life, cluster.unmet), ("b", 2, 0));
    let limit = &cluster.limits[0];
    assert_eq!(limit.worst[0].1.units, 9);
    let (_, window) = limit.judged(cluster.members).unwrap();
    assert_eq!(window.units, 7);
    assert!(
        cluster
            .unsettled
            .iter()
            .any(|(from, until)| *from < at(10).cast_signed() && *until > at(20).cast_signed())
    );
}

#[test]
fn a_start_that_others_counted_and_that_has_no_records_is_named() {
    let place = tempfile::tempdir().unwrap();
    let at = |s: u64| 100 * S + s * S;
    let seen = |s: u64, life| state(at(s), 2, &[("b", life, 0, 100)]);
    let records = vec![seen(1, 2), seen(4, 2), seen(9, 3), seen(12, 3)];
    file(place.path(), &begin("a", 1, 1), &[(at(0), at(20), records)], WALL_AHEAD_NS);
    // The second start of `b` is here, and its name is: the first is missing all the same.
    let blocks = [(at(8), at(20), vec![state(at(9), 2, &[("a", 1, 0, 100)])])];
    file(place.path(), &begin("b", 3, 1), &blocks, WALL_AHEAD_NS);
    let findings = examined(place.path());
    let cluster = only(&findings);
    let [b] = cluster.unrecorded.as_slice() else { panic!("{:?}", cluster.unrecorded) };
    assert_eq!((b.node.as_str(), b.life, cluster.unmet), ("b", 2, 0));
    // Until the look before the one that found the new start.
    let until = at(9) - S / 2;
    assert_eq!((b.from_ns, b.until_ns), (at(1).cast_signed(), until.cast_signed()));
}

#[test]
fn parts_of_the_buckets_give_what_all_together_give() {
    let place = tempfile::tempdir().unwrap();
    let mut records = vec![state(100 * S, 2, &[])];
    for hash in 0..200_u64 {
        let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        records.extend((0..1 + hash % 9).map(|i| Record::Spend(spend(101 * S + i, hash, 1))));
    }
    let blocks = [(100 * S, 102 * S, records)];
    let path = file(place.path(), &begin("a", 1, 1), &blocks, WALL_AHEAD_NS);
    let options = Options { limit: None, keys: 5 };
    let of = |buckets_max| {
        let findings = examine_within(std::slice::from_ref(&path), &options, buckets_max).unwrap();
        let limit = &findings.clusters[0].limits[0];
        (limit.keys, limit.totals(), limit.worst.clone())
    };
    let whole = of(1_000);
    assert_eq!(whole.0, 200);
    for buckets_max in [1, 7, 100, 199] {
        assert_eq!(of(buckets_max), whole, "{buckets_max}");
    }
}

#[test]
fn a_file_given_twice_counts_once_and_a_wrong_limit_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let paths = two_machines(place.path(), true);
    let twice = [&paths[..], &paths[..1]].concat();
    let findings = examine(&twice, &Options::default()).unwrap();
    assert_eq!(findings.copies.len(), 1);
    assert_eq!(only(&findings).limits[0].totals().admitted, 10);
    let options = Options { limit: Some("other".to_owned()), keys: 1 };
    let refused = examine(&paths, &options).expect_err("there is none");
    assert!(refused.contains("`per-key`"), "{refused}");
}

/// A short file with every kind of record.
fn sample_bytes() -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let mut first = spends(&[101 * S, 102 * S]);
    first.push(state(101 * S, 2, &[("b", 2, -5, 700)]));
    first.push(Record::Gap(Gap { from_ns: 101 * S, until_ns: 102 * S, spends: 3 }));
    first.push(Record::Removed(Removed { life: 1, file: 1 }));
    let mut last = spends(&[103 * S]);
    last.push(Record::End);
    let blocks = [(100 * S, 102 * S, first), (102 * S, 104 * S, last)];
    fs::read(file(place.path(), &begin("a", 1, 1), &blocks, WALL_AHEAD_NS)).unwrap()
}

/// What `bytes` as a file say: admitted units, and the damage if there is any.
fn read_back(bytes: &[u8]) -> (u64, Option<Fault>) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.rlaudit");
    fs::write(&path, bytes).unwrap();
    let findings = examine(&[path], &Options::default()).unwrap();
    let limits = findings.clusters.iter().flat_map(|cluster| &cluster.limits);
    let totals = limits.fold(Totals::default(), |sum, limit| sum.plus(limit.totals()));
    assert!(findings.damages.len() <= 1);
    (totals.admitted, findings.damages.first().map(|(_, damage)| damage.what.clone()))
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_there() {
    let bytes = sample_bytes();
    assert_eq!(read_back(&bytes), (3, None));
    let mut whole = Vec::new();
    for length in 0..bytes.len() {
        let (admitted, fault) = read_back(&bytes[..length]);
        match fault {
            Some(Fault::CutOff) => assert!(admitted == 0 || admitted == 2, "{length}"),
            Some(Fault::NoBegin) => assert_eq!(length, 8),
            None => whole.push(admitted),
            Some(fault) => panic!("{length}: {fault}"),
        }
    }
    // The end of the first block is the only place where nobody can see that something is missing.
    assert_eq!(whole, [2]);
}

#[test]
fn a_byte_that_is_wrong_anywhere_is_found() {
    let bytes = sample_bytes();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let (admitted, fault) = read_back(&damaged);
            assert!(fault.is_some() && (admitted == 0 || admitted == 2), "{at}: {fault:?}");
        }
    }
}

#[test]
fn a_file_of_another_version_is_refused_by_its_number() {
    let mut bytes = sample_bytes();
    bytes[7] = 2;
    assert_eq!(read_back(&bytes), (0, Some(Fault::Version(2))));
}

#[test]
fn the_bytes_of_a_spend_are_frozen() {
    let mut bytes = Vec::new();
    let spend = Spend { at_ns: 3, slot: 0x0102, hash: 0x55, kind: SpendKind::Check, units: 7 };
    Record::Spend(spend).append(&mut bytes);
    let expected: [&[u8]; 6] = [
        &[26, 0, 4],
        &[2, 1],
        &[0x55, 0, 0, 0, 0, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[7, 0, 0, 0, 0, 0, 0, 0],
        &[],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn unknown_records_and_fields_of_a_later_version_are_skipped() {
    let mut bytes = vec![3, 0, 200, 1, 2, 3];
    let from = bytes.len();
    Record::Removed(Removed { life: 1, file: 2 }).append(&mut bytes);
    bytes[from] += 2;
    bytes.extend([8, 9]);
    Record::End.append(&mut bytes);
    let mut records = Records::new(&bytes);
    assert_eq!(records.next_record(), Ok(Some(Record::Removed(Removed { life: 1, file: 2 }))));
    assert_eq!(records.next_record(), Ok(Some(Record::End)));
    assert_eq!(records.next_record(), Ok(None));
}

fn any_record() -> impl Strategy<Value = Record> {
    let time = || 0..=TIME_MAX_NS;
    let kind = prop_oneof![Just(SpendKind::Check), Just(SpendKind::Debit), Just(SpendKind::Refund)];
    let spend = (time(), any::<u16>(), any::<u64>(), kind, any::<u64>()).prop_map(
        |(at_ns, slot, hash, kind, units)| Record::Spend(Spend { at_ns, slot, hash, kind, units }),
    );
    let limit = (
        any::<(u16, u64, bool, bool)>(),
        1..=u64::MAX,
        1..=u64::MAX,
        any::<u64>(),
        "[a-zä/]{0,80}",
    )
        .prop_map(|((slot, id, shadow, fast), count, period_ns, burst, name)| {
            Record::Limit(LimitRecord { slot, id, count, period_ns, burst, shadow, fast, name })
        });
    let other = (any::<(u16, u64, bool, bool)>(), "[a-z-]{0,20}", "[a-zä/]{0,80}").prop_map(
        |((slot, id, shadow, fast), algorithm, name)| {
            Record::Other(OtherRecord { slot, id, shadow, fast, algorithm, name })
        },
    );
    let peer = (any::<(u64, bool, Option<i64>, Option<u64>)>(), "[a-z]{0,9}").prop_map(
        |((life, counted, skew_ms, rtt_us), name)| PeerRecord {
            life,
            counted,
            skew_ms,
            rtt_us,
            name,
        },
    );
    let counts = any::<(u16, u16, u64, u64)>();
    let state = (time(), time(), counts, prop::collection::vec(peer, 0..5)).prop_map(
        |(at_ns, since_ns, (members, reached, splits, joins), peers)| {
            Record::State(State { at_ns, since_ns, members, reached, splits, joins, peers })
        },
    );
    let gap = (time(), time(), any::<u64>())
        .prop_map(|(from_ns, until_ns, spends)| Record::Gap(Gap { from_ns, until_ns, spends }));
    prop_oneof![spend, limit, other, state, gap, Just(Record::End)]
}

proptest! {
    #[test]
    fn every_record_is_read_as_it_was_written(records in prop::collection::vec(any_record(), 0..20)) {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.append(&mut bytes));
        let mut read = Records::new(&bytes);
        for record in &records {
            let next = read.next_record();
            // An option that is not there is told by its flag.
            prop_assert_eq!(next.as_ref().ok().and_then(Option::as_ref), Some(record));
        }
        prop_assert_eq!(read.next_record(), Ok(None));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let with_magic = [&super::block::MAGIC[..], &bytes].concat();
        for bytes in [&bytes, &with_magic] {
            if let Ok(mut reader) = BlockReader::new(bytes.as_slice()) {
                while let Ok(Some(_)) = next_records(&mut reader) {}
            }
        }
        let mut records = Records::new(&bytes);
        while let Ok(Some(_)) = records.next_record() {}
    }

    #[test]
    fn no_records_make_the_examination_panic(
        blocks in prop::collection::vec(prop::collection::vec(any_record(), 0..8), 1..4),
        times in prop::collection::vec((0..=TIME_MAX_NS, 0..=TIME_MAX_NS), 4),
    ) {
        let place = tempfile::tempdir().unwrap();
        let blocks: Vec<_> = blocks.into_iter().zip(times)
            .map(|(records, (from, until))| (from, until, records)).collect();
        let path = file(place.path(), &begin("a", 1, 1), &blocks, 0);
        let findings = examine(&[path], &Options::default());
        prop_assert!(findings.is_ok());
    }
}
