//! Hand-overs from every state, with and without interruptions.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::ownership::tests::running;

fn config(selector: &Value) -> Value {
    json!({ "metadata": { "name": CONFIG_NAME }, "spec": { "namespaceSelector": selector } })
}

/// Both operators are ready, and the other one places pods.
fn ready<'a>(config: Option<&'a Value>, running: &'a RunningOperator) -> HandOverInputs<'a> {
    HandOverInputs {
        direction: Direction::TakeOver,
        namespaces: &[],
        mode: ModeSetting::Auto,
        admission: true,
        controller: true,
        config,
        pod_configs: 0,
        registered: true,
        running: Some(running),
        installer: Some(running),
    }
}

#[test]
fn placement_is_taken_over_and_handed_back() {
    let (running, config) = (running(), config(&Value::Null));
    let ready = ready(Some(&config), &running);
    assert_eq!(steps(&ready), Ok(vec![Step::DeleteConfig]));
    let assisting = HandOverInputs {
        mode: ModeSetting::Assist,
        ..ready
    };
    let both = vec![Step::SetMode(ModeSetting::Auto), Step::DeleteConfig];
    assert_eq!(steps(&assisting), Ok(both));
    let back = HandOverInputs {
        direction: Direction::HandBack,
        ..ready
    };
    assert_eq!(steps(&back), Ok(vec![Step::SetMode(ModeSetting::Assist)]));
    let again = HandOverInputs {
        mode: ModeSetting::Assist,
        ..back
    };
    assert_eq!(steps(&again), Ok(vec![]));
}

#[rstest]
#[case::no_webhook_of_ours(|it: &mut HandOverInputs<'_>| it.admission = false, "its webhook is not registered")]
#[case::no_controller_of_ours(|it: &mut HandOverInputs<'_>| it.controller = false, "its controller does not run")]
#[case::no_installer(|it: &mut HandOverInputs<'_>| it.installer = None, "would not lift its gates")]
#[case::pod_configs(|it: &mut HandOverInputs<'_>| it.pod_configs = 2, "PodPlacementConfigs (2)")]
#[case::left_registration(|it: &mut HandOverInputs<'_>| it.config = None, "kubectl delete mutatingwebhookconfiguration")]
#[case::back_without_config(
    |it: &mut HandOverInputs<'_>| { it.direction = Direction::HandBack; it.config = None; },
    "there is no ClusterPodPlacementConfig"
)]
#[case::back_without_webhook(
    |it: &mut HandOverInputs<'_>| { it.direction = Direction::HandBack; it.registered = false; },
    "its webhook is not registered"
)]
#[case::back_without_controller(
    |it: &mut HandOverInputs<'_>| { it.direction = Direction::HandBack; it.running = None; },
    "its placement controller does not run"
)]
fn unsafe_hand_over_is_refused(
    #[case] change: fn(&mut HandOverInputs<'_>),
    #[case] expected: &str,
) {
    let (running, config) = (running(), config(&Value::Null));
    let mut inputs = ready(Some(&config), &running);
    change(&mut inputs);
    let error = steps(&inputs).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

/// The configuration is deleted by now, or its deletion is under way.
#[rstest]
#[case::deleting(Some(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })), true)]
#[case::gone(None, false)]
fn finished_take_over_has_no_steps(#[case] config: Option<Value>, #[case] registered: bool) {
    let running = running();
    let inputs = HandOverInputs {
        registered,
        installer: None,
        running: None,
        ..ready(config.as_ref(), &running)
    };
    assert_eq!(steps(&inputs), Ok(vec![]));
}

#[test]
fn namespaces_are_excluded_and_included_by_name() {
    let default = json!({ "matchExpressions": [
        { "key": "multiarch.openshift.io/exclude-pod-placement", "operator": "DoesNotExist" },
    ] });
    let names = |all: &[&str]| all.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    let once = exclude(&default, &names(&["shop"])).unwrap();
    let twice = exclude(&once, &names(&["shop", "bank"])).unwrap();
    assert_eq!(
        twice["matchExpressions"][1],
        json!({ "key": NAMESPACE_NAME, "operator": "NotIn", "values": ["bank", "shop"] })
    );
    let back = include(&twice, &names(&["shop"])).unwrap();
    assert_eq!(back["matchExpressions"][1]["values"], json!(["bank"]));
    assert_eq!(include(&back, &names(&["bank"])).unwrap(), default);
    assert_eq!(
        include(&default, &names(&["shop"])),
        Err(HandOverError::NotExcluded("shop".to_owned()))
    );
    let running = running();
    let taken = config(&twice);
    let repeated = HandOverInputs {
        namespaces: &names(&["shop"]),
        ..ready(Some(&taken), &running)
    };
    assert_eq!(steps(&repeated), Ok(vec![]));
}

proptest! {
    /// In every state either the hand-over is refused, or one operator is ready to gate pods once its steps are done.
    #[test]
    fn accepted_hand_over_leaves_an_operator(
        take in any::<bool>(),
        assist in any::<bool>(),
        flags in prop::array::uniform6(any::<bool>()),
    ) {
        let [admission, controller, has_config, registered, runs, installed] = flags;
        let (running, config) = (running(), config(&Value::Null));
        let inputs = HandOverInputs {
            direction: if take { Direction::TakeOver } else { Direction::HandBack },
            mode: if assist { ModeSetting::Assist } else { ModeSetting::Auto },
            admission,
            controller,
            registered,
            running: runs.then_some(&running),
            installer: installed.then_some(&running),
            ..ready(has_config.then_some(&config), &running)
        };
        if let Ok(steps) = steps(&inputs) {
            if take {
                prop_assert!(admission && controller);
                let auto = steps.contains(&Step::SetMode(ModeSetting::Auto));
                prop_assert_eq!(auto, assist);
                // The mode first: in between, pods are gated by the other operator, or by Medley where it gates none.
                prop_assert!(!auto || steps.first() == Some(&Step::SetMode(ModeSetting::Auto)));
                prop_assert_eq!(steps.contains(&Step::DeleteConfig), has_config);
            } else {
                prop_assert!(has_config && registered && runs);
            }
        }
    }

    /// Excluding and including is its own inverse, and keeps what others wrote.
    #[test]
    fn selectors_survive_a_round_trip(
        names in prop::collection::btree_set("[a-z]{1,4}", 1..4),
        label in "[a-z]{0,3}",
    ) {
        let names: Vec<String> = names.into_iter().collect();
        let before = if label.is_empty() {
            json!({})
        } else {
            json!({ "matchLabels": { label.clone(): "x" }, "matchExpressions": [{ "key": label, "operator": "Exists" }] })
        };
        let taken = exclude(&before, &names).unwrap();
        prop_assert_eq!(exclude(&taken, &names).unwrap(), taken.clone());
        prop_assert_eq!(include(&taken, &names).unwrap(), before);
    }
}
