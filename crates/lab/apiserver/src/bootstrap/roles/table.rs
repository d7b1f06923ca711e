//! Parser of the table of default roles.

use machinery::meta;
use serde_json::{Map, Value, json};

/// The table.
pub(super) const TEXT: &str = include_str!("default.table");

const GROUP: &str = "rbac.authorization.k8s.io";
/// Prefix of the labels that name the aggregated roles an object belongs to.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// The objects of a table, in its order; an error names the line.
pub(super) fn read(text: &str) -> Result<Vec<Value>, String> {
    let mut objects: Vec<Value> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |why: &str| format!("line {} of the table of roles: {why}", index + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with(' ') {
            objects.extend(begin(line).ok_or_else(|| wrong("no object begins like this"))?);
            continue;
        }
        // A controller's binding comes before its role, to which the following lines belong.
        let object = objects.last_mut().ok_or_else(|| wrong("no object yet"))?;
        add(object, line.trim()).ok_or_else(|| wrong("no part of an object"))?;
    }
    Ok(objects)
}

/// The objects that a line starts; the following lines belong to the last one.
fn begin(line: &str) -> Option<Vec<Value>> {
    let (kind, name) = line.split_once(' ')?;
    Some(match kind {
        "ClusterRole" => vec![object(kind, "", name, json!({"rules": []}))],
        "Role" => {
            let (namespace, name) = name.split_once('/')?;
            vec![object(kind, namespace, name, json!({"rules": []}))]
        }
        "Controller" => {
            let account = name;
            let name = format!("system:controller:{account}");
            let mut binding = binding("ClusterRoleBinding", "", &name, "ClusterRole", &name);
            binding["subjects"] = json!([service_account("kube-system", account)]);
            vec![
                binding,
                object("ClusterRole", "", &name, json!({"rules": []})),
            ]
        }
        "ClusterRoleBinding" => vec![binding(kind, "", name, "ClusterRole", name)],
        "RoleBinding" => {
            let (namespace, rest) = name.split_once('/')?;
            let (name, role) = rest.split_once(" of ").unwrap_or((rest, rest));
            vec![binding(kind, namespace, name, "Role", role)]
        }
        _ => return None,
    })
}

/// Adds a rule, a label or a subject.
fn add(object: &mut Value, line: &str) -> Option<()> {
    if meta::kind(object).ends_with("Binding") {
        let (kind, name) = line.split_once(' ')?;
        let subject = match kind {
            "User" | "Group" => json!({"apiGroup": GROUP, "kind": kind, "name": name}),
            "ServiceAccount" => {
                let (namespace, name) = name.split_once('/')?;
                service_account(namespace, name)
            }
            _ => return None,
        };
        if !object["subjects"].is_array() {
            object["subjects"] = json!([]);
        }
        object["subjects"].as_array_mut()?.push(subject);
        return Some(());
    }
    if let Some(role) = line.strip_prefix("part-of ") {
        meta::set_label(object, &format!("{AGGREGATE}{role}"), Some("true"));
        return Some(());
    }
    if let Some(role) = line.strip_prefix("gathers ") {
        let mut labels = Map::new();
        labels.insert(format!("{AGGREGATE}{role}"), "true".into());
        object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
        // Only a controller writes these.
        object["rules"] = Value::Null;
        return Some(());
    }
    let words = |column: &str| column.split_whitespace().map(str::to_owned).collect();
    let columns: Vec<Vec<String>> = line.split('|').map(words).collect();
    let groups = |names: &[String]| -> Vec<String> {
        let named = names.iter().map(String::as_str);
        let group = |name: &str| if name == "core" { "" } else { name }.to_owned();
        named.map(group).collect()
    };
    let rule = match columns.as_slice() {
        [verbs, urls] => json!({"verbs": verbs, "nonResourceURLs": urls}),
        [verbs, named, resources] => {
            json!({"verbs": verbs, "apiGroups": groups(named), "resources": resources})
        }
        [verbs, named, resources, names] => json!({
            "verbs": verbs,
            "apiGroups": groups(named),
            "resources": resources,
            "resourceNames": names,
        }),
        _ => return None,
    };
    object["rules"].as_array_mut()?.push(rule);
    Some(())
}

fn service_account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}

fn binding(kind: &str, namespace: &str, name: &str, role_kind: &str, role: &str) -> Value {
    let role = json!({"apiGroup": GROUP, "kind": role_kind, "name": role});
    object(kind, namespace, name, json!({"roleRef": role}))
}

/// An object with the fields common to all defaults.
fn object(kind: &str, namespace: &str, name: &str, mut object: Value) -> Value {
    object["apiVersion"] = format!("{GROUP}/v1").into();
    object["kind"] = kind.into();
    object["metadata"] = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}
