//! The recipe of `docs/recipes/nginx.md` as it stands there, in the real nginx.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::log::Log;
use crate::support::process::Background;
use crate::support::{Config, HttpConnection, Node, Place, Stopwatch, process, wait_until};

const RECIPE: &str = include_str!("../../docs/recipes/nginx.md");
/// Where packages put it.
const PROGRAMS: [&str; 3] = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
/// The recipe's time-outs, and what the tests make of them: a machine that runs all tests at once may
/// not run the node for 20 ms.
const TIMEOUT: (&str, &str) = ("_timeout 20ms;", "_timeout 400ms;");
const FRONT: &str = "front.sock";
const APPLICATION: &str = "application.sock";

/// The limit of the recipe, and one that shows that method and path arrive.
fn config() -> Config {
    Config::new(
        "[[limit]]\nname = \"per-key\"\nrate = \"100/h\"\n\
         [[limit.override]]\nname = \"search\"\nendpoint = \"POST /search\"\nrate = \"2/h\"\n",
    )
}

/// The block of the recipe whose first line is `# name`.
#[track_caller]
fn block(name: &str) -> &'static str {
    let first_line = format!("# {name}\n");
    RECIPE
        .split("```nginx\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .find_map(|block| block.strip_prefix(&first_line))
        .unwrap_or_else(|| panic!("the recipe has no block `{name}`"))
}

/// What the node's silence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    Open,
    Closed,
    Local,
}

/// The whole configuration: an application, and in front of it the recipe with the node's address.
fn nginx_conf(silence: Silence, node_address: &str) -> String {
    let upstream = block("upstream");
    assert_eq!(upstream.matches("127.0.0.1:7480").count(), 1);
    let mut upstream = upstream.replace("127.0.0.1:7480", node_address);
    let mut protected = block("protected").to_owned();
    let question = match silence {
        Silence::Open => block("open").to_owned(),
        Silence::Local => {
            upstream.push_str(block("local-zone"));
            let (question, _) = block("open").split_once("\n\n").expect("two locations");
            format!("{question}\n{}", block("local-silent"))
        }
        Silence::Closed => {
            let (head, rest) = protected.split_once('\n').expect("several lines");
            protected = format!("{head}\n{}{rest}", block("closed-protected"));
            format!("{}{}", block("closed"), block("closed-unavailable"))
        }
    };
    let (shipped, own) = TIMEOUT;
    assert_eq!(question.matches(shipped).count(), 3);
    let question = question.replace(shipped, own);
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\n\
         events {{ worker_connections 256; }}\n\
         http {{\naccess_log off;\nclient_body_temp_path body;\nproxy_temp_path proxy;\n\
         fastcgi_temp_path fastcgi;\nuwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n\
         upstream application {{ server unix:{APPLICATION}; }}\n{upstream}\
         server {{\nlisten unix:{APPLICATION};\nlocation / {{ return 200 'application'; }}\n\
         location /forbidden {{ return 403 'application'; }}\n}}\n\
         server {{\nlisten unix:{FRONT};\n{protected}{question}}}\n}}\n"
    )
}

/// A running nginx.
struct Nginx {
    process: Background,
    log: Log,
    folder: TempDir,
}

impl Nginx {
    #[track_caller]
    fn start(program: &Path, conf: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        // nginx takes the path of a unix socket from its own folder only if it is absolute.
        let conf = conf.replace("unix:front", &format!("unix:{at}/front"));
        let conf = conf.replace("unix:application", &format!("unix:{at}/application"));
        fs::write(folder.path().join("nginx.conf"), conf).expect("a file in our own folder");
        let mut child = Command::new(program)
            .arg("-p")
            .arg(folder.path())
            .args(["-e", "stderr", "-c", "nginx.conf"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nginx can be run");
        let log = Log::read(child.stderr.take().expect("it is piped"));
        let mut nginx = Self { process: Background(child), log, folder };
        wait_until("nginx listening", Duration::from_secs(5), || {
            assert!(!nginx.process.has_ended(), "nginx ended:\n{}", nginx.log.text());
            HttpConnection::unix(&nginx.front()).is_ok()
        });
        nginx
    }

    fn front(&self) -> PathBuf {
        self.folder.path().join(FRONT)
    }

    fn connection(&self) -> HttpConnection {
        HttpConnection::unix(&self.front()).expect("nginx listens")
    }
}

/// The program; none where it is not installed.
#[track_caller]
fn installed() -> Option<PathBuf> {
    let found = PROGRAMS.iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        process::leave_out("the recipe of nginx: nginx is not installed");
    }
    found
}

/// 100 pass and the rest get 429, each with its headers, and the application is seen by the 100.
#[track_caller]
fn flood(nginx: &Nginx) {
    let mut connection = nginx.connection();
    let stopwatch = Stopwatch::start();
    let (mut passed, mut denied) = (0, 0);
    for _ in 0..130 {
        // What a client says of itself reaches no limit.
        let own = [("X-RateLimit-Key", "another"), ("X-RateLimit-Endpoint", "free")];
        let response = connection.request("GET", "/page?query", &own, b"");
        assert_eq!(response.number("X-RateLimit-Limit"), 100, "{response:?}");
        assert!(response.number("X-RateLimit-Reset") > 1_700_000_000);
        assert_eq!(response.header("RateLimit-Policy"), Some("\"per-key\";q=100;w=3600"));
        let left = response.number("X-RateLimit-Remaining");
        let state = response.header("RateLimit").expect("the header");
        assert!(state.starts_with(&format!("\"per-key\";r={left};t=")), "{state}");
        match response.status {
            200 => {
                assert_eq!(response.text(), "application");
                assert_eq!(response.header("Retry-After"), None);
                assert_eq!(left, 99 - passed);
                passed += 1;
            }
            429 => {
                let wait_s = response.number("Retry-After");
                let least_s = 36_000_u64.saturating_sub(stopwatch.elapsed_ms()).div_ceil(1_000);
                assert!((least_s..=36).contains(&wait_s), "{wait_s}");
                assert_eq!(left, 0);
                assert_eq!(response.header("Content-Type"), Some("application/problem+json"));
                assert_eq!(response.json()["status"], 429);
                denied += 1;
            }
            other => panic!("{other}: {response:?}\n{}", nginx.log.text()),
        }
    }
    assert_eq!((passed, denied), (100, 30));
}

/// Method and path reach the node, bodies the application alone.
#[track_caller]
fn search(nginx: &Nginx) {
    let mut connection = nginx.connection();
    let body = vec![b'x'; 100_000];
    let statuses: Vec<u16> =
        (0..4).map(|_| connection.request("POST", "/search?q=1", &[], &body).status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
}

/// The recipe with a node on TCP, open: a node that is stopped, or gone, lets requests pass.
#[test]
fn the_open_recipe_limits_and_lets_pass_when_the_node_is_silent() {
    let Some(program) = installed() else { return };
    let node = Node::start(&config());
    let nginx = Nginx::start(&program, &nginx_conf(Silence::Open, &node.http().to_string()));
    search(&nginx);
    flood(&nginx);

    node.suspend();
    let stopwatch = Stopwatch::start();
    for _ in 0..3 {
        assert_passes_unlimited(&nginx);
    }
    assert!(stopwatch.elapsed() < Duration::from_secs(3), "{:?}", stopwatch.elapsed());
    node.signal(Signal::CONT);
    node.crash();
    for _ in 0..5 {
        assert_passes_unlimited(&nginx);
    }
}

#[track_caller]
fn assert_passes_unlimited(nginx: &Nginx) {
    let response = nginx.connection().get("/page");
    assert_eq!((response.status, response.text().as_str()), (200, "application"), "{response:?}");
    assert_eq!(response.header("X-RateLimit-Limit"), None);
    assert_eq!(response.header("Retry-After"), None);
}

/// The recipe with a node on its unix socket, closed: silence is 503, and over as soon as the node
/// is back.
#[test]
fn the_closed_recipe_limits_and_says_503_when_the_node_is_silent() {
    let Some(program) = installed() else { return };
    let place = Place::new(&config());
    let node = place.start();
    let address = format!("unix:{}", node.http_path().display());
    let nginx = Nginx::start(&program, &nginx_conf(Silence::Closed, &address));
    search(&nginx);
    flood(&nginx);

    node.suspend();
    assert_unavailable(&nginx);
    node.signal(Signal::CONT);
    node.crash();
    for _ in 0..5 {
        assert_unavailable(&nginx);
    }
    let _node = place.start();
    let response = nginx.connection().get("/page");
    assert_eq!((response.status, response.number("X-RateLimit-Remaining")), (200, 99));
}

#[track_caller]
fn assert_unavailable(nginx: &Nginx) {
    let response = nginx.connection().get("/page");
    assert_eq!(response.status, 503, "{response:?}");
    assert_eq!(response.header("Retry-After"), Some("1"));
    assert_eq!(response.json()["status"], 503);
}

/// The recipe in which nginx counts by itself while the node is silent: five pass, and then one in twelve seconds.
#[test]
fn the_local_recipe_limits_and_counts_when_the_node_is_silent() {
    let Some(program) = installed() else { return };
    let node = Node::start(&config());
    let nginx = Nginx::start(&program, &nginx_conf(Silence::Local, &node.http().to_string()));
    search(&nginx);
    flood(&nginx);

    node.crash();
    let stopwatch = Stopwatch::start();
    let statuses: Vec<_> = (0..12).map(|_| nginx.connection().get("/page").status).collect();
    let (passed, rest) = statuses.split_at(5);
    assert_eq!(passed, [200; 5], "{}", nginx.log.text());
    let came_back = rest.iter().filter(|status| **status == 200).count() as u64;
    assert!(came_back <= stopwatch.elapsed().as_secs() / 12, "{statuses:?}");
    let denied = rest.iter().filter(|status| **status == 429).count() as u64;
    assert_eq!(denied + came_back, 7, "{statuses:?}");
    assert_eq!(nginx.connection().get("/page").header("X-RateLimit-Limit"), None);
}

/// A 403 of the application is the application's.
#[test]
fn the_applications_own_403_is_left_alone() {
    let Some(program) = installed() else { return };
    let node = Node::start(&config());
    let nginx = Nginx::start(&program, &nginx_conf(Silence::Open, &node.http().to_string()));
    let response = nginx.connection().get("/forbidden");
    assert_eq!((response.status, response.text().as_str()), (403, "application"));
    assert_eq!(response.number("X-RateLimit-Remaining"), 99);
}

/// The block that adds an attribute fits into the question.
#[test]
fn an_attribute_can_be_added() {
    let Some(program) = installed() else { return };
    let limits = "[[limit]]\nname = \"per-key\"\nrate = \"1/h\"\n\
                  [[limit.override]]\nattributes = { plan = \"pro\" }\nrate = \"500/h\"\n";
    let node = Node::start(&Config::new(limits));
    let conf = nginx_conf(Silence::Open, &node.http().to_string());
    let question = "proxy_pass_request_body off;\n";
    assert_eq!(conf.matches(question).count(), 1);
    let conf = conf.replace(question, &format!("{question}{}", block("attributes")));
    let nginx = Nginx::start(&program, &conf);
    let pro = nginx.connection().request("GET", "/", &[("X-Plan", "pro")], b"");
    assert_eq!((pro.status, pro.number("X-RateLimit-Limit")), (200, 500));
    assert_eq!(nginx.connection().get("/").number("X-RateLimit-Limit"), 1);
}
