//! `rlnode demo`: nodes in one process that hold one limit together, under uneven calls, while the
//! network between them is cut and they crash and come back.
//!
//! The nodes are real members of a cluster: threads, sockets, QUIC, certificates. What lies between
//! them is a relay, which is how the network is cut. Everything that is shown is measured where the
//! calls are made. It needs no file, listens on loopback alone, and leaves nothing behind.
//!
//! | file | what is there |
//! |---|---|
//! | `stage.rs` | the demo from its begin to its end |
//! | `script.rs`, `traffic.rs` | what happens and when; who calls where and how often |
//! | `papers.rs`, `fleet.rs`, `node.rs` | certificates; the nodes and the network; one node and its callers |
//! | `tally.rs`, `view.rs`, `story.rs` | what the callers saw; what the nodes say; what happened |
//! | `picture.rs`, `chart.rs`, `table.rs`, `pen.rs` | what is drawn |
//! | `screen.rs`, `svg.rs` | the terminal; the picture for a page |
//! | `plain.rs`, `words.rs` | the same in lines, and words for both |

mod chart;
mod fleet;
mod node;
mod papers;
mod pen;
mod picture;
mod plain;
mod screen;
mod script;
mod stage;
mod story;
mod svg;
mod table;
mod tally;
mod traffic;
mod view;
pub(crate) mod words;

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use limiter::{Limit, Plan, PlanError, Quota, Rate, Unmatched};
use member::StartError;
use parking_lot::{Condvar, Mutex};

use crate::certificate::CertificateError;
use chart::Ink;
use fleet::Fleet;
use node::Board;
use plain::Plain;
use screen::Screen;
use script::{Script, ScriptError};
use stage::{Face, Stage};
use words::node_name;

/// Fewest nodes of a demo: one holds a limit by itself.
pub const MEMBERS_MIN: usize = 2;
/// Most nodes: as many as a picture has colours.
pub const MEMBERS_MAX: usize = 5;

/// What the limit of the demo lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    /// Units in a second.
    per_s: u64,
    /// Units of the bucket.
    burst: u64,
}

const OFFER: Offer = Offer { per_s: 200, burst: 200 };
/// Calls in a second to all nodes together: half more than the limit lets through.
const CALLS_PER_S: u64 = OFFER.per_s * 3 / 2;
/// Calls to each node in a burst: the whole bucket.
const BURST_CALLS: u64 = OFFER.burst;
/// Everybody calls the same, so that there is one bucket.
const ENDPOINT: &[u8] = b"GET /";
const KEY: &[u8] = b"everybody";
const NS_PER_S: u64 = 1_000_000_000;
/// How long the nodes may take to find each other.
const WHOLE_WITHIN_NS: u64 = 20 * NS_PER_S;

/// The limit of the demo.
fn plan(offer: Offer) -> Result<Plan, PlanError> {
    let rate = Rate { count: offer.per_s, period_ns: NS_PER_S };
    let quota = Quota::TokenBucket { rate, burst: offer.burst };
    Plan::compile(vec![Limit::new("one-for-all", quota)], Unmatched::Deny)
}

/// What is shown, to whom, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes: [`MEMBERS_MIN`] to [`MEMBERS_MAX`].
    pub members: usize,
    /// Decides who calls where and when.
    pub seed: u64,
    /// When it ends, in seconds since the calls began; none: with the script, or at a terminal when
    /// told to.
    pub seconds: Option<u64>,
    /// What happens: `auto`, `none`, or steps such as `2s burst, 4s cut c`.
    pub script: String,
    /// How it is shown.
    pub face: FaceKind,
    /// Where the picture at the end is written to, as SVG.
    pub picture: Option<PathBuf>,
}

/// How the demo is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceKind {
    /// A picture at the terminal, which takes keys.
    Screen {
        /// In colours; else in shades.
        colours: bool,
    },
    /// Lines, without any codes for a terminal.
    Lines,
}

/// Why there is no demo.
#[derive(Debug)]
pub enum DemoError {
    /// The script cannot be played.
    Script(ScriptError),
    /// The system does not give what is needed.
    System(&'static str, io::Error),
    /// There are no certificates.
    Certificate(CertificateError),
    /// The limit is none.
    Plan(PlanError),
    /// The node of this number does not start.
    Start(usize, StartError),
    /// The nodes do not find each other.
    NotWhole,
    /// The node of this number has failed.
    Failed(usize),
    /// It cannot be shown.
    Show(io::Error),
    /// The picture cannot be written to this file.
    Picture(PathBuf, io::Error),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script(error) => error.fmt(f),
            Self::System(what, error) => write!(f, "the system gives no {what}: {error}"),
            Self::Certificate(error) => write!(f, "there are no certificates: {error}"),
            Self::Plan(error) => write!(f, "the limit of the demo is refused: {error}"),
            Self::Start(index, error) => {
                write!(f, "node `{}` does not start: {error}", node_name(*index))
            }
            Self::NotWhole => write!(
                f,
                "the nodes did not find each other within {} s; is UDP on loopback blocked, or the \
                 machine overloaded?",
                WHOLE_WITHIN_NS / NS_PER_S
            ),
            Self::Failed(index) => write!(f, "node `{}` has failed", node_name(*index)),
            Self::Picture(path, error) => {
                write!(f, "the picture cannot be written to `{}`: {error}", path.display())
            }
            Self::Show(error) => {
                write!(f, "the demo cannot be shown: {error}; try it with --plain")
            }
        }
    }
}

impl std::error::Error for DemoError {}

/// How somebody else than the keys ends the demo.
#[derive(Debug, Default)]
pub struct Interrupt {
    is_told: Mutex<bool>,
    told: Condvar,
}

impl Interrupt {
    /// The demo is to end.
    pub fn tell(&self) {
        *self.is_told.lock() = true;
        self.told.notify_all();
    }

    /// Whether it is.
    fn is_told(&self) -> bool {
        *self.is_told.lock()
    }

    /// Waits until it is, for `patience` at most.
    fn wait(&self, patience: Duration) {
        let mut is_told = self.is_told.lock();
        if !*is_told {
            self.told.wait_for(&mut is_told, patience);
        }
    }
}

/// Shows the demo, and at its end writes to `out` what was measured.
///
/// # Errors
/// See [`DemoError`]. A reader of `out` that is gone is none.
pub fn run(options: &Options, out: &mut dyn Write, interrupt: &Interrupt) -> Result<(), DemoError> {
    match show(options, out, interrupt) {
        Err(DemoError::Show(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn show(options: &Options, out: &mut dyn Write, interrupt: &Interrupt) -> Result<(), DemoError> {
    let script = match options.script.as_str() {
        "auto" => Script::auto(options.members),
        "none" => Script::default(),
        text => Script::parse(text, options.members).map_err(DemoError::Script)?,
    };
    let board = Arc::new(Board::new().map_err(DemoError::Plan)?);
    let fleet = Fleet::start(options.members, options.seed, CALLS_PER_S, &board)?;
    let face = match options.face {
        FaceKind::Screen { colours } => {
            let ink = if colours { Ink::Colour } else { Ink::Plain };
            Face::Screen(Box::new(Screen::open(ink, options.members).map_err(DemoError::Show)?))
        }
        FaceKind::Lines => {
            let Offer { per_s, burst } = OFFER;
            let (members, seed) = (options.members, options.seed);
            let title = format!(
                "{members} nodes in this process hold one limit: {per_s}/s, burst {burst}; seed {seed}"
            );
            writeln!(out, "{title}").map_err(DemoError::Show)?;
            Face::Lines { plain: Plain::default(), out, interrupt }
        }
    };
    let mut stage = Stage::new(fleet, script, face, interrupt, options.seconds);
    stage.gather()?;
    stage.play()?;
    let Some((summary, picture)) = stage.end() else { return Ok(()) };
    if let Some(path) = &options.picture {
        fs::write(path, picture).map_err(|error| DemoError::Picture(path.clone(), error))?;
    }
    writeln!(out, "{summary}").map_err(DemoError::Show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_the_demo_is_one() {
        assert_eq!(plan(OFFER).expect("a plan").rules().len(), 1);
    }

    #[test]
    fn a_script_that_cannot_be_played_starts_nothing() {
        let options = Options {
            members: 3,
            seed: 1,
            seconds: None,
            script: "4s cut d".to_owned(),
            face: FaceKind::Lines,
            picture: None,
        };
        let mut out = Vec::new();
        let error = run(&options, &mut out, &Interrupt::default()).expect_err("no node d");
        assert!(error.to_string().contains("there is no node `d`"), "{error}");
        assert!(out.is_empty());
    }
}
