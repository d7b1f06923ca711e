//! The objects that parametrise a policy.

use std::ops::Bound;

use machinery::selector::LabelSelector;
use serde_json::Value;

use super::{Binding, parts};
use crate::admission::Attributes;
use crate::builtin::value::Read;
use crate::resource::Resource;

/// The parameters a binding names. Without any a policy is evaluated once, with null.
pub(super) fn collect(
    kind: Option<&(String, String)>,
    binding: &Binding,
    attributes: &Attributes<'_>,
) -> Result<Vec<Value>, String> {
    let reference = &binding.param_ref;
    let (Some((api_version, kind)), false) = (kind, reference.is_null()) else {
        return Ok(vec![Value::Null]);
    };
    let misbound = |why: &str| format!("failed to configure binding: {why}");
    let state = &attributes.context.state;
    let snapshot = state.registry.snapshot();
    let (group, version) = parts(api_version);
    let resource = snapshot.find_kind(group, version, kind).ok_or_else(|| {
        format!(
            "failed to configure policy: failed to find resource referenced by paramKind: \
             '{api_version}, Kind={kind}'"
        )
    })?;
    let given = reference.text("namespace");
    let namespace = match (resource.info.namespaced, given) {
        (false, "") => "",
        (false, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(misbound(why));
        }
        (true, "") if attributes.namespace().is_empty() => {
            let why = "cannot use namespaced paramRef in policy binding that matches \
                       cluster-scoped resources";
            return Err(misbound(why));
        }
        (true, "") => attributes.namespace(),
        (true, given) => given,
    };
    let found = match reference.text("name") {
        "" => selected(attributes, resource, namespace, reference.at("selector"))
            .map_err(|why| misbound(&why))?,
        name => {
            let entry = state.store.get(&resource.key(namespace, name));
            entry
                .and_then(|entry| resource.read(&entry).ok())
                .into_iter()
                .collect()
        }
    };
    if found.is_empty() && reference.text("parameterNotFoundAction") == "Deny" {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(misbound(why));
    }
    Ok(found)
}

fn selected(
    attributes: &Attributes<'_>,
    resource: &Resource,
    namespace: &str,
    selector: &Value,
) -> Result<Vec<Value>, String> {
    let selector = LabelSelector::from_label_selector_object(selector)?;
    let page = attributes
        .context
        .state
        .store
        .list(&resource.collection(namespace), Bound::Unbounded, 0, None)
        .map_err(|error| error.to_string())?;
    let objects = page.entries.iter();
    Ok(objects
        .filter_map(|entry| resource.read(entry).ok())
        .filter(|object| selector.matches_object(object))
        .collect())
}
