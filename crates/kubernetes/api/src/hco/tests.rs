use serde_json::{Value, json};

use super::*;

fn read(version: &str, spec: &Value) -> Images {
    let object = json!({
        "apiVersion": format!("hco.kubevirt.io/{version}"),
        "kind": "HyperConverged",
        "metadata": { "name": "kubevirt-hyperconverged", "namespace": "kubevirt", "generation": 3 },
        "spec": spec,
        "status": { "dataImportSchedule": "1 2/12 * * *", "conditions": [] },
    });
    if version == "v1" {
        let read: v1::HyperConverged = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(
            serde_json::to_value(&read).unwrap()["status"],
            object["status"]
        );
        read.into()
    } else {
        let read: v1beta1::HyperConverged = serde_json::from_value(object).unwrap();
        read.into()
    }
}

#[test]
fn both_versions_give_the_same_settings() {
    let templates = json!([{ "metadata": { "name": "a" } }]);
    let placement = json!({ "nodeSelector": { "a": "b" } });
    let new = read(
        "v1",
        &json!({
            "workloadSources": {
                "enableCommonBootImageImport": false,
                "dataImportCronTemplates": templates,
                "commonBootImageNamespace": "images",
                "commonTemplatesNamespace": "templates",
            },
            "deployment": { "nodePlacements": { "workload": placement, "infra": {} } },
            "featureGates": [{ "name": "EnableMultiArchBootImageImport", "state": "Enabled" }],
        }),
    );
    let old = read(
        "v1beta1",
        &json!({
            "enableCommonBootImageImport": false,
            "dataImportCronTemplates": templates,
            "commonBootImageNamespace": "images",
            "commonTemplatesNamespace": "templates",
            "workloads": { "nodePlacement": placement },
            "featureGates": { "enableMultiArchBootImageImport": true },
        }),
    );
    assert_eq!(old.version, Version::V1Beta1);
    let old = Images {
        version: Version::V1,
        ..old
    };
    assert_eq!(new, old);
    assert_eq!(new.placement, Some(placement));
    assert_eq!(new.generation, Some(3));
    assert!(!new.common_boot_images);
}

#[test]
fn absent_fields_have_defaults() {
    let images = read("v1", &json!({}));
    assert!(images.common_boot_images);
    assert_eq!(images.common_templates_namespace, "openshift");
    assert_eq!((images.field, images.gates.len()), (None, 0));
    let images = read("v1beta1", &json!({ "commonBootImageNamespace": "" }));
    assert_eq!(images.common_boot_image_namespace, None);
}

/// The switch has had three places and two names.
#[test]
fn the_switch_is_found_under_all_its_names() {
    let gate = |name, on| Gate { name, on };
    let images = read(
        "v1",
        &json!({
            "workloadSources": { MULTI_ARCH: false, MULTI_ARCH_PROPOSED: true },
            "featureGates": [
                { "name": "other" },
                { "name": "enableMultiArchCommonBootImageImport", "state": "Disabled" },
                { "name": "enableMultiArchBootImageImport" },
            ],
        }),
    );
    assert_eq!(
        (images.field, images.proposed_field),
        (Some(false), Some(true))
    );
    assert_eq!(
        images.gates,
        [
            gate(GateName::Proposed, false),
            gate(GateName::Current, true)
        ]
    );
    let images = read(
        "v1beta1",
        &json!({ "featureGates": { MULTI_ARCH_PROPOSED: true, "deployKubeSecondaryDNS": true } }),
    );
    assert_eq!(images.gates, [gate(GateName::Proposed, true)]);
}
