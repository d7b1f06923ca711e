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
fn what_makes_no_sense_is_refused(#[case] spec: Value, #[case] expected: Denial) {
    let verdict = review(&ssp(spec), &BTreeSet::new(), true);
    assert_eq!(verdict, Verdict::Denied(expected));
}

#[test]
fn a_namespace_is_a_label() {
    let verdict = review(
        &ssp(json!({ "commonTemplates": { "namespace": "Not.This" } })),
        &BTreeSet::new(),
        false,
    );
    assert!(matches!(verdict, Verdict::Denied(Denial::Namespace { .. })));
}

#[test]
fn there_is_one() {
    let others = BTreeSet::from(["kubevirt".to_owned()]);
    let it = ssp(json!({}));
    assert_eq!(
        review(&it, &others, true),
        Verdict::Denied(Denial::Another("kubevirt".to_owned()))
    );
    assert_eq!(review(&it, &others, false), Verdict::Accepted(Vec::new()));
}

/// Upstream refuses the whole object, even with the feature off.
#[test]
fn a_strange_node_is_told_and_not_refused() {
    let it = ssp(json!({ "cluster": { "workloadArchitectures": ["amd64", "riscv64"] } }));
    let Verdict::Accepted(warnings) = review(&it, &BTreeSet::new(), true) else {
        panic!("refused");
    };
    assert_eq!(
        warnings,
        [
            "unknown workload architecture: \"riscv64\"; amd64, arm64 and s390x are accepted; it is ignored"
        ]
    );
}

#[test]
fn templates_that_cdi_would_refuse_are_told() {
    let it = ssp(json!({ "commonTemplates": { "dataImportCronTemplates": [{
        "metadata": { "name": "a" },
        "spec": { "managedDataSource": "d", "schedule": "often", "template": { "spec": { "source": {
            "registry": { "url": "docker://x" },
        } } } },
    }] } }));
    let Verdict::Accepted(warnings) = review(&it, &BTreeSet::new(), true) else {
        panic!("refused");
    };
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("DataImportCronTemplate a: "),
        "{warnings:?}"
    );
}
