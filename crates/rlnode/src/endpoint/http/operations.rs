//! `/v1/keys/...`: what operators do to keys, over HTTP.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use limiter::{Banned, Network, Op, Operated, Operation, OperationError, Overridden, Subject};
use serde::Serialize;

use super::answer::DecisionJson;
use super::problem::Problem;
use super::question::{
    Object, Pairs, Question, QuestionError, Questions, Whole, key_of, parse_body, parse_json,
    to_base64,
};
use super::routes::{self, Caller};
use crate::config::{Exception, exception_in_words};
use crate::door::{Door, Fault};
use crate::node::Node;

/// What a token is shown as.
const BEARER: &[u8] = b"Bearer ";

/// The routes of operations, for whoever may use them.
pub(super) fn router(node: &Arc<Node>, caller: Caller) -> Router<Arc<Node>> {
    let asks = |op| post(move |node: State<Arc<Node>>, body: HttpRequest| ask(node, op, body));
    let acts = |act| post(move |node: State<Arc<Node>>, body: HttpRequest| act_on(node, act, body));
    Router::new()
        .route("/v1/keys/peek", asks(Op::Peek))
        .route("/v1/keys/refund", asks(Op::Refund))
        .route("/v1/keys/reset", acts(Act::Reset))
        .route("/v1/keys/grant", acts(Act::Grant))
        .route("/v1/keys/ban", acts(Act::Ban))
        .route("/v1/keys/unban", acts(Act::Unban))
        .route("/v1/keys/override", acts(Act::Override))
        .route("/v1/keys/end-override", acts(Act::EndOverride))
        .route("/v1/keys/bans", get(bans))
        .route("/v1/keys/overrides", get(overrides))
        .route_layer(from_fn_with_state((Arc::clone(node), caller), admit))
}

/// Lets through who may operate the node: its user and root at the unix socket, and whoever shows the token.
pub(super) async fn admit(
    State((node, caller)): State<(Arc<Node>, Caller)>,
    request: HttpRequest,
    next: Next,
) -> Response {
    if caller == Caller::Operator {
        return next.run(request).await;
    }
    let shown = request.headers().get(header::AUTHORIZATION);
    let token = shown.and_then(|value| value.as_bytes().strip_prefix(BEARER));
    if token.is_some_and(|token| node.is_admin_token(token)) {
        return next.run(request).await;
    }
    node.counters().count_fault(Door::Http, Fault::Forbidden);
    if !node.has_admin_token() {
        return Problem::new(
            StatusCode::FORBIDDEN,
            "operations are for the user of the node and root, at its unix socket; `[admin]` with \
             a `token_file` lets whoever has the token act from elsewhere",
        )
        .into_response();
    }
    let detail = "operations need the token of the node: `Authorization: Bearer TOKEN`";
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (challenge, Problem::new(StatusCode::UNAUTHORIZED, detail)).into_response()
}

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Reset,
    Grant,
    Ban,
    Unban,
    Override,
    EndOverride,
}

impl Act {
    /// The members of the body that have a meaning for it.
    fn members(self) -> &'static [&'static str] {
        match self {
            Self::Reset => &["endpoint", "key", "key_b64", "attributes", "limit_name"],
            Self::Grant => &["endpoint", "key", "key_b64", "attributes", "limit_name", "units"],
            Self::Ban => &["key", "key_b64", "ip", "for_ms"],
            Self::Unban => &["key", "key_b64", "ip"],
            Self::Override => &[
                "endpoint",
                "key",
                "key_b64",
                "attributes",
                "limit_name",
                "rate",
                "burst",
                "limit",
                "deny",
                "unlimited",
                "for_ms",
            ],
            Self::EndOverride => &["endpoint", "key", "key_b64", "attributes", "limit_name"],
        }
    }
}

/// The body of an operation, as written.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    endpoint: Option<String>,
    key: Option<String>,
    key_b64: Option<String>,
    attributes: Option<Pairs<String>>,
    ip: Option<String>,
    limit_name: Option<String>,
    units: Option<Whole>,
    rate: Option<String>,
    burst: Option<Whole>,
    limit: Option<String>,
    deny: Option<bool>,
    unlimited: Option<bool>,
    for_ms: Option<Whole>,
}

impl Written {
    fn read(body: &[u8], act: Act) -> Result<Self, QuestionError> {
        let Object::<Self>(written) = parse_json(body)?;
        let given = [
            ("endpoint", written.endpoint.is_some()),
            ("key", written.key.is_some()),
            ("key_b64", written.key_b64.is_some()),
            ("attributes", written.attributes.is_some()),
            ("ip", written.ip.is_some()),
            ("limit_name", written.limit_name.is_some()),
            ("units", written.units.is_some()),
            ("rate", written.rate.is_some()),
            ("burst", written.burst.is_some()),
            ("limit", written.limit.is_some()),
            ("deny", written.deny.is_some()),
            ("unlimited", written.unlimited.is_some()),
            ("for_ms", written.for_ms.is_some()),
        ];
        let mut useless =
            given.into_iter().filter(|(name, is_given)| *is_given && !act.members().contains(name));
        match useless.next() {
            Some((name, _)) => {
                Err(QuestionError::new(format!("`{name}` means nothing here; drop it")))
            }
            None => Ok(written),
        }
    }

    fn subject(&mut self) -> Result<Subject, QuestionError> {
        let Some(ip) = self.ip.take() else {
            let key = self.key.take().map(String::into_bytes);
            return key_of(key, self.key_b64.as_deref()).map(Subject::Key);
        };
        if self.key.is_some() || self.key_b64.is_some() {
            return Err(QuestionError::new("a key and `ip` are both there; send one of them"));
        }
        ip.parse::<Network>().map(Subject::Network).map_err(QuestionError::new)
    }

    /// Whose buckets.
    fn question(&mut self) -> Result<Question, QuestionError> {
        let key = key_of(self.key.take().map(String::into_bytes), self.key_b64.as_deref())?;
        Question::of(self.endpoint.take(), key, self.attributes.take())
    }

    fn limit_name(&self) -> Result<&str, QuestionError> {
        let name = self.limit_name.as_deref();
        name.ok_or_else(|| QuestionError::new("there is no `limit_name`; name the limit"))
    }

    fn units(&self) -> Result<u64, QuestionError> {
        let units = self.units.map_or(0, |units| units.0);
        if units == 0 {
            let message = "there are no `units`; send how many to give, at least 1";
            return Err(QuestionError::new(message));
        }
        Ok(units)
    }

    fn exception(&self) -> Exception<'_> {
        Exception {
            rate: self.rate.as_deref(),
            burst: self.burst.map(|burst| burst.0),
            limit: self.limit.as_deref(),
            deny: self.deny == Some(true),
            unlimited: self.unlimited == Some(true),
        }
    }

    fn for_ns(&self) -> Result<Option<u64>, QuestionError> {
        let Some(Whole(ms)) = self.for_ms else { return Ok(None) };
        let ns =
            ms.checked_mul(1_000_000).filter(|ns| (1..=limiter::OPERATION_NS_MAX).contains(ns));
        ns.map(Some).ok_or_else(|| {
            let most = limiter::OPERATION_NS_MAX / 1_000_000;
            QuestionError::new(format!("`for_ms` is not 1 to {most}; leave it out for no end"))
        })
    }
}

/// Why an operation was not carried out.
enum Refused {
    Question(QuestionError),
    Operation(OperationError),
}

impl From<QuestionError> for Refused {
    fn from(error: QuestionError) -> Self {
        Self::Question(error)
    }
}

impl From<OperationError> for Refused {
    fn from(error: OperationError) -> Self {
        Self::Operation(error)
    }
}

async fn act_on(State(node): State<Arc<Node>>, act: Act, request: HttpRequest) -> Response {
    #[derive(Serialize)]
    struct Done {
        changed: usize,
        units: u64,
    }

    let body = match routes::read_body(&node, request).await {
        Ok(body) => body,
        Err(problem) => return (*problem).into_response(),
    };
    match carry_out(&node, act, &body).await {
        Ok(Operated { changed, units }) => Json(Done { changed, units }).into_response(),
        Err(Refused::Question(error)) => routes::refuse_question(&node, error),
        Err(Refused::Operation(error)) => {
            let status = match &error {
                OperationError::Request(_) | OperationError::Quota(_) => StatusCode::BAD_REQUEST,
                OperationError::NoLimit => StatusCode::NOT_FOUND,
                OperationError::Full | OperationError::NoRoom => StatusCode::CONFLICT,
                OperationError::Starting => StatusCode::SERVICE_UNAVAILABLE,
            };
            Problem::new(status, error.to_string()).into_response()
        }
    }
}

async fn carry_out(node: &Node, act: Act, body: &Bytes) -> Result<Operated, Refused> {
    let mut written = Written::read(body, act)?;
    let question;
    let operation = match act {
        Act::Ban => Operation::Ban { subject: written.subject()?, for_ns: written.for_ns()? },
        Act::Unban => Operation::Unban { subject: written.subject()? },
        Act::Reset => {
            question = written.question()?;
            let limit = written.limit_name.as_deref();
            Operation::Reset { request: question.to_request(), limit }
        }
        Act::Grant => {
            question = written.question()?;
            let (units, limit) = (written.units()?, written.limit_name.as_deref());
            Operation::Grant { request: question.to_request(), limit, units }
        }
        Act::Override => {
            question = written.question()?;
            let (limit, for_ns) = (written.limit_name()?, written.for_ns()?);
            let quota = node.exception(limit, &written.exception())?;
            Operation::Override { request: question.to_request(), limit, quota, for_ns }
        }
        Act::EndOverride => {
            question = written.question()?;
            let limit = written.limit_name()?;
            Operation::EndOverride { request: question.to_request(), limit }
        }
    };
    Ok(node.operate(&operation).await?)
}

/// A peek or a refund, answered as `POST /v1/check` answers one, with details.
async fn ask(State(node): State<Arc<Node>>, op: Op, request: HttpRequest) -> Response {
    let body = match routes::read_body(&node, request).await {
        Ok(body) => body,
        Err(problem) => return (*problem).into_response(),
    };
    let mut question = match parse_body(&body) {
        Ok(Questions::One(question)) if question.op == Op::Check => question,
        Ok(_) => {
            let message = "neither `op` nor `checks` means anything here; send one question";
            return routes::refuse_question(&node, QuestionError::new(message));
        }
        Err(error) => return routes::refuse_question(&node, error),
    };
    question.op = op;
    question.details = true;
    let asked = routes::ask(&node, node.clock().now_ns(), &question);
    match routes::decided(&node, asked).await {
        (at_ns, Ok(decision)) => {
            Json(DecisionJson::new(&decision, true, node.clock(), at_ns)).into_response()
        }
        (_, Err(undecided)) => routes::refuse_undecided(undecided),
    }
}

/// Whom a row of a list is about, as operations take it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Who {
    Key(String),
    KeyB64(String),
    Ip(String),
}

impl Who {
    fn of_key(key: Vec<u8>) -> Self {
        match String::from_utf8(key) {
            Ok(key) => Self::Key(key),
            Err(error) => Self::KeyB64(to_base64(error.as_bytes())),
        }
    }
}

fn to_ms(ns: u64) -> u64 {
    ns.div_ceil(1_000_000)
}

async fn bans(State(node): State<Arc<Node>>) -> Response {
    #[derive(Serialize)]
    struct Row {
        #[serde(flatten)]
        who: Who,
        remaining_ms: Option<u64>,
    }
    #[derive(Serialize)]
    struct Bans {
        bans: Vec<Row>,
    }

    let row = |ban: Banned| Row {
        who: match ban.subject {
            Subject::Key(key) => Who::of_key(key),
            Subject::Network(network) => Who::Ip(network.to_string()),
        },
        remaining_ms: ban.for_ns.map(to_ms),
    };
    let bans = node.limiter().bans(node.clock().now_ns());
    Json(Bans { bans: bans.into_iter().map(row).collect() }).into_response()
}

async fn overrides(State(node): State<Arc<Node>>) -> Response {
    #[derive(Serialize)]
    struct Row {
        #[serde(flatten)]
        who: Who,
        limit_name: String,
        quota: String,
        remaining_ms: Option<u64>,
    }
    #[derive(Serialize)]
    struct Overrides {
        overrides: Vec<Row>,
    }

    let row = |it: Overridden| Row {
        who: Who::of_key(it.key),
        limit_name: it.limit,
        quota: exception_in_words(&it.quota),
        remaining_ms: it.for_ns.map(to_ms),
    };
    let overridden = node.limiter().overridden(node.clock().now_ns());
    Json(Overrides { overrides: overridden.into_iter().map(row).collect() }).into_response()
}
