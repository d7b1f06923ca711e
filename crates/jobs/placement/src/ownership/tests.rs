//! Who places pods, and what a message names.

use api::cdi::Named;
use rstest::rstest;
use serde_json::json;

use super::*;

pub(crate) fn running() -> RunningOperator {
    RunningOperator {
        operator: OPERATOR,
        deployment: Some(Named {
            namespace: "tuning".to_owned(),
            name: OPERATOR.deployment.to_owned(),
        }),
        restorer: None,
        lease: None,
    }
}

fn registered(selector: &serde_json::Value) -> MultiarchTuning {
    MultiarchTuning::read(&json!({ "webhooks": [{
        "name": "pod-placement-scheduling-gate.multiarch.openshift.io",
        "namespaceSelector": selector,
    }] }))
    .unwrap()
}

use ModeSetting::{Assist, Auto, Off};

#[rstest]
#[case::alone(Auto, false, false, Mode::Manage, Some("placement"), "Managing")]
#[case::beside(
    Auto,
    true,
    true,
    Mode::Assist,
    Some("the multiarch-tuning-operator"),
    "UpstreamOperatorRuns"
)]
#[case::its_leftovers(
    Auto,
    true,
    false,
    Mode::Assist,
    Some("the multiarch-tuning-operator"),
    "UpstreamOperatorStopped"
)]
#[case::without_its_webhook(Auto, false, true, Mode::Manage, Some("placement"), "Managing")]
#[case::handed_back(
    Assist,
    true,
    true,
    Mode::Assist,
    Some("the multiarch-tuning-operator"),
    "SetByPolicy"
)]
#[case::assist_alone(Assist, false, false, Mode::Assist, None, "SetByPolicy")]
#[case::off(Off, false, false, Mode::Off, None, "SetByPolicy")]
#[case::off_beside(
    Off,
    true,
    true,
    Mode::Off,
    Some("the multiarch-tuning-operator"),
    "SetByPolicy"
)]
fn one_operator_places_a_pod(
    #[case] setting: ModeSetting,
    #[case] is_registered: bool,
    #[case] runs: bool,
    #[case] mode: Mode,
    #[case] owner: Option<&str>,
    #[case] reason: &str,
) {
    let other = registered(&json!({ "matchLabels": { "team": "shop" } }));
    let running = running();
    let found = ownership(
        setting,
        is_registered.then_some(&other),
        runs.then_some(&running),
    );
    assert_eq!(
        (found.mode, found.owner.as_deref(), found.reason),
        (mode, owner, reason)
    );
    let names_namespaces = found
        .message
        .contains(r#"the namespaces that its selector {"matchLabels":{"team":"shop"}} matches"#);
    assert_eq!(names_namespaces, is_registered, "{}", found.message);
}

#[test]
fn messages_name_the_operator_and_the_next_step() {
    let running = running();
    let all = registered(&json!({}));
    assert_eq!(
        ownership(Auto, Some(&all), Some(&running)).message,
        "the multiarch-tuning-operator runs (Deployment tuning/pod-placement-controller) and places pods of all namespaces; placement places those of other namespaces; `medley place take-over` shows how to let it place all, `medley place hand-back` how to let it place none"
    );
    let left = ownership(Auto, Some(&all), None).message;
    assert!(
        left.contains("delete the MutatingWebhookConfiguration"),
        "{left}"
    );
    let set = ownership(Assist, None, None).message;
    assert!(
        set.contains("set spec.operatorMode to Auto")
            && set.ends_with("no other operator places pods"),
        "{set}"
    );
}
