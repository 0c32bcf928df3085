//! The configuration of `docs/recipes/nginx-lua.md` as it stands there, in the real nginx, and the frames of
//! `contrib/lua` beside those of this house.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use limiter::Request;
use wire::RequestWriter;

use super::front::{Front, LUA, block, config, installed, limits, replaced, silence};
use super::{Application, free_port};
use crate::support::process::leave_out;
use crate::support::{Config, Place};

const PAGE: &str = include_str!("../../../docs/recipes/nginx-lua.md");
/// The page's time-out, and what tests make of it: a machine that runs all of them at once may not run the node
/// for 20 ms.
const TIMEOUT: (&str, &str) = ("timeout_ms = 20,", "timeout_ms = 300,");
const OPEN: &str = "        silent = \"open\",\n";
const MODULES: &str = "/usr/lib/nginx/modules";

/// nginx, where it has the module.
#[track_caller]
fn program() -> Option<PathBuf> {
    let program = installed("nginx")?;
    let module = Path::new(MODULES).join("ngx_http_lua_module.so");
    if !module.exists() {
        leave_out("the Lua module of nginx is not installed");
        return None;
    }
    Some(program)
}

/// A whole file around the page's `http` block and this `server` block.
fn conf(http: &str, server: &str, port: u16, application: Option<&Application>) -> String {
    let modules: String = ["ndk_http_module.so", "ngx_http_lua_module.so"]
        .iter()
        .map(|name| format!("load_module {MODULES}/{name};\n"))
        .collect();
    let upstream = application.map_or(String::new(), |application| {
        format!("upstream application {{ server {}; keepalive 8; }}\n", application.address)
    });
    format!(
        "{modules}daemon off;\nworker_processes 2;\npid nginx.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 256; }}\n\
         http {{\naccess_log off;\nclient_body_temp_path body;\nproxy_temp_path proxy;\n\
         fastcgi_temp_path fastcgi;\nuwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n{upstream}{http}\n\
         server {{\nlisten 127.0.0.1:{port};\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\n{server}}}\n}}\n"
    )
}

/// The page's file, asking the node at `node`; `silent` stands in place of what is done when it is silent.
fn recipe(silent: &str, port: u16, node: SocketAddr, application: &Application) -> String {
    let at = format!("port = {},", node.port());
    let pairs = [TIMEOUT, ("/etc/nginx/lua", LUA), ("port = 7400,", &at), (OPEN, silent)];
    let http = replaced(block(PAGE, "nginx", "http"), &pairs);
    conf(&http, block(PAGE, "nginx", "location"), port, Some(application))
}

#[track_caller]
fn nginx(program: &Path, port: u16, conf: &str) -> Front {
    Front::start(port, &[("nginx.conf", conf)], |folder| {
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).args(["-e", "stderr", "-c", "nginx.conf"]);
        command
    })
}

/// A node whose UDP door has an address that it keeps over restarts.
fn place(config: &Config) -> (Arc<Place>, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    (Place::new(&config.clone().listen(&format!("udp = \"{address}\""))), address)
}

/// What becomes of ten requests when the node is silent, and of ten when it is gone.
#[track_caller]
fn recipe_holds(silent: &str, counts: [[usize; 3]; 2]) {
    let Some(program) = program() else { return };
    let ((place, address), application) = (place(&config()), Application::start());
    let (node, port) = (place.start(), free_port());
    let front = nginx(&program, port, &recipe(silent, port, address, &application));
    limits(&front, &application);
    silence(&front, &place, node, counts);
}

/// A node that is stopped, or gone, lets requests pass.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn nginx_with_lua_limits_and_lets_pass_when_the_node_is_silent() {
    recipe_holds(OPEN, [[10, 0, 0]; 2]);
}

/// The same, but they get 503.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn nginx_with_lua_limits_and_says_503_when_the_node_is_silent() {
    recipe_holds(&OPEN.replace("open", "closed"), [[0, 0, 10]; 2]);
}

/// The same, but nginx counts by itself and lets five through, of all its workers.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn nginx_with_lua_counts_by_itself_when_the_node_is_silent() {
    recipe_holds(block(PAGE, "nginx", "local"), [[5, 5, 0], [0, 10, 0]]);
}

/// One caller without a key does not send the node away for the others.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn a_question_that_cannot_be_meant_says_nothing_of_the_node() {
    let Some(program) = program() else { return };
    let ((place, address), application) = (place(&config()), Application::start());
    let (_node, port) = (place.start(), free_port());
    let silent = OPEN.replace("open", "closed");
    let conf = recipe(&silent, port, address, &application);
    let conf = replaced(&conf, &[("key = ngx.var.remote_addr,", "key = ngx.var.http_x_api_key,")]);
    let front = nginx(&program, port, &conf);
    let mut connection = front.connection();
    for left in (0..4).rev() {
        assert_eq!(connection.get("/page").status, 503);
        let response = connection.request("GET", "/page", &[("X-Api-Key", "alice")], b"");
        assert_eq!(response.status, 200, "{}", front.log.text());
        assert_eq!(response.number("X-RateLimit-Remaining"), left + 1);
    }
}

/// Options that cannot be meant are refused when nginx starts.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn options_that_cannot_be_meant_are_refused_at_the_start() {
    let Some(program) = program() else { return };
    let application = Application::start();
    let address = SocketAddr::from(([127, 0, 0, 1], 7400));
    for (silent, said) in [
        ("silent = \"opne\",", "`silent` is not \"open\", \"closed\" or \"local\""),
        ("silent = \"local\",", "`limit` is not a number from 1 on"),
        ("dict = \"other\",", "`dict` is not the name of a lua_shared_dict"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let conf = recipe(silent, free_port(), address, &application);
        std::fs::write(folder.path().join("nginx.conf"), conf).expect("our own folder");
        let mut command = Command::new(&program);
        command.arg("-p").arg(folder.path()).args(["-e", "stderr", "-c", "nginx.conf"]);
        let ended = crate::support::process::finish(command);
        assert_ne!(ended.code, Some(0));
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
}

/// Lua that nginx runs for each request to `/`.
#[track_caller]
fn said_by_lua(program: &Path, code: &str) -> String {
    let port = free_port();
    let http = format!("lua_package_path \"{LUA}/?.lua;;\";");
    let server = format!("location / {{ content_by_lua_block {{ {code} }} }}\n");
    let front = nginx(program, port, &conf(&http, &server, port, None));
    let response = front.connection().get("/");
    assert_eq!(response.status, 200, "{}", front.log.text());
    response.text()
}

/// The frames of questions are those of the manual and of this house, byte for byte.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn lua_asks_in_the_same_bytes() {
    let Some(program) = program() else { return };
    let said = said_by_lua(
        &program,
        r#"
        local rlnode = require("rlnode")
        local checks = {
            { id = 7, key = "alice", endpoint = "GET /" },
            { id = 2 ^ 48, key = "\0\255", cost = 2 ^ 53,
              attributes = { plan = "pro", ip = "192.0.2.7" } },
            { id = 0, key = ("k"):rep(1024), endpoint = ("e"):rep(1024), cost = 0 },
        }
        for _, check in ipairs(checks) do
            ngx.say((rlnode.question(check):gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
        end
        for _, fault in ipairs({
            { key = "" }, { key = ("k"):rep(1025) }, { cost = -1 }, { cost = 1.5 }, { id = 2 ^ 49 },
            { endpoint = ("e"):rep(1025) }, { attributes = { [""] = "x" } }, { attributes = { x = 1 } },
        }) do
            fault.id = fault.id or 1
            fault.key = fault.key or "k"
            ngx.say(tostring(rlnode.question(fault)))
        end
        "#,
    );
    let (long_key, long_endpoint) = ("k".repeat(1024), "e".repeat(1024));
    let two = Request::check(b"", b"\0\xff")
        .with_unit_cost(b"", 1 << 53)
        .with_attribute(b"ip", b"192.0.2.7")
        .with_attribute(b"plan", b"pro");
    let requests = [
        (7, Request::check(b"GET /", b"alice")),
        (1 << 48, two),
        (0, Request::check(long_endpoint.as_bytes(), long_key.as_bytes()).with_unit_cost(b"", 0)),
    ];
    let mut lines = said.lines();
    for (id, request) in requests {
        assert_eq!(lines.next(), Some(frame_of(id, &request).as_str()), "{id}");
    }
    assert_eq!(lines.collect::<Vec<_>>(), ["nil"; 8]);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn frame_of(id: u64, request: &Request<'_>) -> String {
    let mut frame = Vec::new();
    let mut writer = RequestWriter::new(&mut frame, id);
    writer.check(request, None).expect("it fits");
    writer.finish();
    hex(&frame)
}

/// Answers are read as they are meant, and what is cut short, longer, or none at all is not read as one.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn lua_reads_answers_and_nothing_else() {
    let Some(program) = program() else { return };
    let golden = include_str!("../../../crates/wire/tests/frame/vectors/reply_allowed.hex");
    let golden = golden.lines().filter_map(|line| line.split('#').next());
    let allowed: String = golden.flat_map(str::split_whitespace).collect();
    // Denied for ever: no flag, and all ones for the wait.
    let mut denied = allowed.clone();
    denied.replace_range(46..48, "00");
    denied.replace_range(120..136, &"ff".repeat(8));
    let said = said_by_lua(
        &program,
        &r#"
        local rlnode = require("rlnode")
        local function bytes(hex)
            return (hex:gsub("..", function(c) return string.char(tonumber(c, 16)) end))
        end
        local function say(answer)
            local lines = {}
            for name, value in pairs(rlnode.headers(answer)) do
                lines[#lines + 1] = name .. ": " .. value
            end
            table.sort(lines)
            ngx.say(tostring(answer.allowed), " ", answer.reason, " ", table.concat(lines, ", "))
        end
        local allowed = bytes("ALLOWED")
        say(assert(rlnode.answer(allowed)))
        say(assert(rlnode.answer(bytes("DENIED"))))
        for length = 0, #allowed - 1 do
            assert(rlnode.answer(allowed:sub(1, length)) == nil, length)
        end
        local read = 0
        for at = 1, #allowed do
            for _, value in ipairs({ 0, 1, 127, 255 }) do
                local changed = allowed:sub(1, at - 1) .. string.char(value) .. allowed:sub(at + 1)
                local answer = rlnode.answer(changed)
                if answer then
                    rlnode.headers(answer)
                    read = read + 1
                end
            end
        end
        ngx.say(read > 0)
        "#
        .replace("ALLOWED", &allowed)
        .replace("DENIED", &denied),
    );
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "true ok RateLimit: \"per-key\";r=99;t=1, X-RateLimit-Limit: 100, \
             X-RateLimit-Remaining: 99, X-RateLimit-Reset: 1700000001",
            "false ok RateLimit: \"per-key\";r=99, X-RateLimit-Limit: 100, \
             X-RateLimit-Remaining: 99, X-RateLimit-Reset: 1700000001",
            "true",
        ]
    );
}
