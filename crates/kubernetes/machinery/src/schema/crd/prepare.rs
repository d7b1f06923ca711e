//! What the server fills in when a CRD is written.

use serde_json::{Map, Value, json};

/// Gives a CRD its defaults: names derived from the kind, no conversion, the port of webhooks.
pub fn default_crd(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let unset = |names: &Map<String, Value>, key: &str| {
            names
                .get(key)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
        };
        if unset(names, "singular") && !kind.is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if unset(names, "listKind") && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let service = spec
        .get_mut("conversion")
        .and_then(|c| c.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut);
    if let Some(service) = service
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), 443.into());
    }
}

fn storage_version(crd: &Value) -> Option<String> {
    let versions = crd.pointer("/spec/versions")?.as_array()?;
    let storage = versions
        .iter()
        .find(|v| v.get("storage") == Some(&true.into()))?;
    storage.get("name")?.as_str().map(str::to_owned)
}

/// Starts the status of a new CRD, whatever the client sent.
pub fn prepare_create(crd: &mut Value) {
    let stored = storage_version(crd).map_or(Value::Null, |name| json!([name]));
    if let Some(crd) = crd.as_object_mut() {
        let status = json!({
            "acceptedNames": {"kind": "", "plural": ""},
            "conditions": null,
            "storedVersions": stored,
        });
        crd.insert("status".to_owned(), status);
    }
}

/// Keeps the status of a changed CRD, and notes a new storage version in it.
pub fn prepare_update(new: &mut Value, old: &Value) {
    let name = storage_version(new);
    let Some(crd) = new.as_object_mut() else {
        return;
    };
    let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
    if let (Some(name), Some(status)) = (name, status.as_object_mut()) {
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if stored.is_null() {
            *stored = json!([]);
        }
        let name = Value::String(name);
        if let Some(stored) = stored.as_array_mut()
            // Never removed here: objects in the old version may still be stored. A storage migrator takes the
            // version away through the status subresource.
            && !stored.contains(&name)
        {
            stored.push(name);
        }
    }
    crd.insert("status".to_owned(), status);
}
