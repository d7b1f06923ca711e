//! Deployments.

use jiff::Timestamp;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::apps;
use crate::builtin::entry::{
    AGE, Capabilities, Column, Entry, Errors, NAME, column, content_changed, wide,
};
use crate::builtin::pod_spec::defaults;
use crate::builtin::value::{Read, fill, fill_empty, keep, same, set};
use crate::builtin::{check, labels, layout, print};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["deploy"],
    categories: &["all"],
    capabilities: Capabilities {
        generation: true,
        status: true,
        scale: true,
        ..Capabilities::NONE
    },
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
            let (selector, was) = (new.at("spec.selector"), old.at("spec.selector"));
            errors.extend(check::immutable(
                &check::path("spec.selector"),
                selector,
                was,
            ));
            errors
        }
    },
    warnings: apps::template_warnings,
    columns: COLUMNS,
    cells,
    new_generation: |new, old| {
        let annotations = "metadata.annotations";
        content_changed(new, old) || !same(new.at(annotations), old.at(annotations))
    },
    status_resets: &["spec", "metadata.labels"],
    ..Entry::new("apps", "v1", "Deployment", "deployments", "deployment")
};

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Ready",
        "string",
        "Pods that are ready, out of those there should be",
    ),
    column(
        "Up-to-date",
        "string",
        "Pods made from the current template",
    ),
    column(
        "Available",
        "string",
        "Pods that have been ready long enough",
    ),
    AGE,
    wide("Containers", "string", "Names of the containers"),
    wide("Images", "string", "Images of the containers"),
    wide("Selector", "string", "Which pods belong to it"),
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
    let mut errors = check::not_negative(&path.child("replicas"), spec.int("replicas"));
    errors.extend(apps::check_selector_and_template(&path, spec));
    errors.extend(check_strategy(&path.child("strategy"), spec.at("strategy")));
    for field in [
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        errors.extend(check::not_negative(&path.child(field), spec.int(field)));
    }
    if let Some(deadline) = spec.int("progressDeadlineSeconds")
        && deadline <= spec.number("minReadySeconds")
    {
        let path = path.child("progressDeadlineSeconds");
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(&path, deadline, detail));
    }
    errors
}

fn check_strategy(path: &Path, strategy: &Value) -> Errors {
    let here = path.child("rollingUpdate");
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if !rolling.is_null() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            vec![FieldError::forbidden(&here, detail)]
        }
        "Recreate" => Vec::new(),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            let down = here.child("maxUnavailable");
            let mut errors = check::count_or_percent(&down, unavailable);
            errors.extend(check::count_or_percent(&here.child("maxSurge"), surge));
            if [unavailable, surge].map(check::count_or_percent_value) == [0, 0] {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(&down, unavailable.clone(), detail));
            }
            errors.extend(check::at_most_all(&down, unavailable));
            errors
        }
        _ => {
            let accepted = ["Recreate", "RollingUpdate"];
            vec![layout::not_supported(
                path,
                "DeploymentStrategy",
                strategy,
                &accepted,
            )]
        }
    }
}

fn check_status(new: &Value, old: &Value) -> Errors {
    let status = new.at("status");
    let mut errors = apps::check_counters(
        status,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    );
    errors.extend(apps::check_at_most(
        status,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "replicas",
        "cannot be greater than status.replicas",
    ));
    errors.extend(apps::check_at_most(
        status,
        &["availableReplicas"],
        "readyReplicas",
        "cannot be greater than readyReplicas",
    ));
    errors.extend(apps::check_collisions(new, old));
    errors
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = object.number("status.readyReplicas");
    let [names, images] = print::containers(object.items("spec.template.spec.containers"));
    let selector = labels::format(object.at("spec.selector"));
    vec![
        object.name().into(),
        format!("{ready}/{}", object.number("spec.replicas")).into(),
        print::number(object, "status.updatedReplicas"),
        print::number(object, "status.availableReplicas"),
        print::age(object, now),
        names,
        images,
        selector.unwrap_or_else(|| "<invalid>".to_owned()).into(),
    ]
}
