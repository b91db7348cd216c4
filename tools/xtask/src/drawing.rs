//! The tables of docs/architecture.md that say which crate may know which.
//!
//! *Crates* gives for each crate its folder, the crates of ours that it may depend on, and the families that it must not
//! reach, directly or through anything it depends on. *Families* says which crates a family is.
//! Not here: what the crates really do; that is [`crate::crate_graph`].

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

/// Where the tables are.
pub const PAGE: &str = "docs/architecture.md";

/// What the document says of one crate.
pub struct Room {
    /// It is of the world `tests`: the tests of others may use it, and nothing that is built.
    pub for_tests: bool,
    /// It is of the world `manners`: every door may use it, and nothing else.
    pub for_doors: bool,
    pub folder: String,
    pub may_use: BTreeSet<String>,
    pub must_not_reach: BTreeSet<String>,
}

/// The two tables of the document.
pub struct Drawing {
    pub rooms: BTreeMap<String, Room>,
    pub families: BTreeMap<String, BTreeSet<String>>,
}

impl Drawing {
    /// Reads the tables of the document.
    ///
    /// # Errors
    /// When a table is missing or a cell says nothing that can be checked.
    pub fn parse(page: &str) -> Result<Self> {
        let mut rooms = BTreeMap::new();
        for row in table(page, "crate-graph")? {
            let [world, names, folder, may_use, must_not] = row.as_slice() else {
                bail!("{PAGE}: a row of the crate table has {} cells instead of 5", row.len());
            };
            let [name] = code(names)[..] else { bail!("{PAGE}: `{names}` names no single crate") };
            let [folder] = code(folder)[..] else { bail!("{PAGE}: {name} has no single folder") };
            let must_not_reach = must_not.split(',').map(str::trim).filter(|word| !["", "–"].contains(word));
            let room = Room {
                for_tests: world == "tests",
                for_doors: world == "manners",
                folder: folder.to_owned(),
                may_use: code(may_use).into_iter().map(str::to_owned).collect(),
                must_not_reach: must_not_reach.map(str::to_owned).collect(),
            };
            if rooms.insert(name.to_owned(), room).is_some() {
                bail!("{PAGE}: {name} is drawn twice");
            }
        }
        let mut families = BTreeMap::new();
        for row in table(page, "crate-families")? {
            let [family, members] = row.as_slice() else { bail!("{PAGE}: a family has two cells") };
            families.insert(family.clone(), code(members).into_iter().map(str::to_owned).collect());
        }
        let drawing = Self { rooms, families };
        for (name, room) in &drawing.rooms {
            if let Some(word) = room.must_not_reach.iter().find(|word| !drawing.families.contains_key(*word))
            {
                bail!("{PAGE}: {name} must not reach `{word}`, which is no family");
            }
        }
        Ok(drawing)
    }

    /// Whether a crate is what doors have in common.
    pub fn is_for_doors(&self, name: &str) -> bool {
        self.rooms.get(name).is_some_and(|room| room.for_doors)
    }

    /// Whether a crate is a tool of tests.
    pub fn is_for_tests(&self, name: &str) -> bool {
        self.rooms.get(name).is_some_and(|room| room.for_tests)
    }
}

/// The cells of the Markdown table between `<!-- NAME -->` and `<!-- /NAME -->`, without its head.
fn table(page: &str, name: &str) -> Result<Vec<Vec<String>>> {
    let between = page.split_once(&format!("<!-- {name} -->")).and_then(|(_, rest)| {
        let (inside, _) = rest.split_once(&format!("<!-- /{name} -->"))?;
        Some(inside)
    });
    let inside = between.with_context(|| format!("{PAGE} has no table between <!-- {name} --> marks"))?;
    let rows = inside.lines().filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|'));
    Ok(rows.skip(2).map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).collect())
}

/// The words in backticks.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
