//! Mutable fields of an existing job (`ValidateJobSpecUpdate`, `ValidateJobUpdateStatus`).

use machinery::field::{ErrorKind, FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::Errors;
use crate::builtin::value::{Read, is_zero, items_mut, keep, remove, same};
use crate::builtin::{apps, check, layout, print};

/// Checks a changed job.
pub(super) fn check(new: &Value, old: &Value) -> Errors {
    let had = |label: &str| old.entry("spec.template.metadata.labels", label).is_some();
    let with_prefixes = had(super::NAME_LABEL) && had(super::UID_LABEL);
    let mut errors = super::check_generated_selector(new, with_prefixes);
    errors += super::check_spec(new);
    // Upstream validates the spec once as a new one and once as a changed one; repeated messages
    // are reported once, repeated causes twice.
    errors += super::check_spec(new);
    let path = Path::new("spec");
    let (spec, was) = (new.at("spec"), old.at("spec"));
    errors += check_completions(&path.child("completions"), spec, was);
    errors += check::unchanged(new, old, "spec.selector");
    errors += check_template(&path, old, spec);
    errors += check::unchanged(
        new,
        old,
        "spec.completionMode spec.podFailurePolicy spec.backoffLimitPerIndex spec.managedBy \
         spec.successPolicy",
    );
    errors
}

fn check_completions(path: &Path, spec: &Value, was: &Value) -> Errors {
    let (now, before) = (spec.at("completions"), was.at("completions"));
    if spec.text("completionMode") != "Indexed" {
        return check::immutable(path, now, before);
    }
    if same(now, before) || now.is_null() || now == spec.at("parallelism") {
        return Errors::new();
    }
    let detail = "can only be modified in tandem with spec.parallelism";
    FieldError::invalid(path, now.clone(), detail).into()
}

/// The template is fixed, except while the job is suspended and has no pods: then scheduling and
/// resources may change.
fn check_template(path: &Path, old: &Value, spec: &Value) -> Errors {
    let mut before = old.at("spec.template").clone();
    let template = spec.at("template");
    let suspended = old.is_true("spec.suspend");
    let conditions = old.items("status.conditions");
    let idle = !old.has("status.startTime") || print::condition_is_true(conditions, "Suspended");
    let mutable = suspended && idle && old.number("status.active") == 0;
    if mutable {
        keep(&mut before, template, "spec.affinity.nodeAffinity");
        if is_zero(before.at("spec.affinity")) {
            remove(&mut before, "spec.affinity");
        }
        for field in [
            "spec.nodeSelector",
            "spec.tolerations",
            "metadata.annotations",
            "metadata.labels",
            "spec.schedulingGates",
        ] {
            keep(&mut before, template, field);
        }
        for field in ["spec.containers", "spec.initContainers"] {
            let now = template.items(field);
            if now.len() != before.items(field).len() {
                continue;
            }
            for (container, now) in items_mut(&mut before, field).iter_mut().zip(now) {
                if container.text("name") == now.text("name") {
                    keep(container, now, "resources");
                }
            }
        }
        if !same(template.at("spec"), before.at("spec")) {
            let path = path.child("template.spec");
            let shown = template.at("spec");
            return layout::invalid(&path, "PodSpec", shown, check::IMMUTABLE).into();
        }
    } else if !same(template, &before) {
        let path = path.child("template");
        return layout::invalid(&path, "PodTemplateSpec", template, check::IMMUTABLE).into();
    }
    Errors::new()
}

/// Checks a changed status.
pub(super) fn check_status(new: &Value, old: &Value) -> Errors {
    let status = new.at("status");
    let mut errors = apps::check_counters(status, "active succeeded failed ready terminating");
    let path = Path::new("status");
    let is =
        |job: &Value, kind: &str| print::condition_is_true(job.items("status.conditions"), kind);
    let mut wrong_conditions = |detail: &str| {
        let path = path.child("conditions");
        errors.push(FieldError::without_value(ErrorKind::Invalid, &path, detail));
    };
    if is(new, "Complete") && is(new, "Failed") {
        wrong_conditions("cannot set Complete=True and Failed=true conditions");
    }
    if is(new, "Complete") && is(new, "FailureTarget") {
        wrong_conditions("cannot set Complete=True and FailureTarget=true conditions");
    }
    if is(new, "SuccessCriteriaMet") && is(new, "Failed") {
        wrong_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if is(new, "SuccessCriteriaMet") && is(new, "FailureTarget") {
        wrong_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is(old, kind) && !is(new, kind) {
            wrong_conditions(&format!(
                "cannot disable the terminal {kind}=True condition"
            ));
        }
    }
    if is(old, "SuccessCriteriaMet") && !is(new, "SuccessCriteriaMet") {
        wrong_conditions("cannot disable the SuccessCriteriaMet=True condition");
    }
    for field in ["failed", "succeeded"] {
        let count = status.number(field);
        if count < old.at("status").number(field) {
            let detail = format!("cannot decrease the {field} counter");
            errors.invalid(&path.child(field), count, detail);
        }
    }
    let time = status.at("completionTime");
    if !time.is_null()
        && old.has("status.completionTime")
        && time != old.at("status.completionTime")
    {
        let path = path.child("completionTime");
        errors.invalid(&path, time.clone(), check::IMMUTABLE);
    }
    let time = status.at("startTime");
    let fixed = old.has("status.startTime") && !new.is_true("spec.suspend");
    if fixed && time != old.at("status.startTime") {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid(&path.child("startTime"), time.clone(), detail);
    }
    errors
}
