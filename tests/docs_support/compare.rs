//! Compares the output of a command with the one in the page.
//!
//! Values that differ from run to run are masked on both sides: column widths, ages, times, digests,
//! local ports, addresses of pods. `...` matches anything: within a line any text, as a line any number of lines.

use std::sync::LazyLock;

use regex::Regex;

/// Masked patterns and their placeholders. Order matters: an earlier mask hides digits from later ones.
static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\bsha256:[0-9a-f]+(\.\.\.)?", "sha256:DIGEST"),
        (r"\b(127\.0\.0\.1|localhost):(\d+|PORT)\b", "HOST:PORT"),
        (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
        (r"\b[0-9a-f]{12}\b", "HASH"),
        (r"(^|[ (=<>])(\d+(ms|s|m|h|d))+($|[ ,.;:)])", "${1}AGE$4"),
    ]
    .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
    .into()
});

/// Whether the actual output matches the expected lines.
pub(crate) fn same(expected: &[String], actual: &str) -> bool {
    let expected: Vec<String> = lines(expected.iter().map(String::as_str));
    let actual: Vec<String> = lines(actual.lines());
    follows(&expected, &actual)
}

/// Masked lines, without empty ones at both ends.
fn lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = lines.map(masked).collect();
    while all.last().is_some_and(String::is_empty) {
        all.pop();
    }
    let empty = all.iter().take_while(|line| line.is_empty()).count();
    all.drain(..empty);
    all
}

fn masked(line: &str) -> String {
    // Column widths depend on the content; indentation is significant.
    let indent: String = line.chars().take_while(|c| *c == ' ').collect();
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut line = format!("{indent}{}", words.join(" "));
    if words.is_empty() {
        line.clear();
    }
    for (mask, name) in MASKS.iter() {
        line = mask.replace_all(&line, *name).into_owned();
    }
    line
}

fn follows(expected: &[String], actual: &[String]) -> bool {
    match (expected.split_first(), actual.split_first()) {
        (None, actual) => actual.is_none(),
        (Some((first, rest)), actual_first) if first == "..." => {
            follows(rest, actual) || actual_first.is_some_and(|(_, left)| follows(expected, left))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((line, left))) => alike(first, line) && follows(rest, left),
    }
}

fn alike(expected: &str, actual: &str) -> bool {
    if !expected.contains("...") {
        return expected == actual;
    }
    let parts: Vec<String> = expected.split("...").map(regex::escape).collect();
    let pattern = format!("^{}$", parts.join(".*"));
    Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(actual))
}
