//! Envoy's rate limit service: what a call means, what comes of it.

use std::sync::Arc;
use std::time::Duration;

use limiter::{ATTRIBUTES_MAX, DEFAULT_UNIT, Op, Request};
use tonic::Status;

use super::answer::{Told, response};
use super::mapping::Meant;
use super::messages::{Descriptor, RateLimitRequest, RateLimitResponse};
use crate::door::Door;
use crate::node::{Asked, DEFAULT_MAX_WAIT, Node, Undecided};

/// Most descriptors of one call. Envoy sends one for each of the actions of a route.
pub(super) const DESCRIPTORS_MAX: usize = 64;

/// One descriptor, as it is put to the limits.
struct Question {
    meant: Meant,
    op: Op,
    cost: u64,
}

impl Question {
    /// What `descriptor` asks; what it costs unless it says so is `addend`.
    fn new(node: &Node, domain: &str, descriptor: &Descriptor, addend: u64) -> Self {
        let meant = node.mappings().meaning(domain, &descriptor.entries);
        let op = match (descriptor.is_negative_hits, meant.debit) {
            (true, _) => Op::Refund,
            (false, true) => Op::Debit,
            (false, false) => Op::Check,
        };
        let cost = descriptor.hits_addend.map_or(addend, |addend| addend.value);
        Self { meant, op, cost }
    }

    fn request(&self) -> Request<'_> {
        let unit = self.meant.unit.as_deref().unwrap_or(DEFAULT_UNIT);
        let mut request = Request::check(&self.meant.endpoint, &self.meant.key)
            .with_op(self.op)
            .with_unit_cost(unit.as_bytes(), self.cost);
        if unit != DEFAULT_UNIT {
            // What counts another unit is no request.
            request = request.with_cost(0);
        }
        for (name, value) in self.meant.attributes.iter().take(ATTRIBUTES_MAX) {
            request = request.with_attribute(name, value);
        }
        request
    }
}

/// Answers one call, whose caller waits for `patience` at most; none: it does not say.
pub(super) async fn should_rate_limit(
    node: Arc<Node>,
    call: RateLimitRequest,
    patience: Option<Duration>,
) -> Result<RateLimitResponse, Status> {
    let is_sampled = node.counters().count_frame(Door::Envoy);
    let started_ns = node.clock().now_ns();
    let questions = questions(&node, &call)?;
    let max_wait = patience.map_or(DEFAULT_MAX_WAIT, |patience| DEFAULT_MAX_WAIT.min(patience / 2));
    let told = told(&node, &questions, max_wait).await.map_err(refusal)?;
    let response = response(&told);
    if is_sampled {
        let took_ns = node.clock().now_ns().saturating_sub(started_ns);
        node.counters().record_duration(Door::Envoy, took_ns);
    }
    Ok(response)
}

fn questions(node: &Node, call: &RateLimitRequest) -> Result<Vec<Question>, Status> {
    if call.domain.is_empty() {
        return Err(Status::invalid_argument("the domain is empty; name one in Envoy's filter"));
    }
    if call.descriptors.is_empty() {
        return Err(Status::invalid_argument("there is no descriptor; nothing is asked"));
    }
    if call.descriptors.len() > DESCRIPTORS_MAX {
        let message = format!(
            "there are {} descriptors; send {DESCRIPTORS_MAX} at most",
            call.descriptors.len()
        );
        return Err(Status::invalid_argument(message));
    }
    let addend = u64::from(call.hits_addend.max(1));
    let descriptors = call.descriptors.iter();
    Ok(descriptors.map(|it| Question::new(node, &call.domain, it, addend)).collect())
}

/// What each of `questions` came to, in their order. The checks among them are decided as one; what is
/// charged or given back whatever they say comes after them.
async fn told<'n>(
    node: &'n Node,
    questions: &[Question],
    max_wait: Duration,
) -> Result<Vec<Told<'n>>, Undecided> {
    let requests: Vec<Request<'_>> = questions.iter().map(Question::request).collect();
    let is_check = |request: &&Request<'_>| request.op == Op::Check;
    let checks: Vec<Request<'_>> = requests.iter().filter(is_check).cloned().collect();
    let now_ns = node.clock().now_ns();
    let mut decided = match checks.as_slice() {
        // One alone may wait until peers know of it.
        [check] => match node.ask(now_ns, check, Door::Envoy, Some(max_wait))? {
            Asked::Decided(decision) => vec![decision],
            Asked::Held(held) => vec![held.await],
        },
        checks => node.ask_together(now_ns, checks, Door::Envoy)?,
    }
    .into_iter();
    let mut told = Vec::with_capacity(requests.len());
    for request in &requests {
        let decision = match request.op {
            Op::Check => decided.next(),
            _ => match node.ask(now_ns, request, Door::Envoy, Some(Duration::ZERO))? {
                Asked::Decided(decision) => Some(decision),
                Asked::Held(held) => Some(held.await),
            },
        };
        told.extend(decision.map(|decision| Told { decision, may_deny: request.op == Op::Check }));
    }
    Ok(told)
}

/// Whoever asks a node that is starting is answered as one that gets no answer: Envoy then does what its
/// filter says for that.
fn refusal(undecided: Undecided) -> Status {
    match undecided {
        Undecided::Request(_) => Status::invalid_argument(undecided.to_string()),
        Undecided::Starting => Status::unavailable(undecided.to_string()),
    }
}
