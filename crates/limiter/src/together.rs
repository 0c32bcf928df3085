//! Several checks that are decided as one: all of them are spent, or none.

use smallvec::SmallVec;

use crate::counters::Event;
use crate::force::InForce;
use crate::hit::Hit;
use crate::lists::Standing;
use crate::question::Question;
use crate::{Decision, Limiter, Op, Request, RequestError, Unmatched};

/// Where the limits that apply to one of the requests stand in the list of all.
type Places = SmallVec<[usize; 4]>;

impl Limiter {
    /// Decides all of `requests` as one at `now_ns`: if a limit denies one of them none is spent. Each is a
    /// check, whatever its operation says. A bucket that several of them meet must have room for their
    /// costs together. Each decision says what the limits of its own request say: one may be allowed
    /// although all were denied for another's sake. Never waits: what could be held is denied, for the
    /// reason [`crate::Reason::Share`].
    ///
    /// # Errors
    /// The first request outside the bounds; nothing is changed.
    pub fn decide_together(
        &self,
        now_ns: u64,
        requests: &[Request<'_>],
    ) -> Result<Vec<Decision<'_>>, RequestError> {
        requests.iter().try_for_each(Request::validate)?;
        loop {
            // As for one request: a later plan is met where the shards are locked.
            let force = self.in_force();
            let (mut hits, mut standings) = (Vec::new(), Vec::new());
            let mut places: Vec<Places> = Vec::new();
            for request in requests {
                let standing = self.standing(now_ns, &force, request);
                standings.push(standing);
                places.push(match standing {
                    None => self.gather(&force, request, &mut hits),
                    Some(_) => Places::new(),
                });
            }
            let asked = (&places[..], &standings[..]);
            if let Some(decisions) = self.decide_gathered(now_ns, &force, &mut hits, asked) {
                return Ok(decisions);
            }
        }
    }

    /// Adds the limits that apply to `request` to `hits`, unless they are there with the same bucket: then
    /// the cost is added there.
    fn gather<'p>(
        &self,
        force: &'p InForce,
        request: &Request<'_>,
        hits: &mut Vec<Hit<'p>>,
    ) -> Places {
        let mut places = Places::new();
        for index in &force.matched(request) {
            let Some(hit) = self.hit(force, *index, request) else { continue };
            let is_same = |other: &Hit<'_>| {
                other.slot == hit.slot && other.hash().is_some() && other.hash() == hit.hash()
            };
            match hits.iter().position(is_same) {
                Some(at) => {
                    hits[at].cost = hits[at].cost.saturating_add(hit.cost);
                    places.push(at);
                }
                None => {
                    places.push(hits.len());
                    hits.push(hit);
                }
            }
        }
        places
    }

    /// None: the limits are no longer those of `force`, and nothing was changed.
    fn decide_gathered(
        &self,
        now_ns: u64,
        force: &InForce,
        hits: &mut [Hit<'_>],
        (places, standings): (&[Places], &[Option<Standing>]),
    ) -> Option<Vec<Decision<'_>>> {
        let is_unmatched = |(places, standing): &(&Places, &Option<Standing>)| {
            let mut hits = places.iter().filter_map(|at| hits.get(*at));
            standing.is_none() && hits.all(|hit| hit.rule.shadow)
        };
        let unmatched = places.iter().zip(standings).filter(is_unmatched).count();
        let is_banned = |it: &Option<Standing>| matches!(it, Some(Standing::Banned(_)));
        let question = Question {
            op: Op::Check,
            details: false,
            is_peek: hits.iter().all(|hit| hit.cost == 0),
            may_hold: false,
            is_again: false,
        };
        let mut locked = self.store().lock(hits.iter().filter_map(Hit::hash), now_ns, force)?;
        let mut refused = unmatched > 0 && force.unmatched() == Unmatched::Deny;
        refused |= standings.iter().any(is_banned);
        for hit in hits.iter_mut() {
            self.seat(&question, hit, &mut locked);
            self.test(question.op, hit, &locked);
            refused |= hit.denial.is_some() && !hit.rule.shadow;
        }
        if self.fleet().is_some() {
            self.claim(&question, hits, &mut locked);
            if refused {
                self.count_share_denied(hits);
            }
        }
        for hit in hits.iter_mut() {
            hit.note_queue(false);
            if !refused {
                self.apply(question.op, hit, &mut locked);
            }
            self.tally(&question, hit, refused);
            hit.note_times(&locked);
        }
        let (evicted, at_ns) = (locked.evicted(), locked.now_ns());
        drop(locked);
        self.testify(question.op, refused, at_ns, hits);
        self.event(now_ns, Event::Evicted, evicted);
        self.event(now_ns, Event::Unmatched, unmatched as u64);
        let decision = |(places, standing): (&Places, &Option<Standing>)| {
            if let Some(listed) = standing.and_then(|it| self.listed(now_ns, &question, it)) {
                return listed;
            }
            let own: SmallVec<[&Hit<'_>; 4]> =
                places.iter().filter_map(|at| hits.get(*at)).collect();
            self.decision(&question, force, own.iter().copied())
        };
        Some(places.iter().zip(standings).map(decision).collect())
    }
}
