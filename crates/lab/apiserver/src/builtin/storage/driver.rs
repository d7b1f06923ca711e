//! CSI drivers, and the nodes that have them.

use jiff::Timestamp;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use super::GROUP;
use crate::builtin::core::volumes::check_driver_name;
use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill, remove, same, set};
use crate::builtin::{check, layout, print};

/// Drivers.
pub(super) const DRIVER: Entry = Entry {
    namespaced: false,
    capabilities: Capabilities {
        conditional_update: true,
        delete_returns_object: true,
        ..Capabilities::NONE
    },
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
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |driver| check_driver(driver.at("spec")),
    validate_update: |new, old, _| {
        let mut errors = check_driver(new.at("spec"));
        for (field, shown) in [
            ("attachRequired", "attachedRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        ] {
            let path = Path::new("spec").child(shown);
            let (now, was) = (new.at("spec").at(field), old.at("spec").at(field));
            errors.extend(check::immutable(&path, now, was));
        }
        errors
    },
    columns: DRIVER_COLUMNS,
    cells: driver_cells,
    ..Entry::new(GROUP, "v1", "CSIDriver", "csidrivers", "csidriver")
};

const DRIVER_COLUMNS: &[Column] = &[
    NAME,
    column(
        "AttachRequired",
        "boolean",
        "Whether volumes have to be attached",
    ),
    column(
        "PodInfoOnMount",
        "boolean",
        "Whether the driver gets pod information on mount",
    ),
    column(
        "StorageCapacity",
        "boolean",
        "Whether the driver reports storage capacity",
    ),
    column(
        "TokenRequests",
        "string",
        "Audiences the driver needs tokens for",
    ),
    column(
        "RequiresRepublish",
        "boolean",
        "Whether volumes are published again and again",
    ),
    column("Modes", "string", "Sorts of volumes the driver knows"),
    AGE,
];

fn driver_cells(driver: &Value, now: Timestamp) -> Vec<Value> {
    let spec = driver.at("spec");
    let tokens = match spec.at("tokenRequests") {
        Value::Null => "<unset>".to_owned(),
        requests => {
            let audiences = requests
                .items("")
                .iter()
                .map(|request| request.text("audience"));
            audiences.collect::<Vec<_>>().join(",")
        }
    };
    vec![
        driver.name().into(),
        json!(spec.at("attachRequired").as_bool().unwrap_or(true)),
        json!(spec.is_true("podInfoOnMount")),
        json!(spec.is_true("storageCapacity")),
        tokens.into(),
        json!(spec.is_true("requiresRepublish")),
        print::or(&spec.texts("volumeLifecycleModes").join(","), "<none>"),
        print::age(driver, now),
    ]
}

fn check_driver(spec: &Value) -> Errors {
    let path = Path::new("spec");
    let mut errors = Errors::new();
    errors.extend(check::maybe_one_of(
        &path.child("fsGroupPolicy"),
        spec.maybe_text("fsGroupPolicy"),
        &["File", "None", "ReadWriteOnceWithFSType"],
    ));
    let mut audiences = Vec::new();
    for (i, request) in spec.items("tokenRequests").iter().enumerate() {
        let path = path.child("tokenRequests").index(i);
        let audience = request.text("audience");
        if audiences.contains(&audience) {
            errors.push(FieldError::duplicate(&path.child("audience"), audience));
            continue;
        }
        audiences.push(audience);
        let path = path.child("expirationSeconds");
        match request.int("expirationSeconds") {
            Some(seconds) if seconds < 600 => errors.push(FieldError::invalid(
                &path,
                seconds,
                "may not specify a duration less than 10 minutes",
            )),
            Some(seconds) if seconds > 1 << 32 => errors.push(FieldError::invalid(
                &path,
                seconds,
                "may not specify a duration larger than 2^32 seconds",
            )),
            _ => {}
        }
    }
    for mode in spec.texts("volumeLifecycleModes") {
        let path = path.child("volumeLifecycleModes");
        errors.extend(check::supported(&path, mode, &["Persistent", "Ephemeral"]));
    }
    match spec.int("nodeAllocatableUpdatePeriodSeconds") {
        Some(period) if period < 10 => errors.push(FieldError::invalid(
            &path.child("nodeAllocatableUpdatePeriodSeconds"),
            period,
            "must be greater than or equal to 10 seconds",
        )),
        _ => {}
    }
    errors
}

/// Drivers of a node.
pub(super) const NODE: Entry = Entry {
    namespaced: false,
    capabilities: Capabilities {
        conditional_update: true,
        delete_returns_object: true,
        ..Capabilities::NONE
    },
    default: |node| fill(node, "spec.drivers", Value::Null),
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: check_node,
    validate_update: |new, old, _| {
        let mut errors = check_node(new);
        let path = check::path("spec.drivers");
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
        column("Drivers", "integer", "How many drivers the node has"),
        AGE,
    ],
    cells: |node, now| {
        vec![
            node.name().into(),
            json!(node.count("spec.drivers")),
            print::age(node, now),
        ]
    },
    ..Entry::new(GROUP, "v1", "CSINode", "csinodes", "csinode")
};

fn check_node(node: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut names = Vec::new();
    for (i, driver) in node.items("spec.drivers").iter().enumerate() {
        let path = check::path("spec.drivers").index(i);
        let name = driver.text("name");
        errors.extend(check_driver_name(&path.child("name"), name));
        let id = driver.text("nodeID");
        errors.extend(check::required(&path.child("nodeID"), id));
        if id.len() > 256 {
            let detail = "must be 256 characters or less";
            errors.push(FieldError::invalid(&path.child("nodeID"), id, detail));
        }
        let here = path.child("allocatable").child("count");
        errors.extend(check::not_negative(&here, driver.int("allocatable.count")));
        if names.contains(&name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        names.push(name);
        let keys = driver.texts("topologyKeys");
        for (j, key) in keys.iter().enumerate() {
            errors.extend(check::required(&path, key));
            if keys[..j].contains(key) {
                errors.push(FieldError::duplicate(&path, *key));
            }
            errors.extend(check::qualified(&path, key));
        }
    }
    errors
}
