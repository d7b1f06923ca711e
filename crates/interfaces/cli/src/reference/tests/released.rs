//! Names that users depend on: in scripts, dashboards, alert rules, selectors. A released name stays, or keeps an alias.
//!
//! `released_names.txt` lists them; add the new ones when a release is made. A name that is no longer in the program
//! fails the test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::references;

/// One name a line, sorted: its kind, what it belongs to, and the name.
const RELEASED: &str = include_str!("released_names.txt");

/// Annotations and labels have no reference page; they are string literals.
const KEY: &str = "key ";

#[test]
fn released_names_still_exist() {
    let names = names_in_pages();
    let sources = sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    let missing: Vec<&str> = RELEASED
        .lines()
        .filter(|line| match line.strip_prefix(KEY) {
            Some(key) => !sources.contains(&format!("\"{key}\"")),
            None => !names.contains(*line),
        })
        .collect();
    assert!(
        missing.is_empty(),
        "released names are gone; keep them, or keep an alias:\n{}",
        missing.join("\n")
    );
}

#[test]
fn released_names_are_sorted() {
    let lines: Vec<&str> = RELEASED.lines().collect();
    let sorted: BTreeSet<&str> = lines.iter().copied().collect();
    assert!(lines.iter().eq(&sorted), "sort the list: LC_ALL=C sort -u");
}

/// The names in the reference pages, which are generated from the program.
fn names_in_pages() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (path, page) in references().unwrap() {
        let name = Path::new(&path).file_stem().unwrap().to_str().unwrap();
        let mut section = "";
        for line in page.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title.trim_matches('`');
                if name == "cli" {
                    names.insert(format!("command {section}"));
                }
            }
            match name {
                "alerts" => names.extend(cell(line).map(|it| format!("alert {it}"))),
                "events" => names.extend(cell(line).map(|it| format!("event {section} {it}"))),
                "metrics" => names.extend(metric(line)),
                "conditions" => {
                    names.extend(cell(line).map(|it| format!("reason {section} {it}")));
                    let types = line.strip_prefix("### ").into_iter();
                    let types = types.flat_map(|it| it.split(", "));
                    names.extend(types.map(|it| format!("condition {section} {it}")));
                }
                "cli" => names.extend(flags(section, line)),
                _ => {}
            }
        }
    }
    names
}

/// The code in the first cell of a table row.
fn cell(line: &str) -> Option<&str> {
    let (word, _) = line.strip_prefix("| `")?.split_once('`')?;
    Some(word)
}

/// A metric and its labels.
fn metric(line: &str) -> Vec<String> {
    let Some(name) = cell(line) else {
        return Vec::new();
    };
    let labels = line.split(" | ").nth(2).unwrap_or_default();
    let labels = labels.split(", ").map(|it| it.trim_matches('`'));
    let labels = labels.filter(|it| !it.is_empty());
    let labels = labels.map(|label| format!("metric {name} {label}"));
    labels.chain([format!("metric {name}")]).collect()
}

/// The flags of a command and their environment variable.
fn flags(command: &str, line: &str) -> Vec<String> {
    let argument = line.strip_prefix("* `").and_then(|it| it.split_once('`'));
    let Some((written, help)) = argument else {
        return Vec::new();
    };
    let words = written.split([',', ' ']).filter(|it| it.starts_with('-'));
    let words = words.map(|flag| format!("flag {command} {flag}"));
    let variable = help
        .split_once("[env: ")
        .and_then(|(_, it)| it.split_once(']'));
    let variable = variable.map(|(name, _)| format!("environment {name}"));
    words.chain(variable).collect()
}

/// The text of all sources but tests.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !["tests", "lab", "target"].contains(&name) {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs")
            && !["tests.rs", "released.rs"].contains(&name)
        {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    text
}
