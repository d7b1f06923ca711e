//! Source files: their size, their first words, and words that must not be in them.

use std::fs;

use anyhow::Context as _;

use crate::shell;

/// Longer files want to be several.
const MOST_LINES: usize = 700;

/// Marks of unfinished work, and paths of somebody's machine. Written in halves: this file is
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

/// One line for every broken rule.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let files = shell::read(shell::command("git").args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut wrong = Vec::new();
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
            wrong.extend(rust(path, &text));
        }
        if matches!(extension, "rs" | "toml" | "md" | "sh" | "yaml" | "yml") {
            wrong.extend(words(path, &text));
        }
    }
    Ok(wrong)
}

fn rust(path: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let lines = text.lines().count();
    if lines > MOST_LINES {
        wrong.push(format!(
            "{path}: {lines} lines, {MOST_LINES} are the most; split it"
        ));
    }
    if path.ends_with("/mod.rs") {
        wrong.push(format!(
            "{path}: a module's root is a file beside its folder, not mod.rs"
        ));
    }
    // The tests of a module say it in their name.
    if !path.ends_with("/tests.rs") && !text.trim_start().starts_with("//!") {
        wrong.push(format!(
            "{path}: it does not begin by saying what it is for (//!)"
        ));
    }
    wrong
}

fn words(path: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in FORBIDDEN {
            if line.contains(word) {
                wrong.push(format!("{path}:{}: {word:?} must not be here", index + 1));
            }
        }
    }
    wrong
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
        let long = format!("//! Long.\n{}", "\n".repeat(MOST_LINES));
        assert!(rust("a/b.rs", &long)[0].contains("701 lines"));
        let text = format!("fine\n// {} later\n", FORBIDDEN[0]);
        assert!(words("a.rs", &text)[0].starts_with("a.rs:2: "));
    }
}
