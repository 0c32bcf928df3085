//! Socket files: never stolen, never left in the way, and open to exactly who may ask.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::process::{Background, RLNODE};
use crate::support::time::PATIENCE;
use crate::support::{Config, Node, Place, Surface, check, pause, process, wait_until};

fn config() -> Config {
    Config::of_rate("1000/h")
}

/// Everything in the node's folder but its file.
fn left_behind(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.folder()).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    names.map(|name| name.expect("text")).filter(|name| name != "cluster.toml").collect()
}

/// PR-12: the socket files of a crash are in nobody's way.
#[test]
fn a_node_starts_after_a_crash() {
    let place = Place::new(&config());
    place.start().crash();
    assert!(place.socket_path().exists(), "a crash removes nothing");
    let node = place.start();
    for surface in Surface::ALL {
        assert!(node.caller(surface).decide(&check("", "alice")).allowed, "{surface:?}");
    }
}

/// PR-12: a second node at the same path refuses, says why, and the first goes on.
#[test]
fn a_second_node_refuses_and_the_first_goes_on() {
    let place = Place::new(&config());
    let first = place.start();
    first.caller(Surface::Stream).decide(&check("", "alice"));
    let second = place.start_in_vain();
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    assert!(second.stderr.contains("n.sock` is in use"), "{}", second.stderr);
    for (surface, left) in Surface::ALL.into_iter().zip((0..999).rev()) {
        let answer = first.caller(surface).decide(&check("", "alice"));
        assert_eq!(answer.remaining, Some(left), "{surface:?}");
    }
}

/// PR-12: what is not a socket is left as it is, and the node says what it is.
#[test]
fn files_folders_and_links_are_left_alone() {
    for extension in ["sock", "seq", "http"] {
        let place = Place::new(&config());
        let path = place.socket_path().with_extension(extension);
        let refuse = |what: &str| {
            let ended = place.start_in_vain();
            assert_eq!(ended.code, Some(1), "{}", ended.stderr);
            assert!(ended.stderr.contains(what), "{}", ended.stderr);
            assert!(ended.stderr.contains(&path.display().to_string()), "{}", ended.stderr);
        };
        fs::write(&path, "precious").expect("a file");
        refuse("is a file, not a socket");
        assert_eq!(fs::read(&path).expect("it is there"), b"precious");

        let file = place.folder().join("file");
        fs::rename(&path, &file).expect("moved");
        symlink(&file, &path).expect("a link");
        refuse("is a symbolic link, not a socket");
        assert!(path.is_symlink());
        assert_eq!(fs::read(&file).expect("it is there"), b"precious");

        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder");
        refuse("is a directory, not a socket");
        assert!(path.is_dir());
        assert_eq!(left_behind(&place).len(), 2, "{:?}", left_behind(&place));
    }
}

/// PR-12: of two nodes that start at the same moment exactly one wins, in twenty races.
#[test]
fn of_two_that_start_at_once_exactly_one_wins() {
    let place = Place::new(&config());
    for race in 0..20 {
        let mut nodes = [(); 2].map(|()| Node::spawn_unready(place.clone(), place.command()));
        let ready = nodes.each_ref().map(Node::is_ready);
        assert_eq!(ready.iter().filter(|ready| **ready).count(), 1, "race {race}: {ready:?}");
        let loser = nodes.iter_mut().zip(ready).find_map(|(node, ready)| (!ready).then_some(node));
        let ended = loser.expect("a loser").wait(Duration::from_secs(5));
        assert_eq!(ended.code(), Some(1), "race {race}");
    }
}

/// PR-12: a clean stop leaves nothing behind.
#[test]
fn a_clean_stop_leaves_nothing_behind() {
    let place = Place::new(&config());
    let node = place.start();
    assert_eq!(left_behind(&place).len(), 3, "{:?}", left_behind(&place));
    node.stop();
    assert_eq!(left_behind(&place), Vec::<String>::new());
}

/// PR-12: the end of an old node does not take the socket of the one that has its path now.
#[test]
fn an_old_node_leaves_the_socket_of_the_new_one() {
    let place = Place::new(&config());
    let old = place.start();
    for extension in ["sock", "seq", "http"] {
        fs::remove_file(place.socket_path().with_extension(extension)).expect("removed by hand");
    }
    let new = place.start();
    old.stop();
    for surface in Surface::ALL {
        assert!(new.caller(surface).decide(&check("", "alice")).allowed, "{surface:?}");
    }
}

/// A port that is taken is named, with the process that has it.
#[test]
fn a_port_that_is_taken_is_named() {
    let first = Node::start(&config());
    for (setting, address) in [("udp", first.udp()), ("http", first.http())] {
        let taken = Config::of_rate("1/h").listen(&format!("{setting} = \"{address}\""));
        let place = Place::new(&taken);
        let ended = place.start_in_vain();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(&address.to_string()), "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("`{setting}`")), "{}", ended.stderr);
        assert_eq!(left_behind(&place), Vec::<String>::new());
    }
}

/// PR-13: mode and group are those of the file, whatever the umask.
#[test]
fn mode_and_group_are_as_the_file_says_whatever_the_umask() {
    // Any user may give a file to a group of theirs; root may give it to any.
    let groups = rustix::process::getgroups().expect("our groups");
    let own = rustix::process::getgid();
    let group = if rustix::process::geteuid().is_root() {
        12_345
    } else {
        groups.into_iter().find(|group| *group != own).unwrap_or(own).as_raw()
    };
    for umask in ["000", "077"] {
        let listen = format!("unix_mode = 0o660\nunix_group = \"{group}\"");
        let place = Place::new(&Config::of_rate("1/h").listen(&listen));
        let command = place.command_after(&format!("umask {umask}"));
        let node = Node::spawn(place, command);
        for path in [node.stream_path(), node.seqpacket_path(), node.http_path()] {
            let metadata = fs::symlink_metadata(&path).expect("a socket");
            assert!(metadata.file_type().is_socket());
            assert_eq!(metadata.mode() & 0o777, 0o660, "umask {umask}: {}", path.display());
            assert_eq!(metadata.gid(), group, "umask {umask}: {}", path.display());
        }
    }
}

/// PR-13: unless the file says otherwise, only the node's own user may ask.
#[test]
fn sockets_are_the_users_own_by_default() {
    let place = Place::new(&config());
    let command = place.command_after("umask 000");
    let node = Node::spawn(place, command);
    for path in [node.stream_path(), node.seqpacket_path(), node.http_path()] {
        let mode = fs::symlink_metadata(&path).expect("a socket").mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

/// PR-13: another user who tries from before the start never gets in; with a mode that lets
/// everybody in the same attempt succeeds, so it is the mode that keeps them out.
#[test]
fn another_user_never_gets_in() {
    if !rustix::process::geteuid().is_root() {
        process::leave_out("another_user_never_gets_in: only root can become another user");
        return;
    }
    for (mode, gets_in) in [("0o600", false), ("0o660", false), ("0o666", true)] {
        let listen = format!("unix_mode = {mode}");
        let place = Place::new(&Config::with_plenty().listen(&listen));
        fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o755)).expect("a mode");
        // A copy, since the program may lie where the other user cannot go.
        let program = place.folder().join("rlnode");
        fs::copy(RLNODE, &program).expect("a copy of the program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        let attempts = "while :; do \"$0\" check / nobody --addr \"$1\" && exit 0; done";
        let stranger = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh", "-c", attempts])
            .arg(&program)
            .arg(place.socket_path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut stranger = Background(stranger.expect("setpriv is a part of util-linux"));
        let node = place.start();
        if gets_in {
            wait_until("the other user in", PATIENCE, || stranger.has_ended());
        } else {
            pause(Duration::from_millis(700));
            assert!(!stranger.has_ended(), "another user got in at mode {mode}");
            assert_eq!(node.metrics().sum("rlnode_checks_total", &[]), 0, "mode {mode}");
        }
    }
}
