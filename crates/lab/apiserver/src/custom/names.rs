//! Acceptance of a CRD's names (`apiextensions-apiserver/pkg/controller/status`).

use machinery::meta;
use serde_json::{Value, json};

/// The outcome for one CRD.
pub(super) struct Accepted {
    /// Names in use.
    pub(super) names: Value,
    /// The NamesAccepted condition: status, reason, message.
    pub(super) condition: (&'static str, &'static str, String),
}

/// Accepts the names of a CRD, unless another CRD of the group has them.
pub(super) fn accept(definition: &Value, others: &[Value]) -> Accepted {
    let wanted = &definition["spec"]["names"];
    let current = &definition["status"]["acceptedNames"];
    let group = &definition["spec"]["group"];
    let own = meta::name(definition);
    let others: Vec<&Value> = others
        .iter()
        .filter(|other| other["spec"]["group"] == *group && meta::name(other) != own)
        .map(|other| &other["status"]["acceptedNames"])
        .collect();
    let resource_names: Vec<&str> = others
        .iter()
        .flat_map(|names| {
            let short = names["shortNames"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            [names["plural"].as_str(), names["singular"].as_str()]
                .into_iter()
                .flatten()
                .chain(short)
        })
        .collect();
    let kinds: Vec<&str> = others
        .iter()
        .flat_map(|names| {
            [names["kind"].as_str(), names["listKind"].as_str()]
                .into_iter()
                .flatten()
        })
        .collect();
    let taken = |name: &str, used: &[&str]| -> Option<String> {
        (!name.is_empty() && used.contains(&name))
            .then(|| format!("{} is already in use", machinery::json::go_quote(name)))
    };
    let text = |field: &str| wanted[field].as_str().unwrap_or_default();
    let mut names = json!({"plural": "", "kind": ""});
    let mut conflict: Option<(&'static str, String)> = None;
    let mut settle = |field: &str, reason: &'static str, problem: Option<String>, value: Value| {
        match problem {
            None => names[field] = value,
            Some(message) => {
                // Names accepted before are kept.
                if let Some(old) = current.get(field) {
                    names[field] = old.clone();
                }
                // The last conflict is reported, as in
                // `apiextensions-apiserver/pkg/controller/status/naming_controller.go`, which
                // overwrites the condition for each name.
                conflict = Some((reason, message));
            }
        }
    };
    settle(
        "plural",
        "PluralConflict",
        taken(text("plural"), &resource_names),
        text("plural").into(),
    );
    settle(
        "singular",
        "SingularConflict",
        taken(text("singular"), &resource_names),
        text("singular").into(),
    );
    let short = wanted["shortNames"].as_array().cloned().unwrap_or_default();
    let problems: Vec<String> = short
        .iter()
        .filter_map(Value::as_str)
        .filter_map(|name| taken(name, &resource_names))
        .collect();
    if !short.is_empty() {
        let problem = match problems.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        };
        settle("shortNames", "ShortNamesConflict", problem, short.into());
    }
    settle(
        "kind",
        "KindConflict",
        taken(text("kind"), &kinds),
        text("kind").into(),
    );
    settle(
        "listKind",
        "ListKindConflict",
        taken(text("listKind"), &kinds),
        text("listKind").into(),
    );
    if let Some(categories) = wanted.get("categories") {
        names["categories"] = categories.clone();
    }
    let condition = match conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", reason, message),
    };
    Accepted { names, condition }
}
