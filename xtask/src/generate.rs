//! `cargo xtask generate`: writes the generated files of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::shell;

/// Folder of the references; it has generated files only.
const REFERENCE: &str = "docs/reference";
/// Folder of the manifests; it has generated files only.
const DEPLOY: &str = "deploy";
/// Prefix of the line before each file.
const FILE: &str = "# file: ";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail if a file is out of date.
    #[arg(long)]
    check: bool,
}

/// Writes or checks all generated files.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut files = split(&example("deploy")?)?;
    files.extend(split(&example("reference")?)?);
    let mut stale = Vec::new();
    for path in [files_below(DEPLOY)?, files_below(REFERENCE)?].concat() {
        if !files.contains_key(&path) {
            stale.push(path);
        }
    }
    files.retain(|path, text| {
        let current = fs::read_to_string(shell::root().join(path));
        current.ok().as_ref() != Some(text)
    });
    if arguments.check {
        let wrong: Vec<&str> = files.keys().chain(&stale).map(String::as_str).collect();
        if !wrong.is_empty() {
            bail!(
                "out of date: {}; write with `cargo xtask generate`",
                wrong.join(", ")
            );
        }
        return Ok(());
    }
    for path in stale {
        fs::remove_file(shell::root().join(&path)).with_context(|| format!("removing {path}"))?;
    }
    for (path, text) in files {
        let full = shell::root().join(&path);
        if let Some(folder) = full.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        fs::write(&full, text).with_context(|| format!("writing {path}"))?;
    }
    Ok(())
}

/// The output of an example program.
///
/// It is built with the whole workspace: alone, its dependencies would have other features, and
/// would be built again.
fn example(name: &str) -> anyhow::Result<String> {
    shell::run(shell::cargo().args(["build", "--quiet", "--workspace", "--example", name]))?;
    shell::read(&mut Command::new(
        shell::target().join("debug/examples").join(name),
    ))
}

/// Splits a text into files by path; the marker lines are dropped.
fn split(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut current: Option<&mut String> = None;
    for line in text.split_inclusive('\n') {
        if let Some(path) = line.strip_prefix(FILE) {
            current = Some(files.entry(path.trim_end().to_owned()).or_default());
        } else {
            match &mut current {
                Some(file) => file.push_str(line),
                None => bail!("the output does not begin with a line {FILE:?}: {line:?}"),
            }
        }
    }
    Ok(files)
}

/// Every file below a folder of the repository, as paths from its root.
fn files_below(folder: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    if !shell::root().join(folder).exists() {
        return Ok(found);
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let full = shell::root().join(&folder);
        for entry in fs::read_dir(&full).with_context(|| format!("reading {folder}"))? {
            let entry = entry.with_context(|| format!("reading {folder}"))?;
            let name = entry.file_name();
            let path = format!("{folder}/{}", Path::new(&name).display());
            if entry.path().is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_split_into_files() {
        let files = split("# file: a/b\none\ntwo\n# file: c\n---\n# file:x\n").unwrap();
        let expected = [("a/b", "one\ntwo\n"), ("c", "---\n# file:x\n")];
        let expected = expected.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(files, BTreeMap::from(expected));
        assert!(split("stray\n").is_err());
    }
}
