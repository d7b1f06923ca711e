//! Deployments (`ValidateDeployment`).

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::apps::{self, CONTAINERS, IMAGES, READY, SELECTOR};
use crate::builtin::entry::Capability::{Generation, Scale, Status};
use crate::builtin::entry::Cell::{Number, Of};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column, content_changed};
use crate::builtin::pod_spec::defaults;
use crate::builtin::value::{Read, fill, fill_empty, keep, same, set};
use crate::builtin::{check, labels, layout};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["deploy"],
    categories: &["all"],
    capabilities: &[Generation, Status, Scale],
    default,
    prepare_create: |object, _| set(object, "status", json!({})),
    prepare_update: |new, old, part, _| match part {
        Part::Status => {
            keep(new, old, "spec");
            keep(new, old, "metadata.labels");
        }
        _ => keep(new, old, "status"),
    },
    validate,
    validate_update: |new, old, part| {
        if part == Part::Status {
            check_status(new, old)
        } else {
            let mut errors = validate(new);
            errors += check::unchanged(new, old, "spec.selector");
            errors
        }
    },
    warnings: apps::template_warnings,
    columns: COLUMNS,
    new_generation: |new, old| {
        let annotations = "metadata.annotations";
        content_changed(new, old) || !same(new.at(annotations), old.at(annotations))
    },
    status_resets: &["spec", "metadata.labels"],
    ..Entry::new("apps", "v1", "Deployment", "deployments")
};

const COLUMNS: &[Column] = &[
    NAME,
    READY,
    column!("Up-to-date" string Number("status.updatedReplicas")
        => "Pods made from the current template"),
    column!("Available" string Number("status.availableReplicas")
        => "Pods that have been ready long enough"),
    AGE,
    CONTAINERS,
    IMAGES,
    Column {
        cell: Of(|object| match labels::format(object.at("spec.selector")) {
            Some(selector) => selector.into(),
            None => "<invalid>".into(),
        }),
        ..SELECTOR
    },
];

fn default(object: &mut Value) {
    fill(object, "spec.replicas", 1);
    fill_empty(object, "spec.strategy.type", "RollingUpdate");
    if object.text("spec.strategy.type") == "RollingUpdate" {
        fill(object, "spec.strategy.rollingUpdate.maxUnavailable", "25%");
        fill(object, "spec.strategy.rollingUpdate.maxSurge", "25%");
    }
    fill(object, "spec.revisionHistoryLimit", 10);
    fill(object, "spec.progressDeadlineSeconds", 600);
    fill(object, "spec.template", json!({}));
    defaults::template(object, "spec.template");
}

fn validate(object: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = object.at("spec");
    let mut errors = check::counts(&path, spec, "replicas");
    errors += apps::check_selector_and_template(&path, spec);
    errors += check_strategy(&path.child("strategy"), spec.at("strategy"));
    let counts = "minReadySeconds revisionHistoryLimit progressDeadlineSeconds";
    errors += check::counts(&path, spec, counts);
    if let Some(deadline) = spec.int("progressDeadlineSeconds")
        && deadline <= spec.number("minReadySeconds")
    {
        let detail = "must be greater than minReadySeconds";
        errors.invalid(&path.child("progressDeadlineSeconds"), deadline, detail);
    }
    errors
}

fn check_strategy(path: &Path, strategy: &Value) -> Errors {
    let here = path.child("rollingUpdate");
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if !rolling.is_null() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            FieldError::forbidden(&here, detail).into()
        }
        "Recreate" => Errors::new(),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            let down = here.child("maxUnavailable");
            let mut errors = check::count_or_percent(&down, unavailable);
            errors += check::count_or_percent(&here.child("maxSurge"), surge);
            if [unavailable, surge].map(check::count_or_percent_value) == [0, 0] {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.invalid(&down, unavailable.clone(), detail);
            }
            errors += check::at_most_all(&down, unavailable);
            errors
        }
        _ => {
            let accepted = ["Recreate", "RollingUpdate"];
            layout::not_supported(path, "DeploymentStrategy", strategy, &accepted).into()
        }
    }
}

fn check_status(new: &Value, old: &Value) -> Errors {
    let status = new.at("status");
    let mut errors = apps::check_counters(
        status,
        "observedGeneration replicas updatedReplicas readyReplicas availableReplicas \
         unavailableReplicas terminatingReplicas collisionCount",
    );
    let parts = "updatedReplicas readyReplicas availableReplicas";
    errors += apps::check_at_most(status, parts, "status.replicas");
    errors += apps::check_at_most(status, "availableReplicas", "readyReplicas");
    errors += apps::check_collisions(new, old);
    errors
}
