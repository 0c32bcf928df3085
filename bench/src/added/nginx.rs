//! The nginx of a measurement: a real one, of one process, with the configuration of the recipe in
//! `docs/recipes/nginx.md` in front of pages that it serves from files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::front::{ANSWER, Front, PLAIN, replaced};
use crate::driver::Address;
use crate::failure::Failure;
use crate::process::{Folder, Process, free_tcp_port};

const RECIPE: &str = include_str!("../../../docs/recipes/nginx.md");
/// Where it is looked for: in `PATH`, and where packages put it, which need not be in there.
const PROGRAMS: [&str; 3] = ["nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"];
/// The node's address in the recipe.
const RECIPE_NODE: &str = "127.0.0.1:7480";
/// What the recipe protects; here it is files.
const RECIPE_APPLICATION: &str = "    proxy_pass http://application;\n";
/// The recipe's key, in the one line that sets it.
const RECIPE_KEY: &str = "X-RateLimit-Key $remote_addr;";
const KEY: &str = "X-RateLimit-Key $http_x_api_key;";
/// Starts `program`, or the one that is found, in front of the node at `node`; `pages` are those that it
/// asks about.
///
/// # Errors
/// If there is none, or it does not start.
pub(super) fn start(
    program: Option<&Path>,
    node: &Address,
    pages: &[&str],
) -> Result<Front, Failure> {
    let (program, version) = find(program)?;
    let folder = Folder::new()?;
    for page in pages.iter().chain(&[PLAIN]) {
        folder.write(page, ANSWER)?;
    }
    let address = SocketAddr::from(([127, 0, 0, 1], free_tcp_port()?));
    folder.write("nginx.conf", &conf(folder.path(), address, node)?)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(folder.path()).args(["-e", "stderr", "-c", "nginx.conf"]);
    let process = Process::start("nginx", &mut command, &folder, None)?;
    Front::ready(process, address, version, folder)
}

/// The first program that tells a version, and that.
fn find(named: Option<&Path>) -> Result<(PathBuf, String), Failure> {
    let candidates = match named {
        // It is started from another folder.
        Some(path) => vec![std::path::absolute(path).unwrap_or_else(|_| path.to_owned())],
        None => PROGRAMS.map(PathBuf::from).to_vec(),
    };
    let found = candidates.into_iter().find_map(|program| {
        let output = Command::new(&program).arg("-v").stdin(Stdio::null()).output().ok()?;
        // It tells its version as if that were an error.
        let words = String::from_utf8_lossy(&output.stderr);
        let version = words.trim().strip_prefix("nginx version: ")?.to_owned();
        Some((program, version))
    });
    found.ok_or_else(|| {
        let name = named.map_or_else(|| PROGRAMS[0].into(), |path| path.display().to_string());
        Failure::new(format!("cannot run `{name}`; install nginx, or name it with --nginx"))
    })
}

/// The whole configuration: files, and in front of all but one of them the recipe.
fn conf(folder: &Path, front: SocketAddr, node: &Address) -> Result<String, Failure> {
    let node = match node {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
        other => return Err(Failure::new(format!("nginx speaks no HTTP to `{other}`"))),
    };
    let upstream = replaced(block("upstream")?, RECIPE_NODE, &node)?;
    let protected = replaced(block("protected")?, RECIPE_APPLICATION, "")?;
    let question = replaced(block("open")?, RECIPE_KEY, KEY)?;
    let root = folder.display();
    Ok(format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\n\
         events {{ worker_connections 2048; }}\n\
         http {{\naccess_log off;\nclient_body_temp_path body;\nproxy_temp_path proxy;\n\
         fastcgi_temp_path fastcgi;\nuwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n\
         keepalive_requests 1000000000;\nkeepalive_timeout 1h;\n\
         open_file_cache max=16 inactive=1h;\nopen_file_cache_valid 1h;\n\
         {upstream}\
         server {{\nlisten {front};\nroot {root};\nlocation = /{PLAIN} {{ }}\n\
         {protected}{question}}}\n}}\n"
    ))
}

/// The block of the recipe whose first line is `# name`.
fn block(name: &str) -> Result<&'static str, Failure> {
    let first_line = format!("# {name}\n");
    let mut blocks = RECIPE.split("```nginx\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find_map(|block| block.strip_prefix(&first_line));
    block.ok_or_else(|| Failure::new(format!("the recipe of nginx has no block `{name}`")))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    use super::*;
    use crate::driver::{Driver, Endpoint, Shape, Tally, Until};
    use crate::keys::{Keys, key_text};

    #[test]
    fn the_recipe_is_changed_where_it_must_be_and_nowhere_else() {
        let front = SocketAddr::from(([127, 0, 0, 1], 80));
        let text = conf(Path::new("/tmp/x"), front, &Address::Unix("/tmp/y.http".into())).unwrap();
        for line in [
            "    server unix:/tmp/y.http max_fails=0;",
            "    auth_request /_rlnode;",
            "    proxy_set_header X-RateLimit-Key $http_x_api_key;",
            "    proxy_read_timeout 20ms;",
            "location = /plain { }",
            "root /tmp/x;",
            "listen 127.0.0.1:80;",
        ] {
            assert_eq!(text.lines().filter(|l| *l == line).count(), 1, "`{line}` in:\n{text}");
        }
        assert!(!text.contains("http://application"), "{text}");
        let udp = Address::Udp(front);
        assert!(conf(Path::new("/"), front, &udp).unwrap_err().to_string().contains("udp://"));
    }

    #[test]
    fn a_program_that_is_no_nginx_is_named() {
        let failure = find(Some(Path::new("/nonexistent/nginx"))).unwrap_err().to_string();
        assert!(
            failure.contains("`/nonexistent/nginx`") && failure.contains("--nginx"),
            "{failure}"
        );
        assert!(find(Some(Path::new("/bin/true"))).is_err());
    }

    /// Whether nothing may be left out, because nobody reads what is said.
    #[expect(clippy::disallowed_methods, reason = "the one place of these tests that reads it")]
    fn is_in_ci() -> bool {
        std::env::var_os("CI").is_some_and(|value| !value.is_empty())
    }

    /// Answers the questions of one connection: yes to the first key, no to all others.
    fn answer(stream: UnixStream) {
        let mut writer = stream.try_clone().unwrap();
        let key = String::from_utf8(key_text(0).to_vec()).unwrap();
        let mut is_first_key = false;
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            is_first_key |= line == format!("X-RateLimit-Key: {key}");
            if line.is_empty() {
                let status = if is_first_key { "200 OK" } else { "403 Forbidden" };
                let head = format!("HTTP/1.1 {status}\r\nX-RateLimit-Limit: 5\r\n");
                let sent = write!(writer, "{head}Content-Length: 0\r\n\r\n");
                if sent.is_err() {
                    return;
                }
                is_first_key = false;
            }
        }
    }

    #[test]
    fn a_real_nginx_asks_about_every_page_but_one() {
        if find(None).is_err() {
            assert!(!is_in_ci(), "nginx is not installed, and in CI it must be");
            let left_out = "\n*** LEFT OUT *** the nginx of the bench: nginx is not installed\n";
            let _ = writeln!(std::io::stderr(), "{left_out}");
            return;
        }
        let folder = Folder::new().unwrap();
        let path = folder.path().join("node.http");
        let listener = UnixListener::bind(&path).unwrap();
        // It ends with the tests.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || answer(stream));
            }
        });
        let nginx = start(None, &Address::Unix(path), &["page"]).unwrap();
        let ask = |endpoint: &Endpoint| -> Tally {
            let shape = Shape { connections: 2, window: 1, checks: 1, checks_per_s: None };
            let mut driver = Driver::open(endpoint, shape, Keys::sequence(0, 4)).unwrap();
            driver.run(Until::Asked(40)).unwrap()
        };
        let plain = ask(&nginx.plain());
        assert_eq!((plain.allowed, plain.denied, plain.failed), (40, 0, 0));
        let checked = ask(&nginx.checked("page"));
        // A busy machine may keep the node from its answer for longer than the recipe waits.
        assert_eq!(checked.allowed + checked.denied + checked.failed, 40);
        assert!(checked.allowed > 0 && checked.allowed <= 10, "{checked:?}");
        assert!(checked.denied > 0 && checked.denied <= 30, "{checked:?}");
        assert!(nginx.cpu_ns().unwrap() > 0);
        nginx.stop().unwrap();
    }
}
