//! Plans and their items as text.

use std::fmt::Write as _;

use ::governance::diff;
use ::governance::values::short;
use api::advisor::{Input, Item, Operation};

use super::output::table;

/// Items as a table.
pub(super) fn items(items: &[Item], wide: bool) -> String {
    if wide {
        let rows = items.iter().map(|item| {
            let [name, operation, target, impact, changes, takeovers] = cells(item);
            [
                name,
                operation,
                target,
                impact,
                changes,
                takeovers,
                item.depends_on.join(","),
                item.managed_fields.join(","),
                item.message.clone().unwrap_or_default(),
            ]
        });
        return table(
            [
                "ITEM",
                "OPERATION",
                "TARGET",
                "IMPACT",
                "CHANGES",
                "TAKEOVERS",
                "DEPENDS ON",
                "FIELDS",
                "MESSAGE",
            ],
            rows.collect(),
        );
    }
    table(
        [
            "ITEM",
            "OPERATION",
            "TARGET",
            "IMPACT",
            "CHANGES",
            "TAKEOVERS",
        ],
        items.iter().map(cells).collect(),
    )
}

fn cells(item: &Item) -> [String; 6] {
    let operation = match item.operation {
        Operation::Apply => "Apply",
        Operation::Restore => "Restore",
        Operation::Delete => "Delete",
    };
    [
        item.name.clone(),
        operation.to_owned(),
        item.target_ref.to_string(),
        item.impact_severity
            .map(|impact| impact.to_string())
            .unwrap_or_default(),
        changes(item),
        item.takeovers.len().to_string(),
    ]
}

/// `+3 -1`: added and removed lines.
fn changes(item: &Item) -> String {
    let Some(text) = item
        .diff
        .as_deref()
        .filter(|text| !diff::is_no_change(text))
    else {
        return String::new();
    };
    let hunks = || text.lines().skip_while(|line| !line.starts_with("@@"));
    let count = |sign: char| hunks().filter(|line| line.starts_with(sign)).count();
    format!("+{} -{}", count('+'), count('-'))
}

/// The fields that items take over from other managers, one per line.
pub(super) fn takeovers(items: &[Item]) -> Vec<String> {
    let mut lines = Vec::new();
    for item in items {
        for takeover in &item.takeovers {
            lines.push(format!(
                "{}:{} from {}: {} becomes {}{}",
                item.name,
                takeover.path,
                takeover.manager,
                short(takeover.live.as_ref()),
                short(takeover.wanted.as_ref()),
                if takeover.reclaimed {
                    " (owned by Medley before)"
                } else {
                    ""
                },
            ));
        }
    }
    lines
}

/// The inputs a plan was derived from, one per line.
pub(super) fn inputs(inputs: &[Input]) -> Vec<String> {
    inputs
        .iter()
        .map(|input| {
            format!(
                "{} is {}: {} of {} is {}",
                input.name,
                short(Some(&input.derived)),
                input.path,
                input.object,
                short(input.raw.as_ref()),
            )
        })
        .collect()
}

/// Lines under a title; empty if there are none.
pub(crate) fn section(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}:\n");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text
}
