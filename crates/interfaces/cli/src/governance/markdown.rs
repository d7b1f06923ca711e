//! Plans as Markdown, for a comment on a pull request.

use std::fmt::Write as _;

use ::governance::diff::is_no_change;
use kube::ResourceExt as _;

use super::planning::{Attempt, Planned};
use super::render;
use crate::output::plural;

/// A hidden line by which a pipeline finds its earlier comment and replaces it.
const MARK: &str = "<!-- medley plan -->";

/// Upper bound of all diffs: GitHub accepts comments of 65,536 characters, and the rest of the comment needs some.
const DIFF_BYTES: usize = 48 << 10;

/// The plans as one comment.
pub(super) fn comment(attempts: &[Attempt]) -> String {
    let mut text = format!("{MARK}\n## Medley plan\n");
    if attempts.is_empty() {
        text.push_str("\nNo configuration is to be planned.\n");
    }
    let mut left = DIFF_BYTES;
    for attempt in attempts {
        match attempt {
            Attempt::Planned(planned) => write_plan(&mut text, planned, &mut left),
            Attempt::Impossible { config, why } => {
                let name = config.name_any();
                let _ = write!(
                    text,
                    "\n### :x: {name}\n\nIt cannot be planned:\n\n{}\n",
                    fenced("text", why)
                );
            }
        }
    }
    text
}

fn write_plan(text: &mut String, planned: &Planned, left: &mut usize) {
    let (name, plan) = (planned.config.name_any(), &planned.plan);
    let changed = plan.items.iter().filter(|item| !item.unchanged).count();
    if plan.changes_nothing {
        let _ = write!(
            text,
            "\n### :white_check_mark: {name}\n\nEverything is already in the desired state.\n"
        );
        return;
    }
    let _ = write!(
        text,
        "\n### :pencil2: {name}\n\n**{changed} change{}, impact {}**, digest `{}`\n\n",
        plural(changed),
        plan.impact,
        plan.digest,
    );
    text.push_str("| item | operation | target | impact | changes |\n|---|---|---|---|---|\n");
    for item in &plan.items {
        let cells = [
            format!("`{}`", item.name),
            format!("{:?}", item.operation),
            escaped(&item.target_ref.to_string()),
            item.impact_severity
                .map(|it| it.to_string())
                .unwrap_or_default(),
            render::changes(item),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    write_list(
        text,
        "Taken over from other managers",
        &render::takeovers(&plan.items),
    );
    write_list(text, "Derived from", &render::inputs(&plan.inputs));
    write_list(text, "Warnings", &plan.warnings);
    for item in &plan.items {
        let Some(diff) = item.diff.as_deref().filter(|diff| !is_no_change(diff)) else {
            continue;
        };
        let shown = match left.checked_sub(diff.len()) {
            Some(rest) => {
                *left = rest;
                fenced("diff", diff)
            }
            None => "Too long for a comment: see `medley diff`.".to_owned(),
        };
        let _ = write!(
            text,
            "\n<details><summary><code>{}</code></summary>\n\n{shown}\n\n</details>\n",
            item.name
        );
    }
}

fn write_list(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(text, "\n**{title}**\n\n");
    for line in lines {
        let _ = writeln!(text, "- {}", escaped(line));
    }
}

/// Text that is not markup: values come from live objects.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if "\\`*_{}[]<>#|@".contains(character) {
            escaped.push('\\');
        }
        escaped.push(if character == '\n' { ' ' } else { character });
    }
    escaped
}

/// A code block, whose fence is longer than any in the text.
fn fenced(language: &str, text: &str) -> String {
    let runs = text.split(|character| character != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or_default().max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::{escaped, fenced};

    #[test]
    fn values_are_no_markup() {
        assert_eq!(escaped("a|b <img>\n@all"), "a\\|b \\<img\\> \\@all");
    }

    #[test]
    fn fence_is_longer_than_those_inside() {
        assert_eq!(fenced("diff", "+a"), "```diff\n+a\n```");
        assert_eq!(fenced("diff", "+```\n"), "````diff\n+```\n````");
    }
}
