//! Persistent volumes and claims (`ValidatePersistentVolume`, `ValidatePersistentVolumeClaim`).

use machinery::field::{FieldError, Path};
use machinery::time::format_time;
use serde_json::{Value, json};

use crate::builtin::entry::Capability::{DeleteReturnsObject, Status};
use crate::builtin::entry::Cell::{IfSet, Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::pod_spec::{defaults, scheduling, volume, warnings};
use crate::builtin::value::{
    Read, existing, fill, fill_empty, indexed, keep, object_at, remove, same, set,
};
use crate::builtin::{check, labels, layout, resources};
use crate::kind::{Part, WriteContext};

/// Claims.
pub(crate) const CLAIM: Entry = Entry {
    short_names: &["pvc"],
    capabilities: &[Status, DeleteReturnsObject],
    default: |claim| {
        fill_empty(claim, "status.phase", "Pending");
        if object_at(claim, "spec").is_some()
            && let Some(spec) = existing(claim, "spec")
        {
            fill(spec, "resources", json!({}));
            defaults::claim_spec(spec);
        }
    },
    prepare_create: |claim, _| {
        set(claim, "status", json!({ "phase": "Pending" }));
        normalize_sources(claim, &Value::Null);
    },
    prepare_update: |new, old, part, _| {
        if part == Part::Status {
            keep(new, old, "spec");
        } else {
            keep(new, old, "status");
            normalize_sources(new, old);
        }
    },
    validate: |claim| check_claim_spec(&Path::new("spec"), claim.at("spec")),
    validate_update: |new, old, part| match part {
        Part::Status => check_claim_status(new),
        _ => check_claim_update(new, old),
    },
    warnings: |claim, _| claim_warnings(claim),
    columns: CLAIM_COLUMNS,
    ..Entry::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
};

/// Volumes.
pub(crate) const VOLUME: Entry = Entry {
    short_names: &["pv"],
    namespaced: false,
    capabilities: &[Status, DeleteReturnsObject],
    default: |volume| {
        fill_empty(volume, "status.phase", "Pending");
        if object_at(volume, "spec").is_some()
            && let Some(spec) = existing(volume, "spec")
        {
            // Retain for volumes made by hand; a provisioner copies the policy of its class, whose
            // default is Delete.
            fill_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
            fill(spec, "volumeMode", "Filesystem");
            defaults::source(spec);
            resources::round_up(existing(spec, "capacity").and_then(Value::as_object_mut));
        }
    },
    prepare_create: |volume, context| {
        let now = format_time(context.now);
        let status = json!({ "phase": "Pending", "lastPhaseTransitionTime": now });
        set(volume, "status", status);
    },
    prepare_update: prepare_volume_update,
    validate: |volume| check_volume(volume),
    validate_update: |new, old, part| match part {
        Part::Status => Errors::new(),
        _ => check_volume_update(new, old),
    },
    warnings: |volume, _| volume_warnings(volume),
    columns: VOLUME_COLUMNS,
    ..Entry::new("", "v1", "PersistentVolume", "persistentvolumes")
};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const MODES: &[&str] = &["Block", "Filesystem"];

/// Volume sources in the order they are checked.
const SOURCES: &str = "hostPath gcePersistentDisk awsElasticBlockStore glusterfs flocker nfs rbd quobyte cephfs \
     iscsi cinder fc flexVolume azureFile vsphereVolume photonPersistentDisk portworxVolume \
     azureDisk scaleIO local storageos csi";

/// Keeps the deprecated and the current field of the data source consistent; other kinds than
/// claims and snapshots only work in the current one.
fn normalize_sources(claim: &mut Value, old: &Value) {
    let fields = ["spec.dataSource", "spec.dataSourceRef"];
    let in_use = fields.iter().any(|field| old.has(field));
    let source = claim.at("spec.dataSource");
    let legacy = matches!(
        (source.text("apiGroup"), source.text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    );
    // Dropped silently, as `EnforceDataSourceBackwardsCompatibility` in
    // `pkg/api/persistentvolumeclaim/util.go`: a client that does not set `dataSourceRef` expects
    // an empty volume for any other kind.
    if !in_use && !claim.has("spec.dataSourceRef") && !legacy {
        remove(claim, "spec.dataSource");
    }
    if claim.has("spec.dataSource") && !claim.has("spec.dataSourceRef") {
        let source = claim.at("spec.dataSource").clone();
        set(claim, "spec.dataSourceRef", source);
    } else if claim.has("spec.dataSourceRef")
        && !claim.has("spec.dataSource")
        && claim.text("spec.dataSourceRef.namespace").is_empty()
    {
        let mut source = claim.at("spec.dataSourceRef").clone();
        remove(&mut source, "namespace");
        set(claim, "spec.dataSource", source);
    }
}

fn check_access_modes(path: &Path, spec: &Value) -> Errors {
    let path = path.child("accessModes");
    let modes = spec.texts("accessModes");
    let mut errors = Errors::new();
    for mode in &modes {
        errors += check::supported(&path, mode, ACCESS_MODES);
    }
    let alone = modes.contains(&"ReadWriteOncePod");
    let others = modes
        .iter()
        .any(|m| *m != "ReadWriteOncePod" && ACCESS_MODES.contains(m));
    if alone && others {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.forbidden(&path, detail);
    }
    errors
}

/// The spec of a claim.
pub(crate) fn check_claim_spec(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    if spec.count("accessModes") == 0 {
        let detail = "at least 1 access mode is required";
        errors.required(&path.child("accessModes"), detail);
    }
    errors += labels::check_selector(&path.child("selector"), spec.at("selector"));
    errors += check_access_modes(path, spec);
    let here = path.child("resources").key("storage");
    match spec.entry("resources.requests", "storage") {
        None => errors.required(&here, ""),
        Some(amount) => errors += resources::check_positive(&here, amount),
    }
    errors += check::empty_or(path, spec, "storageClassName", check::subdomain);
    errors += check::optional_choice(path, spec, "volumeMode", MODES);
    for field in ["dataSource", "dataSourceRef"] {
        errors += check::if_set(path, spec, field, check_source_ref);
    }
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    let shown = path.child("dataSource");
    if !reference.text("namespace").is_empty() {
        if !source.is_null() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            errors.invalid(path, shown.as_str(), detail);
        }
    } else if !source.is_null() && !reference.is_null() {
        let alike = ["apiGroup", "kind", "name"]
            .iter()
            .all(|f| source.at(f) == reference.at(f));
        if !alike {
            errors.invalid(path, shown.as_str(), "must match dataSourceRef");
        }
    }
    errors += check::empty_or(path, spec, "volumeAttributesClassName", check::subdomain);
    errors
}

fn check_source_ref(path: &Path, source: &Value) -> Errors {
    let mut errors = check::required(&path.child("name"), source.text("name"));
    let kind = source.text("kind");
    errors += check::required(&path.child("kind"), kind);
    let group = source.text("apiGroup");
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(path, kind, detail);
    }
    errors += check::empty_or(path, source, "apiGroup", check::subdomain);
    errors += check::empty_or(path, source, "namespace", check::label);
    errors
}

fn check_claim_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check_claim_spec(&Path::new("spec"), new.at("spec"));
    let (mut spec, mut was) = (new.at("spec").clone(), old.at("spec").clone());
    // The binder sets the volume once; before that it is the one field that may still appear.
    if was.text("volumeName").is_empty() {
        keep(&mut was, &spec, "volumeName");
    }
    let (class, was_class) = (new.annotation(BETA_CLASS), old.annotation(BETA_CLASS));
    let named = spec.maybe_text("storageClassName").map(str::to_owned);
    if !was.has("storageClassName")
        && named.is_some()
        && named.as_deref() == was_class
        && class.is_none_or(|class| Some(class) == was_class)
    {
        remove(&mut spec, "storageClassName");
    } else {
        if class.unwrap_or_default() != was_class.unwrap_or_default() {
            let path = Path::new("metadata.annotations").child(BETA_CLASS);
            errors.invalid(&path, class.unwrap_or_default(), check::IMMUTABLE);
        }
        let allowed = was_class.is_none() || named.as_deref() == was_class;
        if named.is_some() && !was.has("storageClassName") && allowed {
            remove(&mut spec, "storageClassName");
        }
    }
    let bound = new.text("status.phase") == "Bound";
    if bound && spec.has("resources.requests") {
        keep(&mut spec, &was, "resources.requests.storage");
    }
    if bound {
        keep(&mut spec, &was, "volumeAttributesClassName");
    }
    if !same(&spec, &was) {
        let difference = layout::difference("PersistentVolumeClaimSpec", &was, &spec);
        let detail = format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{difference}"
        );
        errors.forbidden(&Path::new("spec"), detail);
    }
    let size = |claim: &Value, list: &str| {
        claim
            .entry(list, "storage")
            .map_or_else(resources::nothing, resources::quantity)
    };
    let wanted = size(new, "spec.resources.requests");
    // A failed expansion may be taken back, but not below the size that the volume already has:
    // file systems do not shrink.
    if wanted < size(old, "spec.resources.requests") && wanted <= size(old, "status.capacity") {
        let path = Path::new("spec.resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
    // Upstream reports it without its parent.
    errors += check::unchanged(new.at("spec"), old.at("spec"), "volumeMode");
    errors
}

fn check_claim_status(claim: &Value) -> Errors {
    let mut errors = Errors::new();
    for (name, amount) in claim.entries("status.capacity") {
        let value = resources::quantity(amount).value();
        if value < 0 {
            let path = Path::new("status.capacity").key(name);
            errors.invalid(&path, value, "must be a valid resource quantity");
        }
    }
    errors
}

fn claim_warnings(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if claim.annotation(BETA_CLASS).is_some() {
        warnings.push(format!(
            "{}: deprecated since v1.8; use \"storageClassName\" attribute instead",
            Path::new("metadata.annotations").key(BETA_CLASS)
        ));
    }
    for list in ["requests", "limits"] {
        let amount = claim.at("spec.resources").entry(list, "storage");
        if let Some(amount) =
            amount.filter(|amount| !resources::is_whole(&resources::quantity(amount)))
        {
            warnings.push(format!(
                "{}: fractional byte value {} is invalid, must be an integer",
                Path::new("spec.resources").child(list).key("storage"),
                machinery::json::go_quote(&resources::text(Some(amount)))
            ));
        }
    }
    warnings
}

/// The name of a CSI driver.
pub(crate) fn check_driver_name(path: &Path, name: &str) -> Errors {
    if name.is_empty() {
        return FieldError::required(path, "").into();
    }
    let mut errors = Errors::new();
    if name.len() > 63 {
        errors.too_long(path, 63);
    }
    let messages = machinery::names::is_dns1123_subdomain(&name.to_lowercase());
    errors += check::invalid_each(path, name, messages);
    errors
}

fn check_volume(volume: &Value) -> Errors {
    check_volume_spec(&Path::new("spec"), volume.at("spec"))
}

fn check_volume_spec(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    if spec.count("accessModes") == 0 {
        errors.required(&path.child("accessModes"), "");
    }
    errors += check_access_modes(path, spec);
    let here = path.child("capacity");
    if spec.count("capacity") == 0 {
        errors.required(&here, "");
    }
    if spec.entry("capacity", "storage").is_none() || spec.count("capacity") > 1 {
        let capacity = spec.at("capacity").clone();
        errors.not_supported(&here, capacity, ["storage"]);
    }
    for (name, amount) in spec.entries("capacity") {
        errors += resources::check_positive(&here.key(name), amount);
    }
    let policy = spec.text("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        let path = path.child("persistentVolumeReclaimPolicy");
        errors += check::supported(&path, policy, &["Delete", "Recycle", "Retain"]);
    }
    if spec.has("nodeAffinity") {
        let path = path.child("nodeAffinity").child("required");
        if spec.has("nodeAffinity.required") {
            let required = spec.at("nodeAffinity.required");
            errors += scheduling::check_node_selector(&path, required);
        } else {
            errors.required(&path, "must specify required node constraints");
        }
    }
    errors += check_volume_source(path, spec);
    if spec.text("hostPath.path") == "/" && policy == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), detail);
    }
    errors += check::empty_or(path, spec, "storageClassName", check::subdomain);
    errors += check::optional_choice(path, spec, "volumeMode", MODES);
    if let Some(class) = spec.maybe_text("volumeAttributesClassName") {
        let here = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.required(&here, "an empty string is disallowed");
        } else {
            errors += check::subdomain(&here, class);
        }
        if !spec.has("csi") {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.required(&path.child("csi"), detail);
        }
    }
    errors
}

fn check_volume_source(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut found = false;
    for sort in SOURCES.split(' ') {
        let source = spec.at(sort);
        if source.is_null() {
            continue;
        }
        let here = path.child(sort);
        // Upstream checks only the first source and reports the others as such, so that messages
        // stay about one of them.
        if found {
            errors.forbidden(&here, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match sort {
            "hostPath" => errors += volume::check_host_path(&here, source),
            "nfs" => errors += volume::check_nfs(&here, source),
            "local" => {
                let at = source.text("path");
                errors += check::required(&here.child("path"), at);
                errors += check::no_backsteps(&here.child("path"), at);
                if !spec.has("nodeAffinity.required") {
                    let detail = "Local volume requires node affinity";
                    errors.required(&path.child("nodeAffinity"), detail);
                }
            }
            "csi" => {
                errors += check_driver_name(&here.child("driver"), source.text("driver"));
                let handle = source.text("volumeHandle");
                errors += check::required(&here.child("volumeHandle"), handle);
            }
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
    errors
}

fn source_of(volume: &Value) -> Value {
    let spec = volume.at("spec");
    let sources = SOURCES.split(' ').filter(|sort| spec.has(sort));
    Value::Object(
        sources
            .map(|sort| ((*sort).to_owned(), spec.at(sort).clone()))
            .collect(),
    )
}

fn check_volume_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check_volume(new);
    let (mut source, was) = (source_of(new), source_of(old));
    if was.has("csi") && !was.has("csi.controllerExpandSecretRef") {
        remove(&mut source, "csi.controllerExpandSecretRef");
    }
    if !same(&source, &was) {
        let difference = layout::difference("PersistentVolumeSource", &was, &source);
        let detail =
            format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.forbidden(&Path::new("spec.persistentvolumesource"), detail);
    }
    // Upstream reports it without its parent.
    errors += check::unchanged(new.at("spec"), old.at("spec"), "volumeMode");
    let class = "spec.volumeAttributesClassName";
    if old.has(class) && !new.has(class) {
        let detail = "update from non-nil value to nil is forbidden";
        errors.forbidden(&Path::new(class), detail);
    }
    errors
}

fn prepare_volume_update(new: &mut Value, old: &Value, part: Part<'_>, context: WriteContext<'_>) {
    if part != Part::Status {
        keep(new, old, "status");
        return;
    }
    keep(new, old, "spec");
    let time = "status.lastPhaseTransitionTime";
    let moved = new.text("status.phase") != old.text("status.phase");
    if !moved && !new.has(time) {
        keep(new, old, time);
    // A controller that sends back what it has read has not set the time of the new phase.
    } else if moved && (!new.has(time) || new.at(time) == old.at(time)) {
        set(new, time, format_time(context.now));
    }
}

fn volume_warnings(volume: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if volume.annotation(BETA_CLASS).is_some() {
        all.push(format!(
            "{}: deprecated since v1.8; use \"storageClassName\" attribute instead",
            Path::new("metadata.annotations").key(BETA_CLASS)
        ));
    }
    if volume.text("spec.persistentVolumeReclaimPolicy") == "Recycle" {
        all.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. \
             Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let terms = volume.items("spec.nodeAffinity.required.nodeSelectorTerms");
    for (path, term) in indexed(
        &Path::new("spec.nodeAffinity.required.nodeSelectorTerms"),
        terms,
    ) {
        warnings::about_term(&path, term, &mut all);
    }
    all
}

/// Access modes in their short form.
fn modes(list: &[&str]) -> Value {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown = known
        .iter()
        .filter(|(mode, _)| list.contains(mode))
        .map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",").into()
}

const PHASE: fn(&Value) -> Value = |object| {
    let terminating = object.has("metadata.deletionTimestamp");
    if terminating {
        "Terminating"
    } else {
        object.text("status.phase")
    }
    .into()
};

const STORAGE_CLASS: Column = column!("StorageClass" string Of(|object| {
    let class = object.annotation(BETA_CLASS);
    class.unwrap_or_else(|| object.text("spec.storageClassName")).into()
}) => "Class of the storage");

const ATTRIBUTES_CLASS: Column = column!("VolumeAttributesClass" string
    IfSet("spec.volumeAttributesClassName", "<unset>") => "Class of the volume's attributes");

const VOLUME_MODE: Column = column!("VolumeMode" wide IfSet("spec.volumeMode", "<unset>")
    => "Whether it holds files or is a block device");

const VOLUME_COLUMNS: &[Column] = &[
    NAME,
    column!("Capacity" string
        Of(|volume| resources::text(volume.entry("spec.capacity", "storage")).into())
        => "How much fits"),
    column!("Access Modes" string Of(|volume| modes(&volume.texts("spec.accessModes")))
        => "Ways the volume can be mounted"),
    column!("Reclaim Policy" string Text("spec.persistentVolumeReclaimPolicy")
        => "What happens when the claim is deleted"),
    column!("Status" string Of(PHASE) => "Whether the volume is available, bound or released"),
    column!("Claim" string Of(|volume| match volume.at("spec.claimRef") {
        Value::Null => "".into(),
        claim => format!("{}/{}", claim.text("namespace"), claim.text("name")).into(),
    }) => "The claim the volume is bound to"),
    STORAGE_CLASS,
    ATTRIBUTES_CLASS,
    column!("Reason" string Text("status.reason") => "Why the volume is in its state"),
    AGE,
    VOLUME_MODE,
];

const CLAIM_COLUMNS: &[Column] = &[
    NAME,
    column!("Status" string Of(PHASE) => "Whether the claim has a volume"),
    column!("Volume" string Text("spec.volumeName") => "The volume the claim is bound to"),
    column!("Capacity" string Of(|claim| match claim.text("spec.volumeName") {
        "" => "".into(),
        _ => resources::text(claim.entry("status.capacity", "storage")).into(),
    }) => "How much fits"),
    column!("Access Modes" string Of(|claim| match claim.text("spec.volumeName") {
        "" => "".into(),
        _ => modes(&claim.texts("status.accessModes")),
    }) => "Ways the volume can be mounted"),
    STORAGE_CLASS,
    ATTRIBUTES_CLASS,
    AGE,
    VOLUME_MODE,
];
