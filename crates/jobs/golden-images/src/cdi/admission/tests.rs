use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// A valid DataImportCron, with a merge patch applied.
#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn cron(patch: Value) -> DataImportCron {
    let mut object = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron", "metadata": { "name": "a" },
        "spec": {
            "template": { "spec": { "source": { "registry": { "url": "docker://quay.io/a/b" } } } },
            "schedule": "0 */12 * * *", "managedDataSource": "d",
        },
    });
    machinery::patch::merge_patch(&mut object, &patch).unwrap();
    serde_json::from_value(object).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn source(source: Value) -> Value {
    json!({ "spec": { "template": { "spec": { "source": source } } } })
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn registry(registry: Value) -> Value {
    source(json!({ "registry": registry }))
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn file(more: Value) -> Value {
    let mut http = json!({ "url": "https://x/y.qcow2" });
    machinery::patch::merge_patch(&mut http, &more).unwrap();
    source(json!({ "registry": null, "http": http }))
}

#[rstest]
#[case(json!({}))]
#[case(json!({ "spec": { "schedule": "" } }))]
#[case(json!({ "spec": { "schedule": "@daily", "importsToKeep": 0, "garbageCollect": "Never", "retentionPolicy": "None" } }))]
#[case(registry(json!({ "url": null, "imageStream": "s", "pullMethod": "node" })))]
#[case(source(json!({ "registry": null, "pvc": { "namespace": "n", "name": "p" } })))]
#[case(source(json!({ "registry": null, "http": { "url": "https://x/y.qcow2" } })))]
#[case(file(json!({ "checksum": format!("sha256:{}", "aB".repeat(32)) })))]
#[case(file(json!({ "checksum": format!("sha512:{}", "00".repeat(64)) })))]
#[case(file(json!({ "extraHeaders": ["X-Token: a:b", "accept:"], "secretExtraHeaders": ["s"] })))]
fn valid_cron_is_accepted(#[case] patch: Value) {
    assert_eq!(review(None, &cron(patch)), []);
}

#[rstest]
#[case(json!({ "spec": { "template": null } }), "Missing source")]
#[case(source(json!({ "registry": null })), "Missing source")]
#[case(source(json!({ "registry": null, "s3": {} })), "source s3 is not supported")]
#[case(source(json!({ "pvc": { "name": "p" } })), "Multiple data sources: registry, pvc")]
#[case(registry(json!({ "url": null })), "Source registry should have either URL or ImageStream")]
#[case(registry(json!({ "imageStream": "s", "pullMethod": "node" })), "Source registry should have either URL or ImageStream")]
#[case(registry(json!({ "url": "oci-archive:///x" })), "Illegal registry source URL scheme \"oci-archive\"; docker is accepted")]
#[case(registry(json!({ "url": "http://x" })), "Illegal registry source URL scheme \"http\"")]
#[case(registry(json!({ "pullMethod": "magic" })), "ImportMethod magic is neither pod, node or \"\"")]
#[case(registry(json!({ "url": null, "imageStream": "s" })), "Source registry ImageStream is supported only with node pull")]
#[case(source(json!({ "registry": null, "http": { "url": "ftp://x" } })), "Illegal http source URL \"ftp://x\"")]
#[case(file(json!({ "url": "https:///y" })), "Illegal http source URL \"https:///y\"")]
#[case(file(json!({ "url": "https://me:pass@x/y" })), "Illegal http source URL")]
#[case(file(json!({ "checksum": "md5:0123" })), "Illegal http source checksum \"md5:0123\"; sha256: and 64")]
#[case(file(json!({ "checksum": "sha256:0123" })), "Illegal http source checksum")]
#[case(file(json!({ "extraHeaders": ["A: b", "secret"] })), "Illegal http source extraHeaders[1]; \"Name: value\" is accepted")]
#[case(file(json!({ "extraHeaders": ["A: b\nC: d"] })), "Illegal http source extraHeaders[0]")]
#[case(json!({ "spec": { "template": { "spec": { "contentType": "kubevirt" } } } }), "contentType must not be set")]
#[case(json!({ "spec": { "template": { "spec": { "sourceRef": { "kind": "DataSource", "name": "x" } } } } }), "sourceRef must not be set")]
#[case(json!({ "spec": { "schedule": "* * * *" } }), "Illegal cron schedule \"* * * *\"")]
#[case(json!({ "spec": { "importsToKeep": -1 } }), "Illegal ImportsToKeep value -1")]
#[case(json!({ "spec": { "garbageCollect": "Maybe" } }), "Illegal GarbageCollect value")]
#[case(json!({ "spec": { "managedDataSource": "" } }), "Illegal ManagedDataSource value")]
#[case(json!({ "spec": { "managedDataSource": "d".repeat(64) } }), "managedDataSource \"dddd")]
#[case(json!({ "metadata": { "name": "n".repeat(64) } }), "name \"nnnn")]
fn invalid_object_is_rejected(#[case] patch: Value, #[case] expected: &str) {
    let wrong = review(None, &cron(patch));
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].to_string().starts_with(expected), "{}", wrong[0]);
}

#[test]
fn spec_is_immutable_and_labels_are_not() {
    let old = cron(json!({}));
    let labelled = cron(json!({ "metadata": { "labels": { "a": "b" } } }));
    assert_eq!(review(Some(&old), &labelled), []);
    let changed = cron(json!({ "spec": { "schedule": "" } }));
    assert_eq!(review(Some(&old), &changed), [Refusal::Changed]);
}
