//! Who keeps a record is told of every spend, once, with what the bucket took.

use std::sync::{Arc, Mutex};

use limiter::{
    Limit, Limiter, Op, Plan, Request, Spend, SpendKind, StoreConfig, Unmatched, WhenFull, Witness,
};

use crate::support::{HOUR, START, bucket};

/// Keeps what it is told.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<Vec<Spend>>);

impl Witness for Told {
    fn handle_spend(&self, spend: Spend) {
        self.0.lock().unwrap().push(spend);
    }
}

impl Told {
    /// What it was told since it was asked last: kind, slot and units.
    pub(crate) fn take(&self) -> Vec<(SpendKind, u16, u64)> {
        let told = std::mem::take(&mut *self.0.lock().unwrap());
        told.iter().map(|spend| (spend.kind, spend.slot, spend.units)).collect()
    }
}

fn limiter(limits: Vec<Limit>, secret: u8) -> (Limiter, Arc<Told>) {
    let told = Arc::new(Told::default());
    let plan = Plan::compile(limits, Unmatched::Allow).unwrap();
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [secret; 16],
    };
    (Limiter::new(plan, store).with_witness(Arc::clone(&told) as Arc<dyn Witness>), told)
}

fn alice<'a>(op: Op, cost: u64) -> Request<'a> {
    Request::check(b"", b"alice").with_op(op).with_cost(cost)
}

#[test]
fn a_check_that_is_allowed_is_told_and_one_that_is_denied_is_not() {
    let (limiter, told) = limiter(vec![Limit::new("l", bucket(10, 1, HOUR))], 1);
    for (op, cost) in
        [(Op::Check, 7), (Op::Check, 7), (Op::Peek, 1), (Op::Check, 0), (Op::Check, 3)]
    {
        limiter.decide(START, &alice(op, cost)).unwrap();
    }
    assert_eq!(told.take(), [(SpendKind::Check, 0, 7), (SpendKind::Check, 0, 3)]);
}

#[test]
fn of_several_limits_each_is_told_or_none() {
    let mut shadow = Limit::new("shadow", bucket(1, 1, HOUR));
    shadow.shadow = true;
    let limits =
        vec![Limit::new("a", bucket(5, 1, HOUR)), Limit::new("b", bucket(3, 1, HOUR)), shadow];
    let (limiter, told) = limiter(limits, 1);
    limiter.decide(START, &alice(Op::Check, 1)).unwrap();
    let all = [(SpendKind::Check, 0, 1), (SpendKind::Check, 1, 1), (SpendKind::Check, 2, 1)];
    assert_eq!(told.take(), all);
    // The shadow has no room and decides nothing.
    limiter.decide(START, &alice(Op::Check, 2)).unwrap();
    assert_eq!(told.take(), [(SpendKind::Check, 0, 2), (SpendKind::Check, 1, 2)]);
    // `a` would have had room.
    limiter.decide(START, &alice(Op::Check, 1)).unwrap();
    assert_eq!(told.take(), []);
}

#[test]
fn debits_and_refunds_are_told_as_far_as_the_bucket_took_them() {
    let (limiter, told) = limiter(vec![Limit::new("l", bucket(10, 1, HOUR))], 1);
    for (op, cost) in [(Op::Debit, 15), (Op::Debit, 15), (Op::Debit, 1), (Op::Refund, 4)] {
        limiter.decide(START, &alice(op, cost)).unwrap();
    }
    let debit = |units| (SpendKind::Debit, 0, units);
    assert_eq!(told.take(), [debit(15), debit(5), (SpendKind::Refund, 0, 4)]);
    limiter.decide(START, &alice(Op::Refund, 90)).unwrap();
    limiter.decide(START, &alice(Op::Refund, 1)).unwrap();
    assert_eq!(told.take(), [(SpendKind::Refund, 0, 16)]);
    limiter.decide(START, &alice(Op::Check, 3)).unwrap();
    limiter.decide(START, &alice(Op::Reset, 0)).unwrap();
    assert_eq!(told.take(), [(SpendKind::Check, 0, 3), (SpendKind::Refund, 0, 3)]);
}

#[test]
fn the_same_bucket_has_the_same_hash_where_the_fingerprint_is_the_same() {
    let spent = |secret| {
        let (limiter, told) = limiter(vec![Limit::new("l", bucket(10, 1, HOUR))], secret);
        limiter.decide(START, &alice(Op::Check, 1)).unwrap();
        let spend = told.0.lock().unwrap()[0];
        assert_eq!(spend.at_ns, START);
        (limiter.fingerprint(), spend.hash)
    };
    assert_eq!(spent(1), spent(1));
    let (one, other) = (spent(1), spent(2));
    assert!(one.0 != other.0 && one.1 != other.1);
}
