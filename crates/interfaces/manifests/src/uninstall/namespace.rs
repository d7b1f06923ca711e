//! Whether the namespace of the installation goes, too: only if it came with Medley and nothing else is in it.

use serde_json::Value;

use super::{
    Change, InstalledState, Kept, ObjectRef, Phase, Step, UninstallOptions, is_helms, is_kind,
    is_terminating, listed, mark, step,
};
use crate::{MEDLEY, PART_OF};

/// The step that deletes it; or why it stays.
pub(super) fn plan(
    state: &InstalledState,
    options: UninstallOptions,
    steps: &[Step],
    kept: &mut Vec<Kept>,
) -> Option<Step> {
    let mut objects = state.objects.iter();
    let namespace = objects.find(|it| is_kind(it, "Namespace") && !is_terminating(it))?;
    let object = ObjectRef::of(namespace);
    let mut keep = |reason: String| {
        kept.push(Kept {
            objects: object.to_string(),
            reason,
        });
        None
    };
    if mark(namespace, "labels", PART_OF) != Some(MEDLEY) {
        return keep(format!(
            "it has no label {PART_OF}={MEDLEY}, so it did not come with Medley"
        ));
    }
    if !options.delete_crds && !state.history.is_empty() {
        return keep("it has the history of plans; --delete-crds deletes it".to_owned());
    }
    let inhabitants = match &state.inhabitants {
        Ok(inhabitants) => inhabitants,
        Err(why) => return keep(format!("it is not known what else is in it: {why}")),
    };
    let goes = |object: &ObjectRef| {
        steps.iter().any(|step| {
            step.change == Change::Delete
                && (&step.object.kind, &step.object.namespace, &step.object.name)
                    == (&object.kind, &object.namespace, &object.name)
        })
    };
    let others = inhabitants.iter().filter(|it| !is_incidental(it));
    let mut others: Vec<String> = others
        .map(ObjectRef::of)
        .filter(|object| !goes(object))
        .map(|object| format!("{} {}", object.kind, object.name))
        .collect();
    others.sort();
    if !others.is_empty() {
        return keep(format!("other objects are in it: {}", listed(&others)));
    }
    let reason = "it came with Medley, and nothing else is in it";
    Some(step(Phase::Namespace, Change::Delete, object, reason))
}

/// Objects that every namespace has, or that follow from others in it.
fn is_incidental(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    // Helm's objects have no owner, and it deletes them itself.
    if is_helms(object) {
        return false;
    }
    if object["metadata"]["ownerReferences"][0].is_object() {
        return true;
    }
    match object["kind"].as_str().unwrap_or_default() {
        "Event" | "PodMetrics" => true,
        "ServiceAccount" => ["default", "builder", "deployer"].contains(&name),
        "ConfigMap" => ["kube-root-ca.crt", "openshift-service-ca.crt"].contains(&name),
        "RoleBinding" => name.starts_with("system:"),
        // Of the Services of Medley, with their names.
        "Endpoints" => name.starts_with("medley-"),
        _ => false,
    }
}
