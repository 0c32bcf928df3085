//! `rlnode demo`: what somebody sees who has nothing but the program.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::process::{Background, RLNODE, rlnode};
use crate::support::{Ended, run_in, wait_until};

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

/// Runs a demo to its end, which takes longer than other commands may.
#[track_caller]
fn run_long(folder: &Path, arguments: &[&str]) -> Ended {
    let said = || tempfile::tempfile().expect("a file");
    let (mut stdout, mut stderr) = (said(), said());
    let end = |file: &File| Stdio::from(file.try_clone().expect("a further descriptor"));
    let mut command = rlnode(&["demo"]);
    command.args(arguments).current_dir(folder).env("TMPDIR", folder);
    command.stdin(Stdio::null()).stdout(end(&stdout)).stderr(end(&stderr));
    let mut child = Background(command.spawn().expect("the program"));
    let mut status = None;
    wait_until("the end of the demo", PATIENCE, || {
        status = child.0.try_wait().expect("a child can be waited for");
        status.is_some()
    });
    let text = |file: &mut File| {
        let mut text = String::new();
        file.rewind().expect("a file goes back");
        file.read_to_string(&mut text).expect("commands print text");
        text
    };
    let code = status.and_then(|status| status.code());
    Ended { code, stdout: text(&mut stdout), stderr: text(&mut stderr) }
}

#[track_caller]
fn shown(folder: &Path, arguments: &[&str]) -> String {
    let Ended { code, stdout, stderr } = run_long(folder, arguments);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(!stdout.contains('\u{1b}'), "codes for a terminal where there is none: {stdout:?}");
    assert_eq!(fs::read_dir(folder).expect("our folder").count(), 0, "something is left behind");
    stdout
}

/// The numbers in the line of `text` that has `words`.
#[track_caller]
fn numbers(text: &str, words: &str) -> Vec<u64> {
    let line = text.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{text}"));
    line.replace(',', "")
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// Every event is told with what came of it, and the fleet holds one limit: nodes that count each for
/// themselves would have let half more through.
#[test]
fn three_nodes_hold_one_limit_in_lines() {
    let folder = folder();
    // Time between the events for nodes that notice late on a busy machine.
    let script = "1s burst, 2s cut c, 8s heal c, 9s lull";
    let text = shown(folder.path(), &["--plain", "--script", script]);
    for words in [
        "3 nodes in this process hold one limit: 200/s, burst 200; seed 1\n",
        "burst: 600 calls at once\n",
        " after burst: ",
        "cut C off\n",
        " after cut C: A and B hold 2/3, C 1/3\n",
        "heal C\n",
        " after heal C: A, B and C hold one limit\n",
        "lull: the callers rest, and the bucket fills\n",
        "; A, B and C synced 3/3\n",
        "worst of all windows: ",
    ] {
        assert!(text.contains(words), "`{words}` is missing:\n{text}");
    }
    let sum = numbers(&text, "calls were admitted;");
    let [admitted, asked, .., allowance] = sum[..] else { panic!("{sum:?}") };
    assert!(allowance >= 200 + 200 * 11, "{text}");
    // What a cut may cost is a part of the burst.
    assert!(admitted <= allowance + 100, "{text}");
    assert!(admitted > 200 && asked > admitted, "{text}");
    let central = numbers(&text, "an exact central limiter")[0];
    assert!(central <= allowance && central >= 200, "{text}");
}

/// A node that was killed comes back with the counts of the others, with any number of nodes.
#[test]
fn a_node_that_is_killed_joins_again() {
    let folder = folder();
    let script = "1s kill b, 7s join b, 7.5s heal a";
    let text = shown(folder.path(), &["--script", script, "--members", "5", "--seed", "7"]);
    for words in [
        "5 nodes in this process hold one limit: 200/s, burst 200; seed 7\n",
        "kill B\n",
        " after kill B: A, C, D and E hold 4/5\n",
        ", B dead\n",
        "start B again\n",
        " after join B: A, B, C, D and E hold one limit\n",
        "heal A: it does not run, or is not cut off\n",
    ] {
        assert!(text.contains(words), "`{words}` is missing:\n{text}");
    }
}

/// The picture for a page is written where it is asked for, and nowhere else.
#[test]
fn the_picture_at_the_end_is_written_as_svg() {
    let folder = folder();
    let path = folder.path().join("demo.svg");
    let file = path.to_str().expect("text");
    let ended = run_long(folder.path(), &["--seconds", "2", "--picture", file]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let svg = fs::read_to_string(&path).expect("the picture");
    assert!(svg.starts_with("<svg ") && svg.contains(">200/s</text>"), "{svg}");
    let nowhere = folder.path().join("no/demo.svg");
    let file = nowhere.to_str().expect("text");
    let ended = run_long(folder.path(), &["--seconds", "1", "--picture", file]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("the picture cannot be written to `"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(folder.path()).expect("our folder").count(), 1);
}

/// What cannot be played is refused before anything starts.
#[test]
fn what_cannot_be_shown_is_refused() {
    let folder = folder();
    let cases = [
        (["--script", "4s cut z"], "step 1 of the script, `4s cut z`: there is no node `z`"),
        (["--members", "6"], "give a number from 2 to 5"),
        (["--seconds", "0"], "0 is not in 1..=3600"),
    ];
    for (arguments, words) in cases {
        let ended = run_in(folder.path(), &[&["demo"], &arguments[..]].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

/// A script that says when the calls have begun, and the word by which it is seen.
const BEGUN: [&str; 2] = ["--script", "50ms lull"];
const BEGUN_WORD: &str = "lull:";

/// A demo at a terminal of its own.
struct AtTerminal {
    child: Background,
    master: File,
    slave: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl AtTerminal {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        let slave = OpenOptions::new().read(true).write(true).open(name).expect("it can be opened");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).expect("it has a size");
        let end = || Stdio::from(slave.try_clone().expect("a further descriptor"));
        let mut command = rlnode(&["demo"]);
        command.args(arguments).env("TMPDIR", folder).env("TERM", "xterm-256color");
        let child: Child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap_or_else(|error| panic!("{RLNODE}: {error}"));
        let master = File::from(master);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, into) = (master.try_clone().expect("a further one"), Arc::clone(&seen));
        // It ends with an error when nobody has the other end open any more.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                into.lock().extend_from_slice(&bytes[..count]);
            }
        });
        Self { child: Background(child), master, slave, seen }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock()).into_owned()
    }

    /// Waits until `word` was drawn. Of several words only what is new is sent.
    #[track_caller]
    fn wait_for_word(&self, word: &str) {
        let what = format!("`{word}` at the terminal");
        wait_until(&what, PATIENCE, || self.text().contains(word));
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.slave).expect("it is a terminal").local_modes;
        !modes.intersects(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Waits for its end, and expects the terminal to be as it was, with the summary on it.
    #[track_caller]
    fn expect_end(mut self) {
        let mut code = None;
        wait_until("the end of the demo", PATIENCE, || {
            code = self.child.0.try_wait().expect("a child can be waited for");
            code.is_some()
        });
        assert_eq!(code.and_then(|status| status.code()), Some(0), "{}", self.text());
        self.wait_for_word("until the peers knew of them");
        assert!(!self.is_raw(), "the terminal is not given back");
        let text = self.text();
        let (begun, ended) = (text.rfind("\u{1b}[?1049h"), text.rfind("\u{1b}[?1049l"));
        assert!(begun.is_some() && begun < ended, "the screen is not given back: {text:?}");
        assert!(text.rfind("\u{1b}[?25l") < text.rfind("\u{1b}[?25h"), "the cursor is gone");
        let summary = text.find("calls were admitted");
        assert!(summary > ended, "the summary is on the screen that is gone");
    }
}

/// At a terminal it draws, takes keys, and gives the terminal back.
#[test]
fn at_a_terminal_keys_make_things_happen() {
    let folder = folder();
    let mut demo = AtTerminal::start(folder.path(), &BEGUN);
    demo.wait_for_word("\u{1b}[?1049h");
    demo.wait_for_word(BEGUN_WORD);
    assert!(demo.is_raw());
    demo.press("1c");
    demo.wait_for_word("off");
    // The first letter of `synced` stays.
    demo.wait_for_word("plit");
    demo.press("q");
    demo.expect_end();
    assert_eq!(fs::read_dir(folder.path()).expect("our folder").count(), 0);
}

/// However it ends, the terminal is given back: by ^C, which is a key there, and by a signal.
#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let folder = folder();
    let mut demo = AtTerminal::start(folder.path(), &BEGUN);
    demo.wait_for_word(BEGUN_WORD);
    demo.press("\u{3}");
    demo.expect_end();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let demo = AtTerminal::start(folder.path(), &BEGUN);
        demo.wait_for_word(BEGUN_WORD);
        kill_process(Pid::from_child(&demo.child.0), signal).expect("the process is ours");
        demo.expect_end();
    }
    assert_eq!(fs::read_dir(folder.path()).expect("our folder").count(), 0);
}
