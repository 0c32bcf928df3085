//! `rlnode cert`: what an operator runs once for a cluster, and what it must never do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Ended, run, run_in};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

fn text_of(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn mode_of(folder: &Path, file: &str) -> u32 {
    let metadata = fs::metadata(folder.join(file));
    metadata.unwrap_or_else(|error| panic!("{file}: {error}")).permissions().mode() & 0o777
}

/// The lines of the secret in a file of a key.
fn secret_of(folder: &Path, file: &str) -> String {
    let text = text_of(folder, file);
    let after = text.split_once("-----BEGIN RLNODE SECRET-----\n").expect("a secret").1;
    after.split_once("\n-----END RLNODE SECRET-----").expect("its end").0.to_owned()
}

#[track_caller]
fn made(folder: &Path, arguments: &[&str]) -> String {
    let Ended { code, stdout, stderr } = run_in(folder, arguments);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    stdout
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let Ended { code, stdout, stderr } = run_in(folder, arguments);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    stderr
}

/// Two commands make everything that three nodes need, in the current folder.
#[test]
fn two_commands_make_the_files_of_a_cluster() {
    let folder = folder();
    let folder = folder.path();
    let said = made(folder, &["cert", "init"]);
    assert!(said.contains("ca.pem: the authority") && said.contains("ca.key: "), "{said}");
    let said =
        made(folder, &["cert", "issue", "--node", "a", "--node", "b.example", "--node", "c"]);
    assert!(said.contains("b.example.pem, b.example.key: for the node `b.example`"), "{said}");

    let secret = secret_of(folder, "ca.key");
    // Sixteen bytes in base64.
    assert_eq!(secret.len(), 24, "{secret}");
    for node in ["a", "b.example", "c"] {
        assert_eq!(mode_of(folder, &format!("{node}.key")), 0o600);
        assert_eq!(secret_of(folder, &format!("{node}.key")), secret);
        let certificate = text_of(folder, &format!("{node}.pem"));
        assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----\n"), "{certificate}");
    }
    assert_eq!(mode_of(folder, "ca.key"), 0o600);
    let another = self::folder();
    made(another.path(), &["cert", "init"]);
    assert_ne!(secret_of(another.path(), "ca.key"), secret, "two clusters have two secrets");
}

/// A folder of one's own, made with nobody else let in, and one certificate for a whole fleet.
#[test]
fn a_fleet_may_share_a_certificate() {
    let folder = folder();
    let dir = folder.path().join("deep/certs");
    let dir = dir.to_str().expect("text");
    made(folder.path(), &["cert", "init", "--dir", dir]);
    assert_eq!(mode_of(folder.path(), "deep/certs"), 0o700);
    let said = made(folder.path(), &["cert", "issue", "--node", "*", "--dir", dir, "--days", "30"]);
    assert!(said.contains("fleet.key: for any node, which names itself, for 30 days"), "{said}");
    assert_eq!(mode_of(Path::new(dir), "fleet.key"), 0o600);
}

/// A file that is there is never replaced, unless that is asked for.
#[test]
fn nothing_is_replaced_unasked() {
    let folder = folder();
    let folder = folder.path();
    made(folder, &["cert", "init"]);
    made(folder, &["cert", "issue", "--node", "a"]);
    let (authority, key) = (text_of(folder, "ca.key"), text_of(folder, "a.key"));

    let said = refused(folder, &["cert", "init"]);
    assert!(said.contains("`ca.pem` is there already; move it away, or give --force"), "{said}");
    // One name that is taken leaves the others unmade too.
    let said = refused(folder, &["cert", "issue", "--node", "z", "--node", "a"]);
    assert!(said.contains("`a.pem` is there already"), "{said}");
    assert!(!folder.join("z.pem").exists() && !folder.join("z.key").exists());
    fs::remove_file(folder.join("a.pem")).expect("our own file");
    let said = refused(folder, &["cert", "issue", "--node", "a"]);
    assert!(said.contains("`a.key` is there already"), "{said}");
    assert_eq!((text_of(folder, "ca.key"), text_of(folder, "a.key")), (authority, key.clone()));

    fs::set_permissions(folder.join("a.key"), PermissionsExt::from_mode(0o644)).expect("our own");
    made(folder, &["cert", "issue", "--node", "a", "--force"]);
    assert_ne!(text_of(folder, "a.key"), key);
    assert_eq!(mode_of(folder, "a.key"), 0o600);
    assert_eq!(fs::read_dir(folder).expect("a folder").count(), 4, "nothing is left beside");
}

/// What cannot be done says what to do instead.
#[test]
fn faults_are_told_with_what_to_do() {
    let folder = folder();
    let folder = folder.path();
    let said = refused(folder, &["cert", "issue", "--node", "a"]);
    assert!(said.contains("there is no `ca.pem`; make the authority with `rlnode cert init`"));
    made(folder, &["cert", "init"]);
    let cases = [
        ("a/b", "`a/b` is no name for a node"),
        ("", "`` is no name for a node"),
        ("..", "is no name for a node"),
        ("ca", "a node `ca` would have the files of the authority"),
        ("fleet", "a node `fleet` would have the files of `--node '*'`"),
    ];
    for (name, want) in cases {
        let said = refused(folder, &["cert", "issue", "--node", name]);
        assert!(said.contains(want), "{said}");
    }
    let said = refused(folder, &["cert", "issue", "--node", "a", "--node", "a"]);
    assert!(said.contains("`--node a` is there twice"), "{said}");

    fs::write(folder.join("ca.key"), "no key\n").expect("our own file");
    let said = refused(folder, &["cert", "issue", "--node", "a"]);
    assert!(said.contains("`ca.key` does not serve: there is no private key in it"), "{said}");
    assert!(!folder.join("a.pem").exists());

    for wrong in [
        &["cert"][..],
        &["cert", "issue"],
        &["cert", "issue", "--node", "a", "--days", "0"],
        &["cert", "issue", "--node", "a", "--days", "3651"],
    ] {
        assert_eq!(run(wrong).code, Some(2), "{wrong:?}");
    }
}
