//! `rlnode-sim`: the table of what the cluster must show, and the search for what breaks it.

use std::io::Write;
use std::process::ExitCode;

use limiter::Accuracy;
use sim::attack::finds::{Finds, SIZES};
use sim::attack::{Attack, Effort, Family, Scale, Session, mode_of};
use sim::clock::SECOND;
use sim::search::{self, Class, Common};
use sim::{Algorithm, Scenario, simulate, table};

/// Time between two lines of levels in a replay, in ns.
const PROBE_EVERY_NS: u64 = 20_000_000;

const USAGE: &str = "rlnode-sim runs whole clusters on virtual clocks and a virtual network.

  rlnode-sim table [DEMAND...] [N=SIZE...]    every line of the table, or those of some demands and sizes;
                                              the demand `algorithms`: the same workloads under each
  rlnode-sim search SEEDS [FIRST] [N=SIZE...] [CLASS...] [--algorithm NAME] [--skew MS]
                                              random trouble: every size and class, or some; of a token
                                              bucket, or another algorithm; with wall clocks up to so
                                              far apart
  rlnode-sim attack SEEDS [FIRST] [N=SIZE...] [WORD...]
                                              climbs to the worst schedules that it finds; words:
                                              balanced fast, undisturbed disturbed, large small,
                                              draws=K steps=K (effort of a climb), known (begin at
                                              the committed finds), --as-data date=D commit=C
                                              (print crates/sim/src/attack/finds.txt made anew)
  rlnode-sim found                            prints crates/cluster/src/found.rs, from the finds
  rlnode-sim replay SIZE CLASS SEED [--algorithm NAME] [--skew MS]
                                              one run of the search, or a committed find, with what
                                              its nodes noted
  rlnode-sim replay 'N=...' [--algorithm NAME]
                                              an attack, written out

sizes of a search are 2, 3, 5, 7, 10 and 50; classes are fault-free, delays, large-costs and faults;
classes of attacks are undisturbed and disturbed; algorithms are token-bucket, leaky-bucket, leaky-queue,
fixed-window, sliding-window and sliding-log
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout();
    let mut say = |line: &str| {
        // Whoever reads may have gone; there is nothing else to do for them.
        let _gone = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    match run(&words, &mut say) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(broken) => {
            say(&format!("{broken} broken"));
            ExitCode::FAILURE
        }
        Err(message) => {
            say(&format!("{message}\n\n{USAGE}"));
            ExitCode::from(2)
        }
    }
}

/// Does what `words` ask for, and counts what broke.
fn run(words: &[String], say: &mut impl FnMut(&str)) -> Result<u64, String> {
    let (command, words) = words.split_first().ok_or("say what to do")?;
    let (common, words) = common(words)?;
    let sizes: Vec<usize> = words.iter().filter_map(|word| size(word)).collect();
    let rest: Vec<String> = words.iter().filter(|word| size(word).is_none()).cloned().collect();
    match command.as_str() {
        "table" => {
            let sizes = if sizes.is_empty() { table::SIZES.to_vec() } else { sizes };
            table::print(&rest, &sizes, say).map(|findings| findings as u64)
        }
        "search" => {
            let numbers: Vec<u64> = rest.iter().filter_map(|word| word.parse().ok()).collect();
            let words = rest.iter().filter(|word| word.parse::<u64>().is_err());
            let classes: Vec<Class> = words.map(|word| class(word)).collect::<Result<_, _>>()?;
            let classes = if classes.is_empty() { Class::ALL.to_vec() } else { classes };
            let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
            let seeds = *numbers.first().ok_or("say how many seeds")?;
            let first = numbers.get(1).copied().unwrap_or(0);
            search::search(common, &sizes, &classes, (first, seeds), say)
        }
        "attack" => attack(&rest, sizes, say),
        "found" => {
            let finds = Finds::committed()?;
            say(finds.code()?.trim_end());
            Ok(0)
        }
        "replay" if words.iter().any(|word| word.contains(' ')) => {
            let text = words.iter().find(|word| word.contains(' ')).ok_or("say an attack")?;
            replay(Attack::parse(text)?.scenario_to_rest().by(common.algorithm), say)
        }
        "replay" => {
            let [size, word, seed] = rest.as_slice() else {
                return Err("say a size, a class and a seed".into());
            };
            let size = size.parse().map_err(|_| format!("`{size}` is no size"))?;
            let seed = seed.parse().map_err(|_| format!("`{seed}` is no seed"))?;
            if Family::from_word(word).is_none() {
                return replay(common.scenario(size, class(word)?, seed), say);
            }
            let finds = Finds::committed()?;
            let none = || format!("no find is `{size} {word} {seed}`");
            let find = finds.named(size, word, seed).ok_or_else(none)?;
            replay(find.scenario().by(common.algorithm), say)
        }
        other => Err(format!("there is no command `{other}`")),
    }
}

/// What `--algorithm` and `--skew` say, and the other words.
fn common(words: &[String]) -> Result<(Common, Vec<String>), String> {
    let mut common = Common::of(Algorithm::TokenBucket);
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--algorithm" => {
                let name = value()?;
                common.algorithm = Algorithm::from_word(name)
                    .ok_or_else(|| format!("there is no algorithm `{name}`"))?;
            }
            "--skew" => {
                let ms = value()?;
                common.skew_ms = ms.parse().map_err(|_| format!("`{ms}` is no time in ms"))?;
            }
            _ => rest.push(word.clone()),
        }
    }
    Ok((common, rest))
}

/// The size in `N=SIZE`.
fn size(word: &str) -> Option<usize> {
    word.strip_prefix("N=")?.parse().ok()
}

fn class(word: &str) -> Result<Class, String> {
    Class::from_word(word).ok_or_else(|| format!("there is no class `{word}`"))
}

/// Climbs as `words` say.
fn attack(words: &[String], sizes: Vec<usize>, say: &mut impl FnMut(&str)) -> Result<u64, String> {
    let mut finds = Finds::committed()?;
    let mut session = Session {
        sizes: if sizes.is_empty() { SIZES.to_vec() } else { sizes },
        families: Vec::new(),
        accuracies: Vec::new(),
        scales: Vec::new(),
        seeds: (0, 0),
        effort: Effort { draws: 60, steps: 240 },
        is_from_known: false,
    };
    let (mut numbers, mut is_data) = (Vec::new(), false);
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse().map_err(|_| format!("`{word}` has no number"));
        match name {
            "draws" => session.effort.draws = number()?,
            "steps" => session.effort.steps = number()?,
            "date" => finds.searched.date = value.into(),
            "commit" => finds.searched.commit = value.into(),
            "known" => session.is_from_known = true,
            "--as-data" => is_data = true,
            _ if let Ok(number) = name.parse() => numbers.push(number),
            _ if let Some(family) = Family::from_word(name) => session.families.push(family),
            _ if let Some(mode) = mode_of(name) => session.accuracies.push(mode),
            _ if let Some(scale) = Scale::from_word(name) => session.scales.push(scale),
            _ => return Err(format!("an attack has no `{word}`")),
        }
    }
    all_if_none(&mut session.families, &Family::ALL);
    all_if_none(&mut session.accuracies, &[Accuracy::Balanced, Accuracy::Fast]);
    all_if_none(&mut session.scales, &Scale::ALL);
    let seeds = *numbers.first().ok_or("say how many seeds")?;
    session.seeds = (numbers.get(1).copied().unwrap_or(0), seeds);
    let broken = session.run(&mut finds, |line| {
        // Lines between data are comments.
        say(&if is_data { format!("# {line}") } else { line.to_owned() });
    })?;
    if is_data {
        say(finds.measured()?.to_string().trim_end());
    }
    Ok(broken)
}

fn all_if_none<T: Copy>(some: &mut Vec<T>, all: &[T]) {
    if some.is_empty() {
        some.extend_from_slice(all);
    }
}

fn replay(mut scenario: Scenario, say: &mut impl FnMut(&str)) -> Result<u64, String> {
    scenario.keep_notes = true;
    scenario.probes =
        (1..scenario.last_ns() / PROBE_EVERY_NS).map(|k| k * PROBE_EVERY_NS).collect();
    say(&format!("{:?}", scenario.truth));
    say(&format!("{:?}", scenario.script));
    say(&format!("{:?}", scenario.lines));
    let (record, report) = simulate(&scenario)?;
    for (at_ns, node, note) in &record.notes {
        let at_ms = record.scenario_ns(*at_ns) / (SECOND.cast_signed() / 1000);
        say(&format!("{at_ms} ms node {node}: {note}"));
    }
    let per_unit = record.excess.first().map_or(1, |excess| i128::from(excess.per_unit.max(1)));
    for probe in &record.probes {
        let levels: Vec<i128> = probe.levels.iter().map(|level| level / per_unit).collect();
        let at_ms = probe.at_ns / 1_000_000;
        say(&format!("{at_ms} ms: {} left, believed: {levels:?}", probe.truth / per_unit));
    }
    for (at_ns, what) in &record.broken {
        say(&format!("BROKEN at {} ms: {what}", at_ns / 1_000_000));
    }
    for what in &record.stuck {
        say(&format!("STUCK: {what}"));
    }
    say(&format!("{report:#?}\ntrace {:016x}", record.trace.hash()));
    Ok((record.broken.len() + record.stuck.len()) as u64)
}
