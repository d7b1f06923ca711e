use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:01:00Z";
const SSP: GenuineOperator = GenuineOperator {
    title: "the SSP operator",
    deployment: "ssp-operator",
    lease: Some(LEASE),
    namespaces: &[],
};
const LEASE: &str = "734f7229.kubevirt.io";

fn deployment(name: &str, spec: &Value) -> Arc<Deployment> {
    let object = json!({ "metadata": { "name": name, "namespace": "kubevirt" }, "spec": spec });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn lease(name: &str, holder: &str, renewed: &str) -> Arc<Lease> {
    let object = json!({
        "metadata": { "name": name, "namespace": "kubevirt" },
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed,
        },
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn found(deployments: &[Arc<Deployment>], leases: &[Arc<Lease>]) -> Option<RunningOperator> {
    running(&SSP, deployments, leases, NOW.parse().unwrap())
}

fn spec(replicas: &Value) -> Value {
    json!({ "replicas": replicas, "selector": {}, "template": {} })
}

#[rstest]
#[case::one_replica("ssp-operator", json!(1), true)]
#[case::the_default("ssp-operator", Value::Null, true)]
#[case::scaled_to_zero("ssp-operator", json!(0), false)]
#[case::of_another_name("other-operator", json!(1), false)]
fn deployment_that_wants_replicas_is_a_running_operator(
    #[case] name: &str,
    #[case] replicas: Value,
    #[case] runs: bool,
) {
    let found = found(&[deployment(name, &spec(&replicas))], &[]);
    assert_eq!(found.is_some(), runs);
    assert_eq!(found.and_then(|it| it.until()), None);
}

#[test]
fn deployment_that_is_being_deleted_is_no_running_operator() {
    let mut going = (*deployment("ssp-operator", &spec(&json!(1)))).clone();
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!(NOW)).unwrap());
    assert_eq!(found(&[Arc::new(going)], &[]), None);
}

#[rstest]
#[case::renewed("734f7229.kubevirt.io", "pod_1", "2026-01-01T00:00:46.000000Z", true)]
#[case::expired("734f7229.kubevirt.io", "pod_1", "2026-01-01T00:00:45.000000Z", false)]
#[case::released("734f7229.kubevirt.io", "", "2026-01-01T00:00:59.000000Z", false)]
#[case::of_another_operator("other.kubevirt.io", "pod_1", "2026-01-01T00:00:59.000000Z", false)]
fn held_lease_is_a_running_operator(
    #[case] name: &str,
    #[case] holder: &str,
    #[case] renewed: &str,
    #[case] runs: bool,
) {
    let found = found(&[], &[lease(name, holder, renewed)]);
    assert_eq!(found.is_some(), runs);
    if let Some(found) = found {
        let until: Timestamp = "2026-01-01T00:01:01Z".parse().unwrap();
        assert_eq!(found.until(), Some(until));
    }
}

#[test]
fn message_names_what_was_found_and_the_next_step() {
    let lease = lease(LEASE, "pod_1", "2026-01-01T00:00:59.000000Z");
    let both = found(
        &[deployment("ssp-operator", &spec(&json!(1)))],
        std::slice::from_ref(&lease),
    );
    assert_eq!(
        both.unwrap().message("images-ssp"),
        "the SSP operator runs (Deployment kubevirt/ssp-operator), so images-ssp writes nothing; \
         scale Deployment kubevirt/ssp-operator to 0 to let images-ssp take over"
    );
    assert_eq!(
        found(&[], &[lease]).unwrap().message("images-ssp"),
        "the SSP operator runs (Lease kubevirt/734f7229.kubevirt.io), so images-ssp writes nothing; \
         stop the operator to let images-ssp take over"
    );
}

#[test]
fn operator_of_certain_namespaces_is_not_found_elsewhere() {
    let operator = GenuineOperator {
        namespaces: &["openshift-cnv"],
        ..SSP
    };
    let deployments = [deployment("ssp-operator", &spec(&json!(1)))];
    let leases = [lease(LEASE, "pod_1", "2026-01-01T00:00:59.000000Z")];
    let now = NOW.parse().unwrap();
    assert_eq!(running(&operator, &deployments, &leases, now), None);
}

#[test]
fn deployment_that_wants_replicas_is_preferred() {
    let mut other = (*deployment("ssp-operator", &spec(&json!(1)))).clone();
    other.metadata.namespace = Some("openshift-cnv".to_owned());
    let stopped = deployment("ssp-operator", &spec(&json!(0)));
    let found = found(&[stopped, Arc::new(other)], &[]).unwrap();
    assert_eq!(found.found_by(), "Deployment openshift-cnv/ssp-operator");
}

#[rstest]
#[case::by_hand(json!({}), None)]
#[case::olm(
    json!({ "labels": { "olm.owner": "kubevirt-hyperconverged-operator.v1.17.0" } }),
    Some("the Operator Lifecycle Manager, from ClusterServiceVersion kubevirt-hyperconverged-operator.v1.17.0")
)]
#[case::olm_reference(
    json!({ "ownerReferences": [
        { "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "x.v1", "uid": "1" },
    ] }),
    Some("the Operator Lifecycle Manager, from ClusterServiceVersion x.v1")
)]
#[case::cvo(
    json!({ "ownerReferences": [
        { "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "name": "version", "uid": "1", "controller": true },
    ] }),
    Some("the Cluster Version Operator")
)]
#[case::controller_first(
    json!({ "ownerReferences": [
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1" },
        { "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDI", "name": "cdi", "uid": "2", "controller": true },
    ] }),
    Some("the operator of CDI cdi")
)]
fn restorer_is_found_by_owner_and_label(#[case] metadata: Value, #[case] named: Option<&str>) {
    let meta: ObjectMeta = serde_json::from_value(metadata).unwrap();
    let found = restorer(&meta).map(|it| it.to_string());
    assert_eq!(found.as_deref(), named);
}

#[test]
fn rules_read_only_the_objects_of_the_operator() {
    let names = |it: &PolicyRule| it.resource_names.clone().unwrap_or_default();
    let rules: Vec<_> = SSP.rules().iter().map(names).collect();
    assert_eq!(
        rules,
        [vec!["ssp-operator".to_owned()], vec![LEASE.to_owned()]]
    );
}
