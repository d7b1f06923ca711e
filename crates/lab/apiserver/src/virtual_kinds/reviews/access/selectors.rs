//! Selectors in access reviews. Authorizers with selector support may decide by them; requirements
//! that do not parse are ignored, with an evaluation error.

use machinery::selector::{FieldSelector, LabelSelector};
use serde_json::Value;

/// The ignored requirements as an evaluation error; empty if there are none.
pub(super) fn ignored(resource: &Value) -> String {
    let fields = Reading::of(
        &resource["fieldSelector"],
        |text| FieldSelector::parse(text).is_ok(),
        field_requirement,
    );
    let labels = Reading::of(
        &resource["labelSelector"],
        |text| LabelSelector::parse(text).is_ok(),
        label_requirement,
    );
    let findings = [("fieldSelector", fields), ("labelSelector", labels)];
    let texts: Vec<String> = findings
        .iter()
        .filter_map(|(field, reading)| {
            let how_much = match reading {
                Reading::Whole => return None,
                Reading::Part => "partially ignored",
                Reading::Nothing => "ignored",
            };
            Some(format!(
                "spec.resourceAttributes.{field} {how_much} due to parse error"
            ))
        })
        .collect();
    texts.join("; ")
}

enum Reading {
    Whole,
    Part,
    Nothing,
}

impl Reading {
    fn of(selector: &Value, parses: fn(&str) -> bool, understood: fn(&Value) -> bool) -> Self {
        let raw = selector["rawSelector"].as_str().unwrap_or_default();
        if !raw.is_empty() && !parses(raw) {
            return Self::Nothing;
        }
        let requirements = selector["requirements"].as_array();
        let Some(requirements) = requirements.filter(|list| !list.is_empty()) else {
            return Self::Whole;
        };
        let known = requirements.iter().filter(|one| understood(one)).count();
        match known {
            0 => Self::Nothing,
            known if known < requirements.len() => Self::Part,
            _ => Self::Whole,
        }
    }
}

/// Field requirements support one value, equal or not equal.
fn field_requirement(requirement: &Value) -> bool {
    let values = requirement["values"].as_array().map_or(0, Vec::len);
    matches!(requirement["operator"].as_str(), Some("In" | "NotIn")) && values == 1
}

fn label_requirement(requirement: &Value) -> bool {
    // The other fields have been validated.
    matches!(
        requirement["operator"].as_str(),
        Some("In" | "NotIn" | "Exists" | "DoesNotExist")
    )
}
