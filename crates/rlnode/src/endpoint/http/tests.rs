//! Whether docs/http.md is true: each of its tables names what the code takes and gives, no more.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderName, Request, header};
use serde_json::Value;
use tower::ServiceExt;

use super::{parse_forwarded, question, routes};
use crate::door::{Door, Fault, Outcome};
use crate::node::Node;
use crate::scripted::Scripted;

const MANUAL: &str = include_str!("../../../../../docs/http.md");

/// The names in backticks at the start of the rows under `heading`, up to the next heading.
fn documented(heading: &str) -> BTreeSet<String> {
    let (_, rest) = MANUAL.split_once(&format!("\n{heading}\n")).expect(heading);
    rest.lines()
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(ToOwned::to_owned)
        .collect()
}

/// Every second piece of `text` between backticks: the names in it.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

/// Names of the members of `value`, at every depth; those of lists' elements after `list[].` where
/// `has_paths`.
fn members(value: &Value, prefix: &str, has_paths: bool, into: &mut BTreeSet<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        into.insert(format!("{prefix}{name}"));
        let inner = if has_paths { format!("{prefix}{name}[].") } else { String::new() };
        for element in member.as_array().into_iter().flatten() {
            members(element, &inner, has_paths, into);
        }
    }
}

async fn ask(node: &Arc<Node>, request: Request<Body>) -> (HeaderMap, Value) {
    let answered = routes::router(Arc::clone(node), routes::Caller::Anybody).oneshot(request).await;
    let (parts, body) = answered.expect("an answer").into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    (parts.headers, serde_json::from_slice(&body).unwrap_or_default())
}

/// Whether the file for machines has the paths and methods of this door, and no others.
#[tokio::test]
async fn the_contract_has_every_path_and_method_and_no_other() {
    let contract: Value =
        serde_json::from_str(include_str!("../../../../../docs/openapi.json")).expect("json");
    let paths = contract["paths"].as_object().expect("paths");
    // What is said to be routed, where it is routed.
    let source = [include_str!("routes.rs"), include_str!("operations.rs")].concat();
    let routed: BTreeSet<_> = source
        .split(".route(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(paths.keys().cloned().collect::<BTreeSet<_>>(), routed);
    let node = Node::with_burst(1);
    for (path, methods) in paths {
        let methods = methods.as_object().expect("methods");
        let described: Vec<_> = methods.keys().map(|it| it.to_uppercase()).collect();
        let uri = path.replace("{name}", "x");
        let router = routes::router(Arc::clone(&node), routes::Caller::Operator);
        let request = Request::builder().method("DELETE").uri(uri).body(Body::empty());
        let response = router.oneshot(request.expect("a request")).await.expect("an answer");
        assert_eq!(response.status(), 405, "{path}");
        let allowed = response.headers()[header::ALLOW].to_str().expect("text");
        let allowed: Vec<_> = allowed.split(',').filter(|method| *method != "HEAD").collect();
        assert_eq!(allowed, described, "{path}");
    }
    let version = contract["info"]["version"].as_str();
    assert_eq!(version, Some(env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn the_contract_is_served() {
    let node = Node::with_burst(1);
    let (headers, served) = get(&node, "/v1/openapi.json").await;
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(served["openapi"], "3.1.0");
}

async fn get(node: &Arc<Node>, path: &str) -> (HeaderMap, Value) {
    ask(node, Request::get(path).body(Body::empty()).expect("a request")).await
}

#[test]
fn every_field_of_a_question_is_documented_and_no_other() {
    let error = question::parse_body(br#"{"?":0}"#).expect_err("no field").to_string();
    let (_, taken) = error.split_once("expected one of ").expect("the fields that there are");
    assert_eq!(documented("### The question"), quoted(taken));
}

#[test]
fn every_parameter_of_a_gateway_is_documented_and_no_other() {
    let error = parse_forwarded("?=0", &HeaderMap::new()).expect_err("no parameter").to_string();
    let (_, taken) = error.split_once("there are ").expect("the parameters that there are");
    let taken = taken.replace(" and ", ", ").split(", ").map(ToOwned::to_owned).collect();
    assert_eq!(documented("### Parameters of the query"), taken);
}

#[tokio::test]
async fn every_field_of_an_answer_is_documented_and_no_other() {
    let node = Node::with_burst(1);
    let body = r#"{"checks":[{"key":"a","details":true},{"key":""}]}"#;
    let (_, answer) = ask(&node, Request::post("/v1/check").body(body.into()).expect("text")).await;
    let mut given = BTreeSet::new();
    members(&answer, "", false, &mut given);
    assert_eq!(documented("### The answer"), given);
}

#[tokio::test]
async fn every_header_and_field_of_a_denial_is_documented() {
    let node = Node::with_burst(1);
    get(&node, "/v1/auth?key=a").await;
    let (headers, problem) = get(&node, "/v1/auth?key=a").await;
    let general = [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CACHE_CONTROL];
    let given = headers.keys().filter(|name| !general.contains(name)).map(HeaderName::to_string);
    assert_eq!(documented("### Headers of the answer"), given.collect());

    let mut fields = BTreeSet::new();
    members(&problem, "", false, &mut fields);
    assert!(fields.len() > 4, "{problem}");
    let (_, rest) = MANUAL.split_once("### The body of a denial").expect("its section");
    let section = rest.split("\n#").next().unwrap_or_default();
    let missing: Vec<_> = fields.difference(&quoted(section)).cloned().collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[tokio::test]
async fn every_field_of_the_status_is_documented_and_no_other() {
    let node = Node::with_burst(1);
    let (_, status) = get(&node, "/v1/status").await;
    let mut given = BTreeSet::new();
    members(&status, "", true, &mut given);
    members(&status["file"], "file.", true, &mut given);
    assert_eq!(documented("## `GET /v1/status`"), given);
}

#[tokio::test]
async fn every_field_of_the_cluster_is_documented_and_no_other() {
    let (node, _) = Scripted::node(1);
    let (_, status) = get(&node, "/v1/status").await;
    let mut given = BTreeSet::new();
    // The reasons are those of the metric, and each name of `unresolved` is one of `peers`.
    let mut cluster = status["cluster"].clone();
    for object in ["refused", "refused_by_peers", "unresolved"] {
        cluster[object] = Value::Null;
    }
    members(&cluster, "cluster.", true, &mut given);
    assert_eq!(documented("### Of a cluster"), given);
}

/// Names of the members of `value` at every depth, with the way to them.
fn paths(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        into.insert(format!("{prefix}{name}"));
        paths(member, &format!("{prefix}{name}."), into);
        for element in member.as_array().into_iter().flatten() {
            paths(element, &format!("{prefix}{name}[]."), into);
        }
    }
}

#[tokio::test]
async fn every_field_of_why_is_documented_and_no_other() {
    let (node, _) = Scripted::node(1);
    let (_, mut why) = get(&node, "/v1/why?endpoint=GET%20/&key=a").await;
    // They are those of the status.
    why["cluster"]["peers"] = Value::Null;
    let mut given = BTreeSet::new();
    paths(&why, "", &mut given);
    assert_eq!(documented("## `GET /v1/why`"), given);
}

#[test]
fn every_word_of_an_answer_is_documented() {
    let words = limiter::Reason::ALL.map(limiter::Reason::as_str).into_iter();
    let words = words.chain(limiter::Freshness::ALL.map(limiter::Freshness::as_str));
    let words = words.chain(Door::ALL.map(Door::as_str)).chain(Outcome::ALL.map(Outcome::as_str));
    for word in words {
        assert!(MANUAL.contains(&format!("`{word}`")), "{word}");
    }
}

#[test]
fn every_kind_that_an_answer_is_counted_under_exists() {
    let (_, rest) = MANUAL.split_once("\n## Statuses\n").expect("its section");
    let kinds: BTreeSet<String> = rest
        .lines()
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|')?.rsplit('|').next())
        .flat_map(quoted)
        .collect();
    assert!(kinds.contains("malformed"), "{kinds:?}");
    let known: BTreeSet<String> = Fault::ALL.map(|fault| fault.as_str().to_owned()).into();
    assert!(kinds.is_subset(&known), "{kinds:?}");
}
