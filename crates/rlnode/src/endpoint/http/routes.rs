//! The paths of HTTP and what each does.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{DefaultBodyLimit, FromRequest, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::future::join_all;
use limiter::{Decision, Replaced};
use member::ForgetFailure;
use serde::Serialize;

use super::answer::DecisionJson;
use super::forwarded::{Forwarded, parse_forwarded, parse_why};
use super::headers::rate_limit_headers;
use super::operations;
use super::problem::Problem;
use super::question::{CHECKS_MAX, Question, QuestionError, Questions, parse_body};
use super::status::Status;
use super::why::Why;
use crate::door::{Door, Fault};
use crate::engine::ForgetError;
use crate::metrics;
use crate::node::{Asked, Node, Readiness, Undecided};
use crate::reload::{ReloadError, Reloaded};

/// Longest body, in bytes, like the longest frame rounded up.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// A body must be complete this long after its header.
const BODY_TIME: Duration = Duration::from_secs(30);

const _: () = assert!(CHECKS_MAX <= BODY_BYTES_MAX / r#"{"key":"k"},"#.len());

/// Who is at the other end of a connection, as far as that changes what may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The user of the node, or root, at its unix socket.
    Operator,
    /// Anybody.
    Anybody,
}

pub(super) fn router(node: Arc<Node>, caller: Caller) -> Router {
    let admit = from_fn_with_state((Arc::clone(&node), caller), operations::admit);
    Router::new()
        .route("/v1/nodes/{name}/forget", post(forget).route_layer(admit.clone()))
        .route("/v1/reload", post(reload).route_layer(admit))
        .merge(operations::router(&node, caller))
        .route("/v1/check", post(check))
        // Without HEAD, which axum would answer as a GET: a question is charged.
        .route("/v1/auth", get(auth).head(refuse_all_but_get).fallback(refuse_all_but_get))
        .route("/v1/status", get(status))
        .route("/v1/why", get(why))
        .route("/v1/openapi.json", get(openapi))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(show_metrics))
        .fallback(refuse_path)
        .method_not_allowed_fallback(refuse_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&node), finish))
        .with_state(node)
}

/// What every answer has: no cache may keep it, and while the node stops the connection ends.
async fn finish(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if node.readiness() == Readiness::Stopping {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Refuses what names no host, or several, as HTTP/1.1 has it: what stands in front may have gone by another.
pub(super) async fn require_host(
    State(node): State<Arc<Node>>,
    request: Request,
    next: Next,
) -> Response {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    if hosts == 1 || (hosts == 0 && request.version() < Version::HTTP_11) {
        return next.run(request).await;
    }
    node.counters().count_fault(Door::Http, Fault::Malformed);
    let problem =
        Problem::new(StatusCode::BAD_REQUEST, "a request of HTTP/1.1 has the header `Host` once");
    ([(header::CONNECTION, "close")], problem).into_response()
}

/// An element of a batch's answer.
#[derive(Serialize)]
#[serde(untagged)]
enum Element<'d> {
    Decision(DecisionJson<'d>),
    Error { error: String },
}

async fn check(State(node): State<Arc<Node>>, request: Request) -> Response {
    let body = match read_body(&node, request).await {
        Ok(body) => body,
        Err(problem) => return (*problem).into_response(),
    };
    measured(&node, async |now_ns| match parse_body(&body) {
        Ok(Questions::One(question)) => answer_one(&node, now_ns, &question).await,
        Ok(Questions::Many(questions)) => answer_many(&node, now_ns, &questions).await,
        Err(error) => refuse_question(&node, error),
    })
    .await
}

async fn answer_one(node: &Node, now_ns: u64, question: &Question) -> Response {
    match decided(node, ask(node, now_ns, question)).await {
        (at_ns, Ok(decision)) => {
            Json(DecisionJson::new(&decision, question.details, node.clock(), at_ns))
                .into_response()
        }
        (_, Err(undecided)) => refuse_undecided(undecided),
    }
}

async fn answer_many(node: &Node, now_ns: u64, questions: &[Question]) -> Response {
    #[derive(Serialize)]
    struct Batch<'d> {
        decisions: Vec<Element<'d>>,
    }

    // All are asked before the first is waited for, so that no wait adds to another.
    let asked: Vec<_> = questions.iter().map(|question| ask(node, now_ns, question)).collect();
    let decided = join_all(asked.into_iter().map(|asked| decided(node, asked))).await;
    if let [(_, Err(Undecided::Starting)), ..] = decided[..] {
        return refuse_undecided(Undecided::Starting);
    }
    let elements = questions.iter().zip(&decided).map(|(question, decided)| match decided {
        (at_ns, Ok(decision)) => {
            Element::Decision(DecisionJson::new(decision, question.details, node.clock(), *at_ns))
        }
        (_, Err(undecided)) => Element::Error { error: undecided.to_string() },
    });
    Json(Batch { decisions: elements.collect() }).into_response()
}

async fn auth(
    State(node): State<Arc<Node>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    measured(&node, async |now_ns| {
        match parse_forwarded(query.as_deref().unwrap_or_default(), &headers) {
            Ok(forwarded) => answer_forwarded(&node, now_ns, &forwarded).await,
            Err(error) => refuse_question(&node, error),
        }
    })
    .await
}

async fn answer_forwarded(node: &Node, now_ns: u64, forwarded: &Forwarded) -> Response {
    let (at_ns, decision) = match decided(node, ask(node, now_ns, &forwarded.question)).await {
        (at_ns, Ok(decision)) => (at_ns, decision),
        (_, Err(undecided)) => return refuse_undecided(undecided),
    };
    let reset_at_ms = node.clock().unix_ms(at_ns, decision.verdict.reset_after);
    let headers = rate_limit_headers(node.headers().get(), &decision, reset_at_ms);
    if decision.verdict.allowed {
        (StatusCode::OK, headers).into_response()
    } else if forwarded.denied == StatusCode::FORBIDDEN {
        // Whoever asks for 403 is a gateway that reads no body of a denial, and would give the
        // connection up for one that it did not read.
        (StatusCode::FORBIDDEN, headers).into_response()
    } else {
        let mut response = Problem::denial(forwarded.denied, &decision).into_response();
        response.headers_mut().extend(headers);
        response
    }
}

pub(super) type AskedAt<'n> = (u64, Result<Asked<'n>, Undecided>);

pub(super) fn ask<'n>(node: &'n Node, now_ns: u64, question: &Question) -> AskedAt<'n> {
    let max_wait = question.max_wait_ms.map(Duration::from_millis);
    (now_ns, node.ask(now_ns, &question.to_request(), Door::Http, max_wait))
}

/// The decision, and the time at which it was made.
pub(super) async fn decided<'n>(
    node: &'n Node,
    (asked_ns, asked): AskedAt<'n>,
) -> (u64, Result<Decision<'n>, Undecided>) {
    match asked {
        Ok(Asked::Decided(decision)) => (asked_ns, Ok(decision)),
        Ok(Asked::Held(held)) => {
            let decision = held.await;
            (node.clock().now_ns(), Ok(decision))
        }
        Err(undecided) => (asked_ns, Err(undecided)),
    }
}

async fn status(State(node): State<Arc<Node>>) -> Json<Status> {
    Json(Status::of(&node).await)
}

/// What this door takes and gives, for machines.
async fn openapi() -> Response {
    const TEXT: &str = include_str!("../../../../../docs/openapi.json");
    ([(header::CONTENT_TYPE, "application/json")], TEXT).into_response()
}

/// Tells why a request would be answered as it is. Nothing is decided, counted or changed.
async fn why(State(node): State<Arc<Node>>, RawQuery(query): RawQuery) -> Response {
    let question = match parse_why(query.as_deref().unwrap_or_default()) {
        Ok(question) => question,
        Err(error) => return refuse_question(&node, error),
    };
    match Why::of(&node, &question.to_request()).await {
        Ok(why) => Json(why).into_response(),
        Err(error) => {
            node.counters().count_fault(Door::Http, Fault::BadCheck);
            refuse_undecided(error.into())
        }
    }
}

/// Tells the cluster that a member will not come back.
async fn forget(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Response {
    #[derive(Serialize)]
    struct Forgotten {
        forgotten: String,
        members: usize,
    }

    match node.engine().forget(&name).await {
        Ok(members) => {
            tracing::warn!(name, members, "a member was forgotten because somebody said so");
            Json(Forgotten { forgotten: name, members }).into_response()
        }
        Err(error) => {
            let status = match error {
                ForgetError::Refused(ForgetFailure::Refused(cluster::ForgetError::Unknown)) => {
                    StatusCode::NOT_FOUND
                }
                ForgetError::Alone | ForgetError::Refused(_) => StatusCode::CONFLICT,
            };
            Problem::new(status, format!("`{}`: {error}", name.escape_debug())).into_response()
        }
    }
}

/// Reads the file again and puts it in force.
async fn reload(State(node): State<Arc<Node>>) -> Response {
    #[derive(Serialize)]
    struct Done {
        kept: usize,
        changed: usize,
        added: usize,
        removed: usize,
        also_changed: Vec<&'static str>,
        needs_restart: Vec<&'static str>,
    }

    // A task of its own: an asker who goes away must not leave the half of a file in force.
    let reload = tokio::spawn(async move { node.reload().await });
    match reload.await.unwrap_or(Err(ReloadError::Stopping)) {
        Ok(Reloaded { limits, also_changed, needs_restart }) => {
            let Replaced { kept, changed, added, removed } = limits;
            Json(Done { kept, changed, added, removed, also_changed, needs_restart })
                .into_response()
        }
        Err(error) => Problem::new(StatusCode::CONFLICT, error.to_string()).into_response(),
    }
}

async fn livez() -> &'static str {
    "alive\n"
}

async fn readyz(State(node): State<Arc<Node>>) -> (StatusCode, String) {
    let readiness = node.readiness();
    let status = match readiness {
        Readiness::Ready => StatusCode::OK,
        Readiness::Starting | Readiness::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{}\n", readiness.as_str()))
}

async fn show_metrics(State(node): State<Arc<Node>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = metrics::Format::accepted_by(accept.unwrap_or_default());
    let member = node.engine().member_status().await;
    let text = metrics::encode(&node, member, format);
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

async fn refuse_path() -> Response {
    Problem::new(
        StatusCode::NOT_FOUND,
        "there is POST /v1/check, GET /v1/auth, GET /v1/status, GET /v1/why, \
         GET /v1/openapi.json, GET /livez, GET /readyz, GET /metrics, POST /v1/reload, POST /v1/nodes/NAME/forget and the \
         operations below /v1/keys",
    )
    .into_response()
}

async fn refuse_method() -> Response {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the header `Allow` names the method to use")
        .into_response()
}

async fn refuse_all_but_get() -> Response {
    ([(header::ALLOW, "GET")], refuse_method().await).into_response()
}

/// Reads a whole body, within its bounds of bytes and time.
pub(super) async fn read_body(
    node: &Node,
    request: Request,
) -> Result<Bytes, Box<Problem<'static>>> {
    let fail = |fault, status, detail: &str| {
        node.counters().count_fault(Door::Http, fault);
        Err(Box::new(Problem::new(status, detail)))
    };
    match tokio::time::timeout(BODY_TIME, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)))) => {
            fail(
                Fault::TooLarge,
                StatusCode::PAYLOAD_TOO_LARGE,
                "the body is longer than 65536 bytes; send fewer checks at once",
            )
        }
        Ok(Err(_)) => fail(Fault::Malformed, StatusCode::BAD_REQUEST, "the body broke off"),
        Err(_) => fail(
            Fault::Timeout,
            StatusCode::REQUEST_TIMEOUT,
            "the body was not complete in 30 seconds",
        ),
    }
}

pub(super) fn refuse_question(node: &Node, error: QuestionError) -> Response {
    let fault = if error.is_too_many { Fault::TooManyChecks } else { Fault::Malformed };
    node.counters().count_fault(Door::Http, fault);
    Problem::new(StatusCode::BAD_REQUEST, error.message).into_response()
}

/// Whoever asks a node that is starting is answered as one that gets no answer.
pub(super) fn refuse_undecided(undecided: Undecided) -> Response {
    let status = match undecided {
        Undecided::Request(_) => StatusCode::BAD_REQUEST,
        Undecided::Starting => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem::new(status, undecided.to_string()).into_response()
}

/// Counts one question, and of one in a few the time that `answer` takes from the time it is given.
async fn measured(node: &Node, answer: impl AsyncFnOnce(u64) -> Response) -> Response {
    let is_sampled = node.counters().count_frame(Door::Http);
    let now_ns = node.clock().now_ns();
    let response = answer(now_ns).await;
    if is_sampled {
        let took_ns = node.clock().now_ns().saturating_sub(now_ns);
        node.counters().record_duration(Door::Http, took_ns);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::{Method, Request as HttpRequest};
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;
    use crate::scripted::Scripted;

    struct Answer {
        status: StatusCode,
        headers: HeaderMap,
        body: String,
    }

    impl Answer {
        fn json(&self) -> Value {
            serde_json::from_str(&self.body).expect(&self.body)
        }

        fn header(&self, name: &str) -> Option<&str> {
            self.headers.get(name).map(|value| value.to_str().expect("text"))
        }
    }

    async fn ask(node: &Arc<Node>, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        let request = HttpRequest::builder().method(method).uri(path).body(body.into());
        let router = router(Arc::clone(node), Caller::Anybody);
        let response = router.oneshot(request.expect("a request")).await;
        let (parts, body) = response.expect("an answer").into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("a body");
        let body = String::from_utf8(bytes.to_vec()).expect("text");
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn get_of(node: &Arc<Node>, path: &str) -> Answer {
        ask(node, Method::GET, path, Body::empty()).await
    }

    #[tokio::test]
    async fn a_question_is_answered_with_200_whichever_way_it_goes() {
        let node = Node::with_burst(1);
        let body = r#"{"endpoint":"GET /","key":"alice"}"#;
        let allowed = ask(&node, Method::POST, "/v1/check", body).await;
        assert_eq!(
            (allowed.status, allowed.json()["allowed"].as_bool()),
            (StatusCode::OK, Some(true))
        );
        let denied = ask(&node, Method::POST, "/v1/check", body).await;
        assert_eq!(denied.status, StatusCode::OK);
        let json = denied.json();
        assert_eq!(json["allowed"], false);
        assert_eq!(json["limit_name"], "per-key");
        assert_eq!(json["limit"], 1);
        assert_eq!(json["remaining"], 0);
        assert_eq!(json["reason"], "limit");
        assert_eq!(json["freshness"], "alone");
        let retry_after_ms = json["retry_after_ms"].as_u64().expect("a wait");
        assert!((3_590_000..=3_600_000).contains(&retry_after_ms), "{retry_after_ms}");
        assert!(json.get("details").is_none());
    }

    #[tokio::test]
    async fn a_batch_is_answered_in_order_and_one_bad_check_stops_no_other() {
        let node = Node::with_burst(1);
        let body = r#"{"checks":[{"key":"a"},{"key":""},{"key":"a","details":true}]}"#;
        let answer = ask(&node, Method::POST, "/v1/check", body).await;
        let decisions = answer.json()["decisions"].clone();
        assert_eq!(decisions[0]["allowed"], true);
        assert!(decisions[1]["error"].as_str().is_some_and(|error| error.contains("empty")));
        assert_eq!(decisions[2]["allowed"], false);
        assert_eq!(decisions[2]["details"][0]["limit_name"], "per-key");
        assert_eq!(node.counters().frames(Door::Http), 1);
    }

    #[tokio::test]
    async fn why_tells_what_a_check_would_be_told_and_changes_nothing() {
        let node = Node::with_burst(2);
        node.set_readiness(Readiness::Ready);
        let check = async || ask(&node, Method::POST, "/v1/check", r#"{"key":"alice"}"#).await;
        check().await;
        let before = (node.limiter().counts(), node.limiter().usage());
        let metrics = get_of(&node, "/metrics").await.body;
        for key in ["alice", "bob"] {
            let told = get_of(&node, &format!("/v1/why?endpoint=GET%20/&key={key}")).await;
            assert_eq!(told.status, StatusCode::OK, "{}", told.body);
            let applied = &told.json()["limits"][0]["applied"];
            let level = if key == "alice" { 1 } else { 2 };
            assert_eq!(applied["bucket"]["level"], level, "{applied}");
            assert_eq!(applied["bucket"]["has_entry"], key == "alice");
            assert_eq!(told.json()["next"]["allowed"], true);
        }
        assert_eq!((node.limiter().counts(), node.limiter().usage()), before);
        assert_eq!(get_of(&node, "/metrics").await.body, metrics);
        check().await;
        let told = get_of(&node, "/v1/why?key=alice").await.json();
        assert_eq!(
            (&told["next"]["allowed"], &told["next"]["reason"]),
            (&json!(false), &json!("limit"))
        );
        // It is asked a moment later, so the wait is no longer than was told.
        let waits_ms = |json: &Value| json["retry_after_ms"].as_u64().expect("a wait");
        let (asked, told) = (waits_ms(&check().await.json()), waits_ms(&told["next"]));
        assert!(asked > 0 && asked <= told, "{asked} and {told}");
    }

    #[tokio::test]
    async fn a_question_of_why_is_read_as_a_gateways_and_refused_in_words() {
        let node = Node::with_burst(1);
        node.set_readiness(Readiness::Ready);
        for (query, want) in [
            ("", "there is no key"),
            ("key=", "the key is empty"),
            ("key=a&deny=403", "leave them out"),
            ("key=a&max_wait_ms=5", "leave them out"),
            ("key=a&kee=b", "unknown parameter `kee`"),
        ] {
            let answer = get_of(&node, &format!("/v1/why?{query}")).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}");
            assert!(answer.body.contains(want), "{query}: {}", answer.body);
        }
        let costly = get_of(&node, "/v1/why?key=a&cost=2").await.json();
        assert_eq!(costly["next"]["retry_after_ms"], Value::Null);
        assert_eq!(costly["limits"][0]["applied"]["cost"], 2);
    }

    #[tokio::test]
    async fn why_tells_of_a_check_that_is_held_and_of_its_peers() {
        let (node, peer) = Scripted::node(10);
        let request = limiter::Request::check(b"GET /", b"alice");
        let now_ns = node.clock().now_ns();
        for _ in 0..5 {
            let _ = node.decide(now_ns, &request, Door::Udp);
        }
        let held = node.ask(now_ns, &request, Door::Udp, None);
        let Ok(Asked::Held(held)) = held else { panic!("it is held") };
        let told = get_of(&node, "/v1/why?endpoint=GET%20/&key=alice").await.json();
        let bucket = &told["limits"][0]["applied"]["bucket"];
        let figures = ["held", "allowance", "in_flight", "remaining"].map(|name| &bucket[name]);
        assert_eq!(figures, [&json!(1), &json!(5), &json!(5), &json!(5)], "{bucket}");
        assert_eq!(
            (&told["next"]["reason"], &told["next"]["may_wait"]),
            (&json!("share"), &json!(true))
        );
        assert_eq!(told["cluster"]["peers"][0]["unacknowledged"], 1);
        drop(held);
        let told = get_of(&node, "/v1/why?endpoint=GET%20/&key=alice").await.json();
        assert_eq!(told["limits"][0]["applied"]["bucket"]["held"], 0);
        peer.set_ready(false);
        let told = get_of(&node, "/v1/why?key=alice").await.json();
        assert_eq!((&told["next"], &told["readiness"]), (&Value::Null, &json!("starting")));
    }

    #[tokio::test]
    async fn a_bad_body_is_answered_with_a_problem_and_charges_nothing() {
        let node = Node::with_burst(1);
        for body in ["", "{", r#"{"key":"a","cost":-1}"#, r#"{"key":""}"#] {
            let answer = ask(&node, Method::POST, "/v1/check", body).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert_eq!(answer.json()["status"], 400);
        }
        assert_eq!(node.counters().faults(Door::Http, Fault::Malformed), 3);
        assert_eq!(node.limiter().counts().rules[0].units, 0);
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused() {
        let node = Node::with_burst(1);
        let body = format!(r#"{{"key":"a"{}}}"#, " ".repeat(BODY_BYTES_MAX));
        let answer = ask(&node, Method::POST, "/v1/check", body).await;
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(node.counters().faults(Door::Http, Fault::TooLarge), 1);
    }

    #[tokio::test]
    async fn a_gateway_gets_200_then_429_with_headers() {
        let node = Node::with_burst(1);
        let allowed = get_of(&node, "/v1/auth?key=alice&endpoint=GET%20/").await;
        assert_eq!(allowed.status, StatusCode::OK);
        assert_eq!(allowed.header("x-ratelimit-limit"), Some("1"));
        assert_eq!(allowed.header("x-ratelimit-remaining"), Some("0"));
        assert_eq!(allowed.header("ratelimit"), Some("\"per-key\";r=0;t=3600"));
        assert_eq!(allowed.header("ratelimit-policy"), Some("\"per-key\";q=1;w=3600"));
        assert_eq!(allowed.header("retry-after"), None);
        assert_eq!(allowed.header("cache-control"), Some("no-store"));

        let denied = get_of(&node, "/v1/auth?key=alice").await;
        assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(denied.header("retry-after"), Some("3600"));
        assert_eq!(denied.header("content-type"), Some("application/problem+json"));
        let problem = denied.json();
        assert_eq!(
            problem["type"],
            "https://iana.org/assignments/http-problem-types#quota-exceeded"
        );
        assert_eq!(problem["violated-policies"], json!(["per-key"]));
        assert_eq!(problem["status"], 429);

        let forbidden = get_of(&node, "/v1/auth?key=alice&deny=403").await;
        assert_eq!(forbidden.status, StatusCode::FORBIDDEN);
        assert_eq!(forbidden.header("retry-after"), Some("3600"));
        assert_eq!(forbidden.body, "", "a gateway would close the connection");
    }

    #[tokio::test]
    async fn methods_that_a_path_does_not_have_are_refused_with_those_it_has() {
        let node = Node::with_burst(1);
        for (method, path, allow) in [
            (Method::GET, "/v1/check", "POST"),
            (Method::POST, "/v1/auth?key=a", "GET"),
            (Method::HEAD, "/v1/auth?key=a", "GET"),
            (Method::DELETE, "/v1/status", "GET,HEAD"),
        ] {
            let answer = ask(&node, method.clone(), path, Body::empty()).await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
        }
        assert_eq!(node.limiter().counts().rules[0].units, 0);
        assert_eq!(get_of(&node, "/nowhere").await.status, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn readiness_follows_the_node_and_a_stop_ends_connections() {
        let node = Node::with_burst(1);
        assert_eq!(get_of(&node, "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
        node.set_readiness(Readiness::Ready);
        let ready = get_of(&node, "/readyz").await;
        assert_eq!((ready.status, &*ready.body), (StatusCode::OK, "ready\n"));
        assert_eq!(ready.header("connection"), None);
        node.set_readiness(Readiness::Stopping);
        let stopping = get_of(&node, "/readyz").await;
        assert_eq!(stopping.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(stopping.header("connection"), Some("close"));
        assert_eq!(get_of(&node, "/livez").await.status, StatusCode::OK);
    }

    #[tokio::test]
    async fn status_tells_what_was_decided_and_can_be_read_back() {
        let node = Node::with_burst(1);
        get_of(&node, "/v1/auth?key=alice").await;
        get_of(&node, "/v1/auth?key=alice").await;
        let answer = get_of(&node, "/v1/status").await;
        let status: Status = serde_json::from_str(&answer.body).expect("a status");
        assert_eq!(status.limits[0].name, "per-key");
        assert_eq!((status.limits[0].allowed, status.limits[0].denied), (1, 1));
        assert_eq!(status.store.entries, 1);
        let http = status.doors.iter().find(|door| door.door == "http").expect("the door");
        assert_eq!((http.frames, http.checks["allowed"], http.checks["denied"]), (2, 1, 1));
    }

    #[tokio::test]
    async fn metrics_come_in_the_format_that_is_accepted() {
        let node = Node::with_burst(1);
        let answer = get_of(&node, "/metrics").await;
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        assert!(answer.body.contains("rlnode_unmatched_total 0"));
    }

    #[tokio::test]
    async fn held_checks_of_a_body_wait_together_and_others_overtake_them() {
        let (node, peer) = Scripted::node(10);
        let many = vec![json!({"key": "bob", "max_wait_ms": 1_000}); 7];
        let body = json!({ "checks": many }).to_string();
        let asked = tokio::spawn({
            let node = Arc::clone(&node);
            async move { ask(&node, Method::POST, "/v1/check", body).await }
        });
        tokio::task::yield_now().await;
        let other = ask(&node, Method::POST, "/v1/check", r#"{"key":"alice"}"#).await;
        assert_eq!(other.json()["allowed"], true);
        while !asked.is_finished() {
            peer.acknowledge();
            tokio::task::yield_now().await;
        }
        let decisions = asked.await.expect("no panic").json()["decisions"].clone();
        let left: Vec<_> = (0..7).map(|i| decisions[i]["remaining"].as_u64()).collect();
        assert_eq!(left, (3..10).rev().map(Some).collect::<Vec<_>>(), "{decisions}");
        assert_eq!(decisions[0]["freshness"], other.json()["freshness"]);
    }

    #[tokio::test]
    async fn a_wait_of_0_is_denied_at_once_with_the_reason_share() {
        let (node, _peer) = Scripted::node(10);
        let body = r#"{"key":"bob","cost":6,"max_wait_ms":0}"#;
        let denied = ask(&node, Method::POST, "/v1/check", body).await;
        assert_eq!(denied.json()["reason"], "share");
        assert_eq!(denied.json()["remaining"], 10);
    }

    #[tokio::test]
    async fn a_node_that_starts_answers_503_and_decides_nothing() {
        let (node, peer) = Scripted::node(10);
        peer.set_ready(false);
        let answers = [
            ask(&node, Method::POST, "/v1/check", r#"{"key":"a"}"#).await,
            ask(&node, Method::POST, "/v1/check", r#"{"checks":[{"key":"a"},{"key":""}]}"#).await,
            get_of(&node, "/v1/auth?key=a").await,
            get_of(&node, "/readyz").await,
        ];
        for answer in &answers {
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.body);
        }
        assert!(answers[0].body.contains("does not know the counts"), "{}", answers[0].body);
        assert_eq!(answers[3].body, "starting\n");
        assert_eq!(node.counters().faults(Door::Http, Fault::Starting), 4);
        assert_eq!(node.limiter().counts().rules[0].units, 0);
    }

    #[tokio::test]
    async fn only_an_operator_may_forget_and_only_in_a_cluster() {
        let node = Node::with_burst(1);
        let path = "/v1/nodes/edge-3/forget";
        let refused = ask(&node, Method::POST, path, Body::empty()).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert!(refused.body.contains("at its unix socket"), "{}", refused.body);
        assert_eq!(get_of(&node, path).await.status, StatusCode::METHOD_NOT_ALLOWED);

        let request = HttpRequest::post(path).body(Body::empty()).expect("a request");
        let response = router(Arc::clone(&node), Caller::Operator).oneshot(request).await;
        let response = response.expect("an answer");
        assert_eq!(response.status(), StatusCode::CONFLICT);
        let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        let body = String::from_utf8(body.to_vec()).expect("text");
        assert!(body.contains("`edge-3`: this node is in no cluster"), "{body}");
    }
}
