//! Whether a command answered what a page shows.
//!
//! What differs from run to run is left out on both sides: widths of columns, ages, times, digests,
//! ports of this machine, addresses of pods. For everything else there is `...`: within a line anything, as a line any lines.

use std::sync::LazyLock;

use regex::Regex;

/// What is not compared, and what stands for it. The order counts.
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

/// Whether the lines that came are those that are shown.
pub(crate) fn same(shown: &[String], came: &str) -> bool {
    let shown: Vec<String> = lines(shown.iter().map(String::as_str));
    let came: Vec<String> = lines(came.lines());
    follows(&shown, &came)
}

/// Lines as they are compared, without empty ones at the ends.
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
    // Widths of columns follow what is in them; beginnings of lines mean something.
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

fn follows(shown: &[String], came: &[String]) -> bool {
    match (shown.split_first(), came.split_first()) {
        (None, came) => came.is_none(),
        (Some((first, rest)), came_first) if first == "..." => {
            follows(rest, came) || came_first.is_some_and(|(_, left)| follows(shown, left))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((line, left))) => alike(first, line) && follows(rest, left),
    }
}

fn alike(shown: &str, came: &str) -> bool {
    if !shown.contains("...") {
        return shown == came;
    }
    let parts: Vec<String> = shown.split("...").map(regex::escape).collect();
    let pattern = format!("^{}$", parts.join(".*"));
    Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(came))
}
