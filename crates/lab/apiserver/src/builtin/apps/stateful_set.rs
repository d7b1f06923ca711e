//! Stateful sets (`ValidateStatefulSet`).

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::apps::{self, CONTAINERS, IMAGES, READY};
use crate::builtin::core::volumes;
use crate::builtin::entry::Capability::{Generation, Scale, Status};
use crate::builtin::entry::{AGE, Entry, Errors, NAME};
use crate::builtin::pod_spec::{defaults, validate};
use crate::builtin::value::{
    Read, existing, fill, fill_empty, items_mut, keep, object_at, remove, same, set,
};
use crate::builtin::{check, labels, layout};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["sts"],
    categories: &["all"],
    capabilities: &[Generation, Status, Scale],
    default,
    prepare_create: |object, _| {
        set(
            object,
            "status",
            json!({ "replicas": 0, "availableReplicas": 0 }),
        );
    },
    validate: |object| check_spec(object.at("spec"), true),
    validate_update: |new, old, part| match part {
        Part::Status => check_status(new, old),
        _ => check_update(new, old),
    },
    warnings: |new, old| {
        let mut all = apps::template_warnings(new, old);
        if new.number("spec.revisionHistoryLimit") < 0 {
            let text = "spec.revisionHistoryLimit: a negative value retains all historical \
                        revisions; a value >= 0 is recommended";
            all.push(text.to_owned());
        }
        all
    },
    name: machinery::names::name_is_dns_label,
    columns: &[NAME, READY, AGE, CONTAINERS, IMAGES],
    ..Entry::new("apps", "v1", "StatefulSet", "statefulsets")
};

fn default(object: &mut Value) {
    fill_empty(object, "spec.podManagementPolicy", "OrderedReady");
    if object.text("spec.updateStrategy.type").is_empty() {
        set(object, "spec.updateStrategy.type", "RollingUpdate");
        fill(object, "spec.updateStrategy.rollingUpdate", json!({}));
    }
    if object.text("spec.updateStrategy.type") == "RollingUpdate"
        && let Some(rolling) = existing(object, "spec.updateStrategy.rollingUpdate")
    {
        fill(rolling, "partition", 0);
    }
    for field in ["whenDeleted", "whenScaled"] {
        let path = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
        // Data outlive the set unless the user has said otherwise.
        fill_empty(object, &path, "Retain");
    }
    fill(object, "spec.replicas", 1);
    fill(object, "spec.revisionHistoryLimit", 10);
    fill(object, "spec.template", json!({}));
    defaults::template(object, "spec.template");
    for claim in items_mut(object, "spec.volumeClaimTemplates") {
        fill_empty(claim, "status.phase", "Pending");
        // Claims in templates are whole objects and include their kind.
        fill_empty(claim, "kind", "PersistentVolumeClaim");
        fill_empty(claim, "apiVersion", "v1");
        if object_at(claim, "spec").is_some()
            && let Some(spec) = existing(claim, "spec")
        {
            fill(spec, "resources", json!({}));
            defaults::claim_spec(spec);
        }
    }
}

fn check_spec(spec: &Value, new: bool) -> Errors {
    let path = Path::new("spec");
    let mut errors = Errors::new();
    let here = path.child("podManagementPolicy");
    match spec.text("podManagementPolicy") {
        "" => errors.required(&here, ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            errors.invalid(&here, other, "must be 'OrderedReady' or 'Parallel'");
        }
    }
    errors += check_strategy(&path.child("updateStrategy"), spec.at("updateStrategy"));
    for field in ["whenDeleted", "whenScaled"] {
        let policy = "persistentVolumeClaimRetentionPolicy";
        if spec.has(policy) {
            let path = path.child(policy).child(field);
            errors += check::supported(&path, spec.at(policy).text(field), &["Retain", "Delete"]);
        }
    }
    // Not on updates: templates of existing sets are immutable, and rules that were added since
    // must not block other changes.
    if new {
        for (path, claim) in spec.each(&path, "volumeClaimTemplates") {
            let path = path.child("spec");
            errors += volumes::check_claim_spec(&path, claim.at("spec"));
        }
    }
    errors += check::counts(&path, spec, "replicas minReadySeconds ordinals.start");
    let service = spec.text("serviceName");
    if new && !service.is_empty() {
        errors += check::label(&path.child("serviceName"), service);
    }
    let selector = spec.at("selector");
    errors += apps::check_selector(&path.child("selector"), selector, "statefulset");
    if labels::is_readable(selector) {
        errors += check_template(&path.child("template"), spec);
    } else {
        errors.invalid(&path.child("selector"), selector.clone(), "");
    }
    let template = spec.at("template");
    errors += apps::check_always_restarts(&path.child("template"), template, "StatefulSet");
    errors
}

/// The template as the controller completes it: claims as volumes, and no names of its own.
fn check_template(path: &Path, spec: &Value) -> Errors {
    let mut template = spec.at("template").clone();
    remove(&mut template, "spec.subdomain");
    remove(&mut template, "spec.hostname");
    let claims: Vec<&str> = spec
        .items("volumeClaimTemplates")
        .iter()
        .map(Read::name)
        .collect();
    if !claims.is_empty() {
        let own = |volume: &&Value| !claims.contains(&volume.text("name"));
        let kept = template.items("spec.volumes").iter().filter(own).cloned();
        let added = claims
            .iter()
            .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }));
        let volumes: Vec<Value> = added.chain(kept).collect();
        set(&mut template, "spec.volumes", volumes);
    }
    let mut errors = Errors::new();
    let own = template.at("metadata.labels");
    let selector = spec.at("selector");
    if !labels::matches(selector, own) && (selector.is_null() || !labels::is_empty(selector)) {
        errors.push(apps::selector_mismatch(path, own));
    }
    errors += validate::check_template(path, &template);
    errors
}

fn check_strategy(path: &Path, strategy: &Value) -> Errors {
    let rolling = strategy.at("rollingUpdate");
    let here = path.child("rollingUpdate");
    match strategy.text("type") {
        "" => FieldError::required(path, "").into(),
        "OnDelete" if !rolling.is_null() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            let kind = "RollingUpdateStatefulSetStrategy";
            layout::invalid(&here, kind, rolling, detail).into()
        }
        "OnDelete" => Errors::new(),
        "RollingUpdate" => {
            let mut errors = check::counts(&here, rolling, "partition");
            if rolling.has("maxUnavailable") {
                let value = rolling.at("maxUnavailable");
                let here = here.child("maxUnavailable");
                errors += check::count_or_percent(&here, value);
                if check::count_or_percent_value(value) == 0 {
                    errors.invalid(&here, value.clone(), "cannot be 0");
                }
                errors += check::at_most_all(&here, value);
            }
            errors
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            layout::invalid(path, "StatefulSetUpdateStrategy", strategy, detail).into()
        }
    }
}

fn check_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check_spec(new.at("spec"), false);
    let mut spec = new.at("spec").clone();
    for field in [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        keep(&mut spec, old.at("spec"), field);
    }
    if !same(&spec, old.at("spec")) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                      'template', 'updateStrategy', 'revisionHistoryLimit', \
                      'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden(&Path::new("spec"), detail);
    }
    errors
}

fn check_status(new: &Value, old: &Value) -> Errors {
    let status = new.at("status");
    let parts = "readyReplicas currentReplicas updatedReplicas availableReplicas";
    let counters = format!("replicas {parts} observedGeneration collisionCount");
    let mut errors = apps::check_counters(status, &counters);
    errors += apps::check_at_most(status, parts, "status.replicas");
    errors += apps::check_at_most(status, "availableReplicas", "status.readyReplicas");
    errors += apps::check_collisions(new, old);
    errors
}
