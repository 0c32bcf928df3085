//! Windows of a real node: they lie where the wall clock and the calendar say, and every surface says so.

use crate::support::time::unix_ms;
use crate::support::{Config, Node, Surface, check, run_in};

const DAY_S: u64 = 86_400;

/// The reset of a window of the clock is at a whole number of its lengths, whichever door tells it.
#[test]
fn every_door_tells_the_end_of_the_window_that_the_wall_clock_is_in() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"year\"\nalgorithm = \"fixed-window\"\nlimit = \"2 per 365d\"\n",
    ));
    for surface in Surface::ALL {
        let key = format!("{surface:?}");
        let mut caller = node.caller(surface);
        for remaining in [1, 0] {
            let answer = caller.decide(&check("", &key));
            assert_eq!((answer.allowed, answer.remaining), (true, Some(remaining)), "{surface:?}");
        }
        let before_ms = unix_ms();
        let denied = caller.decide(&check("", &key));
        assert!(!denied.allowed && denied.reason == "limit", "{denied:?}");
        assert_eq!(denied.retry_after_ms, denied.reset_after_ms, "{surface:?}");
        // The wall clock is slewed, and taken over once a second.
        let reset_at_ms = denied.reset_at_ms.expect("a date");
        let length_ms = 365 * DAY_S * 1_000;
        let off_ms = reset_at_ms % length_ms;
        assert!(off_ms.min(length_ms - off_ms) <= 1_000, "{reset_at_ms}");
        assert!(reset_at_ms + 1_000 >= before_ms, "{reset_at_ms} is before {before_ms}");
    }
}

/// Headers tell the length of the window that is now: months differ.
#[test]
fn the_policy_of_a_calendar_window_is_the_length_of_this_one() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"month\"\nattributes = { per = \"month\" }\n\
         algorithm = \"fixed-window\"\nlimit = \"1000 per calendar-month\"\n\
         [[limit]]\nname = \"log\"\nattributes = { per = \"log\" }\n\
         algorithm = \"sliding-log\"\nlimit = \"5 per 15m\"\n\
         [[limit]]\nname = \"sliding\"\nattributes = { per = \"sliding\" }\n\
         algorithm = \"sliding-window\"\nlimit = \"100 per min\"\n",
    ));
    let mut connection = node.connection();
    let mut policy = |per: &str| {
        let response = connection.get(&format!("/v1/auth?key=k&attr.per={per}"));
        assert_eq!(response.status, 200);
        assert_eq!(
            response.number("X-RateLimit-Remaining") + 1,
            response.number("X-RateLimit-Limit")
        );
        response.header("RateLimit-Policy").expect("the header").to_owned()
    };
    assert_eq!(policy("log"), "\"log\";q=5;w=900");
    assert_eq!(policy("sliding"), "\"sliding\";q=100;w=60");
    let months = [28, 29, 30, 31].map(|days| format!("\"month\";q=1000;w={}", days * DAY_S));
    let month = policy("month");
    assert!(months.contains(&month), "{month}");
}

/// What `validate` takes and `explain` says of each algorithm.
#[test]
fn explain_says_how_each_algorithm_counts() {
    let node = Node::start(&Config::new(
        "[[limit]]\nname = \"login\"\nalgorithm = \"sliding-log\"\nlimit = \"5 per 15m\"\n\
         [[limit]]\nname = \"plan\"\nalgorithm = \"fixed-window\"\n\
         limit = \"1000 per calendar-week\"\ntime_zone = \"Europe/Berlin\"\n\
         week_start = \"sunday\"\n",
    ));
    let folder = node.place().folder().to_owned();
    let file = node.place().config_path().display().to_string();
    let valid = run_in(&folder, &["validate", &file, "--node", "n1"]);
    assert_eq!(valid.code, Some(0), "{valid:?}");
    let told = run_in(&folder, &["explain", "--config", &file, "--node", "n1"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    for line in [
        "  lets through  at most 5 in any 15 min\n",
        "  algorithm     sliding-log: the time of each unit is kept, 8 B for each: 40 B for a bucket \
         that is used up, beside its entry\n",
        "  proven:       exact: 5 in any 15 min\n",
        "  lets through  1000 in each calendar week from sunday on\n",
        "  algorithm     fixed-window: each begins at a midnight of `Europe/Berlin`\n",
    ] {
        assert!(told.stdout.contains(line), "{}\nhas no: {line}", told.stdout);
    }
}
