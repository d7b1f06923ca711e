//! Daemon sets (`ValidateDaemonSet`).

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::apps::{self, CONTAINERS, IMAGES, SELECTOR};
use crate::builtin::entry::Capability::{Generation, Status};
use crate::builtin::entry::Cell::{Number, Of};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::pod_spec::{defaults, validate};
use crate::builtin::value::{Read, fill, fill_empty, keep, object_at, same, set};
use crate::builtin::{check, labels, layout, print};
use crate::kind::{Part, WriteContext};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["ds"],
    categories: &["all"],
    capabilities: &[Generation, Status],
    default,
    prepare_create: |object, _| {
        let status = json!({
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        });
        set(object, "status", status);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    },
    prepare_update,
    validate,
    validate_update: |new, old, part| {
        if part == Part::Status {
            check_status(new, old)
        } else {
            let mut errors = check::unchanged(new, old, "spec.selector");
            errors += validate(new);
            errors
        }
    },
    warnings: |new, old| {
        let mut all = apps::template_warnings(new, old);
        // The name of a daemon set is not validated elsewhere, so upstream has no warning about it
        // either.
        all.retain(|text| !text.starts_with("metadata.name:"));
        all
    },
    columns: COLUMNS,
    ..Entry::new("apps", "v1", "DaemonSet", "daemonsets")
};

/// The annotation that carries the deprecated field `templateGeneration`.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    object
        .annotation(TEMPLATE_GENERATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(annotations) = object_at(object, "metadata.annotations") {
        annotations.insert(
            TEMPLATE_GENERATION.to_owned(),
            generation.to_string().into(),
        );
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column!("Desired" integer Number("status.desiredNumberScheduled")
        => "Nodes that should run the pod"),
    column!("Current" integer Number("status.currentNumberScheduled")
        => "Nodes that run the pod and should"),
    column!("Ready" integer Number("status.numberReady") => "Nodes whose pod is ready"),
    column!("Up-to-date" integer Number("status.updatedNumberScheduled")
        => "Nodes whose pod is made from the current template"),
    column!("Available" integer Number("status.numberAvailable")
        => "Nodes whose pod has been ready long enough"),
    column!("Node Selector" string
        Of(|object| print::label_set(object.at("spec.template.spec.nodeSelector")))
        => "Labels nodes need"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn default(object: &mut Value) {
    // Upstream keeps it in an internal field, and every conversion writes it to the annotation.
    if object.annotation(TEMPLATE_GENERATION).is_none() {
        set_template_generation(object, 0);
    }
    fill_empty(object, "spec.updateStrategy.type", "RollingUpdate");
    if object.text("spec.updateStrategy.type") == "RollingUpdate" {
        fill(
            object,
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
            1,
        );
        fill(object, "spec.updateStrategy.rollingUpdate.maxSurge", 0);
    }
    fill(object, "spec.revisionHistoryLimit", 10);
    fill(object, "spec.template", json!({}));
    defaults::template(object, "spec.template");
}

fn prepare_update(new: &mut Value, old: &Value, part: Part<'_>, _: WriteContext<'_>) {
    if part == Part::Status {
        keep(new, old, "spec");
        return;
    }
    keep(new, old, "status");
    let changed = !same(new.at("spec.template"), old.at("spec.template"));
    set_template_generation(new, template_generation(old) + i64::from(changed));
}

fn validate(object: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = object.at("spec");
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    let mut errors = labels::check_selector(&path.child("selector"), selector);
    let here = path.child("template");
    let own = template.at("metadata.labels");
    if labels::is_readable(selector) && !labels::matches(selector, own) {
        errors.push(apps::selector_mismatch(&here, own));
    }
    if !selector.is_null() && labels::is_empty(selector) {
        let detail = "empty selector is invalid for daemonset";
        errors.invalid(&path.child("selector"), selector.clone(), detail);
    }
    errors += validate::check_template(&here, template);
    errors += apps::check_always_restarts(&here, template, "DaemonSet");
    errors += check::counts(&path, spec, "minReadySeconds");
    errors += check_strategy(&path.child("updateStrategy"), spec.at("updateStrategy"));
    errors += check::counts(&path, spec, "revisionHistoryLimit");
    errors
}

fn check_strategy(path: &Path, strategy: &Value) -> Errors {
    let rolling = strategy.at("rollingUpdate");
    let here = path.child("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => Errors::new(),
        "RollingUpdate" if rolling.is_null() => FieldError::required(&here, "").into(),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            let (down, up) = (here.child("maxUnavailable"), here.child("maxSurge"));
            let mut errors = check::count_or_percent(&down, unavailable);
            errors += check::count_or_percent(&up, surge);
            errors += check::at_most_all(&down, unavailable);
            errors += check::at_most_all(&up, surge);
            match [unavailable, surge].map(|value| check::count_or_percent_value(value) != 0) {
                [true, true] => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&up, surge.clone(), detail);
                }
                [false, false] => {
                    errors.required(&down, "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
            errors
        }
        _ => {
            let accepted = ["RollingUpdate", "OnDelete"];
            layout::not_supported(path, "DaemonSetUpdateStrategy", strategy, &accepted).into()
        }
    }
}

fn check_status(new: &Value, old: &Value) -> Errors {
    let counters = "currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady \
                    observedGeneration updatedNumberScheduled numberAvailable numberUnavailable \
                    collisionCount";
    let mut errors = apps::check_counters(new.at("status"), counters);
    errors += apps::check_collisions(new, old);
    errors
}
