//! The changes that `node-health-remediation` requests.

use std::sync::Arc;

use api::advisor::Impact;
use rstest::rstest;
use serde_json::{Value, json};

use super::data;
use crate::profile::fixture::{ClusterFixture, drift, options_of};
use crate::profile::{Profile, Refusal};

fn profile() -> Arc<dyn Profile> {
    data("node-health-remediation")
}

/// The conditions of an unhealthy node.
fn unhealthy(seconds: i32) -> Value {
    let duration = format!("{seconds}s");
    json!([
        { "type": "Ready", "status": "False", "duration": duration },
        { "type": "Ready", "status": "Unknown", "duration": duration },
        { "type": "SBRStorageUnhealthy", "status": "True", "duration": duration },
    ])
}

#[test]
fn workers_are_fenced_by_default() {
    let world = ClusterFixture::new("v1");
    let wanted = world.wanted(&*profile(), &json!({}));
    assert_eq!(wanted.items.len(), 1);
    let item = &wanted.items[0];
    assert_eq!(item.impact, Impact::Medium);
    assert_eq!(
        item.desired,
        json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1",
            "kind": "NodeHealthCheck",
            "metadata": { "name": "far" },
            "spec": {
                "minHealthy": "51%",
                "remediationTemplate": {
                    "apiVersion": "fence-agents-remediation.medik8s.io/v1alpha1",
                    "kind": "FenceAgentsRemediationTemplate",
                    "name": "fenceagentsremediationtemplate-default",
                    "namespace": "openshift-workload-availability",
                },
                "selector": { "matchExpressions": [{ "key": "node-role.kubernetes.io/worker", "operator": "Exists" }] },
                "unhealthyConditions": [
                    { "type": "Ready", "status": "False", "duration": "300s" },
                    { "type": "Ready", "status": "Unknown", "duration": "300s" },
                    { "type": "SBRStorageUnhealthy", "status": "True", "duration": "300s" },
                ],
            },
        })
    );
    let again = world.applied(&wanted).wanted(&*profile(), &json!({}));
    assert_eq!(again.items[0].impact, Impact::Low);
}

#[test]
fn min_healthy_number_is_an_integer() {
    let options = json!({ "nodeHealth": { "minHealthy": "3", "remediationKind": "SelfNodeRemediationTemplate" } });
    let item = ClusterFixture::new("v1")
        .wanted(&*profile(), &options)
        .items
        .remove(0);
    assert_eq!(item.desired["spec"]["minHealthy"], 3);
    let template = &item.desired["spec"]["remediationTemplate"];
    assert_eq!(
        template["apiVersion"],
        "self-node-remediation.medik8s.io/v1alpha1"
    );
    let needed = profile().prerequisites(&options_of(&options));
    let needed: Vec<_> = needed.iter().map(|one| one.of.kind).collect();
    assert_eq!(needed, ["NodeHealthCheck", "SelfNodeRemediationTemplate"]);
}

#[test]
fn unknown_template_kind_is_rejected() {
    let options = options_of(&json!({ "nodeHealth": { "remediationKind": "Prayer" } }));
    let refusal = profile().intents(&options, &ClusterFixture::new("v1").snapshot());
    let Err(Refusal::Options(why)) = refusal else {
        panic!("{refusal:?}")
    };
    assert!(
        why.contains("'Prayer'") && why.contains("FenceAgentsRemediationTemplate"),
        "{why}"
    );
}

#[rstest]
#[case("spec.minHealthy", json!("51%"), json!(4), Some(json!({ "minHealthy": "4" })))]
#[case("spec.minHealthy", json!("51%"), json!("many"), None)]
#[case("spec.remediationTemplate", json!({ "name": "a", "namespace": "n" }), json!({ "name": "b", "namespace": "n" }), Some(json!({ "remediationTemplate": "b" })))]
#[case("spec.unhealthyConditions", unhealthy(300), unhealthy(60), Some(json!({ "unhealthySeconds": 60 })))]
#[case("spec.unhealthyConditions", unhealthy(300), json!([]), None)]
fn edits_are_adopted_where_an_option_exists(
    #[case] path: &str,
    #[case] applied: Value,
    #[case] live: Value,
    #[case] expected: Option<Value>,
) {
    let drift = drift(path, applied, Some(live));
    let adopted = profile().adopt(&options_of(&json!({})), &drift);
    let expected = expected.map(|options| json!({ "nodeHealth": options }));
    assert_eq!(adopted.ok().map(|options| json!(options)), expected);
}
