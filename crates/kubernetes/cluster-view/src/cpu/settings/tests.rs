use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::settings::Sources as _;

/// The settings derived from these objects.
fn settings_of(objects: &[Value]) -> Settings {
    let mut sources = Sources::default();
    for object in objects {
        change(&mut sources, None, Some(object));
    }
    sources.settings()
}

fn change(sources: &mut Sources, old: Option<&Value>, new: Option<&Value>) {
    let side = |object: Option<&Value>| {
        object.map(|object| Arc::new(serde_json::from_value(object.clone()).unwrap()))
    };
    let change = Change {
        old: side(old),
        new: side(new),
    };
    let kind = old.or(new).map(|object| object["kind"].clone()).unwrap();
    if kind == "KubeVirt" {
        sources.kubevirt(&change);
    } else {
        sources.policy(&change);
    }
}

fn kubevirt(configuration: &Value) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": { "name": "kubevirt", "namespace": "kubevirt" },
        "spec": { "configuration": configuration },
    })
}

fn policy(name: &str, year: i32) -> Value {
    json!({
        "apiVersion": "medley.dev/v1alpha1", "kind": "CpuModelPolicy",
        "metadata": { "name": name }, "spec": { "minimalLaunchYear": year },
    })
}

#[rstest]
#[case::set(Some("best-match-model"), None, false, true)]
#[case::another(Some("Nehalem"), None, true, false)]
#[case::by_default(None, Some("amd64"), true, true)]
#[case::without_default(None, None, false, false)]
#[case::arm(None, Some("arm64"), true, false)]
fn a_machine_leaves_the_choice_to_medley(
    #[case] model: Option<&str>,
    #[case] architecture: Option<&str>,
    #[case] default: bool,
    #[case] expected: bool,
) {
    let model_of_all = if default { "best-match-model" } else { "" };
    let settings = settings_of(&[kubevirt(&json!({ "cpuModel": model_of_all }))]);
    assert_eq!(settings.asks_for_best_match(model, architecture), expected);
}

#[test]
fn no_objects_give_the_defaults() {
    assert_eq!(settings_of(&[]), Settings::default());
}

#[test]
fn kubevirt_and_policy_are_merged() {
    let selectors = json!({ "developerConfiguration": { "nodeSelectors": { "a": "b" } } });
    let settings = settings_of(&[kubevirt(&selectors), policy("default", 2015)]);
    assert_eq!(settings.node_selector["a"], "b");
    assert_eq!(settings.policy.minimal_launch_year, 2015);
    let another = settings_of(&[policy("another", 2015)]);
    assert_eq!(another, Settings::default(), "only one counts");
}

#[test]
fn deleted_objects_are_dropped() {
    let mut sources = Sources::default();
    let objects = [
        kubevirt(&json!({ "cpuModel": "Nehalem" })),
        policy("default", 2015),
    ];
    for object in &objects {
        change(&mut sources, None, Some(object));
    }
    assert_eq!(sources.settings().default_model.as_deref(), Some("Nehalem"));
    for object in &objects {
        change(&mut sources, Some(object), None);
    }
    assert_eq!(sources.settings(), Settings::default());
}
