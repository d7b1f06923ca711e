//! CSI drivers, and the nodes that have them (`ValidateCSIDriver`, `ValidateCSINode`).

use machinery::field::Path;
use serde_json::{Value, json};

use super::GROUP;
use crate::builtin::core::volumes::check_driver_name;
use crate::builtin::entry::Capability::{ConditionalUpdate, DeleteReturnsObject};
use crate::builtin::entry::Cell::{Count, Flag, Of};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill, remove, same, set};
use crate::builtin::{check, layout, print};

/// Drivers.
pub(super) const DRIVER: Entry = Entry {
    namespaced: false,
    capabilities: &[ConditionalUpdate, DeleteReturnsObject],
    default: |driver| {
        fill(driver, "spec.attachRequired", true);
        for field in [
            "podInfoOnMount",
            "storageCapacity",
            "requiresRepublish",
            "seLinuxMount",
        ] {
            fill(driver, &format!("spec.{field}"), false);
        }
        fill(driver, "spec.fsGroupPolicy", "ReadWriteOnceWithFSType");
        if driver.count("spec.volumeLifecycleModes") == 0 {
            set(driver, "spec.volumeLifecycleModes", json!(["Persistent"]));
        }
    },
    validate: |driver| check_driver(driver.at("spec")),
    validate_update: |new, old, _| {
        let mut errors = check_driver(new.at("spec"));
        for (field, shown) in [
            ("attachRequired", "attachedRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        ] {
            let path = Path::new("spec").child(shown);
            let (now, was) = (new.at("spec").at(field), old.at("spec").at(field));
            errors += check::immutable(&path, now, was);
        }
        errors
    },
    columns: DRIVER_COLUMNS,
    ..Entry::new(GROUP, "v1", "CSIDriver", "csidrivers")
};

const DRIVER_COLUMNS: &[Column] = &[
    NAME,
    column!("AttachRequired" boolean Of(|driver| {
        driver.at("spec.attachRequired").as_bool().unwrap_or(true).into()
    }) => "Whether volumes have to be attached"),
    column!("PodInfoOnMount" boolean Flag("spec.podInfoOnMount")
        => "Whether the driver gets pod information on mount"),
    column!("StorageCapacity" boolean Flag("spec.storageCapacity")
        => "Whether the driver reports storage capacity"),
    column!("TokenRequests" string Of(audiences) => "Audiences the driver needs tokens for"),
    column!("RequiresRepublish" boolean Flag("spec.requiresRepublish")
        => "Whether volumes are published periodically"),
    column!("Modes" string Of(|driver| {
        print::or(&driver.texts("spec.volumeLifecycleModes").join(","), "<none>")
    }) => "Volume lifecycle modes that the driver supports"),
    AGE,
];

fn audiences(driver: &Value) -> Value {
    match driver.at("spec.tokenRequests") {
        Value::Null => "<unset>".into(),
        requests => print::joined(requests.items(""), "audience"),
    }
}

fn check_driver(spec: &Value) -> Errors {
    let path = Path::new("spec");
    let mut errors = Errors::new();
    let accepted = ["File", "None", "ReadWriteOnceWithFSType"];
    errors += check::optional_choice(&path, spec, "fsGroupPolicy", &accepted);
    let mut audiences = Vec::new();
    for (path, request) in spec.each(&path, "tokenRequests") {
        let audience = request.text("audience");
        if audiences.contains(&audience) {
            errors.duplicate(&path.child("audience"), audience);
            continue;
        }
        audiences.push(audience);
        let path = path.child("expirationSeconds");
        match request.int("expirationSeconds") {
            Some(seconds) if seconds < 600 => errors.invalid(
                &path,
                seconds,
                "may not specify a duration less than 10 minutes",
            ),
            Some(seconds) if seconds > 1 << 32 => errors.invalid(
                &path,
                seconds,
                "may not specify a duration larger than 2^32 seconds",
            ),
            _ => {}
        }
    }
    for mode in spec.texts("volumeLifecycleModes") {
        let path = path.child("volumeLifecycleModes");
        errors += check::supported(&path, mode, &["Persistent", "Ephemeral"]);
    }
    match spec.int("nodeAllocatableUpdatePeriodSeconds") {
        Some(period) if period < 10 => errors.invalid(
            &path.child("nodeAllocatableUpdatePeriodSeconds"),
            period,
            "must be greater than or equal to 10 seconds",
        ),
        _ => {}
    }
    errors
}

/// Drivers of a node.
pub(super) const NODE: Entry = Entry {
    namespaced: false,
    capabilities: &[ConditionalUpdate, DeleteReturnsObject],
    default: |node| fill(node, "spec.drivers", Value::Null),
    validate: check_node,
    validate_update: |new, old, _| {
        let mut errors = check_node(new);
        let path = Path::new("spec.drivers");
        for was in old.items("spec.drivers") {
            for now in new.items("spec.drivers") {
                let (mut was, mut now) = (was.clone(), now.clone());
                remove(&mut was, "allocatable");
                remove(&mut now, "allocatable");
                if was.text("name") == now.text("name") && !same(&now, &was) {
                    errors.push(layout::invalid(
                        &path,
                        "CSINodeDriver",
                        &now,
                        check::IMMUTABLE,
                    ));
                }
            }
        }
        errors
    },
    columns: &[
        NAME,
        column!("Drivers" integer Count("spec.drivers") => "How many drivers the node has"),
        AGE,
    ],
    ..Entry::new(GROUP, "v1", "CSINode", "csinodes")
};

fn check_node(node: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut names = Vec::new();
    for (path, driver) in node.each(&Path::root(), "spec.drivers") {
        let name = driver.text("name");
        errors += check_driver_name(&path.child("name"), name);
        let id = driver.text("nodeID");
        errors += check::required(&path.child("nodeID"), id);
        if id.len() > 256 {
            errors.invalid(&path.child("nodeID"), id, "must be 256 characters or less");
        }
        let here = path.child("allocatable").child("count");
        errors += check::not_negative(&here, driver.int("allocatable.count"));
        errors += check::unique(&path.child("name"), name, &mut names);
        let keys = driver.texts("topologyKeys");
        for (j, key) in keys.iter().enumerate() {
            errors += check::required(&path, key);
            if keys[..j].contains(key) {
                errors.duplicate(&path, *key);
            }
            errors += check::qualified(&path, key);
        }
    }
    errors
}
