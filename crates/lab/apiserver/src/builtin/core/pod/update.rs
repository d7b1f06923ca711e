//! Mutable fields of an existing pod (`ValidatePodUpdate` and related functions).

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::Errors;
use crate::builtin::pod_spec::{container, scheduling};
use crate::builtin::value::{Read, indexed, items_mut, keep, remove, same, set};
use crate::builtin::{check, ip, layout};
use crate::kind::Part;

/// Checks a changed pod.
pub(super) fn validate(new: &Value, old: &Value, part: Part<'_>) -> Errors {
    match part {
        Part::Main => validate_main(new, old),
        Part::Status => validate_status(new, old),
        Part::Other("ephemeralcontainers") => validate_ephemeral(new, old),
        Part::Other("resize") => validate_resize(new, old),
        Part::Other(_) => Errors::new(),
    }
}

const UPDATABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn validate_main(new: &Value, old: &Value) -> Errors {
    let mut errors = super::check_metadata_and_spec(new);
    let path = Path::new("spec");
    let (spec, was) = (new.at("spec"), old.at("spec"));
    for field in ["containers", "initContainers"] {
        let path = path.child(field);
        if spec.count(field) != was.count(field) {
            errors.forbidden(&path, "pod updates may not add or remove containers");
            return errors;
        }
        for (path, container) in indexed(&path, spec.items(field)) {
            errors += check::required(&path.child("image"), container.text("image"));
            errors += container::check_image_space(&path, container);
        }
    }
    let here = path.child("activeDeadlineSeconds");
    match (
        spec.int("activeDeadlineSeconds"),
        was.int("activeDeadlineSeconds"),
    ) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            errors += check::in_range(&here, seconds, 0, i64::from(i32::MAX));
            return errors;
        }
        (Some(seconds), Some(before)) if before < seconds => {
            let detail = "must be less than or equal to previous value";
            errors.invalid(&here, seconds, detail);
            return errors;
        }
        (None, Some(_)) => errors.invalid(
            &here,
            Value::Null,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
    errors += check_added_tolerations(&path.child("tolerations"), spec, was);
    errors += check_deleted_gates(&path.child("schedulingGates"), spec, was);
    // The comparison is of whole specs with permitted changes reverted, as upstream: a new field is
    // immutable without being listed anywhere.
    if same(spec, was) {
        return errors;
    }
    let (munged, wrong) = without_allowed_changes(&path, spec, was);
    errors += wrong;
    if !same(&munged, was) {
        let difference = layout::difference("PodSpec", was, &munged);
        errors.forbidden(&path, format!("{UPDATABLE}\n{difference}"));
    }
    errors
}

/// The new spec with all permitted changes reverted, and errors in those changes.
fn without_allowed_changes(path: &Path, spec: &Value, was: &Value) -> (Value, Errors) {
    let mut errors = Errors::new();
    let mut munged = spec.clone();
    for field in ["containers", "initContainers"] {
        for (container, was) in items_mut(&mut munged, field)
            .iter_mut()
            .zip(was.items(field))
        {
            keep(container, was, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(&mut munged, was, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if was.number(grace) < 0 && munged.int(grace) == Some(1) {
        keep(&mut munged, was, grace);
    }
    // Affinity and selectors may change only while the scheduler cannot have used them.
    if was.count("schedulingGates") == 0 {
        return (munged, errors);
    }
    let (selector, was_selector) = (spec.at("nodeSelector"), was.at("nodeSelector"));
    if !same(selector, was_selector) {
        let kept = was_selector
            .entries("")
            .iter()
            .all(|(key, value)| selector.get(key) == Some(value));
        // Additions narrow the choice of nodes. Allowing more would let a user undo a placement
        // decided by a webhook when the pod was created.
        if !kept {
            errors.invalid(
                &path.child("nodeSelector"),
                selector.clone(),
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            );
        }
        keep(&mut munged, was, "nodeSelector");
    }
    let (affinity, was_affinity) = (
        spec.at("affinity.nodeAffinity"),
        was.at("affinity.nodeAffinity"),
    );
    if !same(affinity, was_affinity) {
        let here = path.child("affinity").child("nodeAffinity");
        errors += scheduling::check_affinity_mutation(&here, affinity, was_affinity);
        let only_node = !spec.has("affinity.podAffinity") && !spec.has("affinity.podAntiAffinity");
        if !was.has("affinity") && only_node {
            remove(&mut munged, "affinity");
        } else {
            keep(&mut munged, was, "affinity.nodeAffinity");
        }
    }
    (munged, errors)
}

fn check_added_tolerations(path: &Path, spec: &Value, was: &Value) -> Errors {
    let alike = |new: &Value, old: &Value| {
        ["key", "operator", "value", "effect"]
            .iter()
            .all(|field| new.text(field) == old.text(field))
    };
    let tolerations = spec.items("tolerations");
    for old in was.items("tolerations") {
        if !tolerations.iter().any(|new| alike(new, old)) {
            let detail = "existing toleration can not be modified except its tolerationSeconds";
            return FieldError::forbidden(path, detail).into();
        }
    }
    scheduling::check_tolerations(path, tolerations)
}

fn check_deleted_gates(path: &Path, spec: &Value, was: &Value) -> Errors {
    let known: Vec<&str> = was
        .items("schedulingGates")
        .iter()
        .map(|g| g.text("name"))
        .collect();
    let mut errors = Errors::new();
    for (i, gate) in spec.items("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !known.contains(&name) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.index(i).child("name"), detail);
        }
    }
    errors
}

fn validate_status(new: &Value, old: &Value) -> Errors {
    let path = Path::new("status");
    let mut errors = Errors::new();
    for (path, condition) in indexed(&path.child("conditions"), new.items("status.conditions")) {
        let kind = condition.text("type");
        let generation = condition.number("observedGeneration");
        if generation < 0 {
            let detail = "must be a non-negative integer";
            errors.invalid(&path.child("observedGeneration"), generation, detail);
        }
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors += check::qualified(&path.child("Type"), kind);
        }
    }
    let nominated = new.text("status.nominatedNodeName");
    if nominated != old.text("status.nominatedNodeName") && !nominated.is_empty() {
        errors += check::subdomain(&path.child("nominatedNodeName"), nominated);
    }
    let generation = new.number("status.observedGeneration");
    if generation < 0 {
        let path = path.child("observedGeneration");
        errors.invalid(&path, generation, "must be a non-negative integer");
    }
    errors += check::unchanged(new, old, "status.qosClass");
    for field in ["podIPs", "hostIPs"] {
        let existing: Vec<&str> = old
            .at("status")
            .items(field)
            .iter()
            .map(|address| address.text("ip"))
            .collect();
        for (i, address) in new.at("status").items(field).iter().enumerate() {
            errors += ip::check(&path.child(field).index(i), address.text("ip"), &existing);
        }
    }
    errors
}

fn validate_ephemeral(new: &Value, old: &Value) -> Errors {
    let mut errors = super::check_metadata_and_spec(new);
    let path = Path::new("spec.ephemeralContainers");
    let added = new.items("spec.ephemeralContainers");
    let known = old.items("spec.ephemeralContainers");
    for old in known {
        let name = old.text("name");
        match added
            .iter()
            .find(|container| container.text("name") == name)
        {
            None => {
                let detail =
                    format!("existing ephemeral containers \"{name}\" may not be removed\n");
                errors.forbidden(&path, detail);
            }
            Some(new) if !same(new, old) => {
                let difference = layout::difference("EphemeralContainer", old, new);
                let detail = format!(
                    "existing ephemeral containers \"{name}\" may not be changed\n{difference}"
                );
                errors.forbidden(&path, detail);
            }
            Some(_) => {}
        }
    }
    errors
}

/// Restores all fields of a pod except the resources of its containers.
pub(super) fn keep_all_but_resources(new: &mut Value, old: &Value) {
    let mut spec = old.at("spec").clone();
    for field in ["containers", "initContainers"] {
        let changed = new.at("spec").items(field);
        if changed.len() != old.at("spec").items(field).len() {
            return;
        }
        for (container, changed) in items_mut(&mut spec, field).iter_mut().zip(changed) {
            if container.text("name") == changed.text("name") {
                keep(container, changed, "resources");
                keep(container, changed, "resizePolicy");
            }
        }
    }
    keep(&mut spec, new.at("spec"), "resources");
    set(new, "spec", spec);
    keep(new, old, "status");
    super::keep_metadata(new, old);
}

fn validate_resize(new: &Value, old: &Value) -> Errors {
    let mut errors = super::check_metadata_and_spec(new);
    let class = super::qos::class(new.at("spec"));
    if class != old.text("status.qosClass") {
        errors.invalid(
            &Path::new("spec"),
            class,
            "Pod QOS Class may not change as a result of resizing",
        );
    }
    errors
}
