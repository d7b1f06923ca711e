//! A finding for each operator.

use api::advisor::TargetRef;
use api::cdi::Named;
use api::mode::ModeSetting;
use api::operators::{GenuineOperator, RunningOperator};
use api::release::ReleasePolicy;
use governance::{collisions, prototype};
use placement::multiarch::MultiarchTuning;
use placement::ownership;
use release_migration::control::{self, Owners};
use rstest::rstest;
use serde_json::json;

use super::super::State;
use super::*;

/// A cluster without other operators.
pub(in super::super) fn none() -> Rivals {
    Rivals {
        governance: Ok(prototype::ownership(true, None)),
        placement: Ok(ownership::ownership(ModeSetting::Auto, None, None)),
        release: Ok(control::ownership(None, false, &Owners::default())),
        owns_release: false,
        collisions: Ok(Vec::new()),
        autopilot: Ok(None),
    }
}

fn running(operator: GenuineOperator) -> RunningOperator {
    RunningOperator {
        operator,
        deployment: Some(Named {
            namespace: "ns".to_owned(),
            name: operator.deployment.to_owned(),
        }),
        restorer: None,
        lease: None,
    }
}

fn collision(rival: Rival) -> Rivals {
    let target = TargetRef {
        api_version: "operator.openshift.io/v1".to_owned(),
        kind: "KubeDescheduler".to_owned(),
        name: "cluster".to_owned(),
        namespace: Some("ns".to_owned()),
    };
    let collision = Collision {
        target,
        rival,
        fields: vec!["spec.profiles".to_owned()],
    };
    Rivals {
        collisions: Ok(vec![collision]),
        ..none()
    }
}

fn tuning(runs: bool, mode: ModeSetting) -> Rivals {
    let registered = MultiarchTuning::read(&json!({
        "webhooks": [{ "name": "pod-placement-scheduling-gate.multiarch.openshift.io" }],
    }));
    let running = running(ownership::OPERATOR);
    let running = runs.then_some(&running);
    Rivals {
        placement: Ok(ownership::ownership(mode, registered.as_ref(), running)),
        ..none()
    }
}

fn version(mode: &str, runs: bool) -> Rivals {
    let policy = json!({ "metadata": { "name": "default" }, "spec": { "mode": mode } });
    let policy: ReleasePolicy = serde_json::from_value(policy).unwrap();
    let owners = Owners {
        operator: runs.then(|| running(control::OPERATOR)),
        ..Owners::default()
    };
    Rivals {
        release: Ok(control::ownership(Some(&policy), true, &owners)),
        owns_release: mode == "Own",
        ..none()
    }
}

fn advisor() -> Rivals {
    let running = running(prototype::OPERATOR);
    Rivals {
        governance: Ok(prototype::ownership(true, Some(&running))),
        ..none()
    }
}

fn flying() -> Rivals {
    Rivals {
        autopilot: Ok(Some(running(collisions::AUTOPILOT_OPERATOR))),
        ..none()
    }
}

#[rstest]
#[case::virt_advisor(
    advisor(),
    "virt-advisor",
    State::Warning,
    "the virt-advisor-operator runs (Deployment ns/virt-advisor-operator-controller-manager), so governance writes nothing",
    "scale Deployment ns/virt-advisor-operator-controller-manager to 0"
)]
#[case::autopilot(
    collision(Rival::Autopilot),
    "virt-platform-autopilot",
    State::Warning,
    "KubeDescheduler ns/cluster is managed by the virt-platform-autopilot",
    "platform.kubevirt.io/management-state=Unmanaged"
)]
#[case::autopilot_elsewhere(
    flying(),
    "virt-platform-autopilot",
    State::Off,
    "runs (Deployment ns/virt-platform-autopilot)",
    "Contested"
)]
#[case::argo_cd(
    collision(Rival::ArgoCd { application: Some("virt".to_owned()) }), "argo-cd", State::Warning,
    "is managed by Argo CD (Application virt)", "spec.ignoreDifferences of virt"
)]
#[case::flux(
    collision(Rival::Flux { kustomization: None }), "flux", State::Warning,
    "is managed by Flux", "kustomize.toolkit.fluxcd.io/reconcile=disabled"
)]
#[case::multiarch_tuning(
    tuning(true, ModeSetting::Auto),
    "multiarch-tuning",
    State::Off,
    "the multiarch-tuning-operator runs (Deployment ns/pod-placement-controller) and places pods of all namespaces",
    "medley place take-over"
)]
#[case::multiarch_tuning_stopped(
    tuning(false, ModeSetting::Auto),
    "multiarch-tuning",
    State::Warning,
    "placed by no operator",
    "delete the MutatingWebhookConfiguration"
)]
#[case::handed_back(
    tuning(true, ModeSetting::Assist),
    "multiarch-tuning",
    State::Off,
    "operatorMode Assist",
    "spec.operatorMode to Auto"
)]
#[case::cluster_version(
    version("Observe", true),
    "cluster-version",
    State::Off,
    "the cluster version operator runs (Deployment ns/cluster-version-operator)",
    "leave spec.mode"
)]
#[case::cluster_version_owned(
    version("Own", true),
    "cluster-version",
    State::Warning,
    "so release writes nothing",
    "to Observe"
)]
fn operator_is_found_and_the_next_step_named(
    #[case] rivals: Rivals,
    #[case] id: &str,
    #[case] state: State,
    #[case] message: &str,
    #[case] hint: &str,
) {
    let mut inputs = super::super::tests::healthy();
    inputs.rivals = rivals;
    let found = super::rivals(&inputs);
    for finding in &found {
        if finding.id != id {
            assert_eq!(finding.state, State::Ok, "{finding:?}");
            continue;
        }
        assert_eq!(finding.state, state, "{finding:?}");
        assert!(finding.message.contains(message), "{finding:?}");
        let next = finding.hint.as_deref().unwrap_or_default();
        assert!(next.contains(hint), "{finding:?}");
    }
    assert!(found.iter().any(|it| it.id == id));
}

#[test]
fn what_cannot_be_read_is_a_warning() {
    let mut inputs = super::super::tests::healthy();
    let why = || Err("forbidden".to_owned());
    inputs.rivals = Rivals {
        governance: why(),
        placement: why(),
        release: why(),
        owns_release: false,
        collisions: Err("forbidden".to_owned()),
        autopilot: Err("forbidden".to_owned()),
    };
    let found = rivals(&inputs);
    assert!(found.iter().all(|it| it.state == State::Warning));
}

#[test]
fn own_cluster_version_and_no_openshift_are_fine() {
    for rivals in [version("Own", false), version("Observe", false), none()] {
        let mut inputs = super::super::tests::healthy();
        inputs.rivals = rivals;
        assert!(
            super::rivals(&inputs)
                .iter()
                .all(|it| it.state == State::Ok)
        );
    }
}
