//! The Envoy of a measurement: a real one, of one thread, with the configuration of `docs/envoy.md` in front
//! of a second listener of its own that answers every request.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::front::{ANSWER, Front, PLAIN, replaced};
use crate::failure::Failure;
use crate::process::{Folder, Process, free_tcp_port, ports};

const PAGE: &str = include_str!("../../../docs/envoy.md");
/// Where the page has its Envoy listen, its application, and the node.
const PAGE_FRONT: &str = "{ address: 127.0.0.1, port_value: 10000 }";
const PAGE_APPLICATION: &str = "{ address: 127.0.0.1, port_value: 8080 }";
const PAGE_NODE: &str = "{ address: 127.0.0.1, port_value: 7481 }";
/// What the page limits by, and the first lines of the route that it does for.
const PAGE_ACTION: &str = "                    - remote_address: {}\n";
const PAGE_ROUTE: &str = "              - match: { prefix: \"/\" }\n";
/// Endpoint and key as the node reads them without a word in its file.
const ACTIONS: &str =
    "                    - request_headers: { header_name: \":method\", descriptor_key: method }
                    - request_headers: { header_name: \":path\", descriptor_key: path }
                    - request_headers: { header_name: x-api-key, descriptor_key: user }\n";

/// Starts `program`, or the one in `PATH`, in front of the node's door at `node`.
///
/// # Errors
/// If there is none, or it does not start.
pub(super) fn start(program: Option<&Path>, node: SocketAddr) -> Result<Front, Failure> {
    let (program, version) = find(program)?;
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let [front, application] = *ports(2, free_tcp_port)? else {
        return Err(Failure::new("no free ports"));
    };
    let (front, application) = (local(front), local(application));
    let folder = Folder::new()?;
    let file = folder.write("envoy.yaml", &conf(front, application, node)?)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(file);
    command.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]);
    let process = Process::start("envoy", &mut command, &folder, None)?;
    Front::ready(process, front, version, folder)
}

/// The program that tells a version, and that.
fn find(named: Option<&Path>) -> Result<(PathBuf, String), Failure> {
    // It is started from another folder.
    let program = named.map_or_else(
        || PathBuf::from("envoy"),
        |path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    );
    let output = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
    let version = output.ok().and_then(|output| {
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, build) = words.split_once("version: ")?;
        Some(format!("envoy/{}", build.split('/').nth(1)?))
    });
    let fail = || {
        let name = program.display();
        Failure::new(format!("cannot run `{name}`; install Envoy, or name it with --envoy"))
    };
    version.map(|version| (program.clone(), version)).ok_or_else(fail)
}

/// The page's configuration with other addresses and the key from a header, a route that asks nobody, and
/// the application.
fn conf(front: SocketAddr, application: SocketAddr, node: SocketAddr) -> Result<String, Failure> {
    let fence = "```yaml\n# envoy.yaml\n";
    let block = PAGE.split_once(fence).and_then(|(_, rest)| rest.split("```").next());
    let block = block.ok_or_else(|| Failure::new("the page of Envoy has no configuration"))?;
    let socket = |at: SocketAddr| format!("{{ address: {}, port_value: {} }}", at.ip(), at.port());
    let plain = format!(
        "              - match: {{ path: \"/{PLAIN}\" }}\n                route: {{ cluster: application }}\n"
    );
    let text = replaced(block, PAGE_FRONT, &socket(front))?;
    let text = replaced(&text, PAGE_APPLICATION, &socket(application))?;
    let text = replaced(&text, PAGE_NODE, &socket(node))?;
    let text = replaced(&text, PAGE_ACTION, ACTIONS)?;
    let text = replaced(&text, PAGE_ROUTE, &format!("{plain}{PAGE_ROUTE}"))?;
    let answering = format!(
        "  - name: application
    address:
      socket_address: {}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: application
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{ prefix: \"/\" }}
                direct_response: {{ status: 200, body: {{ inline_string: {ANSWER:?} }} }}\n",
        socket(application)
    );
    replaced(&text, "  clusters:\n", &format!("{answering}  clusters:\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_changed_where_it_must_be_and_nowhere_else() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = conf(at(1), at(2), at(3)).unwrap();
        for (line, count) in [
            ("      socket_address: { address: 127.0.0.1, port_value: 1 }", 1),
            ("      socket_address: { address: 127.0.0.1, port_value: 2 }", 1),
            ("              socket_address: { address: 127.0.0.1, port_value: 2 }", 1),
            ("              socket_address: { address: 127.0.0.1, port_value: 3 }", 1),
            ("              - match: { path: \"/plain\" }", 1),
        ] {
            assert_eq!(
                text.lines().filter(|it| *it == line).count(),
                count,
                "`{line}` in:\n{text}"
            );
        }
        assert!(text.contains("timeout: 0.02s") && !text.contains("remote_address: {}"), "{text}");
        assert!(text.contains("inline_string: \"ok\\n\""), "{text}");
    }

    #[test]
    fn a_program_that_is_no_envoy_is_named() {
        let failure = find(Some(Path::new("/nonexistent/envoy"))).unwrap_err().to_string();
        assert!(
            failure.contains("`/nonexistent/envoy`") && failure.contains("--envoy"),
            "{failure}"
        );
        assert!(find(Some(Path::new("/bin/true"))).is_err());
    }
}
