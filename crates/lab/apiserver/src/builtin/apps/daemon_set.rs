//! Daemon sets.

use jiff::Timestamp;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::apps;
use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column, wide};
use crate::builtin::pod_spec::{defaults, validate};
use crate::builtin::value::{Read, fill, fill_empty, keep, object_at, same, set};
use crate::builtin::{check, labels, layout, print};
use crate::kind::{Part, WriteContext};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["ds"],
    categories: &["all"],
    capabilities: Capabilities {
        generation: true,
        status: true,
        ..Capabilities::NONE
    },
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
            let (selector, was) = (new.at("spec.selector"), old.at("spec.selector"));
            let mut errors = check::immutable(&check::path("spec.selector"), selector, was);
            errors.extend(validate(new));
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
    cells,
    ..Entry::new("apps", "v1", "DaemonSet", "daemonsets", "daemonset")
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
    column("Desired", "integer", "Nodes that should run the pod"),
    column("Current", "integer", "Nodes that run the pod and should"),
    column("Ready", "integer", "Nodes whose pod is ready"),
    column(
        "Up-to-date",
        "integer",
        "Nodes whose pod is made from the current template",
    ),
    column(
        "Available",
        "integer",
        "Nodes whose pod has been ready long enough",
    ),
    column("Node Selector", "string", "Labels nodes need"),
    AGE,
    wide("Containers", "string", "Names of the containers"),
    wide("Images", "string", "Images of the containers"),
    wide("Selector", "string", "Which pods belong to it"),
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
        errors.push(FieldError::invalid(
            &path.child("selector"),
            selector.clone(),
            detail,
        ));
    }
    errors.extend(validate::check_template(&here, template));
    errors.extend(apps::check_always_restarts(&here, template, "DaemonSet"));
    errors.extend(check::not_negative(
        &path.child("minReadySeconds"),
        spec.int("minReadySeconds"),
    ));
    errors.extend(check_strategy(
        &path.child("updateStrategy"),
        spec.at("updateStrategy"),
    ));
    let limit = spec.int("revisionHistoryLimit");
    errors.extend(check::not_negative(
        &path.child("revisionHistoryLimit"),
        limit,
    ));
    errors
}

fn check_strategy(path: &Path, strategy: &Value) -> Errors {
    let rolling = strategy.at("rollingUpdate");
    let here = path.child("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => Vec::new(),
        "RollingUpdate" if rolling.is_null() => vec![FieldError::required(&here, "")],
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            let (down, up) = (here.child("maxUnavailable"), here.child("maxSurge"));
            let mut errors = check::count_or_percent(&down, unavailable);
            errors.extend(check::count_or_percent(&up, surge));
            errors.extend(check::at_most_all(&down, unavailable));
            errors.extend(check::at_most_all(&up, surge));
            match [unavailable, surge].map(|value| check::count_or_percent_value(value) != 0) {
                [true, true] => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(&up, surge.clone(), detail));
                }
                [false, false] => {
                    errors.push(FieldError::required(
                        &down,
                        "cannot be 0 when maxSurge is 0",
                    ));
                }
                _ => {}
            }
            errors
        }
        _ => {
            let accepted = ["RollingUpdate", "OnDelete"];
            vec![layout::not_supported(
                path,
                "DaemonSetUpdateStrategy",
                strategy,
                &accepted,
            )]
        }
    }
}

fn check_status(new: &Value, old: &Value) -> Errors {
    let mut errors = apps::check_counters(
        new.at("status"),
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    );
    errors.extend(apps::check_collisions(new, old));
    errors
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = print::containers(object.items("spec.template.spec.containers"));
    let mut cells = vec![object.name().into()];
    cells.extend(
        [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ]
        .map(|field| print::number(object.at("status"), field)),
    );
    cells.extend([
        print::label_set(object.at("spec.template.spec.nodeSelector")),
        print::age(object, now),
        names,
        images,
        print::selector(object.at("spec.selector")),
    ]);
    cells
}
