use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn ssp(spec: Value) -> SSP {
    serde_json::from_value(json!({
        "apiVersion": "ssp.kubevirt.io/v1beta3", "kind": "SSP", "metadata": { "name": "s" }, "spec": spec,
    }))
    .unwrap()
}

#[rstest]
#[case(json!({ "enableMultipleArchitectures": true }), Denial::NoCluster)]
#[case(json!({ "enableMultipleArchitectures": true, "cluster": {} }), Denial::NoArchitecture)]
#[case(json!({ "commonTemplates": { "dataImportCronTemplates": [{ "metadata": {} }] } }), Denial::NoName)]
fn invalid_object_is_rejected(#[case] spec: Value, #[case] expected: Denial) {
    let verdict = review(&ssp(spec), &BTreeSet::new(), true);
    assert_eq!(verdict, SspAdmission::Denied(expected));
}

#[test]
fn namespace_must_be_a_dns_label() {
    let verdict = review(
        &ssp(json!({ "commonTemplates": { "namespace": "Not.This" } })),
        &BTreeSet::new(),
        false,
    );
    assert!(matches!(
        verdict,
        SspAdmission::Denied(Denial::Namespace { .. })
    ));
}

#[test]
fn second_ssp_is_denied() {
    let others = BTreeSet::from(["kubevirt".to_owned()]);
    let it = ssp(json!({}));
    assert_eq!(
        review(&it, &others, true),
        SspAdmission::Denied(Denial::Another("kubevirt".to_owned()))
    );
    assert_eq!(
        review(&it, &others, false),
        SspAdmission::Accepted(Vec::new())
    );
}

/// Upstream rejects the whole object, even with the feature off.
#[test]
fn unsupported_node_architecture_is_a_warning() {
    let it = ssp(json!({ "cluster": { "workloadArchitectures": ["amd64", "riscv64"] } }));
    let SspAdmission::Accepted(warnings) = review(&it, &BTreeSet::new(), true) else {
        panic!("refused");
    };
    assert_eq!(
        warnings,
        [
            "unknown workload architecture: \"riscv64\"; it is ignored; amd64, arm64 and s390x are supported"
        ]
    );
}

#[test]
fn templates_that_cdi_rejects_cause_warnings() {
    let it = ssp(json!({ "commonTemplates": { "dataImportCronTemplates": [{
        "metadata": { "name": "a" },
        "spec": { "managedDataSource": "d", "schedule": "often", "template": { "spec": { "source": {
            "registry": { "url": "docker://x" },
        } } } },
    }] } }));
    let SspAdmission::Accepted(warnings) = review(&it, &BTreeSet::new(), true) else {
        panic!("refused");
    };
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("DataImportCronTemplate a: "),
        "{warnings:?}"
    );
}
