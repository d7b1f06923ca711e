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
    decide(&Facts {
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

/// The example of the proposal, as it is printed.
#[test]
fn a_pointer_has_the_source_of_its_target() {
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
#[case(json!({}), Verdict::NoSource, "NoSource")]
#[case(json!({ "pvc": { "name": "claim" } }), Verdict::Ready, "Ready")]
#[case(json!({ "pvc": { "name": "claim", "namespace": "other" } }), Verdict::NoClaim, "NotFound")]
#[case(json!({ "pvc": { "name": "gone" } }), Verdict::NoClaim, "NotFound")]
#[case(json!({ "pvc": { "name": "running" } }), Verdict::Importing("ImportInProgress".into()), "ImportInProgress")]
#[case(json!({ "pvc": { "name": "new" } }), Verdict::Importing("Pending".into()), "Pending")]
#[case(json!({ "pvc": { "name": "imported" } }), Verdict::Ready, "Ready")]
#[case(json!({ "snapshot": { "name": "gone" } }), Verdict::NoSnapshot, "NotFound")]
#[case(json!({ "snapshot": { "name": "slow" } }), Verdict::SnapshotNotReady, "SnapshotNotReady")]
#[case(json!({ "dataSource": { "name": "a", "namespace": "other" } }), Verdict::CrossNamespaceReference, "CrossNamespaceReference")]
#[case(json!({ "dataSource": { "name": "me" } }), Verdict::SelfReference, "SelfReference")]
#[case(json!({ "dataSource": { "name": "gone" } }), Verdict::TargetNotFound("gone".into()), "NotFound")]
#[case(json!({ "dataSource": { "name": "pointer" } }), Verdict::MaxReferenceDepthReached, "MaxReferenceDepthReached")]
#[case(json!({ "dataSource": { "name": "broken" } }), Verdict::NoClaim, "NotFound")]
#[case(json!({ "dataSource": { "name": "gone" }, "pvc": { "name": "claim" } }), Verdict::TargetNotFound("gone".into()), "NotFound")]
fn every_case_has_its_reason(#[case] spec: Value, #[case] expected: Verdict, #[case] reason: &str) {
    let own = source("me", &spec);
    let decision = decided(&own);
    assert_eq!(decision.verdict, expected);
    let condition = &decision.status.conditions[0];
    assert_eq!(condition.reason.as_deref(), Some(reason));
    let ready = expected == Verdict::Ready;
    assert_eq!(condition.status, if ready { "True" } else { "False" });
    assert_eq!(decision.status.source.which().is_some(), ready);
    // Again, nothing changes.
    let again = DataSource {
        status: Some(decision.status),
        ..own
    };
    assert!(!decided(&again).status_changed);
}

/// Upstream passes on who made the volume as well, which then is taken away again by others.
#[test]
fn labels_of_kubevirt_go_from_the_volume_to_its_data_source() {
    let decision = decided(&source("me", &json!({ "pvc": { "name": "claim" } })));
    assert_eq!(
        decision.labels.unwrap()["metadata"]["labels"],
        json!({
            "instancetype.kubevirt.io/default-preference": "centos",
            "template.kubevirt.io/architecture": "amd64",
        })
    );
}
