//! Configurations that the descheduler operator rejects, or does not report on.

use rstest::rstest;
use serde_json::json;

use super::*;

const MIGRATE: &str = "KubeVirtRelieveAndMigrate";

fn node(roles: &[&str], os: &str, psi: bool) -> Arc<Node> {
    let mut labels: serde_json::Map<String, Value> = roles
        .iter()
        .map(|role| (format!("{ROLE}{role}"), json!("")))
        .collect();
    labels.insert(OS.to_owned(), json!(os));
    labels.insert(SCHEDULABLE.to_owned(), json!("true"));
    let psi = psi.then_some("true");
    let metadata = json!({ "labels": labels, "annotations": { PSI: psi.unwrap_or("") } });
    Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
}

fn complete() -> Surroundings {
    Surroundings {
        prometheus: Some(json!({ "status": { "ingress": [{ "host": "prometheus.example" }] } })),
        nodes: vec![node(&["worker"], "linux", true)],
    }
}

fn spec(profile: &str, interval: &Value) -> Value {
    json!({ "profiles": ["AffinityAndTaints", profile], "deschedulingIntervalSeconds": interval })
}

#[rstest]
#[case::migrating(MIGRATE, &json!(60), Verdict::Accepted { taints: true })]
#[case::dev("DevKubeVirtRelieveAndMigrate", &json!(60), Verdict::Accepted { taints: true })]
#[case::other("LongLifecycle", &json!(60), Verdict::Accepted { taints: false })]
#[case::no_interval("LongLifecycle", &Value::Null, Verdict::Unreadable)]
#[case::zero(MIGRATE, &json!(0), Verdict::Unreadable)]
fn complete_cluster_runs_every_readable_configuration(
    #[case] profile: &str,
    #[case] interval: &Value,
    #[case] expected: Verdict,
) {
    assert_eq!(verdict(&spec(profile, interval), &complete()), expected);
}

#[test]
fn configuration_without_profiles_is_not_reported_on() {
    let none = json!({ "profiles": [], "deschedulingIntervalSeconds": 60 });
    assert_eq!(verdict(&none, &complete()), Verdict::Unreadable);
}

#[rstest]
#[case::no_route(None, "unable to get openshift-monitoring/prometheus-k8s route")]
#[case::not_admitted(Some(json!({})), "No ingress found")]
#[case::no_host(Some(json!({ "status": { "ingress": [{}] } })), "is empty")]
fn measuring_profiles_need_prometheus(#[case] prometheus: Option<Value>, #[case] expected: &str) {
    let without = Surroundings {
        prometheus,
        ..complete()
    };
    let mut measured = spec("LifecycleAndUtilization", &json!(60));
    assert_eq!(
        verdict(&measured, &without),
        Verdict::Accepted { taints: false }
    );
    measured["profileCustomizations"] =
        json!({ "devActualUtilizationProfile": "PrometheusCPUUsage" });
    for spec in [spec(MIGRATE, &json!(60)), measured] {
        match verdict(&spec, &without) {
            Verdict::Refused(why) => assert!(why.contains(expected), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn migrating_profiles_need_kubevirt_and_psi() {
    let refused =
        |what: &str| Verdict::Refused(format!("profile {MIGRATE} can only be used when {what}"));
    let with = |nodes: Vec<Arc<Node>>| {
        let surroundings = Surroundings {
            nodes,
            ..complete()
        };
        verdict(&spec(MIGRATE, &json!(60)), &surroundings)
    };
    assert_eq!(with(Vec::new()), refused("KubeVirt is properly deployed"));
    let without_psi = vec![node(&["worker"], "linux", false)];
    assert_eq!(
        with(without_psi),
        refused("PSI metrics are enabled for the worker nodes")
    );
}

#[rstest]
#[case::all(vec![node(&["worker"], "linux", true), node(&["master"], "linux", false)], false)]
#[case::one_lacks(vec![node(&["worker"], "linux", true), node(&["worker"], "linux", false)], true)]
#[case::windows(vec![node(&["worker"], "linux", true), node(&["worker"], "windows", false)], false)]
#[case::no_workers(vec![node(&["master"], "linux", false)], true)]
#[case::masters_only(vec![node(&["master"], "linux", true)], false)]
#[case::nobody(vec![], false)]
fn psi_is_required_of_workers_only(#[case] nodes: Vec<Arc<Node>>, #[case] expected: bool) {
    assert_eq!(lacks_psi(&nodes), expected);
}
