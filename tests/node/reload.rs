//! The file is read again while the node runs: what was used is kept, and a bad file changes nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use limiter::Op;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::fleet::spend;
use crate::support::resp::RespClient;
use crate::support::time::{PATIENCE, Stopwatch};
use crate::support::{
    Answer, Config, HttpConnection, Node, Place, Surface, check, pause, run, wait_until,
};

/// Longest time from a change of the file to its being in force.
const IN_FORCE: Duration = Duration::from_secs(2);

fn per_key(rate: &str, burst: u64) -> String {
    format!("[[limit]]\nname = \"per-key\"\nrate = \"{rate}\"\nburst = {burst}\n")
}

fn ask(node: &Node, key: &str) -> Answer {
    node.caller(Surface::Stream).decide(&check("GET /", key))
}

fn file_of(node: &Node) -> Value {
    node.status()["file"].clone()
}

/// The text of a file with these limits and the listeners of the node's own.
fn text_of(node: &Node, limits: &str) -> String {
    let written = fs::read_to_string(node.place().config_path()).expect("the file");
    let listen = written.split("[[limit]]").next().expect("the listeners");
    format!("{listen}{limits}")
}

/// Puts `limits` in force by SIGHUP; gives whether the node took them.
#[track_caller]
fn hang_up(node: &Node, text: &str) -> bool {
    fs::write(node.place().config_path(), text).expect("our own file");
    let count = |file: &Value| {
        ["reloads", "failed_reloads"].map(|name| file[name].as_u64().expect("a number"))
    };
    let before = count(&file_of(node));
    node.signal(Signal::HUP);
    wait_until("the file was read", PATIENCE, || count(&file_of(node)) != before);
    count(&file_of(node))[0] > before[0]
}

/// LM-02: the same file a hundred times gives nobody anything.
#[test]
fn the_same_file_again_fills_no_bucket() {
    let node = Node::start(&Config::new(&per_key("1/min", 10)));
    assert_eq!(spend(&node, "alice", 10), 10);
    let same = text_of(&node, &per_key("1/min", 10));
    let mut last_ms = u64::MAX;
    for _ in 0..100 {
        assert!(hang_up(&node, &same));
        let answer = ask(&node, "alice");
        let wait_ms = answer.retry_after_ms.expect("a wait");
        assert!(!answer.allowed && wait_ms <= last_ms, "{answer:?} after {last_ms}");
        last_ms = wait_ms;
    }
    assert_eq!(file_of(&node)["reloads"], 100);
}

/// What tells clients of their limits is the file's to choose, while the node runs.
#[test]
fn headers_are_as_the_file_says() {
    let node = Node::start(&Config::new(&per_key("1/min", 10)));
    let text = text_of(&node, &per_key("1/min", 10));
    let named = || {
        let response = node.connection().get("/v1/auth?key=alice");
        let names = response.headers.into_iter().map(|(name, _)| name.to_lowercase());
        let mut names: Vec<_> = names.filter(|name| name.contains("ratelimit")).collect();
        names.sort();
        names.join(" ")
    };
    let x = "x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset";
    assert_eq!(named(), format!("ratelimit ratelimit-policy {x}"));
    assert!(hang_up(&node, &format!("headers = \"ratelimit-06\"\n{text}")));
    assert_eq!(named(), "ratelimit-limit ratelimit-policy ratelimit-remaining ratelimit-reset");
    assert!(hang_up(&node, &format!("headers = \"none\"\n{text}")));
    assert_eq!(named(), "");
    assert!(!hang_up(&node, &format!("headers = \"all\"\n{text}")));
    assert_eq!(named(), "", "a bad file changes nothing");
    assert!(hang_up(&node, &text));
    assert_eq!(named(), format!("ratelimit ratelimit-policy {x}"));
}

/// LM-03: a raised limit reaches keys in use at once, less what they used.
#[test]
fn a_raised_limit_reaches_keys_in_use() {
    let window = |limit: u64| {
        format!(
            "[[limit]]\nname = \"w\"\nalgorithm = \"fixed-window\"\nlimit = \"{limit} per 1h\"\n"
        )
    };
    let node = Node::start(&Config::new(&(per_key("10/h", 10) + &window(20))));
    assert_eq!(spend(&node, "alice", 10), 10);
    assert!(hang_up(&node, &text_of(&node, &(per_key("100/h", 100) + &window(500)))));
    let mut request = check("GET /", "alice");
    request.details = true;
    let details = node.caller(Surface::Http).details(&request);
    assert_eq!(details, [("per-key".to_owned(), Some(89)), ("w".to_owned(), Some(489))]);
    assert!(hang_up(&node, &text_of(&node, &(per_key("10/h", 10) + &window(20)))));
    assert!(!ask(&node, "alice").allowed, "11 of 10 are used");
}

/// LM-08, AR-13, CF-01: whatever is wrong with the file, what was in force stays so, and it is told where.
#[test]
fn a_bad_file_changes_nothing() {
    let node = Node::start(&Config::new(&per_key("10/h", 10)));
    let path = node.place().config_path();
    let good = fs::read_to_string(&path).expect("the file");
    assert_eq!(spend(&node, "alice", 4), 4);
    let in_force = || node.metrics().sum("rlnode_config_in_force", &[]);
    let raised = per_key("100/h", 100);
    for fault in [
        "[[limit]]\nname = \"b\"\nrate = \"0/s\"\n",
        "[[limit]]\nname = \"b\"\nrate = \"nan\"\n",
        "[[limit]]\nname = \"b\"\nrate = \"1/s\"\nlmit = 3\n",
        "[[limit]]\nname = \"per-key\"\nrate = \"1/s\"\n",
        "[[limit]\n",
    ] {
        assert!(!hang_up(&node, &text_of(&node, &(raised.clone() + fault))), "{fault}");
        let file = file_of(&node);
        let error = file["error"].as_str().expect("an error");
        assert!(error.contains("cluster.toml:"), "it tells the line: {error}");
        assert_eq!((in_force(), ask(&node, "bob").limit), (0, Some(10)), "{fault}");
        assert!(hang_up(&node, &good), "the good file takes the complaint away");
        assert!(file_of(&node)["error"].is_null());
        assert_eq!((in_force(), ask(&node, "bob").limit), (1, Some(10)), "{fault}");
    }
    assert_eq!(node.log().count("the file is not in force"), 5, "one line for each");
    let spoil: [fn(&Path); 3] = [
        |path| fs::write(path, "").expect("ours"),
        |path| fs::remove_file(path).expect("ours"),
        |path| fs::create_dir(path).expect("ours"),
    ];
    for spoil in spoil {
        let failed = || file_of(&node)["failed_reloads"].as_u64().expect("a number");
        let before = failed();
        spoil(&path);
        node.signal(Signal::HUP);
        wait_until("it is refused", PATIENCE, || failed() > before);
        assert_eq!((in_force(), ask(&node, "bob").limit), (0, Some(10)));
        let status = run(&["status", "--addr", &node.stream_path().display().to_string()]);
        assert!(status.stdout.contains("** the file has not been in force"), "{}", status.stdout);
    }
    fs::remove_dir(&path).expect("ours");
    fs::write(&path, &good).expect("ours");
    wait_until("the node sees by itself that it is good", PATIENCE, || in_force() == 1);
    let peek = check("GET /", "alice").with_op(Op::Peek);
    assert_eq!(node.caller(Surface::Stream).decide(&peek).remaining, Some(6), "nothing was lost");
}

/// LM-08: a file that the node's user may not read changes nothing, and is read when it may be again.
#[test]
fn a_file_that_may_not_be_read_changes_nothing() {
    const NOBODY: u32 = 65_534;
    let place = Place::new(&Config::new(&per_key("10/h", 10)));
    let path = place.config_path();
    let mut command = place.command();
    if rustix::process::geteuid().is_root() {
        // Root may read everything.
        for ours in [place.folder(), &path] {
            std::os::unix::fs::chown(ours, Some(NOBODY), None).expect("root may");
        }
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    }
    let node = Node::spawn(place, command);
    let allow = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
    let raised = text_of(&node, &per_key("100/h", 100));
    allow(0o000);
    node.signal(Signal::HUP);
    wait_until("it is refused", PATIENCE, || file_of(&node)["failed_reloads"] == 1);
    let error = file_of(&node)["error"].as_str().expect("an error").to_owned();
    assert!(error.contains("may not be read by the user that runs rlnode"), "{error}");
    assert_eq!(ask(&node, "alice").limit, Some(10));
    allow(0o600);
    fs::write(&path, raised).expect("ours");
    wait_until("it is in force", PATIENCE, || ask(&node, "alice").limit == Some(100));
    assert!(file_of(&node)["error"].is_null());
}

/// LM-06: another window goes on with what counts, and a limit that comes back begins with nothing.
#[test]
fn a_limit_that_is_taken_out_and_put_back_begins_with_nothing() {
    let window = |length: &str| {
        let limit = format!("limit = \"5 per {length}\"\n");
        per_key("1000000/h", 1_000_000)
            + "[[limit]]\nname = \"w\"\nalgorithm = \"fixed-window\"\n"
            + &limit
    };
    let node = Node::start(&Config::new(&window("30d")));
    assert_eq!(spend(&node, "alice", 6), 5);
    assert!(hang_up(&node, &text_of(&node, &window("10d"))));
    let denied = ask(&node, "alice");
    let at_most_ms = 10 * 86_400_000;
    assert!(!denied.allowed && denied.limit_name == "w", "{denied:?}");
    assert!(denied.retry_after_ms.is_some_and(|wait_ms| wait_ms <= at_most_ms), "{denied:?}");
    assert!(hang_up(&node, &text_of(&node, &per_key("1000000/h", 1_000_000))));
    assert_eq!(spend(&node, "alice", 20), 20);
    assert!(hang_up(&node, &text_of(&node, &window("10d"))));
    assert_eq!(ask(&node, "alice").remaining, Some(4));
}

/// Lists are read again with the limits, and come before them.
#[test]
fn lists_of_the_file_come_before_the_limits() {
    let limits = per_key("2/h", 2);
    let node = Node::start(&Config::new(&limits));
    assert_eq!(spend(&node, "alice", 3), 2);
    let lists = "[allow]\nkeys = [\"alice\"]\n[ban]\nkeys = [\"bob\"]\nips = [\"10.6.0.0/16\"]\n";
    assert!(hang_up(&node, &text_of(&node, &(limits.clone() + lists))));
    assert_eq!(spend(&node, "alice", 7), 7);
    let banned = ask(&node, "bob");
    assert_eq!((banned.allowed, banned.reason.as_str()), (false, "banned"));
    let reason = |ip: &str| {
        let peek = check("GET /", "carol").with_op(Op::Peek).with_attribute(b"ip", ip.as_bytes());
        node.caller(Surface::Stream).decide(&peek).reason
    };
    assert_eq!([reason("10.6.7.8"), reason("10.7.7.8")], ["banned", "ok"]);
    let metrics = node.metrics();
    let counted = ["rlnode_listed_total", "rlnode_banned_total"].map(|it| metrics.sum(it, &[]));
    assert_eq!(counted, [7, 2]);
    assert!(hang_up(&node, &text_of(&node, &limits)));
    assert!(!ask(&node, "alice").allowed && ask(&node, "bob").allowed);
}

/// What the command has read is not read again by the node itself, and a fault is told once, with its place.
#[test]
fn a_reload_by_command_is_one_and_its_fault_is_told() {
    let node = Node::start(&Config::new(&per_key("10/h", 10)));
    let address = node.stream_path().display().to_string();
    let reload = |limits: &str| {
        fs::write(node.place().config_path(), text_of(&node, limits)).expect("ours");
        run(&["reload", "--addr", &address])
    };
    let hash = || {
        let hash = file_of(&node)["limits_hash"].as_str().expect("text").to_owned();
        assert_eq!(node.metrics().get("rlnode_config_info", &[("hash", &hash)]), Some(1));
        hash
    };
    let before = hash();
    let done = reload(&(per_key("20/h", 20) + "[ban]\nkeys = \"eve\"\n"));
    assert_ne!(hash(), before);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        done.stdout,
        "in force: 0 limits and overrides kept, 1 changed, 0 added, 0 removed; also changed: ban\n"
    );
    pause(IN_FORCE);
    let refused = reload("[[limit]]\nname = \"per-key\"\nrate = \"10/x\"\n");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for part in ["cluster.toml:", " | rate = \"10/x\"\n", " |        ^^^^^^"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    pause(IN_FORCE);
    let file = file_of(&node);
    assert_eq!((&file["reloads"], &file["failed_reloads"]), (&1.into(), &1.into()), "{file}");
    assert_eq!(node.log().count("the file is not in force"), 1);
}

/// A door that is open until the node is restarted goes on as it was, whatever the file says of it.
#[test]
fn the_redis_door_has_its_limit_as_long_as_it_is_open() {
    let limits = per_key("10/h", 10);
    let node = Node::start(&Config::new(&limits).listen("redis = \"127.0.0.1:0\""));
    let mut client = RespClient::connect(&node);
    let mut throttle = || client.line("CL.THROTTLE k 0 1 3600").array()[0].integer();
    assert_eq!(throttle(), 0);
    let closed = text_of(&node, &limits).replace("redis = \"127.0.0.1:0\"\n", "");
    assert!(hang_up(&node, &closed));
    assert_eq!(file_of(&node)["needs_restart"], serde_json::json!(["listen.redis"]));
    assert_eq!(throttle(), 1, "its count is kept");
    let taken = closed + "[[limit]]\nname = \"cl.throttle\"\nrate = \"1/s\"\n";
    assert!(!hang_up(&node, &taken));
    let error = file_of(&node)["error"].as_str().expect("an error").to_owned();
    assert!(error.contains("needs the limit `cl.throttle` for itself"), "{error}");
    assert_eq!(throttle(), 1);
}

/// What needs a restart is told, and keeps nothing else from being in force.
#[test]
fn what_waits_for_a_restart_is_named() {
    let node = Node::start(&Config::new(&per_key("10/h", 10)));
    let more = "[memory]\nmax = \"64MiB\"\n[ban]\nkeys = \"mallory\"\n";
    let text = text_of(&node, &(per_key("20/h", 20) + more));
    assert!(hang_up(&node, &text));
    assert_eq!(ask(&node, "alice").limit, Some(20));
    assert_eq!(file_of(&node)["needs_restart"], serde_json::json!(["memory.max"]));
    let address = node.stream_path().display().to_string();
    let told = run(&["reload", "--addr", &address]);
    assert_eq!(
        told.stdout,
        "in force: 1 limits and overrides kept, 0 changed, 0 added, 0 removed; until a restart as \
         before: memory.max\n"
    );
    let status = run(&["status", "--addr", &address]);
    assert!(
        status.stdout.contains("** settings of the file that wait for a restart: memory.max"),
        "{status:?}"
    );
    // Not for everybody.
    let mut tcp = HttpConnection::tcp(node.http()).expect("a connection");
    assert_eq!(tcp.request("POST", "/v1/reload", &[], b"").status, 403);
}

/// LM-09: written in place in two halves, replaced by a rename, reached by a link that moves: each is in force
/// in time, and there is never a moment without limits.
#[test]
fn every_way_to_change_the_file_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = linked_node(folder.path());
    let is_over = AtomicBool::new(false);
    // A half that lay there for long on a busy machine may be met, and is refused then.
    let mut long_halves = 0;
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut caller = node.caller(Surface::Stream);
            let mut asked = 0;
            while !is_over.load(Ordering::Relaxed) {
                let answer = caller.decide(&check("GET /", "steady").with_op(Op::Peek));
                assert_eq!(answer.limit_name, "per-key", "never without limits");
                asked += 1;
            }
            asked
        });
        let await_limit = |limit: u64, how: &str| {
            wait_until(&format!("{how}: {limit} is in force"), IN_FORCE, || {
                ask(&node, "probe").limit == Some(limit)
            });
        };
        let real = || fs::canonicalize(node.place().config_path()).expect("the file");
        let mut limit = 100;
        let mut next = || {
            limit += 1;
            (limit, text_of(&node, &per_key("10/h", limit)))
        };
        for _ in 0..3 {
            let (limit, text) = next();
            let half = text.len() / 2;
            let since = Stopwatch::start();
            fs::write(real(), &text[..half]).expect("ours");
            pause(Duration::from_millis(100));
            fs::write(real(), &text).expect("ours");
            long_halves += u64::from(since.elapsed() > Duration::from_millis(300));
            await_limit(limit, "in place");
        }
        for n in 0..3 {
            let (limit, text) = next();
            let version = folder.path().join(format!("v{n}"));
            fs::create_dir(&version).expect("ours");
            fs::write(version.join("cluster.toml"), text).expect("ours");
            let fresh = folder.path().join("..data_tmp");
            symlink(format!("v{n}"), &fresh).expect("a link");
            fs::rename(&fresh, folder.path().join("..data")).expect("swapped");
            await_limit(limit, "link");
        }
        for _ in 0..3 {
            let (limit, text) = next();
            let fresh = node.place().config_path().with_extension("new");
            fs::write(&fresh, text).expect("ours");
            fs::rename(&fresh, node.place().config_path()).expect("replaced");
            await_limit(limit, "rename");
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(asker.join().expect("no check failed") > 100);
    });
    let failed = file_of(&node)["failed_reloads"].as_u64().expect("a number");
    assert!(failed <= long_halves, "{failed} failed, {long_halves} halves lay there for long");
}

/// A half that would pass for a whole file, with fewer limits, is not taken for one.
#[test]
fn an_edit_under_way_is_never_in_force() {
    /// What lies there for so long may be met: only on a machine that held this test up.
    const LONG: Duration = Duration::from_millis(300);
    let second = "[[limit]]\nname = \"second\"\nkey = \"*\"\nrate = \"1000000/h\"\n";
    let node = Node::start(&Config::new(&(per_key("10/h", 100) + second)));
    let (is_over, halves) = (AtomicBool::new(false), AtomicUsize::new(0));
    let longest = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut caller = node.caller(Surface::Http);
            let mut peek = check("GET /", "steady").with_op(Op::Peek);
            peek.details = true;
            while !is_over.load(Ordering::Relaxed) {
                halves.fetch_add(usize::from(caller.details(&peek).len() != 2), Ordering::Relaxed);
            }
        });
        let mut longest = Duration::ZERO;
        for limit in 101..106 {
            let half = text_of(&node, &per_key("10/h", limit));
            let since = Stopwatch::start();
            fs::write(node.place().config_path(), &half).expect("ours");
            pause(Duration::from_millis(100));
            fs::write(node.place().config_path(), half + second).expect("ours");
            longest = longest.max(since.elapsed());
            wait_until("the whole is in force", IN_FORCE, || {
                ask(&node, "probe").limit == Some(limit)
            });
        }
        is_over.store(true, Ordering::Relaxed);
        longest
    });
    assert!(halves.into_inner() == 0 || longest > LONG, "a half lay there for {longest:?}");
}

/// A node whose file is a link to one behind a link, as a volume of Kubernetes has it.
fn linked_node(folder: &Path) -> Node {
    let place = Place::new(&Config::new(&per_key("10/h", 100)));
    let (path, first): (PathBuf, _) = (place.config_path(), folder.join("v"));
    fs::create_dir(&first).expect("ours");
    fs::rename(&path, first.join("cluster.toml")).expect("moved");
    symlink("v", folder.join("..data")).expect("a link");
    symlink(folder.join("..data/cluster.toml"), &path).expect("a link");
    place.start()
}

/// LM-11, MT-04: counts of limits that stay go on, those of new ones are there at 0, and those of removed ones
/// end.
#[test]
fn counts_outlive_a_change_of_others() {
    let other =
        |rate: &str| format!("[[limit]]\nname = \"other\"\nkey = \"*\"\nrate = \"{rate}\"\n");
    let steady = per_key("1000000/h", 1_000_000);
    let node = Node::start(&Config::new(&(steady.clone() + &other("1000000/h"))));
    let allowed = |limit: &str| {
        node.metrics().get("rlnode_decisions_total", &[("limit", limit), ("outcome", "allowed")])
    };
    assert_eq!(spend(&node, "alice", 300), 300);
    assert_eq!((allowed("per-key"), allowed("other")), (Some(300), Some(300)));
    let fresh = "[[limit]]\nname = \"fresh\"\nrate = \"1000000/h\"\n";
    assert!(hang_up(&node, &text_of(&node, &(fresh.to_owned() + &steady + &other("2000000/h")))));
    assert_eq!(
        (allowed("per-key"), allowed("other"), allowed("fresh")),
        (Some(300), Some(300), Some(0))
    );
    assert_eq!(spend(&node, "alice", 300), 300);
    assert_eq!((allowed("per-key"), allowed("fresh")), (Some(600), Some(300)));
    assert!(hang_up(&node, &text_of(&node, &steady)));
    assert_eq!((allowed("per-key"), allowed("other"), allowed("fresh")), (Some(600), None, None));
}

/// A hundred files under load: no check fails, each is decided by one file, and every unit is counted.
#[test]
fn a_hundred_reloads_under_load_fail_no_check() {
    let limits = |prefix: &str| {
        format!(
            "[[limit]]\nname = \"{prefix}1\"\nrate = \"1000000/h\"\n\
             [[limit]]\nname = \"total\"\nkey = \"*\"\nrate = \"10000000/h\"\n\
             [[limit]]\nname = \"{prefix}2\"\nrate = \"1000000/h\"\n"
        )
    };
    let node = Node::start(&Config::new(&limits("a")));
    let (is_over, allowed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ask = |surface: Surface, key: String| {
        let mut caller = node.caller(surface);
        let mut request = check("GET /", &key);
        request.details = true;
        while !is_over.load(Ordering::Relaxed) {
            let names: Vec<_> =
                caller.details(&request).into_iter().map(|(name, _)| name).collect();
            let is_a = names == ["a1", "total", "a2"];
            assert!(is_a || names == ["b1", "total", "b2"], "{names:?}");
            allowed.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let ask = &ask;
        let askers: Vec<_> = [Surface::Stream, Surface::Http, Surface::Udp, Surface::Seqpacket]
            .into_iter()
            .map(|surface| scope.spawn(move || ask(surface, format!("{surface:?}"))))
            .collect();
        for n in 0..100 {
            let prefix = if n % 2 == 0 { "b" } else { "a" };
            assert!(hang_up(&node, &text_of(&node, &limits(prefix))));
        }
        is_over.store(true, Ordering::Relaxed);
        askers.into_iter().for_each(|asker| asker.join().expect("no check failed"));
    });
    let counted =
        node.metrics().sum("rlnode_decisions_total", &[("limit", "total"), ("outcome", "allowed")]);
    assert_eq!(counted, allowed.into_inner() as u64);
    assert_eq!(node.metrics().sum("rlnode_checks_total", &[("outcome", "error")]), 0);
}
