//! Applied state is watched: edits of targets, changes of inputs, and the reactions to them.

use api::advisor::{Action, DriftClass, Phase};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::json;

use super::Simulation;
use super::profiles::config_map;
use super::world::{descheduler, hyper_converged};
use crate::enforcement::{CORRECTIONS, PERIOD};
use crate::profile::kinds::{CONFIG_MAP, KUBE_DESCHEDULER};

fn steps() -> Simulation {
    let mut world = Simulation::steps();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world
}

fn load_aware() -> Simulation {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world
}

#[test]
fn drift_is_reported_and_not_reverted() {
    let mut world = steps();
    let written = world.written.clone();
    world.pass(SignedDuration::from_hours(1));
    world.edit(
        &config_map("second"),
        "kubectl-edit",
        &json!({ "data": { "limit": 50 } }),
    );
    world.run();
    assert_eq!(world.trail, [Phase::Drifted]);
    let drifted = world.condition("Drifted");
    assert_eq!(drifted.reason, "DriftDetected");
    assert_eq!(
        drifted.message,
        "Configuration has drifted from desired state: second: data.limit is 50, applied was 5, changed by kubectl-edit at 2026-07-01T13:00:00Z"
    );
    assert_eq!(
        world.status_and_reason("Completed"),
        ("False".into(), "ConfigurationDrifted".into())
    );
    assert_eq!(
        world.status_and_reason("ProfileActive"),
        ("False".into(), "DriftDetected".into())
    );
    let drift = &world.status().drift[0];
    assert_eq!(drift.class, DriftClass::ExternalEdit);
    assert_eq!(drift.manager.as_deref(), Some("kubectl-edit"));
    assert_eq!(
        world.item("second").message.as_deref(),
        Some("Configuration has drifted from desired state")
    );
    assert!(
        world
            .notices
            .iter()
            .any(|notice| notice.warning && notice.reason == "Drifted")
    );
    assert_eq!(world.written, written);
    world.check_rest();
}

/// B10.
#[test]
fn manually_corrected_drift_is_resolved() {
    let mut world = steps();
    let second = config_map("second");
    world.edit(&second, "kubectl", &json!({ "data": { "limit": 50 } }));
    world.run();
    world.edit(&second, "kubectl", &json!({ "data": { "limit": 5 } }));
    world.run();
    assert_eq!(world.trail, [Phase::Completed]);
    assert_eq!(
        world.item("second").message.as_deref(),
        Some("In desired state")
    );
    assert!(world.status().drift.is_empty());
    assert_eq!(world.status_and_reason("Drifted").0, "False");
    world.check_rest();
}

#[test]
fn added_fields_are_no_drift() {
    let mut world = steps();
    world.edit(
        &config_map("second"),
        "kubectl",
        &json!({ "data": { "other": 1 } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world.check_rest();
}

#[test]
fn deleted_target_is_drift() {
    let mut world = steps();
    world.cluster.delete(&config_map("third"));
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    world.check_rest();
    // Toggling the action restores it.
    world.action(Action::DryRun);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    world.action(Action::Apply);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(
        world.live(&config_map("third"), "/data/interval"),
        json!(60)
    );
}

/// B18: drift of applied state is reported in review, after a failure and while prerequisites are missing.
#[rstest]
#[case::review(Phase::ReviewRequired)]
#[case::failed(Phase::Failed)]
#[case::prerequisite_failed(Phase::PrerequisiteFailed)]
fn drift_is_reported_in_other_phases(#[case] phase: Phase) {
    let mut world = steps();
    world.options(|options| options.descheduling_interval_seconds = Some(90));
    match phase {
        Phase::Failed => {
            world.refusals.insert("second".into(), "no".into());
        }
        // Objects whose CRD is removed have not drifted: their state is unknown.
        Phase::PrerequisiteFailed => world.cluster.uninstall(CONFIG_MAP),
        _ => world.action(Action::DryRun),
    }
    world.run();
    assert_eq!(world.phase(), phase);
    assert!(world.status().drift.is_empty());
    world
        .cluster
        .delete(&super::profiles::machine_config("first"));
    world.run();
    assert_eq!(world.phase(), phase);
    let drift = world.status().drift;
    assert!(drift.iter().all(|drift| drift.item == "first") && !drift.is_empty());
    let condition = world.condition("Drifted");
    assert_eq!(condition.status, "False");
    assert!(
        condition
            .message
            .contains("first: spec.kernelArguments is <none>"),
        "{}",
        condition.message
    );
    world.check_rest();
}

/// The acceptance example: the migration limit goes from 5 to 10.
#[test]
fn changed_input_needs_review_under_apply() {
    let mut world = load_aware();
    let written = world.written.len();
    world.migrations(10);
    world.run();
    assert_eq!(world.trail, [Phase::Drafting, Phase::ReviewRequired]);
    let condition = world.condition("InputDependencyDrift");
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str()),
        ("True", "InputChanged")
    );
    assert_eq!(
        condition.message,
        "Input dependency changed: HCO parallelMigrationsPerCluster changed (scaled 5 -> 10)"
    );
    let diff = world.item("enable-load-aware-descheduling").diff.unwrap();
    assert!(diff.contains("-    total: 5\n+    total: 10"), "{diff}");
    assert_eq!(world.written.len(), written);
    assert_eq!(
        world.live(&descheduler(), "/spec/evictionLimits/total"),
        json!(5)
    );
    assert_eq!(
        world.status_and_reason("Approved"),
        ("False".into(), "InputChanged".into())
    );
    world.check_rest();

    // Any edit of the specification acknowledges.
    world.spec(|spec| spec.wait_timeout = Some("3h".into()));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(
        world.status_and_reason("InputDependencyDrift"),
        ("False".into(), "Acknowledged".into())
    );
    assert_eq!(
        world.live(&descheduler(), "/spec/evictionLimits/total"),
        json!(10)
    );
    world.check_rest();
}

#[test]
fn reverted_input_change_is_resolved() {
    let mut world = load_aware();
    let written = world.written.len();
    world.migrations(10);
    world.run();
    world.migrations(5);
    world.run();
    assert_eq!(world.trail, [Phase::Drafting, Phase::Completed]);
    assert_eq!(
        world.status_and_reason("InputDependencyDrift"),
        ("False".into(), "DriftResolved".into())
    );
    assert_eq!(world.written.len(), written);
    assert_eq!(
        world.condition("Completed").message,
        "Configuration successfully applied and in sync"
    );
    world.check_rest();
}

/// B11, B12: inputs are compared with inputs.
#[test]
fn target_edit_is_no_input_change() {
    let mut world = load_aware();
    world.edit(
        &descheduler(),
        "kubectl",
        &json!({ "spec": { "evictionLimits": { "total": 10 } } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    assert_eq!(world.status_and_reason("InputDependencyDrift").0, "False");
    // Both are distinguished when both happen.
    world.migrations(20);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(world.status_and_reason("InputDependencyDrift").0, "True");
    let diff = world.item("enable-load-aware-descheduling").diff.unwrap();
    assert!(diff.contains("-    total: 10\n+    total: 18"), "{diff}");
}

/// Derived values count: an input change with the same result is none.
#[test]
fn input_change_without_effect_is_only_recorded() {
    let mut world = load_aware();
    world.edit(
        &hyper_converged(),
        "admin",
        &json!({ "spec": { "liveMigrationConfig": null } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.status().inputs[0].raw, None);
    world.check_rest();
}

/// B12: an older CRD has no limit per node, and the state machine converges.
#[test]
fn crd_without_node_limit_converges() {
    let mut world = Simulation::load_aware();
    let text = json!({ "type": "string" });
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "managementState": text, "mode": text,
        "deschedulingIntervalSeconds": { "type": "integer" },
        "profiles": { "type": "array", "items": { "type": "string", "enum": ["KubeVirtRelieveAndMigrate"] } },
        "profileCustomizations": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "evictionLimits": { "type": "object", "properties": { "total": { "type": "integer" } } },
    } } } });
    world.cluster.install(KUBE_DESCHEDULER, "v1", Some(schema));
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(
        world.live(&descheduler(), "/spec/evictionLimits"),
        json!({ "total": 5 })
    );
    assert_eq!(world.status().inputs.len(), 1);
    world.check_rest();
}

/// B12: a descheduler CRD without any limits.
#[test]
fn crd_without_limits_converges() {
    let mut world = Simulation::load_aware();
    let text = json!({ "type": "string" });
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "managementState": text, "mode": text,
        "deschedulingIntervalSeconds": { "type": "integer" },
        "profiles": { "type": "array", "items": { "type": "string", "enum": ["LongLifecycle"] } },
    } } } });
    world.cluster.install(KUBE_DESCHEDULER, "v1", Some(schema));
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(
        world.live(&descheduler(), "/spec/profiles"),
        json!(["LongLifecycle"])
    );
    assert_eq!(
        world.live(&descheduler(), "/spec/evictionLimits"),
        json!(null)
    );
    world.check_rest();
    // The derived value is not sent, so it is no input.
    world.migrations(20);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world.check_rest();
}

/// B12: a limit set in the options is no input, and the other one still is.
#[test]
fn explicit_limit_does_not_hide_changes_of_the_other() {
    let mut world = Simulation::load_aware();
    world.action(Action::Apply);
    world.options(|options| options.eviction_limit_node = Some(4));
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    let limits = json!({ "liveMigrationConfig": { "parallelOutboundMigrationsPerNode": 9 } });
    world.edit(&hyper_converged(), "admin", &json!({ "spec": limits }));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world.migrations(10);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_eq!(
        world.status_and_reason("InputDependencyDrift"),
        ("True".into(), "InputChanged".into())
    );
    world.check_rest();
}

#[test]
fn bypassed_locks_correct_drift() {
    let mut world = steps();
    world.spec(|spec| spec.bypass_optimistic_lock = true);
    world.run();
    let second = config_map("second");
    world.edit(&second, "kubectl", &json!({ "data": { "limit": 50 } }));
    world.run();
    assert_eq!(
        world.trail,
        [Phase::Drafting, Phase::InProgress, Phase::Completed]
    );
    for reason in ["Drifted", "DriftCorrected"] {
        assert!(world.notices.iter().any(|notice| notice.reason == reason));
    }
    assert_eq!(world.live(&second, "/data/limit"), json!(5));
    assert_eq!(world.status().enforcement.unwrap().corrections.len(), 1);
    world.check_rest();
    // Not in a dry run.
    world.action(Action::DryRun);
    world.run();
    world.edit(&second, "kubectl", &json!({ "data": { "limit": 50 } }));
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    world.check_rest();
}

#[test]
fn edit_conflict_pauses_until_spec_changes() {
    let mut world = steps();
    world.spec(|spec| spec.bypass_optimistic_lock = true);
    world.run();
    let second = config_map("second");
    let fight = |world: &mut Simulation| {
        world.edit(&second, "argocd", &json!({ "data": { "limit": 50 } }));
        world.run()
    };
    let begun = world.now;
    for correction in 0..CORRECTIONS {
        assert_eq!(fight(&mut world), None);
        assert_eq!(world.phase(), Phase::Completed, "correction {correction}");
        // As long as a GitOps controller takes to notice.
        world.pass(SignedDuration::from_secs(10));
    }
    assert_eq!(fight(&mut world), None);
    assert_eq!(world.phase(), Phase::Drifted);
    assert!(world.now.duration_since(begun) < PERIOD);
    let enforcement = world.status().enforcement.unwrap();
    assert!(enforcement.paused);
    assert_eq!(enforcement.against.as_deref(), Some("argocd"));
    let warnings = world
        .notices
        .iter()
        .filter(|notice| notice.reason == "EnforcementPaused");
    assert_eq!(warnings.count(), 1);
    world.check_rest();
    world.pass(SignedDuration::from_mins(30));
    let written = world.written.len();
    assert_eq!(fight(&mut world), None);
    assert_eq!(world.phase(), Phase::Drifted);
    assert_eq!(world.written.len(), written);

    world.spec(|spec| spec.wait_timeout = Some("1h".into()));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.live(&second, "/data/limit"), json!(5));
    assert_eq!(world.status().enforcement, None);
}

/// B13: a new version that drops a field is an upgrade as well: applying it would release the field.
#[test]
fn dropped_field_is_an_upgrade() {
    use crate::intent::Intents;
    use crate::profile::{KindUse, Prerequisite, Profile, ProfileInfo, Refusal};
    struct Less(super::profiles::Steps);
    impl Profile for Less {
        fn about(&self) -> &ProfileInfo {
            self.0.about()
        }
        fn uses(&self) -> &[KindUse] {
            &[]
        }
        fn prerequisites(&self, options: &api::advisor::ProfileOptions) -> Vec<Prerequisite> {
            self.0.prerequisites(options)
        }
        fn intents(
            &self,
            options: &api::advisor::ProfileOptions,
            snapshot: &crate::Snapshot,
        ) -> Result<Intents, Refusal> {
            let mut wanted = self.0.intents(options, snapshot)?;
            let second = &mut wanted.items[1];
            second.managed.retain(|path| path != "data.logic");
            second.desired["data"]
                .as_object_mut()
                .unwrap()
                .remove("logic");
            Ok(wanted)
        }
    }
    let mut world = steps();
    world.version = "v0.1.31".into();
    world.profile = Some(std::sync::Arc::new(Less(super::profiles::Steps {
        logic: 1,
    })));
    world.run();
    assert_eq!(world.phase(), Phase::CompletedWithUpgrade);
    world.check_rest();
    world.spec(|spec| spec.wait_timeout = Some("1h".into()));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(
        world.live(&config_map("second"), "/data/logic"),
        json!(null)
    );
    world.check_rest();
}
