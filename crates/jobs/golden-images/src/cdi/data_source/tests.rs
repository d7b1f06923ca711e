use rstest::rstest;
use serde_json::json;

use super::*;
use crate::test_values::yaml;

fn source(name: &str, spec: &Value) -> DataSource {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": { "name": name, "namespace": "kubevirt-os-images" }, "spec": { "source": spec },
    }))
    .unwrap()
}

fn decided(own: &DataSource) -> Decision {
    let namespace = "kubevirt-os-images";
    let sources: BTreeMap<Named, DataSource> = [
        source("centos-stream9-amd64", &json!({ "snapshot": { "name": "centos-stream9-e065d9079064", "namespace": namespace } })),
        source("pointer", &json!({ "dataSource": { "name": "centos-stream9-amd64" } })),
        source("broken", &json!({ "pvc": { "name": "gone" } })),
    ]
    .map(|it| (name_of(&it.metadata), it))
    .into();
    let some: Labels = [
        ("template.kubevirt.io/architecture", "amd64"),
        ("instancetype.kubevirt.io/default-preference", "centos"),
        ("cdi.kubevirt.io/dataImportCron", "cron"),
        ("cdi.kubevirt.io/dataImportCron.cleanup", "true"),
        ("example.com/other", "x"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let is = |name: &Named, expected: &[&str]| {
        name.namespace == namespace && expected.contains(&name.name.as_str())
    };
    let phases: BTreeMap<&str, &str> = [
        ("running", "ImportInProgress"),
        ("imported", "Succeeded"),
        ("new", ""),
    ]
    .into();
    decide(&DataSourceInputs {
        source: own,
        sources: &|name| sources.get(name),
        claims: &|name| is(name, &["claim", "running"]).then_some(&some),
        imports: &|name| phases.get(name.name.as_str()).map(|phase| (&some, *phase)),
        snapshots: &|name| match name.name.as_str() {
            "centos-stream9-e065d9079064" => Some((&some, true)),
            "slow" => Some((&some, false)),
            _ => None,
        },
        now: Timestamp::from_second(1000).unwrap(),
    })
}

/// The example of the proposal, verbatim.
#[test]
fn pointer_resolves_to_source_of_target() {
    let printed = yaml(
        r#"
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataSource
metadata:
  name: centos-stream9 # <<=== the architecture agnostic name
  namespace: kubevirt-os-images
spec:
  source:
    dataSource:
      name: centos-stream9-amd64
      namespace: kubevirt-os-images
status:
  conditions:
  - message: DataSource is ready to be consumed
    reason: Ready
    status: "True"
    type: Ready
  source:
    snapshot: # <<=== the actual source, as defined in the *default* DataSource, pointed by this DataSource
      name: centos-stream9-e065d9079064
      namespace: kubevirt-os-images
"#,
    );
    let mut given = printed.clone();
    given.as_object_mut().unwrap().remove("status");
    let decision = decided(&serde_json::from_value(given).unwrap());
    let mut status = json!(decision.status);
    let condition = status["conditions"][0].as_object_mut().unwrap();
    assert!(condition.remove("lastTransitionTime").is_some());
    assert!(condition.remove("lastHeartbeatTime").is_some());
    assert_eq!(status, printed["status"]);
    assert_eq!(decision.labels, None, "no architecture on a pointer");
}

#[rstest]
#[case(json!({}), DataSourceVerdict::NoSource, "NoSource")]
#[case(json!({ "pvc": { "name": "claim" } }), DataSourceVerdict::Ready, "Ready")]
#[case(json!({ "pvc": { "name": "claim", "namespace": "other" } }), DataSourceVerdict::NoClaim, "NotFound")]
#[case(json!({ "pvc": { "name": "gone" } }), DataSourceVerdict::NoClaim, "NotFound")]
#[case(json!({ "pvc": { "name": "running" } }), DataSourceVerdict::Importing("ImportInProgress".into()), "ImportInProgress")]
#[case(json!({ "pvc": { "name": "new" } }), DataSourceVerdict::Importing("Pending".into()), "Pending")]
#[case(json!({ "pvc": { "name": "imported" } }), DataSourceVerdict::Ready, "Ready")]
#[case(json!({ "snapshot": { "name": "gone" } }), DataSourceVerdict::NoSnapshot, "NotFound")]
#[case(json!({ "snapshot": { "name": "slow" } }), DataSourceVerdict::SnapshotNotReady, "SnapshotNotReady")]
#[case(json!({ "dataSource": { "name": "a", "namespace": "other" } }), DataSourceVerdict::CrossNamespaceReference, "CrossNamespaceReference")]
#[case(json!({ "dataSource": { "name": "me" } }), DataSourceVerdict::SelfReference, "SelfReference")]
#[case(json!({ "dataSource": { "name": "gone" } }), DataSourceVerdict::TargetNotFound("gone".into()), "NotFound")]
#[case(json!({ "dataSource": { "name": "pointer" } }), DataSourceVerdict::MaxReferenceDepthReached, "MaxReferenceDepthReached")]
#[case(json!({ "dataSource": { "name": "broken" } }), DataSourceVerdict::NoClaim, "NotFound")]
#[case(json!({ "dataSource": { "name": "gone" }, "pvc": { "name": "claim" } }), DataSourceVerdict::TargetNotFound("gone".into()), "NotFound")]
fn every_verdict_has_a_reason(
    #[case] spec: Value,
    #[case] expected: DataSourceVerdict,
    #[case] reason: &str,
) {
    let own = source("me", &spec);
    let decision = decided(&own);
    assert_eq!(decision.verdict, expected);
    let condition = &decision.status.conditions[0];
    assert_eq!(condition.reason.as_deref(), Some(reason));
    let ready = expected == DataSourceVerdict::Ready;
    assert_eq!(condition.status, if ready { "True" } else { "False" });
    assert_eq!(decision.status.source.which().is_some(), ready);
    // The decision is idempotent.
    let again = DataSource {
        status: Some(decision.status),
        ..own
    };
    assert!(!decided(&again).status_changed);
}

/// Upstream also copies the ownership labels of the PVC, which other controllers then remove again.
#[test]
fn kubevirt_labels_are_copied_from_claim_to_data_source() {
    let decision = decided(&source("me", &json!({ "pvc": { "name": "claim" } })));
    assert_eq!(
        decision.labels.unwrap()["metadata"]["labels"],
        json!({
            "instancetype.kubevirt.io/default-preference": "centos",
            "template.kubevirt.io/architecture": "amd64",
        })
    );
}
