//! The recipes of a document: under a heading a file and what it does.

use crate::answer::Expected;
use crate::call::Call;
use crate::time::At;

/// The first line of a table of calls.
const HEAD: &str = "| at | call | answer |";

/// One recipe.
#[derive(Debug)]
pub(crate) struct Recipe<'d> {
    pub(crate) title: &'d str,
    /// The configuration file.
    pub(crate) file: String,
    /// What the wall clock says when its clock begins.
    pub(crate) began_unix_ns: u64,
    pub(crate) rows: Vec<Row<'d>>,
    /// Its rows are at dates.
    has_dates: bool,
}

/// One row of a table of calls.
#[derive(Debug)]
pub(crate) struct Row<'d> {
    pub(crate) line: usize,
    pub(crate) unix_ns: u64,
    pub(crate) call: Call<'d>,
    pub(crate) answer: Expected<'d>,
}

/// Reads a document. A heading with neither file nor table is no recipe.
pub(crate) fn recipes(document: &str) -> Result<Vec<Recipe<'_>>, String> {
    let mut recipes: Vec<Recipe<'_>> = Vec::new();
    let mut lines = (1..).zip(document.lines());
    while let Some((number, line)) = lines.next() {
        let heading = line.strip_prefix("### ").or_else(|| line.strip_prefix("## "));
        if let Some(title) = heading {
            recipes.push(Recipe {
                title,
                file: String::new(),
                began_unix_ns: 0,
                rows: Vec::new(),
                has_dates: false,
            });
        } else if line == "```toml" {
            let Some(recipe) = recipes.last_mut() else {
                return Err(format!("line {number}: a file before the first recipe"));
            };
            let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            inside.for_each(|line| recipe.file.extend([line, "\n"]));
        } else if line == HEAD {
            let Some(recipe) = recipes.last_mut() else {
                return Err(format!("line {number}: calls before the first recipe"));
            };
            lines.next();
            let rows = lines.by_ref().take_while(|(_, line)| line.starts_with('|'));
            for (number, row) in rows {
                recipe.add(number, row).map_err(|fault| format!("line {number}: {fault}"))?;
            }
        }
    }
    recipes.retain(|recipe| !recipe.file.is_empty() || !recipe.rows.is_empty());
    for recipe in &recipes {
        if recipe.file.is_empty() {
            return Err(format!("{}: there is no file", recipe.title));
        }
        if recipe.rows.is_empty() {
            return Err(format!("{}: nothing is asked", recipe.title));
        }
    }
    Ok(recipes)
}

impl<'d> Recipe<'d> {
    fn add(&mut self, line: usize, row: &'d str) -> Result<(), String> {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [at, call, answer] = cells[..] else { return Err("a row has three cells".into()) };
        let At { unix_ns, is_date } = At::read(at).ok_or_else(|| format!("`{at}` is no time"))?;
        match self.rows.last() {
            // Times count from midnight; the first date is when the clock begins.
            None => {
                self.has_dates = is_date;
                self.began_unix_ns = if is_date { unix_ns } else { midnight_ns() };
            }
            Some(_) if is_date != self.has_dates => {
                return Err("a table has dates or times, not both".into());
            }
            Some(before) if unix_ns < before.unix_ns => {
                return Err("it is earlier than the row before".into());
            }
            Some(_) => {}
        }
        let (call, answer) = (Call::read(call)?, Expected::read(answer)?);
        self.rows.push(Row { line, unix_ns, call, answer });
        Ok(())
    }
}

fn midnight_ns() -> u64 {
    At::read("0s").map_or(0, |at| at.unix_ns)
}
