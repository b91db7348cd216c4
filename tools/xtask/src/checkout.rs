//! Where things are: the checkout, its files as git sees them, and the folder that cargo builds into.
//!
//! No path is baked into the binary. With a target folder shared between clones, cargo may reuse an xtask that was
//! built in another clone, and that xtask must work on the clone it is started from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;

/// One clone of the repository.
pub struct Checkout {
    /// The folder of the workspace's Cargo.toml, absolute.
    pub root: PathBuf,
}

impl Checkout {
    /// The checkout that cargo started us in, or else the one around the current folder.
    ///
    /// # Errors
    /// When neither lies in a checkout of rk.
    pub fn find() -> Result<Self> {
        // `cargo run` sets this for the process at run time; it names tools/xtask of the right clone.
        let start = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => std::env::current_dir()?,
        };
        let root = start.ancestors().find(|folder| folder.join("tools/xtask/requirements.txt").is_file());
        let root = root.with_context(|| format!("{} is not in a checkout of rk", start.display()))?;
        Ok(Checkout { root: root.to_owned() })
    }

    /// An absolute path for one relative to the root.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// A cargo command in this checkout; the same cargo that started us.
    pub fn cargo(&self, verb: &str) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.arg(verb).current_dir(&self.root);
        command
    }

    /// The interpreter of the environment that `setup` makes.
    pub fn python(&self) -> PathBuf {
        self.path(".venv/bin/python")
    }

    /// What `cargo metadata` says of the workspace; `arguments` narrow it down.
    ///
    /// # Errors
    /// When cargo fails, for example on a broken manifest.
    pub fn metadata(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.cargo("metadata");
        command.args(["--format-version", "1", "--quiet"]).args(arguments);
        let output = process::capture(&mut command)?;
        serde_json::from_str(&output).context("cargo metadata printed no JSON")
    }

    /// The folder of the release binaries; honours `CARGO_TARGET_DIR`.
    ///
    /// # Errors
    /// When cargo cannot read the workspace.
    pub fn binaries(&self) -> Result<PathBuf> {
        let metadata = self.metadata(&["--no-deps"])?;
        let target =
            metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
        Ok(Path::new(target).join("release"))
    }

    /// All files that are part of the project, relative to the root and sorted: tracked, or new and not ignored.
    ///
    /// # Errors
    /// When this is no git repository.
    pub fn files(&self) -> Result<Vec<String>> {
        let mut command = Command::new("git");
        command.current_dir(&self.root);
        // CI may run as another user than the one who cloned; listing files is safe all the same.
        command.args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let output = process::capture(&mut command)?;
        let exists = |name: &&str| !name.is_empty() && self.path(name).is_file();
        let mut files: Vec<String> = output.split('\0').filter(exists).map(str::to_owned).collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Reads a text file of the project; the error names it.
    pub fn read(&self, relative: impl AsRef<Path>) -> Result<String> {
        let relative = relative.as_ref();
        std::fs::read_to_string(self.path(relative))
            .with_context(|| format!("cannot read {}", relative.display()))
    }

    /// Writes a file of the project so that it appears whole or not at all.
    pub fn write(&self, relative: &str, text: &str) -> Result<()> {
        let path = self.path(relative);
        let Some(folder) = path.parent() else { bail!("{relative} has no folder") };
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder of {relative}"))?;
        let part = path.with_extension("part");
        std::fs::write(&part, text)
            .and_then(|()| std::fs::rename(&part, &path))
            .with_context(|| format!("cannot write {relative}"))
    }
}
