//! What the program is, as pages of documentation: `cargo xtask generate` keeps them in `docs/reference`.
//!
//! They are made of what the program itself uses: the command line, the metrics that are registered, and
//! the words that events and conditions are checked against.

mod alerts;
mod cli;
mod metrics;
mod words;

use std::fmt::Write as _;

use crate::process;

/// Where the pages are.
const FOLDER: &str = "docs/reference";

/// All pages, by path.
pub fn references() -> anyhow::Result<Vec<(String, String)>> {
    // Metrics are registered by what has tasks.
    let metrics = process::build_runtime()?.block_on(async { metrics::page() });
    let pages = [
        ("alerts", alerts::page()),
        ("cli", cli::page()),
        ("conditions", words::conditions()),
        ("events", words::events()),
        ("metrics", metrics),
    ];
    let pages = pages.into_iter();
    Ok(pages
        .map(|(name, page)| (format!("{FOLDER}/{name}.md"), page))
        .collect())
}

/// The beginning of a page.
fn begin(title: &str, from: &str) -> String {
    format!("# {title}\n\n<!-- Written by `cargo xtask generate`; edit {from} instead. -->\n")
}

/// A table, with a line between it and what is before.
fn table(page: &mut String, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let _ = write!(
        page,
        "\n| {} |\n|{}\n",
        head.join(" | "),
        "---|".repeat(head.len())
    );
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

/// A word as it is written in code.
fn code(word: &str) -> String {
    format!("`{word}`")
}

/// A sentence, of words that begin one.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    let begun: String = first.into_iter().flatten().chain(letters).collect();
    if begun.is_empty() || begun.ends_with('.') {
        begun
    } else {
        begun + "."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        let path = format!("{FOLDER}/{name}.md");
        let all = references().unwrap();
        all.into_iter().find(|(at, _)| *at == path).unwrap().1
    }

    #[test]
    fn pages_have_what_the_code_has() {
        for (name, parts) in [
            (
                "metrics",
                &[
                    "| `medley_reconcile_total` | counter | `controller`, `result` |",
                    "| `medley_leader` | gauge |  |",
                    "`medley_placement_admission_duration_seconds`",
                    "`kubevirt_cdi_import_progress_total`",
                ][..],
            ),
            (
                "events",
                &[
                    "## medley-governance",
                    "| `LeaderElection` | Normal | Lease |",
                ],
            ),
            (
                "conditions",
                &["## VirtPlatformConfig", "| `TooFewApprovals` | False |"],
            ),
            (
                "alerts",
                &["(../runbooks/MedleyGovernanceDrift.md)", "| warning |"],
            ),
        ] {
            let page = page(name);
            for part in parts {
                assert!(page.contains(part), "{part} in\n{page}");
            }
        }
    }

    #[test]
    fn words_become_sentences() {
        for (text, expected) in [("a b", "A b."), ("A.", "A."), ("", ""), ("é", "É.")] {
            assert_eq!(sentence(text), expected);
        }
    }
}
