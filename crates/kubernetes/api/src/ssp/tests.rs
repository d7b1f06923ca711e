use serde_json::json;

use super::*;

#[test]
fn unknown_fields_are_preserved() {
    let ssp = json!({
        "apiVersion": "ssp.kubevirt.io/v1beta3",
        "kind": "SSP",
        "metadata": { "name": "ssp", "namespace": "kubevirt" },
        "spec": {
            "enableMultipleArchitectures": true,
            "cluster": { "workloadArchitectures": ["amd64"], "controlPlaneArchitectures": ["amd64"], "x": 1 },
            "commonTemplates": {
                "namespace": "openshift",
                "dataImportCronTemplates": [{
                    "metadata": { "name": "a", "annotations": { ARCHITECTURES: "amd64" } },
                    "spec": {
                        "managedDataSource": "b", "schedule": "", "template": { "spec": {} }, "unknown": [],
                    },
                }],
            },
            "templateValidator": { "replicas": 2 },
        },
        "status": { "conditions": [{ "type": "Available" }], "phase": "Deployed" },
    });
    let read: SSP = serde_json::from_value(ssp.clone()).unwrap();
    let template = &read.spec.common_templates.data_import_cron_templates[0];
    assert_eq!(template.name(), "a");
    assert_eq!(template.annotation(ARCHITECTURES), Some("amd64"));
    assert_eq!(template.annotation("other"), None);
    assert_eq!(serde_json::to_value(&read).unwrap(), ssp);
}
