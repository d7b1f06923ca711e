//! Configurations that the descheduler operator rejects.

use rstest::rstest;

use super::*;

fn node(roles: &[&str], os: &str, psi: bool) -> Arc<Node> {
    let mut labels: serde_json::Map<String, Value> = roles
        .iter()
        .map(|role| (format!("{ROLE}{role}"), json!("")))
        .collect();
    labels.insert(OS.to_owned(), json!(os));
    let psi = psi.then_some("true");
    let metadata = json!({ "labels": labels, "annotations": { PSI: psi.unwrap_or("") } });
    Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
}

#[rstest]
#[case::fine("KubeVirtRelieveAndMigrate", json!(60), false, None)]
#[case::psi("KubeVirtRelieveAndMigrate", json!(60), true, Some("profile KubeVirtRelieveAndMigrate can only"))]
#[case::dev("DevKubeVirtRelieveAndMigrate", json!(60), true, Some("profile DevKubeVirtRelieveAndMigrate can only"))]
#[case::other("LongLifecycle", json!(60), true, None)]
#[case::no_interval("LongLifecycle", Value::Null, false, Some("interval"))]
#[case::zero("KubeVirtRelieveAndMigrate", json!(0), false, Some("interval"))]
fn invalid_configurations_are_rejected(
    #[case] profile: &str,
    #[case] interval: Value,
    #[case] lacks_psi: bool,
    #[case] expected: Option<&str>,
) {
    let spec = json!({
        "profiles": ["AffinityAndTaints", profile],
        "deschedulingIntervalSeconds": interval,
    });
    let refusal = refusal(&spec, lacks_psi);
    match expected {
        None => assert_eq!(refusal, None),
        Some(part) => assert!(
            refusal.as_ref().is_some_and(|it| it.contains(part)),
            "{refusal:?}"
        ),
    }
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
