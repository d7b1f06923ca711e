//! Jobs (`ValidateJob`).

mod policy;
mod update;

use jiff::Timestamp;
use machinery::field::Path;
use serde_json::{Value, json};

use crate::builtin::apps::{self, CONTAINERS, IMAGES, SELECTOR};
use crate::builtin::entry::Capability::{Generation, Status};
use crate::builtin::entry::Cell::{At, Of};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column, content_changed};
use crate::builtin::pod_spec::{defaults, validate, warnings};
use crate::builtin::value::{Read, fill, fill_empty, items_mut, object_at, set};
use crate::builtin::{check, labels, print};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    categories: &["all"],
    capabilities: &[Generation, Status],
    default,
    prepare_create: |job, _| {
        if !job.is_true("spec.manualSelector") {
            generate_selector(job);
        }
        set(job, "status", json!({}));
    },
    validate: validate_job,
    validate_update: |new, old, part| match part {
        Part::Status => update::check_status(new, old),
        _ => update::check(new, old),
    },
    warnings: |new, old| {
        let mut all = Vec::new();
        if old.is_none() {
            all = warnings::about_name(new.name(), apps::POD_NAMES);
        }
        if old.is_none_or(|old| content_changed(new, old)) {
            all.extend(spec_warnings(&Path::new("spec"), new.at("spec")));
        }
        all
    },
    selectable: &[("status.successful", |job| {
        job.number("status.succeeded").to_string()
    })],
    columns: COLUMNS,
    ..Entry::new("batch", "v1", "Job", "jobs")
};

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";
const OLD_UID_LABEL: &str = "controller-uid";
const OLD_NAME_LABEL: &str = "job-name";

const COLUMNS: &[Column] = &[
    NAME,
    column!("Status" string Of(state) => "How far the job is"),
    column!("Completions" string Of(completions)
        => "Pods that succeeded, out of those that have to"),
    column!("Duration" string At(duration) => "How long the job has run, or ran"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn default(job: &mut Value) {
    default_job_spec(job, "spec");
    let own = job.at("spec.template.metadata.labels").clone();
    if own.is_object() && job.count("metadata.labels") == 0 {
        set(job, "metadata.labels", own);
    }
    fill(job, "spec.completionMode", "NonIndexed");
    fill(job, "spec.suspend", false);
    let policy = if job.has("spec.podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    fill(job, "spec.podReplacementPolicy", policy);
    fill(job, "spec.manualSelector", false);
    // With parallelism alone the job is a work queue, which ends when any pod succeeds and has no
    // number of completions.
    if !job.has("spec.completions") && !job.has("spec.parallelism") {
        set(job, "spec.completions", 1);
    }
    fill(job, "spec.parallelism", 1);
    let limit = if job.has("spec.backoffLimitPerIndex") {
        // With a limit per index the total is unlimited by default; otherwise six pods failing at
        // one index would fail the job.
        i32::MAX
    } else {
        6
    };
    fill(job, "spec.backoffLimit", limit);
}

/// Defaults that the template of a cron job gets as well.
pub(super) fn default_job_spec(owner: &mut Value, path: &str) {
    for rule in items_mut(owner, &format!("{path}.podFailurePolicy.rules")) {
        for pattern in items_mut(rule, "onPodConditions") {
            fill_empty(pattern, "status", "True");
        }
    }
    fill(owner, &format!("{path}.template"), json!({}));
    defaults::template(owner, &format!("{path}.template"));
}

/// Adds labels unique to the pods of this job, and a selector for them.
fn generate_selector(job: &mut Value) {
    let (name, uid) = (job.name().to_owned(), job.text("metadata.uid").to_owned());
    let owned = [
        (OLD_NAME_LABEL, &name),
        (NAME_LABEL, &name),
        (OLD_UID_LABEL, &uid),
        (UID_LABEL, &uid),
    ];
    // Defaulting copies the labels of the template to the job when it has none; in Go both are then
    // one map, so additions show in both.
    let shared = job.at("metadata.labels") == job.at("spec.template.metadata.labels")
        || job.count("metadata.labels") == 0;
    if let Some(labels) = object_at(job, "spec.template.metadata.labels") {
        for (label, value) in owned {
            labels.entry(label).or_insert_with(|| value.as_str().into());
        }
    }
    if shared {
        let labels = job.at("spec.template.metadata.labels").clone();
        set(job, "metadata.labels", labels);
    }
    if let Some(labels) = object_at(job, "spec.selector.matchLabels") {
        labels.entry(UID_LABEL).or_insert_with(|| uid.into());
    }
}

fn validate_job(job: &Value) -> Errors {
    let mut errors = check_generated_selector(job, true);
    errors += check_spec(job);
    let completions = job.number("spec.completions");
    if job.text("spec.completionMode") == "Indexed" && completions > 0 {
        let host = format!("{}-{}", job.name(), completions - 1);
        if !machinery::names::is_dns1123_label(&host).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errors.invalid(&Path::new("metadata.name"), job.name(), detail);
        }
    }
    errors
}

fn check_generated_selector(job: &Value, with_prefixes: bool) -> Errors {
    let selector = job.at("spec.selector");
    if job.is_true("spec.manualSelector") || selector.is_null() {
        return Errors::new();
    }
    let mut errors = Errors::new();
    let (name, uid) = (job.name(), job.text("metadata.uid"));
    errors += check::required(&Path::new("metadata.uid"), uid);
    let mut owned = vec![(OLD_UID_LABEL, uid), (OLD_NAME_LABEL, name)];
    if with_prefixes {
        owned.extend([(UID_LABEL, uid), (NAME_LABEL, name)]);
    }
    let own = job.at("spec.template.metadata.labels");
    for (label, expected) in &owned {
        let path = Path::new("spec.template.metadata.labels").key(label);
        let detail = format!("must be '{expected}'");
        match own.get(label).and_then(Value::as_str) {
            None => errors.required(&path, detail),
            Some(value) if value != *expected => {
                errors.invalid(&path, own.clone(), detail);
            }
            Some(_) => {}
        }
    }
    let expected: Value = owned
        .iter()
        .map(|(key, value)| ((*key).to_owned(), *value))
        .collect();
    if labels::is_readable(selector) && !labels::matches(selector, &expected) {
        let detail = "`selector` not auto-generated";
        errors.invalid(&Path::new("spec.selector"), selector.clone(), detail);
    }
    errors
}

fn check_spec(job: &Value) -> Errors {
    let spec = job.at("spec");
    let path = Path::new("spec");
    let mut errors = check_job_spec(&path, spec);
    let selector = spec.at("selector");
    if selector.is_null() {
        errors.required(&path.child("selector"), "");
    } else {
        errors += labels::check_selector(&path.child("selector"), selector);
    }
    let own = spec.at("template.metadata.labels");
    if labels::is_readable(selector) && !labels::matches(selector, own) {
        errors.push(apps::selector_mismatch(&path.child("template"), own));
    }
    errors
}

/// The spec of a job, whether of its own or in a cron job.
pub(super) fn check_job_spec(path: &Path, spec: &Value) -> Errors {
    let counts = "parallelism completions activeDeadlineSeconds backoffLimit \
                  ttlSecondsAfterFinished backoffLimitPerIndex maxFailedIndexes";
    let mut errors = check::counts(path, spec, counts);
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        let path = path.child("backoffLimitPerIndex");
        errors.required(&path, "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec.maybe_text("managedBy") {
        let path = path.child("managedBy");
        errors += check::domain_prefixed_path(&path, manager);
        if manager.len() > 63 {
            errors.too_long(&path, 63);
        }
    }
    errors += policy::check_completion(path, spec);
    if spec.has("podFailurePolicy") {
        errors += policy::check_failure(&path.child("podFailurePolicy"), spec);
    }
    if spec.has("successPolicy") {
        errors += policy::check_success(&path.child("successPolicy"), spec);
    }
    let replacement = spec.maybe_text("podReplacementPolicy");
    let accepted: &[&str] = if spec.has("podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    errors += check::maybe_one_of(&path.child("podReplacementPolicy"), replacement, accepted);
    errors += validate::check_template(&path.child("template"), spec.at("template"));
    let here = path.child("template").child("spec").child("restartPolicy");
    match spec.text("template.spec.restartPolicy") {
        "Always" | "" => {
            errors.required(&here, "valid values: \"OnFailure\", \"Never\"");
        }
        policy @ "OnFailure" if spec.has("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(&here, policy, detail);
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&here, other, ["OnFailure", "Never"]),
    }
    errors
}

/// Warnings about the spec of a job.
pub(super) fn spec_warnings(path: &Path, spec: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if spec.text("completionMode") == "Indexed"
        && spec.number("completions") > 100_000
        && spec.number("parallelism") > 10_000
    {
        all.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a \
             parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes \
             when a big number of indexes fail"
        ));
    }
    all.extend(warnings::about(
        &path.child("template"),
        spec.at("template"),
    ));
    all
}

fn completions(job: &Value) -> Value {
    let succeeded = job.number("status.succeeded");
    match (job.int("spec.completions"), job.number("spec.parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}").into(),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}").into(),
        _ => format!("{succeeded}/1").into(),
    }
}

fn duration(job: &Value, now: Timestamp) -> Value {
    let start = job.at("status.startTime");
    match (start.is_null(), job.at("status.completionTime")) {
        (true, _) => "".into(),
        (false, Value::Null) => print::since(start, now).into(),
        (false, end) => print::between(start, end).unwrap_or_default().into(),
    }
}

/// The first of these states that holds, in the order of `printJob` upstream.
fn state(job: &Value) -> Value {
    let is = |kind: &str| print::condition_is_true(job.items("status.conditions"), kind);
    let state = match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if job.has("metadata.deletionTimestamp") => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    state.into()
}
