//! The `storage.k8s.io` group (rules: `pkg/apis/storage/validation`).

mod driver;

use machinery::field::Path;
use serde_json::{Value, json};

use crate::builtin::core::volumes::check_driver_name;
use crate::builtin::entry::Capability::{ConditionalUpdate, DeleteReturnsObject, Status};
use crate::builtin::entry::Cell::{Flag, IfSet, Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::pod_spec::{defaults, warnings};
use crate::builtin::value::{Read, existing, fill, indexed, keep, set};
use crate::builtin::{check, labels, print, resources};
use crate::kind::Part;

const GROUP: &str = "storage.k8s.io";

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[driver::DRIVER, driver::NODE, CAPACITY, CLASS, ATTACHMENT];

const CLASS: Entry = Entry {
    short_names: &["sc"],
    namespaced: false,
    capabilities: &[DeleteReturnsObject],
    default: |class| {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
    },
    validate: check_class,
    validate_update: |new, old, _| {
        let mut errors = check_class(new);
        let fixed = "parameters provisioner reclaimPolicy volumeBindingMode";
        errors += check::unchanged(new, old, fixed);
        errors
    },
    warnings: |class, _| {
        let mut all = Vec::new();
        for (i, term) in class.items("allowedTopologies").iter().enumerate() {
            for (j, expression) in term.items("matchLabelExpressions").iter().enumerate() {
                if let Some(message) = warnings::old_node_label(expression.text("key")) {
                    let path = Path::new("allowedTopologies").index(i);
                    let path = path.child("matchLabelExpressions").index(j).child("key");
                    all.push(format!("{path}: {message}"));
                }
            }
        }
        all
    },
    columns: CLASS_COLUMNS,
    ..Entry::new(GROUP, "v1", "StorageClass", "storageclasses")
};

const DEFAULT_CLASS: &[&str] = &[
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

const CLASS_COLUMNS: &[Column] = &[
    Column {
        cell: Of(|class| print::marked_default(class, DEFAULT_CLASS)),
        ..NAME
    },
    column!("Provisioner" string Text("provisioner") => "Who provisions the volumes"),
    column!("ReclaimPolicy" string IfSet("reclaimPolicy", "Delete")
        => "What happens to volumes when their claim is deleted"),
    column!("VolumeBindingMode" string IfSet("volumeBindingMode", "Immediate")
        => "When claims are bound"),
    column!("AllowVolumeExpansion" string Flag("allowVolumeExpansion")
        => "Whether volumes may grow"),
    AGE,
];

fn check_class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    match class.text("provisioner") {
        "" => errors.required(&Path::new("provisioner"), ""),
        name => errors += check::qualified(&Path::new("provisioner"), &name.to_lowercase()),
    }
    let path = Path::new("parameters");
    let parameters = class.entries("parameters");
    if parameters.len() > 512 {
        errors.too_long(&path, 512);
    } else {
        let mut size = 0;
        for (key, value) in parameters {
            if key.is_empty() {
                errors.invalid(&path, key, "field can not be empty.");
            }
            size += key.len() + value.as_str().map_or(0, str::len);
        }
        if size > 256 * 1024 {
            errors.too_long(&path, 256 * 1024);
        }
    }
    let policy = class
        .maybe_text("reclaimPolicy")
        .filter(|policy| !policy.is_empty());
    let path = Path::new("reclaimPolicy");
    errors += check::maybe_one_of(&path, policy, &["Delete", "Retain"]);
    let path = Path::new("volumeBindingMode");
    match class.maybe_text("volumeBindingMode") {
        None => errors.required(&path, ""),
        mode => {
            errors += check::maybe_one_of(&path, mode, &["Immediate", "WaitForFirstConsumer"]);
        }
    }
    errors += check_topologies(&Path::new("allowedTopologies"), class);
    errors
}

fn check_topologies(path: &Path, class: &Value) -> Errors {
    let terms = class.items("allowedTopologies");
    let mut errors = Errors::new();
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i).child("matchLabelExpressions");
        let mut keys = Vec::new();
        for (path, expression) in indexed(&path, term.items("matchLabelExpressions")) {
            let values = expression.texts("values");
            if values.is_empty() {
                errors.required(&path.child("values"), "");
            }
            for (k, value) in values.iter().enumerate() {
                if values[..k].contains(value) {
                    errors.duplicate(&path.child("values").index(k), *value);
                }
            }
            let key = expression.text("key");
            errors += check::qualified(&path.child("key"), key);
            errors += check::unique(&path.child("key"), key, &mut keys);
        }
        if terms[..i].contains(term) {
            errors.duplicate(&path, "");
        }
    }
    errors
}

const CAPACITY: Entry = Entry {
    capabilities: &[ConditionalUpdate],
    validate: |capacity| {
        let path = Path::new("nodeTopology");
        let mut errors = labels::check_selector(&path, capacity.at("nodeTopology"));
        let class = capacity.text("storageClassName");
        errors += check::subdomain(&Path::new("storageClassName"), class);
        if capacity.has("capacity") {
            let path = Path::new("capacity");
            errors += resources::check_amount(&path, "storage", capacity.at("capacity"));
        }
        errors
    },
    validate_update: |new, old, _| check::unchanged(new, old, "nodeTopology storageClassName"),
    columns: &[
        NAME,
        column!("StorageClassName" string Text("storageClassName") => "Class of the storage"),
        column!("Capacity" string IfSet("capacity", "<unset>") => "How much is left"),
    ],
    ..Entry::new(GROUP, "v1", "CSIStorageCapacity", "csistoragecapacities")
};

const ATTACHMENT: Entry = Entry {
    namespaced: false,
    capabilities: &[Status, ConditionalUpdate, DeleteReturnsObject],
    default: |attachment| {
        if let Some(spec) = existing(attachment, "spec.source.inlineVolumeSpec") {
            defaults::source(spec);
        }
    },
    prepare_create: |attachment, _| set(attachment, "status", json!({ "attached": false })),
    prepare_update: |new, old, part, _| match part {
        Part::Status => {
            keep(new, old, "spec");
            crate::builtin::core::pod::keep_metadata(new, old);
        }
        _ => keep(new, old, "status"),
    },
    validate: check_attachment,
    validate_update: |new, old, _| {
        let mut errors = check_attachment(new);
        errors += check::unchanged(new, old, "spec");
        errors
    },
    columns: ATTACHMENT_COLUMNS,
    status_resets: &["metadata", "spec"],
    ..Entry::new(GROUP, "v1", "VolumeAttachment", "volumeattachments")
};

const ATTACHMENT_COLUMNS: &[Column] = &[
    NAME,
    Column {
        format: "name",
        ..column!("Attacher" string Text("spec.attacher") => "Who attaches the volume")
    },
    column!("PV" string Text("spec.source.persistentVolumeName") => "The volume"),
    column!("Node" string Text("spec.nodeName") => "The node it is attached to"),
    column!("Attached" boolean Flag("status.attached") => "Whether it is attached"),
    AGE,
];

fn check_attachment(attachment: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = attachment.at("spec");
    let mut errors = check_driver_name(&path.child("attacher"), spec.text("attacher"));
    let here = path.child("source");
    let source = spec.at("source");
    let both = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (
        source.has("inlineVolumeSpec"),
        source.maybe_text("persistentVolumeName"),
    ) {
        (false, None) => errors.required(&here, both),
        (true, Some(_)) => errors.forbidden(&here, both),
        (false, Some("")) => {
            let here = here.child("persistentVolumeName");
            errors.required(&here, "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    errors += check::subdomain(&path.child("nodeName"), spec.text("nodeName"));
    for field in ["attachError", "detachError"] {
        if attachment.at("status").at(field).text("message").len() > 1024 {
            let path = Path::new("status").child(field).child("message");
            errors.too_long(&path, 256 * 1024);
        }
    }
    if let Some(name) = source.maybe_text("persistentVolumeName") {
        errors += check::subdomain(&Path::new("spec.source.persistentVolumeName"), name);
    }
    errors
}
