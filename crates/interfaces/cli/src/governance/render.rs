//! Plans and their items as text.

use ::governance::deviation::describe;
use ::governance::diff;
use ::governance::explain::since;
use ::governance::values::short;
use api::advisor::{DeviationClass, Input, Item};

use crate::output::table;

/// Items as a table.
pub(super) fn items(items: &[Item], wide: bool) -> String {
    let mut headers = vec![
        "ITEM",
        "OPERATION",
        "TARGET",
        "IMPACT",
        "CHANGES",
        "TAKEOVERS",
    ];
    if wide {
        headers.extend(["DEPENDS ON", "FIELDS", "MESSAGE"]);
    }
    table(&headers, items.iter().map(|item| row(item, wide)))
}

fn row(item: &Item, wide: bool) -> Vec<String> {
    let impact = item.impact_severity.map(|impact| impact.to_string());
    let mut row = vec![
        item.name.clone(),
        format!("{:?}", item.operation),
        item.target_ref.to_string(),
        impact.unwrap_or_default(),
        changes(item),
        item.takeovers.len().to_string(),
    ];
    if wide {
        row.extend([
            item.depends_on.join(","),
            item.managed_fields.join(","),
            item.message.clone().unwrap_or_default(),
        ]);
    }
    row
}

/// `+3 -1`: added and removed lines.
pub(super) fn changes(item: &Item) -> String {
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
                "{}:{} from {}{}: {} becomes {}{}",
                item.name,
                takeover.path,
                takeover.manager,
                since(takeover),
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

/// What the API server keeps instead of what items request, one per line.
pub(super) fn deviations(items: &[Item]) -> Vec<String> {
    let lines = |item: &Item| {
        let kept = item.deviations.iter();
        // The diff shows the defaults.
        let kept = kept.filter(|one| one.class != DeviationClass::Defaulted);
        let described = kept.map(describe);
        let described = described.map(|text| format!("{}:{text}", item.name));
        described.collect::<Vec<_>>()
    };
    items.iter().flat_map(lines).collect()
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
