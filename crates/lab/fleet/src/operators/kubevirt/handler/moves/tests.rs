use std::collections::BTreeMap;

use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::{Value, json};

use super::{mismatch, next};
use crate::model::Generation;
use crate::operators::kubevirt::fixtures::{launcher, object};
use crate::operators::kubevirt::launcher::Launcher;

fn instance(model: &str) -> DynamicObject {
    object(json!({
        "metadata": { "name": "vm", "uid": "i" },
        "spec": { "domain": { "cpu": { "model": model } } },
        "status": { "phase": "Running", "nodeName": "a" },
    }))
}

#[rstest]
#[case(json!(null), "Nothing")]
#[case(json!({}), "Prepare")]
#[case(json!({ "targetNodeAddress": "1.2.3.4" }), "Send")]
#[case(json!({ "targetNodeAddress": "1.2.3.4", "startTimestamp": "now" }), "Receive")]
#[case(json!({ "targetNodeAddress": "1.2.3.4", "startTimestamp": "now", "failed": true }), "Nothing")]
#[case(json!({ "completed": true }), "Leave")]
#[case(json!({ "completed": true, "failed": true }), "Nothing")]
#[case(json!({ "targetPod": "gone" }), "Nothing")]
#[case(json!({ "completed": true, "sourcePod": "gone" }), "Nothing")]
fn guest_moves_to_its_target(#[case] state: Value, #[case] expected: &str) {
    let mut instance = instance("host-model");
    if let Some(fields) = state.as_object() {
        let mut whole =
            json!({ "migrationUid": "m", "sourcePod": "source", "targetPod": "target" });
        for (name, value) in fields {
            whole[name] = value.clone();
        }
        instance.data["status"]["migrationState"] = whole;
    }
    let launchers = [launcher("source", "a"), launcher("target", "b")];
    let step = format!("{:?}", next(&instance, &launchers));
    assert_eq!(step.split('(').next(), Some(expected));
}

#[test]
fn libvirt_checks_more_than_labels() {
    let cpu = |name: &str| Generation::named(name).expect("known").describe();
    let requires = |key: &str| Launcher {
        node_selector: BTreeMap::from([(key.to_owned(), "true".to_owned())]),
        ..launcher("target", "b")
    };
    let target = requires("cpu-model-migration.node.kubevirt.io/Skylake-Server-IBRS");
    let guest = instance("host-model");
    assert_eq!(mismatch(&guest, &target, &cpu("skylake")), None);
    assert_eq!(mismatch(&guest, &target, &cpu("sapphirerapids")), None);
    let why = mismatch(&guest, &target, &cpu("icelake")).expect("no transactions");
    assert!(why.contains("missing features: hle,rtm"), "{why}");
    let named = instance("EPYC-Milan");
    assert_eq!(mismatch(&named, &target, &cpu("genoa")), None);
    assert!(mismatch(&named, &target, &cpu("rome")).is_some());
    let passthrough = instance("host-passthrough");
    assert_eq!(mismatch(&passthrough, &target, &cpu("rome")), None);
}
