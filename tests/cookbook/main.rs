//! The cookbook and the pages of the algorithms as they stand in the manual: every file is read, and every
//! table of calls is asked of the real limiter, on a clock that the table sets.

mod answer;
mod call;
mod recipe;
mod time;

use std::collections::BTreeSet;
use std::path::Path;

use limiter::{Limiter, StoreConfig, WhenFull};
use rlnode::config;

use recipe::{Recipe, Row, recipes};

const COOKBOOK: &str = include_str!("../../docs/cookbook.md");
const ALGORITHMS: &str = include_str!("../../docs/algorithms.md");
const PACING: &str = include_str!("../../docs/pacing.md");
/// What the limiter's clock says when the first row of a table is asked: any number but 0.
const BEGAN_NS: u64 = 1_000_000_000_000;
/// Fewer recipes than this are no cookbook.
const RECIPES_MIN: usize = 14;

/// Asks every table of a document. Gives what is not as the document says.
fn faults(document: &str) -> Vec<String> {
    match recipes(document) {
        Ok(recipes) => recipes.iter().flat_map(faults_of).collect(),
        Err(fault) => vec![fault],
    }
}

fn faults_of(recipe: &Recipe<'_>) -> Vec<String> {
    let limiter = match limiter(recipe) {
        Ok(limiter) => limiter,
        Err(fault) => return vec![format!("{}: {fault}", recipe.title)],
    };
    let mut faults = Vec::new();
    let mut met = BTreeSet::new();
    for row in &recipe.rows {
        if let Err(fault) = ask(&limiter, recipe, row, &mut met) {
            faults.push(format!("line {}: {}: {fault}", row.line, recipe.title));
        }
    }
    for rule in limiter.plan().rules() {
        if !met.contains(rule.name()) {
            faults.push(format!("{}: no call meets `{}`", recipe.title, rule.name()));
        }
    }
    faults
}

/// The limiter of a recipe's file.
fn limiter(recipe: &Recipe<'_>) -> Result<Limiter, String> {
    let environment = client::Environment {
        address: None,
        runtime_directory: None,
        xdg_runtime_dir: Some("/run/user/1000".into()),
        temporary_directory: "/tmp".into(),
        user_id: 1000,
    };
    let node = config::Node { name: "edge-1".into(), environment };
    let read = config::parse(recipe.file.as_bytes(), Path::new("cluster.toml"), &node);
    let plan = read.map_err(|errors| errors.to_string())?.plan;
    let store = StoreConfig {
        memory_bytes: 1 << 20,
        entries_max: None,
        when_full: WhenFull::Overflow,
        secret: [7; 16],
    };
    let limiter = Limiter::new(plan, store);
    limiter.set_wall(BEGAN_NS, recipe.began_unix_ns);
    Ok(limiter)
}

/// Asks the calls of one row, and adds the limits that applied to `met`.
fn ask(
    limiter: &Limiter,
    recipe: &Recipe<'_>,
    row: &Row<'_>,
    met: &mut BTreeSet<String>,
) -> Result<(), String> {
    let since_ns = row.unix_ns.checked_sub(recipe.began_unix_ns).ok_or("it goes back in time")?;
    let request = row.call.request();
    for call in 1..=row.call.times {
        let decision = limiter
            .decide(BEGAN_NS + since_ns, &request)
            .map_err(|error| format!("call {call}: {error}"))?;
        met.extend(decision.details.iter().map(|verdict| verdict.limit_name.to_owned()));
        let is_last = call == row.call.times;
        row.answer.compare(&decision, is_last).map_err(|fault| format!("call {call}: {fault}"))?;
    }
    Ok(())
}

#[test]
fn every_recipe_of_the_cookbook_does_what_it_says() {
    assert_eq!(faults(COOKBOOK), [""; 0]);
    let recipes = recipes(COOKBOOK).map(|recipes| recipes.len());
    assert!(recipes.as_ref().is_ok_and(|number| *number >= RECIPES_MIN), "{recipes:?}");
}

#[test]
fn every_algorithm_does_what_its_chapter_says() {
    assert_eq!(faults(ALGORITHMS), [""; 0]);
    for algorithm in ["leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] {
        let line = format!("algorithm = \"{algorithm}\"");
        assert!(ALGORITHMS.contains(&line), "{algorithm}");
    }
}

#[test]
fn queue_of_the_page_on_pacing_spaces_its_calls() {
    assert_eq!(faults(PACING), [""; 0]);
    assert_eq!(recipes(PACING).map(|recipes| recipes.len()), Ok(1));
}

/// A pacer asks with an endpoint and a key, and has no attributes.
#[test]
fn a_queue_of_the_manual_is_one_that_a_pacer_can_ask() {
    let mut queues = 0;
    for document in [COOKBOOK, ALGORITHMS, PACING] {
        for recipe in recipes(document).expect("recipes") {
            let limiter = limiter(&recipe).expect("a file");
            let is_queue = |limit: &&limiter::Limit| {
                matches!(limit.quota, limiter::Quota::LeakyBucket { queue: true, .. })
            };
            for limit in limiter.plan().limits().iter().filter(is_queue) {
                let endpoint = limit.selector.endpoint.as_deref().unwrap_or_default();
                let request = limiter::Request::check(endpoint.as_bytes(), b"partner.example");
                let verdict = limiter.decide(BEGAN_NS, &request).expect("within bounds").verdict;
                let met = (verdict.allowed, verdict.limit_name);
                assert_eq!(met, (true, limit.name.as_str()), "{}", recipe.title);
                queues += 1;
            }
        }
    }
    assert!(queues >= 3, "{queues}");
}

const RECIPE: &str = r#"
# Cookbook
## Two at once
```toml
[[limit]]
name = "two"
rate = "2/s"
```
| at | call | answer |
|---|---|---|
| 0s | 2 × `GET / key=a` | allowed, 0 left, full in 1s |
| 400ms | `GET / key=a` | denied by `two`, again in 100ms |
| 500ms | `GET / key=a` | allowed |
"#;

#[test]
fn recipe_that_is_true_has_no_faults() {
    assert_eq!(faults(RECIPE), [""; 0]);
}

#[test]
fn finds_what_is_not_as_a_recipe_says() {
    for (from, to, fault) in [
        ("2 × `GET", "3 × `GET", "line 11: Two at once: call 3: denied"),
        ("0 left", "1 left", "call 2: 0 left, not 1"),
        ("full in 1s", "full in 2s", "call 2: full in 1000000000 ns, not 2000000000"),
        ("again in 100ms", "again in 99ms", "again in 100000000 ns, not 99000000"),
        ("denied by `two`", "allowed", "call 1: denied"),
        ("denied by `two`", "denied by `one`", "by `two`, not `one`"),
        ("| 500ms | `GET / key=a` | allowed |", "| 500ms | `GET /` | denied |", "allowed"),
        ("| 500ms |", "| 499ms |", "call 1: denied"),
        ("| allowed |", "| allowed, leaves in 1s |", "leaves in 0 ns, not 1000000000"),
        ("| allowed |", "| allowed, `two` would deny |", "`two` would allow"),
        ("| allowed |", "| allowed, for reason `limit` |", "reason `ok`, not `limit`"),
    ] {
        let found = faults(&RECIPE.replace(from, to));
        assert!(found.len() == 1 && found[0].contains(fault), "{to}: {found:?}");
    }
}

#[test]
fn finds_a_document_that_cannot_be_run() {
    for (from, to, fault) in [
        ("rate = \"2/s\"", "rates = \"2/s\"", "unknown name `rates`"),
        ("name = \"two\"", "name = \"two\"\nendpoint = \"/x\"", "no call meets `two`"),
        ("```toml", "```ini", "Two at once: there is no file"),
        ("| at | call | answer |", "| at | what | answer |", "Two at once: nothing is asked"),
        ("| 400ms |", "| soon |", "line 12: `soon` is no time"),
        ("| 400ms |", "| 2026-06-01 00:00:01 |", "line 12: a table has dates or times"),
        ("| 500ms |", "| 300ms |", "line 13: it is earlier than the row before"),
        ("`GET / key=a` | allowed |", "GET / | allowed |", "line 13: a call stands in backticks"),
        ("`GET / key=a` | allowed |", "`GET / key=a` | perhaps |", "line 13: `perhaps`"),
        ("`GET / key=a` | allowed |", "`GET / key=a x` | allowed |", "line 13: `x` is neither"),
        ("## Two at once", "", "line 4: a file before the first recipe"),
    ] {
        let found = faults(&RECIPE.replace(from, to));
        assert!(found.iter().any(|found| found.contains(fault)), "{to}: {found:?}");
    }
}
