//! When NodeHealthChecks are paused.

use api::advisor::{Item, TargetRef, VirtPlatformConfigSpec, VirtPlatformConfigStatus};
use rstest::rstest;

use super::*;

const GROUP: &str = "machineconfiguration.openshift.io/v1";

/// A configuration that rolls out a MachineConfig.
fn rolling_out(name: &str) -> VirtPlatformConfig {
    let spec = VirtPlatformConfigSpec {
        action: Action::Apply,
        ..VirtPlatformConfigSpec::default()
    };
    let mut config = VirtPlatformConfig::new(name, spec);
    config.status = Some(VirtPlatformConfigStatus {
        phase: Some(Phase::InProgress),
        items: vec![Item {
            state: ItemState::InProgress,
            impact_severity: Some(Impact::High),
            target_ref: TargetRef {
                api_version: GROUP.to_owned(),
                kind: "MachineConfig".to_owned(),
                ..TargetRef::default()
            },
            ..Item::default()
        }],
        ..VirtPlatformConfigStatus::default()
    });
    config
}

fn check(requests: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
        "metadata": { "name": "far", "uid": "u", "resourceVersion": "7" },
        "spec": { "pauseRequests": requests },
    }))
    .unwrap()
}

const A: &str = "medley: a is rolling out a MachineConfig";
const B: &str = "medley: b is rolling out a MachineConfig";

#[rstest]
#[case::first(&["a"], json!(null), Some(json!([A])))]
#[case::beside_others(&["a"], json!(["upgrade"]), Some(json!(["upgrade", A])))]
#[case::both(&["a", "b"], json!([A, "upgrade"]), Some(json!([A, "upgrade", B])))]
#[case::over(&[], json!([A]), Some(json!(null)))]
#[case::over_for_one(&["b"], json!(["upgrade", A, B]), Some(json!(["upgrade", B])))]
#[case::as_it_is(&["a"], json!(["upgrade", A]), None)]
#[case::nothing_to_do_with_us(&[], json!(["upgrade", "medley: is great"]), None)]
fn pause_requests_of_others_are_kept(
    #[case] rolling: &[&str],
    #[case] there: Value,
    #[case] expected: Option<Value>,
) {
    let configs: Vec<_> = rolling.iter().map(|name| rolling_out(name)).collect();
    let found = changes(&configs, [&check(&there)]);
    let written = found
        .first()
        .map(|change| change.patch["spec"]["pauseRequests"].clone());
    assert_eq!(written, expected);
    for change in &found {
        // With uid and resourceVersion as preconditions.
        assert_eq!(
            change.patch["metadata"],
            json!({ "uid": "u", "resourceVersion": "7" })
        );
        // A second reconcile finds nothing to change.
        let after = check(&change.patch["spec"]["pauseRequests"]);
        assert_eq!(changes(&configs, [&after]), []);
    }
}

#[test]
fn pausing_configurations_are_reported() {
    let found = changes(&[rolling_out("b")], [&check(&json!([A]))]);
    let pauses: Vec<_> = found
        .into_iter()
        .map(|change| (change.check, change.paused, change.resumed))
        .collect();
    assert_eq!(
        pauses,
        [("far".to_owned(), vec!["b".to_owned()], vec!["a".to_owned()])]
    );
}

#[rstest]
#[case::under_way(|_: &mut VirtPlatformConfig| {}, true)]
#[case::not_begun(|config: &mut VirtPlatformConfig| item(config).state = ItemState::Pending, false)]
#[case::done(|config: &mut VirtPlatformConfig| item(config).state = ItemState::Completed, false)]
#[case::failed(|config: &mut VirtPlatformConfig| item(config).state = ItemState::Failed, false)]
#[case::nothing_restarts(|config: &mut VirtPlatformConfig| item(config).impact_severity = Some(Impact::Medium), false)]
#[case::another_kind(|config: &mut VirtPlatformConfig| item(config).target_ref.kind = "KubeletConfig".into(), false)]
#[case::plan_failed(|config: &mut VirtPlatformConfig| config.status.as_mut().unwrap().phase = Some(Phase::Failed), false)]
#[case::ignored(|config: &mut VirtPlatformConfig| config.spec.action = Action::Ignore, false)]
#[case::no_status(|config: &mut VirtPlatformConfig| config.status = None, false)]
fn only_a_running_rollout_pauses(
    #[case] change: impl FnOnce(&mut VirtPlatformConfig),
    #[case] expected: bool,
) {
    let mut config = rolling_out("a");
    change(&mut config);
    assert_eq!(restarts_nodes(&config), expected);
    assert_eq!(
        changes(&[config], [&check(&json!(null))]).len(),
        usize::from(expected)
    );
}

fn item(config: &mut VirtPlatformConfig) -> &mut Item {
    &mut config.status.as_mut().unwrap().items[0]
}
