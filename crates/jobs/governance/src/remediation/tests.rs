//! When NodeHealthChecks are paused.

use std::sync::Arc;

use api::advisor::{Item, TargetRef, VirtPlatformConfigSpec, VirtPlatformConfigStatus};
use rstest::rstest;

use super::*;
use crate::snapshot::Kind;

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

fn snapshot(checks: &[DynamicObject], pools: &[DynamicObject]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (of, objects) in [(NODE_HEALTH_CHECK, checks), (MACHINE_CONFIG_POOL, pools)] {
        let objects = objects
            .iter()
            .map(|object| ((String::new(), object.name_any()), Arc::new(object.clone())));
        let kind = Kind {
            version: "v1".to_owned(),
            plural: String::new(),
            definition: None,
            objects: objects.collect(),
        };
        snapshot.insert(of, kind);
    }
    snapshot
}

/// A pool of three nodes whose target and current configuration have these names.
fn pool(target: &str, current: &str, more: &Value) -> DynamicObject {
    let mut pool = json!({
        "apiVersion": GROUP, "kind": "MachineConfigPool", "metadata": { "name": "worker" },
        "spec": { "configuration": { "name": target } },
        "status": { "machineCount": 3, "configuration": { "name": current } },
    });
    crate::decide::tests::merge(&mut pool, more);
    serde_json::from_value(pool).unwrap()
}

/// The plan has ended: its nodes have not.
#[rstest]
#[case::rolls(pool("new", "old", &json!({})), true)]
#[case::done(pool("new", "new", &json!({})), false)]
#[case::done_with_a_lost_node(
    pool("new", "new", &json!({ "status": { "conditions": [{ "type": "Updating", "status": "True" }] } })),
    false
)]
#[case::paused(pool("new", "old", &json!({ "spec": { "paused": true } })), false)]
#[case::degraded(pool("new", "old", &json!({ "status": { "degradedMachineCount": 1 } })), false)]
#[case::without_nodes(pool("new", "old", &json!({ "status": { "machineCount": 0 } })), false)]
#[case::without_operator(pool("new", "old", &json!({ "status": null })), false)]
fn request_stays_while_a_pool_restarts_nodes(#[case] pool: DynamicObject, #[case] expected: bool) {
    let mut failed = rolling_out("a");
    failed.status.as_mut().unwrap().phase = Some(Phase::Failed);
    let mut ignored = rolling_out("a");
    ignored.spec.action = Action::Ignore;
    let paused = check(&json!([A]));
    let now = snapshot(std::slice::from_ref(&paused), std::slice::from_ref(&pool));
    for configs in [vec![failed], vec![ignored], Vec::new()] {
        let stays = changes(&configs, &now).is_empty();
        assert_eq!(stays, expected, "{configs:?}");
    }
    // A rollout that is not ours is no reason to pause.
    let unpaused = snapshot(&[check(&json!(null))], &[pool]);
    assert_eq!(changes(&[], &unpaused), []);
}

/// Between the write and the first restart the pool has not rendered the MachineConfig.
#[test]
fn request_stays_until_a_machine_config_is_rendered() {
    let mut world = crate::decide::tests::Simulation::steps();
    world.action(Action::Apply);
    world.run();
    assert!(restarts_nodes(&world.config));
    world.action(Action::DryRun);
    world.run();
    assert!(!restarts_nodes(&world.config), "the plan has stopped");
    let request = check(&json!(["medley: steps is rolling out a MachineConfig"]));
    let now = |world: &crate::decide::tests::Simulation| {
        let mut live = world.cluster.snapshot();
        let paused = snapshot(std::slice::from_ref(&request), &[]);
        live.insert(
            NODE_HEALTH_CHECK,
            paused.kind(NODE_HEALTH_CHECK).unwrap().clone(),
        );
        changes([&world.config], &live).len()
    };
    assert_eq!(now(&world), 0, "it is not rendered");
    world.roll_out("worker", 3);
    assert_eq!(now(&world), 0, "nodes restart");
    world.roll_out("worker", 10);
    assert_eq!(now(&world), 1, "all nodes are done");
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
    let found = changes(&configs, &snapshot(&[check(&there)], &[]));
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
        assert_eq!(changes(&configs, &snapshot(&[after], &[])), []);
    }
}

#[test]
fn pausing_configurations_are_reported() {
    let found = changes(&[rolling_out("b")], &snapshot(&[check(&json!([A]))], &[]));
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
        changes(&[config], &snapshot(&[check(&json!(null))], &[])).len(),
        usize::from(expected)
    );
}

fn item(config: &mut VirtPlatformConfig) -> &mut Item {
    &mut config.status.as_mut().unwrap().items[0]
}
