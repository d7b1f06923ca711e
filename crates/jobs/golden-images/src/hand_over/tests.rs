use rstest::rstest;
use serde_json::json;

use super::*;
use crate::layers::{CDI, CDI_OPERATOR, SSP};

fn deployment(name: &str, replicas: i32, metadata: &Value) -> Deployment {
    let mut object = json!({
        "metadata": { "name": name, "namespace": "cdi" },
        "spec": { "replicas": replicas, "selector": {}, "template": {} },
    });
    for (key, value) in metadata.as_object().unwrap() {
        object["metadata"][key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn owned_by(kind: &str) -> Value {
    json!({ "ownerReferences": [
        { "apiVersion": "example/v1", "kind": kind, "name": "owner", "uid": "1", "controller": true },
    ] })
}

fn inputs(layer: Layer, operator: &Deployment) -> HandOverInputs<'_> {
    HandOverInputs {
        layer,
        operator: Some(Installed {
            operator: layer.operator().unwrap(),
            deployment: Some(operator),
        }),
        restoring: None,
        runs_elsewhere: None,
        enabled: true,
        installed: true,
        setting: ModeSetting::Auto,
    }
}

/// The state after a change, as the API server merges it.
fn after(before: &Deployment, scale: &Scale) -> Deployment {
    let mut object = serde_json::to_value(before).unwrap();
    machinery::patch::merge_patch(&mut object, &scale.patch).unwrap();
    serde_json::from_value(object).unwrap()
}

#[test]
fn hand_back_restores_what_take_over_changed() {
    let before = deployment("ssp-operator", 2, &json!({}));
    let plan = take_over(&inputs(Layer::Ssp, &before)).unwrap();
    let [scale] = plan.scale.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!((scale.operator, scale.from, scale.to), (SSP.title, 2, 0));
    let down = after(&before, scale);
    // Repeated: nothing is left to do.
    assert_eq!(take_over(&inputs(Layer::Ssp, &down)).unwrap().scale, []);
    let plan = hand_back(&inputs(Layer::Ssp, &down)).unwrap();
    let [scale] = plan.scale.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!((scale.from, scale.to), (0, 2));
    let up = after(&down, scale);
    assert_eq!(up.spec, before.spec);
    assert_eq!(up.metadata.annotations.unwrap_or_default().len(), 0);
    assert_eq!(hand_back(&inputs(Layer::Ssp, &before)).unwrap().scale, []);
}

#[test]
fn what_restores_an_operator_is_stopped_before_and_started_after_it() {
    let operator = deployment("cdi-deployment", 1, &owned_by("CDI"));
    let restoring = deployment("cdi-operator", 1, &json!({}));
    let both = |operator, restoring| HandOverInputs {
        restoring: Some(Installed {
            operator: CDI_OPERATOR,
            deployment: Some(restoring),
        }),
        ..inputs(Layer::Cdi, operator)
    };
    let names = |plan: &HandOver| -> Vec<String> {
        plan.scale
            .iter()
            .map(|it| it.deployment.name.clone())
            .collect()
    };
    let plan = take_over(&both(&operator, &restoring)).unwrap();
    assert_eq!(names(&plan), ["cdi-operator", "cdi-deployment"]);
    // Interrupted after the first change, in either direction.
    let [first, second] = plan.scale.as_slice() else {
        panic!("{plan:?}");
    };
    let (stopped, off) = (after(&restoring, first), after(&operator, second));
    let resumed = take_over(&both(&operator, &stopped)).unwrap();
    assert_eq!(names(&resumed), ["cdi-deployment"]);
    let undone = hand_back(&both(&operator, &stopped)).unwrap();
    assert_eq!(names(&undone), ["cdi-operator"]);
    let back = hand_back(&both(&off, &stopped)).unwrap();
    assert_eq!(names(&back), ["cdi-deployment", "cdi-operator"]);
}

#[rstest]
#[case::olm(
    owned_by("ClusterServiceVersion"),
    "Operator Lifecycle Manager, from ClusterServiceVersion owner restores it; set the replicas"
)]
#[case::cvo(
    owned_by("ClusterVersion"),
    "Cluster Version Operator restores it; add the Deployment to spec.overrides"
)]
#[case::another_owner(
    owned_by("Thing"),
    "the operator of Thing owner restores it; stop the operator of Thing owner"
)]
fn deployment_that_would_be_restored_is_not_scaled(
    #[case] metadata: Value,
    #[case] expected: &str,
) {
    let operator = deployment("ssp-operator", 1, &metadata);
    let refusal = take_over(&inputs(Layer::Ssp, &operator)).unwrap_err();
    let text = refusal.to_string();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn restored_operator_of_cdi_is_not_scaled() {
    let operator = deployment("cdi-deployment", 1, &owned_by("CDI"));
    let restoring = deployment("cdi-operator", 1, &owned_by("ClusterServiceVersion"));
    let refused = take_over(&HandOverInputs {
        restoring: Some(Installed {
            operator: CDI_OPERATOR,
            deployment: Some(&restoring),
        }),
        ..inputs(Layer::Cdi, &operator)
    });
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("Deployment cdi/cdi-operator to 0"), "{text}");
}

#[test]
fn layer_without_a_manager_afterwards_is_not_taken_over() {
    let operator = deployment("ssp-operator", 1, &json!({}));
    let of = inputs(Layer::Ssp, &operator);
    let disabled = HandOverInputs {
        enabled: false,
        ..of
    };
    assert_eq!(take_over(&disabled), Err(Refusal::NotEnabled(Layer::Ssp)));
    let assisting = HandOverInputs {
        setting: ModeSetting::Assist,
        ..of
    };
    let (layer, setting) = (Layer::Ssp, ModeSetting::Assist);
    let refusal = Refusal::SetByPolicy { layer, setting };
    assert_eq!(take_over(&assisting), Err(refusal));
    let absent = HandOverInputs {
        installed: false,
        ..of
    };
    let kind = "SSP";
    let refusal = Refusal::NotInstalled { layer, kind };
    assert_eq!(take_over(&absent), Err(refusal));
    let virtual_machines = HandOverInputs {
        layer: Layer::Vm,
        operator: None,
        ..of
    };
    let refusal = Refusal::NoOperator(Layer::Vm);
    assert_eq!(take_over(&virtual_machines), Err(refusal.clone()));
    assert_eq!(hand_back(&virtual_machines), Err(refusal));
}

#[test]
fn operator_that_runs_without_its_deployment_is_not_taken_over() {
    let operator = deployment("cdi-deployment", 0, &json!({}));
    let lease = Named {
        namespace: "cdi".to_owned(),
        name: CDI.lease.unwrap().to_owned(),
    };
    let held = HandOverInputs {
        runs_elsewhere: Some(&lease),
        ..inputs(Layer::Cdi, &operator)
    };
    let refused = take_over(&held).unwrap_err();
    assert!(matches!(refused, Refusal::Elsewhere { .. }), "{refused}");
    // After a take-over the Lease stays for a while: the command waits, and can be repeated.
    let marked = json!({ "annotations": { TAKEN_OVER_BY: "images-cdi", REPLICAS: "1" } });
    let operator = deployment("cdi-deployment", 0, &marked);
    let waiting = HandOverInputs {
        runs_elsewhere: Some(&lease),
        ..inputs(Layer::Cdi, &operator)
    };
    assert_eq!(take_over(&waiting).unwrap().scale, []);
}
