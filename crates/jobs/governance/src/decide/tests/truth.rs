//! What the status says about live targets: diffs at any time, what the server keeps, changed capabilities, and consent
//! by approval.

use api::advisor::{
    Action, DeviationClass, DriftClass, ItemState, Phase, VirtPlatformConfigStatus,
};
use serde_json::{Value, json};

use super::profiles::config_map;
use super::world::{Simulation, descheduler};
use crate::approval::Policy;
use crate::diff::is_no_change;
use crate::profile::kinds::KUBE_DESCHEDULER;

const DESCHEDULER_ITEM: &str = "enable-load-aware-descheduling";
const INTERVAL: &str = "spec.deschedulingIntervalSeconds";

/// Load-aware rebalancing in force, without PSI.
fn in_force(mut world: Simulation) -> Simulation {
    world.options(|options| options.enable_psi_metrics = Some(false));
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:#?}", world.status());
    world
}

fn diff(world: &Simulation, item: &str) -> String {
    world.item(item).diff.unwrap()
}

fn interval(seconds: i64) -> Value {
    json!({ "spec": { "deschedulingIntervalSeconds": seconds } })
}

/// A KubeDescheduler whose admission raises the interval to 120.
fn with_admission() -> Simulation {
    let mut world = Simulation::load_aware();
    let path = INTERVAL.split('.').map(str::to_owned).collect();
    let raised = vec![(path, json!(120))];
    world.cluster.admission.insert("cluster".to_owned(), raised);
    world
}

#[test]
fn completed_items_have_no_diff() {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    let status = world.status();
    assert_eq!(status.items.len(), 2);
    for item in &status.items {
        let diff = item.diff.as_deref().unwrap();
        assert!(diff.ends_with("\n(no changes)\n"), "{diff}");
        assert!(is_no_change(diff), "{diff}");
    }
    let shown = world.records[0].items[1].diff.as_deref().unwrap();
    assert!(!is_no_change(shown), "the history keeps what was approved");
    world.check_rest();
}

#[test]
fn drifted_item_shows_live_to_desired() {
    let mut world = in_force(Simulation::load_aware());
    world.edit(&descheduler(), "kubectl-edit", &interval(180));
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    let shown = diff(&world, DESCHEDULER_ITEM);
    assert!(
        shown.contains("-  deschedulingIntervalSeconds: 180\n+  deschedulingIntervalSeconds: 60\n"),
        "{shown}"
    );
    world.check_rest();
    // A field of another manager beside ours changes the lines around, and nothing else.
    world.edit(
        &descheduler(),
        "kubectl-edit",
        &json!({ "spec": { "aaa": 1 } }),
    );
    world.run();
    assert!(diff(&world, DESCHEDULER_ITEM).contains("   aaa: 1\n"));

    world.edit(&descheduler(), "kubectl-edit", &interval(60));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert!(is_no_change(&diff(&world, DESCHEDULER_ITEM)));
}

/// Of a target that existed before the plan, too.
#[test]
fn deleted_target_shows_its_creation() {
    for existed in [true, false] {
        let mut world = Simulation::load_aware();
        if !existed {
            world.cluster.delete(&descheduler());
        }
        let mut world = in_force(world);
        world.cluster.delete(&descheduler());
        world.run();
        assert_eq!(world.phase(), Phase::Drifted);
        let shown = diff(&world, DESCHEDULER_ITEM);
        assert!(shown.starts_with("--- /dev/null\n+++ cluster (KubeDescheduler)\n"));
        assert!(
            shown.contains("+  deschedulingIntervalSeconds: 60\n"),
            "{shown}"
        );
        // The plan that is made for it shows the same.
        world.action(Action::DryRun);
        world.run();
        assert_eq!(world.phase(), Phase::ReviewRequired);
        assert_eq!(diff(&world, DESCHEDULER_ITEM), shown);
    }
}

#[test]
fn rolled_back_items_have_no_diff() {
    let mut world = in_force(Simulation::load_aware());
    world.spec(|spec| spec.rollback_to = Some(1));
    world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:#?}", world.status());
    let items = world.status().items;
    assert!(!items.is_empty());
    for item in items {
        assert_eq!(item.state, ItemState::Completed);
        assert!(is_no_change(item.diff.as_deref().unwrap()), "{item:#?}");
    }
}

#[test]
fn value_changed_by_admission_is_no_drift() {
    let mut world = with_admission();
    world.options(|options| options.enable_psi_metrics = Some(false));
    world.action(Action::DryRun);
    world.run();
    let predicted = world.item(DESCHEDULER_ITEM).deviations;
    let [change] = predicted.as_slice() else {
        panic!("the review shows one deviation: {predicted:#?}");
    };
    assert_eq!(change.path, INTERVAL);
    assert_eq!(change.class, DeviationClass::ChangedByAdmission);
    assert_eq!(
        (change.wanted.clone(), change.kept.clone()),
        (Some(json!(60)), Some(json!(120)))
    );

    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:#?}", world.status());
    assert_eq!(
        world.live(&descheduler(), "/spec/deschedulingIntervalSeconds"),
        120
    );
    assert_eq!(world.item(DESCHEDULER_ITEM).deviations, predicted);
    assert!(is_no_change(&diff(&world, DESCHEDULER_ITEM)));
    assert_eq!(world.status().drift, []);
    world.check_rest();

    // An edit on top of it is drift, and reverting it leads back to what the server keeps.
    world.edit(&descheduler(), "kubectl-edit", &interval(180));
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    let shown = diff(&world, DESCHEDULER_ITEM);
    assert!(
        shown
            .contains("-  deschedulingIntervalSeconds: 180\n+  deschedulingIntervalSeconds: 120\n"),
        "{shown}"
    );
    // So does what was desired: the policy is gone, and a user has set it.
    world.edit(&descheduler(), "kubectl-edit", &interval(60));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// A correction would be changed by admission again, for ever.
#[test]
fn bypass_does_not_fight_admission() {
    let mut world = with_admission();
    world.spec(|spec| spec.bypass_optimistic_lock = true);
    let mut world = in_force(world);
    for _ in 0..5 {
        world.pass(jiff::SignedDuration::from_secs(20));
        world.run();
        assert_eq!(world.phase(), Phase::Completed);
    }
    assert_eq!(world.written, [DESCHEDULER_ITEM]);
    assert_eq!(world.status().enforcement, None);
}

/// Killed after the write, the operator recognises the item although its value was changed.
#[test]
fn changed_item_is_not_stale_after_a_kill() {
    for effect in 1..12 {
        let mut world = with_admission();
        world.options(|options| options.enable_psi_metrics = Some(false));
        world.action(Action::Apply);
        world.run_with_kill(effect);
        assert_eq!(world.phase(), Phase::Completed, "killed after {effect}");
        assert_eq!(world.status().drift, [], "killed after {effect}");
        world.check_rest();
    }
}

fn schema(customizations: &Value) -> Value {
    let number = json!({ "type": "integer" });
    json!({ "type": "object", "properties": {
        "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "spec": { "type": "object", "properties": {
            "managementState": { "type": "string" },
            "deschedulingIntervalSeconds": number,
            "mode": { "type": "string", "default": "Predictive" },
            "profiles": { "type": "array", "items": { "type": "string", "enum": ["KubeVirtRelieveAndMigrate"] } },
            "profileCustomizations": { "type": "object", "properties": customizations },
            "evictionLimits": { "type": "object", "properties": { "total": number, "node": number } },
        } },
    } })
}

fn capability(world: &VirtPlatformConfigStatus) -> Vec<(String, DriftClass)> {
    let drift = world.drift.iter();
    drift.map(|one| (one.path.clone(), one.class)).collect()
}

/// The operator's version is the same: a changed CRD is no upgrade.
#[test]
fn changed_crd_is_a_changed_capability() {
    let declared = json!({
        "devEnableEvictionsInBackground": { "type": "boolean" }, "devEnableSoftTainter": { "type": "boolean" },
    });
    let mut world = Simulation::load_aware();
    world
        .cluster
        .install(KUBE_DESCHEDULER, "v1", Some(schema(&declared)));
    let mut world = in_force(world);
    world.check_rest();
    assert_eq!(world.status().capabilities[0].name, "KubeDescheduler");

    // The next release of the CRD has no soft tainter; the stored object loses it with the next read.
    let fewer = json!({ "devEnableEvictionsInBackground": { "type": "boolean" } });
    world
        .cluster
        .install(KUBE_DESCHEDULER, "v1", Some(schema(&fewer)));
    world.cluster.strip(
        &descheduler(),
        "spec.profileCustomizations.devEnableSoftTainter",
    );
    world.run();
    assert_eq!(world.phase(), Phase::CompletedWithUpgrade);
    let condition = world.condition("UpgradeAvailable");
    assert_eq!(condition.reason, "CapabilitiesChanged");
    assert!(
        condition
            .message
            .contains("spec.profileCustomizations.devEnableSoftTainter from true to <none>"),
        "{}",
        condition.message
    );
    assert!(
        !condition.message.contains("plans differently"),
        "{}",
        condition.message
    );
    assert_eq!(
        capability(&world.status()),
        [(
            "spec.profileCustomizations.devEnableSoftTainter".to_owned(),
            DriftClass::CapabilityChange
        )]
    );
    world.check_rest();

    world.action(Action::DryRun);
    world.run();
    assert_eq!(world.phase(), Phase::Completed, "nothing is left to change");
}

/// An edit is drift, also while the capabilities have changed.
#[test]
fn edit_goes_before_a_changed_capability() {
    let mut world = in_force(Simulation::load_aware());
    world
        .cluster
        .install(KUBE_DESCHEDULER, "v1", Some(schema(&json!({}))));
    world.edit(&descheduler(), "kubectl-edit", &interval(180));
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    let edited = world.status().drift.into_iter();
    let edited: Vec<_> = edited
        .filter(|one| one.class == DriftClass::ExternalEdit)
        .collect();
    assert_eq!(edited.len(), 1, "{edited:#?}");
    assert_eq!(edited[0].path, INTERVAL);
    assert_eq!(edited[0].manager.as_deref(), Some("kubectl-edit"));
}

/// The operator is never named as the cause of drift: it wrote another value.
#[test]
fn drift_is_not_attributed_to_us() {
    let mut world = in_force(Simulation::load_aware());
    // As after a write of a part of the object by a client without a manager.
    world.edit(&descheduler(), "", &interval(180));
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    let drift = world.status().drift;
    assert!(
        drift
            .iter()
            .all(|one| one.manager.as_deref() != Some("virt-advisor-operator")),
        "{drift:#?}"
    );
}

/// The proposal's first example: an existing KubeDescheduler of another manager, and plain patches.
fn reviewed() -> Simulation {
    let mut world = Simulation::steps();
    let third = config_map("third");
    world.edit(
        &third,
        "kubectl-create",
        &json!({ "data": { "interval": 1 } }),
    );
    world.action(Action::DryRun);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    let takeovers = world.item("third").takeovers;
    assert_eq!(takeovers.len(), 1);
    assert!(takeovers[0].since.is_some());
    world
}

#[test]
fn apply_after_review_consents_to_listed_takeovers() {
    let mut world = reviewed();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:#?}", world.status());
    assert_eq!(world.live(&config_map("third"), "/data/interval"), 60);
    world.check_rest();
}

/// Also if the operator is killed at any point after the consent.
#[test]
fn consent_by_review_survives_kills() {
    for effect in 1..16 {
        let mut world = reviewed();
        world.action(Action::Apply);
        world.run_with_kill(effect);
        world.roll_out("worker", 10);
        world.run();
        assert_eq!(world.phase(), Phase::Completed, "killed after {effect}");
    }
}

/// A field that another manager takes after the review was not listed.
#[test]
fn consent_by_review_is_for_the_listed_manager() {
    let mut world = reviewed();
    world.action(Action::Apply);
    world.run();
    let third = config_map("third");
    world.edit(&third, "argocd", &json!({ "data": { "interval": 2 } }));
    world.edit(&third, "argocd", &json!({ "data": { "interval": 1 } }));
    world.roll_out("worker", 10);
    world.run();
    assert_ne!(world.phase(), Phase::Completed);
    assert_eq!(world.live(&third, "/data/interval"), 1);
}

#[test]
fn options_changed_with_the_action_are_not_reviewed() {
    let mut world = reviewed();
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.wait_timeout = Some("1h".to_owned());
    });
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(
        world.status_and_reason("Approved").1,
        "TakeoverWithoutConsent"
    );
    assert_eq!(world.written, [""; 0]);
}

/// Nothing weakens a policy: takeovers are listed one by one.
#[test]
fn policy_asks_for_more_than_the_approval() {
    for policy in [
        json!({ "requiredApprovals": 1 }),
        json!({ "requiredApprovals": 0, "approvalsExpireAfter": "72h" }),
    ] {
        let mut world = reviewed();
        world.policies = vec![Policy {
            name: "production".to_owned(),
            spec: serde_json::from_value(policy).unwrap(),
        }];
        world.action(Action::Apply);
        world.run();
        assert_eq!(world.phase(), Phase::ReviewRequired);
        assert_eq!(
            world.status_and_reason("Approved").1,
            "TakeoverWithoutConsent"
        );
        assert_eq!(world.written, [""; 0]);
    }
}

/// A default that no manager chose is changed without consent; one that a manager has applied is its choice.
#[test]
fn default_is_no_takeover() {
    let customizations = json!({ "devEnableEvictionsInBackground": { "type": "boolean" } });
    let mut world = Simulation::load_aware();
    world
        .cluster
        .install(KUBE_DESCHEDULER, "v1", Some(schema(&customizations)));
    // The creator is the manager of the defaults, too.
    world.cluster.delete(&descheduler());
    let created = json!({ "spec": { "deschedulingIntervalSeconds": 600, "mode": "Predictive" } });
    world.edit(&descheduler(), "kubectl-create", &created);
    world.options(|options| options.enable_psi_metrics = Some(false));
    world.action(Action::DryRun);
    world.run();
    let takeovers = world.item(DESCHEDULER_ITEM).takeovers;
    let paths: Vec<_> = takeovers.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, [INTERVAL]);
    let shown = diff(&world, DESCHEDULER_ITEM);
    for line in ["-  mode: Predictive\n", "+  mode: Automatic\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:#?}", world.status());
    assert_eq!(world.live(&descheduler(), "/spec/mode"), "Automatic");
}
