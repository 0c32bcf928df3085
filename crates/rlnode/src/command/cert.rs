//! `rlnode cert init` and `rlnode cert issue`: the certificates of a cluster and its secret.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Output;
use crate::certificate::{self, ANY_NODE, Authority, DEFAULT_NODE_DAYS, Files, SECRET_BYTES};
use crate::clock;
use crate::config::{NODE_NAME_BYTES_MAX, is_node_name};
use crate::exit::Exit;

/// Files of the authority.
const AUTHORITY: &str = "ca";
/// Files of a certificate that is any node's.
const FLEET: &str = "fleet";
/// Largest file that is read, in bytes. Certificates have a few thousand.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Permissions of a file with a private key, and of others.
const PRIVATE_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;
/// Permissions of a folder that is made for an authority's key.
const FOLDER_MODE: u32 = 0o700;

/// Make the certificates that the nodes of a cluster know each other by
#[derive(Debug, Args)]
pub struct Cert {
    #[command(subcommand)]
    command: CertCommand,
}

#[derive(Debug, Subcommand)]
enum CertCommand {
    Init(Init),
    Issue(Issue),
}

/// Make an authority and the cluster's secret: `ca.pem` for every node, `ca.key` for whoever issues
#[derive(Debug, Args)]
struct Init {
    #[command(flatten)]
    place: Place,
}

/// Make `NAME.pem` and `NAME.key` for a node, signed by the authority
#[derive(Debug, Args)]
struct Issue {
    /// Name of the node; repeat it for several. `*` makes `fleet.pem` and `fleet.key`, whose holder
    /// names itself
    #[arg(long = "node", value_name = "NAME", required = true)]
    nodes: Vec<String>,
    /// Days for which it is valid
    #[arg(long, value_name = "DAYS", default_value_t = DEFAULT_NODE_DAYS,
          value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Place {
    /// Folder of the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Replace files that are there already
    #[arg(long)]
    force: bool,
}

impl Cert {
    /// Makes the files, all of them or none that would replace another, and says which.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let made = match self.command {
            CertCommand::Init(init) => init.run(),
            CertCommand::Issue(issue) => issue.run(),
        };
        match made {
            Ok(lines) => {
                lines.iter().for_each(|line| output.say(line));
                Exit::Success
            }
            Err(error) => {
                output.complain(&error);
                Exit::Refused
            }
        }
    }
}

impl Init {
    fn run(self) -> Result<Vec<String>, String> {
        let Place { dir, force } = self.place;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(FOLDER_MODE);
        builder.create(&dir).map_err(|error| cannot("made", &dir, &error))?;
        let names = Names::of(&dir, AUTHORITY);
        names.check_free(force)?;
        let mut secret = [0; SECRET_BYTES];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| format!("the system gives no random numbers: {error}"))?;
        let files = certificate::new_authority(clock::unix_s(), secret);
        names.write(&files.map_err(|error| error.to_string())?, force)?;
        Ok(vec![
            format!("{}: the authority; every node needs it", names.certificate.display()),
            format!(
                "{}: its key and the cluster's secret; no node needs it, keep it safe",
                names.key.display()
            ),
        ])
    }
}

impl Issue {
    fn run(self) -> Result<Vec<String>, String> {
        let Place { dir, force } = self.place;
        let mut files_of: Vec<(&str, Names)> = Vec::with_capacity(self.nodes.len());
        for name in &self.nodes {
            if files_of.iter().any(|(known, _)| known == name) {
                return Err(format!("`--node {name}` is there twice; drop one"));
            }
            files_of.push((name, Names::of(&dir, stem_of(name)?)));
        }
        let authority = read_authority(&dir)?;
        for (_, names) in &files_of {
            names.check_free(force)?;
        }
        let mut lines = Vec::new();
        for (name, names) in &files_of {
            let files = authority.issue(name, clock::unix_s(), self.days);
            names.write(&files.map_err(|error| error.to_string())?, force)?;
            let whose = match *name {
                ANY_NODE => "any node, which names itself".into(),
                name => format!("the node `{name}`"),
            };
            lines.push(format!(
                "{}, {}: for {whose}, for {} days",
                names.certificate.display(),
                names.key.display(),
                self.days
            ));
        }
        Ok(lines)
    }
}

/// What the files of the node `name` are called, before the dot.
fn stem_of(name: &str) -> Result<&str, String> {
    match name {
        ANY_NODE => Ok(FLEET),
        AUTHORITY => Err(format!(
            "a node `{AUTHORITY}` would have the files of the authority; call it otherwise"
        )),
        FLEET => Err(format!(
            "a node `{FLEET}` would have the files of `--node '{ANY_NODE}'`; call it otherwise"
        )),
        name if is_node_name(name) => Ok(name),
        name => Err(format!(
            "`{}` is no name for a node; use 1 to {NODE_NAME_BYTES_MAX} letters, digits, `.`, `_` \
             and `-`, beginning with a letter or digit",
            name.escape_debug()
        )),
    }
}

fn read_authority(dir: &Path) -> Result<Authority, String> {
    let Names { certificate, key } = Names::of(dir, AUTHORITY);
    let read = |path: &Path| match read_bounded(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "there is no `{}`; make the authority with `rlnode cert init`, or name its folder with \
             --dir",
            path.display()
        )),
        read => read.map_err(|error| cannot("read", path, &error)),
    };
    let (certificate_text, key_text) = (read(&certificate)?, read(&key)?);
    Authority::read(&certificate_text, &key_text).map_err(|error| {
        let faulty = match error {
            certificate::CertificateError::Certificate => &certificate,
            _ => &key,
        };
        format!("`{}` does not serve: {error}", faulty.display())
    })
}

fn read_bounded(path: &Path) -> io::Result<String> {
    use io::Read;
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The paths of a certificate and its key.
struct Names {
    certificate: PathBuf,
    key: PathBuf,
}

impl Names {
    fn of(dir: &Path, stem: &str) -> Self {
        // Not `with_extension`: a node's name may have dots.
        let named = |end: &str| match dir == Path::new(".") {
            true => PathBuf::from(format!("{stem}.{end}")),
            false => dir.join(format!("{stem}.{end}")),
        };
        Self { certificate: named("pem"), key: named("key") }
    }

    /// Refuses to go on where a file is in the way.
    fn check_free(&self, force: bool) -> Result<(), String> {
        // A link that leads nowhere is something too.
        let taken =
            [&self.certificate, &self.key].into_iter().find(|path| path.symlink_metadata().is_ok());
        match taken {
            Some(path) if !force => Err(is_there(path)),
            _ => Ok(()),
        }
    }

    /// Writes both files, the key first: a certificate without its key is of no use.
    fn write(&self, files: &Files, force: bool) -> Result<(), String> {
        let both = [
            (&self.key, files.key.as_str(), PRIVATE_MODE),
            (&self.certificate, &files.certificate, PUBLIC_MODE),
        ];
        for (path, text, mode) in both {
            write_file(path, text, mode, force).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => is_there(path),
                _ => cannot("written", path, &error),
            })?;
        }
        Ok(())
    }
}

/// Writes a file that has its final permissions from the first byte, and is never half there under
/// its name where it replaces another.
fn write_file(path: &Path, text: &str, mode: u32, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    if !force {
        let mut file = options.open(path)?;
        file.write_all(text.as_bytes())?;
        return file.sync_all();
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let written = options.open(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if written.is_err() {
        // What is left of it is of no use; the error that matters is the first.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn is_there(path: &Path) -> String {
    format!("`{}` is there already; move it away, or give --force to replace it", path.display())
}

fn cannot(be: &str, path: &Path, error: &io::Error) -> String {
    format!("`{}` cannot be {be}: {error}", path.display())
}
