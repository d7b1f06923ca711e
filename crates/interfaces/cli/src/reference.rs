//! Reference documentation: `cargo xtask generate` writes it to `docs/reference`.
//!
//! It is generated from the program itself: the clap commands, the registered metrics, and the
//! declared reasons of events and conditions.

mod alerts;
mod cli;
mod metrics;
mod reasons;

use std::fmt::Write as _;

use crate::process;

/// Directory of the pages.
const FOLDER: &str = "docs/reference";

/// All pages, by path.
pub fn references() -> anyhow::Result<Vec<(String, String)>> {
    // Components register their metrics when they spawn tasks, which needs a runtime.
    let metrics = process::build_runtime()?.block_on(async { metrics::page() });
    let pages = [
        ("alerts", alerts::page()),
        ("cli", cli::page()),
        ("conditions", reasons::conditions()),
        ("events", reasons::events()),
        ("metrics", metrics),
    ];
    let pages = pages.into_iter();
    Ok(pages
        .map(|(name, page)| (format!("{FOLDER}/{name}.md"), page))
        .collect())
}

/// Title and introduction of a page.
fn begin(title: &str, from: &str) -> String {
    format!("# {title}\n\n<!-- Written by `cargo xtask generate`; edit {from} instead. -->\n")
}

/// A table, preceded by an empty line.
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

/// Inline code.
fn code(word: &str) -> String {
    format!("`{word}`")
}

/// Capitalizes the text and ends it with a period.
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
    mod released;

    use super::*;

    fn page(name: &str) -> String {
        let path = format!("{FOLDER}/{name}.md");
        let all = references().unwrap();
        all.into_iter().find(|(at, _)| *at == path).unwrap().1
    }

    #[test]
    fn reference_pages_match_the_code() {
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
    fn sentences_are_capitalized_and_end_with_a_period() {
        for (text, expected) in [("a b", "A b."), ("A.", "A."), ("", ""), ("é", "É.")] {
            assert_eq!(sentence(text), expected);
        }
    }
}
