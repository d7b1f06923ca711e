//! Source files: length, leading doc comment, and forbidden words.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::shell;

/// Longer files have to be split.
const MAX_LINES: usize = 700;

/// Markers of unfinished work, and paths of a developer's host. Written in halves, because this file is
/// checked as well.
const FORBIDDEN: [&str; 8] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("HA", "CK:"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
];

/// Words that leave open who acts. CONTRIBUTING.md has the words of the field for them. Checked in comments and prose only: in
/// code they may be names that others chose.
const DROPPED: [&str; 4] = ["nobody", "somebody", "whoever", "told"];

/// One line for every broken rule.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let files = shell::read(shell::command("git").args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut problems = Vec::new();
    for path in files.lines() {
        let full = shell::root().join(path);
        // Deleted but not yet committed, or a folder of another repository.
        if !full.is_file() {
            continue;
        }
        let bytes = fs::read(&full).with_context(|| format!("reading {path}"))?;
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        let extension = path.rsplit('.').next().unwrap_or_default();
        if extension == "rs" {
            problems.extend(rust(path, &text));
        }
        // The glossary names them, and reference pages quote reasons.
        if matches!(extension, "rs" | "md")
            && path != "CONTRIBUTING.md"
            && !path.starts_with("docs/reference/")
            && path != "xtask/src/tidy/sources.rs"
        {
            problems.extend(dropped_words(path, &text));
        }
        if matches!(extension, "rs" | "toml" | "md" | "sh" | "yaml" | "yml") {
            problems.extend(forbidden_words(path, &text));
        }
    }
    Ok(problems)
}

fn rust(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!(
            "{path}: {lines} lines, at most {MAX_LINES} are allowed; split it"
        ));
    }
    if path.ends_with("/mod.rs") {
        problems.push(format!(
            "{path}: a module's root is a file beside its folder, not mod.rs"
        ));
    }
    // A `tests.rs` needs no introduction.
    if !path.ends_with("/tests.rs") && !text.trim_start().starts_with("//!") {
        problems.push(format!(
            "{path}: it does not begin with a doc comment (//!)"
        ));
    }
    problems
}

/// Dropped words in the comments of Rust code, or in the prose of a page.
fn dropped_words(path: &str, text: &str) -> Vec<String> {
    let is_rust = Path::new(path).extension().is_some_and(|it| it == "rs");
    let mut is_block = false;
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("```") {
            is_block = !is_block;
        }
        if (is_rust && !line.starts_with("//")) || (!is_rust && is_block) {
            continue;
        }
        let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '`');
        let words = words.map(str::to_ascii_lowercase);
        for word in words.filter(|word| DROPPED.contains(&word.as_str())) {
            problems.push(format!(
                "{path}:{}: {word:?} leaves open who acts; see the glossary in CONTRIBUTING.md",
                index + 1
            ));
        }
    }
    problems
}

fn forbidden_words(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in FORBIDDEN {
            if line.contains(word) {
                problems.push(format!("{path}:{}: {word:?} is not allowed", index + 1));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rules_are_named_with_their_place() {
        assert_eq!(rust("a/b.rs", "//! Good.\n"), Vec::<String>::new());
        assert_eq!(rust("a/mod.rs", "//! Bad.\n").len(), 1);
        assert_eq!(rust("a/b.rs", "fn main() {}\n").len(), 1);
        assert_eq!(rust("a/tests.rs", "use super::*;\n"), Vec::<String>::new());
        let long = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
        assert!(rust("a/b.rs", &long)[0].contains("701 lines"));
        let text = format!("fine\n// {} later\n", FORBIDDEN[0]);
        assert!(forbidden_words("a.rs", &text)[0].starts_with("a.rs:2: "));
    }

    #[test]
    fn dropped_words_are_found_in_comments_and_prose() {
        let word = DROPPED[0];
        let code = format!("let {word} = 1;\n    // Then {word}, it seems.\n");
        let found = dropped_words("a.rs", &code);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.rs:2: "));
        let page = format!("It is {word}.\n```console\n$ id {word}\n```\nThe reason `{word}`.\n");
        let found = dropped_words("a.md", &page);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
