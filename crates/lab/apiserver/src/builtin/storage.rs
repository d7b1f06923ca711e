//! The `storage.k8s.io` group.

mod driver;

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::core::volumes::check_driver_name;
use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column};
use crate::builtin::pod_spec::{defaults, warnings};
use crate::builtin::value::{Read, existing, fill, keep, set};
use crate::builtin::{check, labels, print, resources};
use crate::kind::Part;

const GROUP: &str = "storage.k8s.io";

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[driver::DRIVER, driver::NODE, CAPACITY, CLASS, ATTACHMENT];

const CLASS: Entry = Entry {
    short_names: &["sc"],
    namespaced: false,
    capabilities: Capabilities {
        delete_returns_object: true,
        ..Capabilities::NONE
    },
    default: |class| {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: check_class,
    validate_update: |new, old, _| {
        let mut errors = check_class(new);
        for field in [
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ] {
            errors.extend(check::immutable(
                &Path::new(field),
                new.at(field),
                old.at(field),
            ));
        }
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
    cells: |class, now| {
        let is_default = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ]
        .iter()
        .any(|key| class.annotation(key) == Some("true"));
        let mark = if is_default { " (default)" } else { "" };
        vec![
            format!("{}{mark}", class.name()).into(),
            class.text("provisioner").into(),
            print::maybe(class.maybe_text("reclaimPolicy"), "Delete"),
            print::maybe(class.maybe_text("volumeBindingMode"), "Immediate"),
            json!(class.is_true("allowVolumeExpansion")),
            print::age(class, now),
        ]
    },
    ..Entry::new(
        GROUP,
        "v1",
        "StorageClass",
        "storageclasses",
        "storageclass",
    )
};

const CLASS_COLUMNS: &[Column] = &[
    NAME,
    column("Provisioner", "string", "Who makes the volumes"),
    column(
        "ReclaimPolicy",
        "string",
        "What happens to volumes when their claim goes",
    ),
    column("VolumeBindingMode", "string", "When claims are bound"),
    column("AllowVolumeExpansion", "string", "Whether volumes may grow"),
    AGE,
];

fn check_class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    match class.text("provisioner") {
        "" => errors.push(FieldError::required(&Path::new("provisioner"), "")),
        name => errors.extend(check::qualified(
            &Path::new("provisioner"),
            &name.to_lowercase(),
        )),
    }
    let path = Path::new("parameters");
    let parameters = class.entries("parameters");
    if parameters.len() > 512 {
        errors.push(FieldError::too_long(&path, 512));
    } else {
        let mut size = 0;
        for (key, value) in parameters {
            if key.is_empty() {
                errors.push(FieldError::invalid(&path, key, "field can not be empty."));
            }
            size += key.len() + value.as_str().map_or(0, str::len);
        }
        if size > 256 * 1024 {
            errors.push(FieldError::too_long(&path, 256 * 1024));
        }
    }
    let policy = class
        .maybe_text("reclaimPolicy")
        .filter(|policy| !policy.is_empty());
    let path = Path::new("reclaimPolicy");
    errors.extend(check::maybe_one_of(&path, policy, &["Delete", "Retain"]));
    let path = Path::new("volumeBindingMode");
    match class.maybe_text("volumeBindingMode") {
        None => errors.push(FieldError::required(&path, "")),
        mode => {
            let accepted = ["Immediate", "WaitForFirstConsumer"];
            errors.extend(check::maybe_one_of(&path, mode, &accepted));
        }
    }
    errors.extend(check_topologies(&Path::new("allowedTopologies"), class));
    errors
}

fn check_topologies(path: &Path, class: &Value) -> Errors {
    let terms = class.items("allowedTopologies");
    let mut errors = Errors::new();
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i).child("matchLabelExpressions");
        let mut keys = Vec::new();
        for (j, expression) in term.items("matchLabelExpressions").iter().enumerate() {
            let path = path.index(j);
            let values = expression.texts("values");
            if values.is_empty() {
                errors.push(FieldError::required(&path.child("values"), ""));
            }
            for (k, value) in values.iter().enumerate() {
                if values[..k].contains(value) {
                    errors.push(FieldError::duplicate(
                        &path.child("values").index(k),
                        *value,
                    ));
                }
            }
            let key = expression.text("key");
            errors.extend(check::qualified(&path.child("key"), key));
            if keys.contains(&key) {
                errors.push(FieldError::duplicate(&path.child("key"), key));
            }
            keys.push(key);
        }
        if terms[..i].contains(term) {
            errors.push(FieldError::duplicate(&path, ""));
        }
    }
    errors
}

const CAPACITY: Entry = Entry {
    capabilities: Capabilities {
        conditional_update: true,
        ..Capabilities::NONE
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |capacity| {
        let path = Path::new("nodeTopology");
        let mut errors = labels::check_selector(&path, capacity.at("nodeTopology"));
        let class = capacity.text("storageClassName");
        errors.extend(check::subdomain(&Path::new("storageClassName"), class));
        if capacity.has("capacity") {
            let path = Path::new("capacity");
            errors.extend(resources::check_amount(
                &path,
                "storage",
                capacity.at("capacity"),
            ));
        }
        errors
    },
    validate_update: |new, old, _| {
        ["nodeTopology", "storageClassName"]
            .iter()
            .flat_map(|field| check::immutable(&Path::new(field), new.at(field), old.at(field)))
            .collect()
    },
    columns: &[
        NAME,
        column("StorageClassName", "string", "Class of the storage"),
        column("Capacity", "string", "How much is left"),
    ],
    cells: |capacity, _| {
        vec![
            capacity.name().into(),
            capacity.text("storageClassName").into(),
            print::maybe(capacity.maybe_text("capacity"), "<unset>"),
        ]
    },
    ..Entry::new(
        GROUP,
        "v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        "csistoragecapacity",
    )
};

const ATTACHMENT: Entry = Entry {
    namespaced: false,
    capabilities: Capabilities {
        status: true,
        conditional_update: true,
        delete_returns_object: true,
        ..Capabilities::NONE
    },
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
        errors.extend(check::immutable(
            &Path::new("spec"),
            new.at("spec"),
            old.at("spec"),
        ));
        errors
    },
    columns: ATTACHMENT_COLUMNS,
    cells: |attachment, now| {
        vec![
            attachment.name().into(),
            attachment.text("spec.attacher").into(),
            attachment.text("spec.source.persistentVolumeName").into(),
            attachment.text("spec.nodeName").into(),
            json!(attachment.is_true("status.attached")),
            print::age(attachment, now),
        ]
    },
    status_resets: &["metadata", "spec"],
    ..Entry::new(
        GROUP,
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        "volumeattachment",
    )
};

const ATTACHMENT_COLUMNS: &[Column] = &[
    NAME,
    Column {
        format: "name",
        ..column("Attacher", "string", "Who attaches the volume")
    },
    column("PV", "string", "The volume"),
    column("Node", "string", "The node it is attached to"),
    column("Attached", "boolean", "Whether it is attached"),
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
        (false, None) => errors.push(FieldError::required(&here, both)),
        (true, Some(_)) => errors.push(FieldError::forbidden(&here, both)),
        (false, Some("")) => {
            let here = here.child("persistentVolumeName");
            errors.push(FieldError::required(
                &here,
                "must specify non empty persistentVolumeName",
            ));
        }
        _ => {}
    }
    errors.extend(check::subdomain(
        &path.child("nodeName"),
        spec.text("nodeName"),
    ));
    for field in ["attachError", "detachError"] {
        if attachment.at("status").at(field).text("message").len() > 1024 {
            let path = check::path("status").child(field).child("message");
            errors.push(FieldError::too_long(&path, 256 * 1024));
        }
    }
    if let Some(name) = source.maybe_text("persistentVolumeName") {
        errors.extend(check::subdomain(
            &Path::new("spec.source.persistentVolumeName"),
            name,
        ));
    }
    errors
}
