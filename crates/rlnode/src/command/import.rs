//! `rlnode import envoy FILE`: the files of another limiter as one of ours.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Output;
use crate::config;
use crate::exit::Exit;
use crate::import::{self, Imported, Source};

/// Largest file that is read, in bytes: as large as ours may be.
const FILE_BYTES_MAX: u64 = config::FILE_BYTES_MAX as u64;

/// Turn the file of another limiter into one of this
#[derive(Debug, Args)]
pub struct Import {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum Format {
    Envoy(Envoy),
}

/// Read the YAML of Envoy's reference rate limit service; exit 0 if all of it that decides is taken over,
/// 1 if some is not, which is told
#[derive(Debug, Args)]
struct Envoy {
    /// YAML, a file for each domain
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file that is written, if it is there already
    #[arg(long, requires = "output")]
    force: bool,
}

impl Import {
    /// Writes our file, and says what of the other it does not hold.
    pub fn run(self, output: &mut Output<'_>) -> Exit {
        let Format::Envoy(envoy) = self.format;
        match envoy.run(output) {
            Ok(exit) => exit,
            Err(error) => {
                output.complain(&error);
                Exit::Error
            }
        }
    }
}

impl Envoy {
    fn run(self, output: &mut Output<'_>) -> Result<Exit, String> {
        let mut texts = Vec::with_capacity(self.files.len());
        for file in &self.files {
            texts.push((file.display().to_string(), read(file)?));
        }
        let sources: Vec<Source<'_>> =
            texts.iter().map(|(name, text)| Source { name, text }).collect();
        let imported = import::envoy(&sources)?;
        for finding in &imported.findings {
            let kind = if finding.decides { "not taken over" } else { "without effect" };
            output.complain(&format_args!("{kind}: {finding}"));
        }
        check(&imported)?;
        match &self.output {
            Some(path) => write(path, &imported.file, self.force)?,
            None => output.print(imported.file.as_bytes()),
        }
        if imported.is_whole() {
            return Ok(Exit::Success);
        }
        output.complain(&"some calls may be decided otherwise than by the files that were read");
        Ok(Exit::Refused)
    }
}

/// That a node takes what was made.
fn check(imported: &Imported) -> Result<(), String> {
    if imported.limits == 0 {
        return Err("there is no limit in it that could be taken over; nothing is written".into());
    }
    let node = config::Node { name: "import".into(), environment: client::Environment::default() };
    config::parse(imported.file.as_bytes(), Path::new("what was made"), &node)
        .map(drop)
        .map_err(|errors| format!("a node would not take it; nothing is written:\n{errors}"))
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| cannot("read", path, &error))?;
    if u64::try_from(read).is_ok_and(|read| read > FILE_BYTES_MAX) {
        return Err(format!("{}: it is larger than {FILE_BYTES_MAX} bytes", path.display()));
    }
    Ok(text)
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true).create(true).create_new(!force);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{}: it is there already; name another, or give --force", path.display())
        }
        _ => cannot("written", path, &error),
    })
}

fn cannot(done: &str, path: &Path, error: &io::Error) -> String {
    format!("{}: it cannot be {done}: {error}", path.display())
}
