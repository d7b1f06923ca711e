//! Marks and field managers of other controllers.

use rstest::rstest;
use serde_json::json;

use super::*;

fn item(operation: Operation) -> Item {
    Item {
        name: "set".to_owned(),
        target_ref: TargetRef {
            api_version: "operator.openshift.io/v1".to_owned(),
            kind: "KubeDescheduler".to_owned(),
            name: "cluster".to_owned(),
            namespace: Some("openshift-kube-descheduler-operator".to_owned()),
        },
        operation,
        ..Item::default()
    }
}

fn conflict(manager: &str, path: &str) -> Conflict {
    Conflict {
        manager: manager.to_owned(),
        path: path.to_owned(),
        since: None,
    }
}

/// `RIVAL: FIELDS` of each collision of an apply.
fn found(metadata: &Value, conflicts: &[(&str, &str)]) -> Vec<String> {
    let conflicts: Vec<_> = conflicts.iter().map(|(a, b)| conflict(a, b)).collect();
    let live = json!({ "metadata": metadata });
    let all = collisions(&item(Operation::Apply), Some(&live), &conflicts);
    let all = all.iter();
    all.map(|it| format!("{}: {}", it.rival, it.fields.join(" ")))
        .collect()
}

#[rstest]
#[case::no_marks(json!({}), &[("kubectl", "spec.a")], &[])]
#[case::autopilot_owns(
    json!({}), &[(AUTOPILOT, "spec.b"), (AUTOPILOT, "spec.a"), ("kubectl", "spec.c")],
    &["the virt-platform-autopilot: spec.a spec.b"]
)]
#[case::autopilot_label(
    json!({ "labels": { (AUTOPILOT_LABEL): AUTOPILOT } }), &[], &["the virt-platform-autopilot: "]
)]
#[case::label_of_another(json!({ "labels": { (AUTOPILOT_LABEL): "x" } }), &[], &[])]
#[case::autopilot_unmanaged(
    json!({ "annotations": { "platform.kubevirt.io/management-state": "Unmanaged" } }),
    &[(AUTOPILOT, "spec.a")], &[]
)]
#[case::autopilot_unmanaged_before(
    json!({ "annotations": { "platform.kubevirt.io/mode": "unmanaged" } }), &[(AUTOPILOT, "spec.a")], &[]
)]
#[case::autopilot_managed(
    json!({ "annotations": { "platform.kubevirt.io/management-state": "Managed" } }),
    &[(AUTOPILOT, "spec.a")], &["the virt-platform-autopilot: spec.a"]
)]
#[case::autopilot_ignores_the_field(
    json!({ "annotations": { (AUTOPILOT_IGNORED): "/spec/x, /spec/a" } }),
    &[(AUTOPILOT, "spec.a.b"), (AUTOPILOT, "spec.a[0]")], &[]
)]
#[case::autopilot_ignores_another(
    json!({ "annotations": { (AUTOPILOT_IGNORED): "/spec/a" } }), &[(AUTOPILOT, "spec.ab")],
    &["the virt-platform-autopilot: spec.ab"]
)]
#[case::argo_by_annotation(
    json!({ "annotations": { (ARGO_CD_ID): "virt:operator.openshift.io/KubeDescheduler:ns/cluster" } }), &[],
    &["Argo CD (Application virt): "]
)]
#[case::argo_by_label_and_manager(
    json!({ "labels": { (ARGO_CD_LABEL): "virt" } }), &[("argocd-controller", "spec.a")],
    &["Argo CD (Application virt): spec.a"]
)]
#[case::argo_by_manager(json!({}), &[("argocd-application-controller", "spec.a")], &["Argo CD: spec.a"])]
#[case::label_of_helm(json!({ "labels": { (ARGO_CD_LABEL): "virt" } }), &[("helm", "spec.a")], &[])]
#[case::flux(
    json!({ "labels": { "kustomize.toolkit.fluxcd.io/name": "a", "kustomize.toolkit.fluxcd.io/namespace": "b" } }),
    &[(FLUX, "spec.a")], &["Flux (Kustomization b/a): spec.a"]
)]
#[case::flux_disabled(
    json!({ "annotations": { "kustomize.toolkit.fluxcd.io/reconcile": "disabled" } }), &[(FLUX, "spec.a")], &[]
)]
#[case::two_of_them(
    json!({ "annotations": { (ARGO_CD_ID): "virt:x" } }), &[(AUTOPILOT, "spec.a"), (FLUX, "spec.b")],
    &["the virt-platform-autopilot: spec.a", "Argo CD (Application virt): ", "Flux: spec.b"]
)]
fn controllers_are_found_by_marks_and_managers(
    #[case] metadata: Value,
    #[case] conflicts: &[(&str, &str)],
    #[case] expected: &[&str],
) {
    assert_eq!(found(&metadata, conflicts), expected);
}

#[test]
fn new_and_unchanged_targets_do_not_collide() {
    let live = json!({ "metadata": { "annotations": { (ARGO_CD_ID): "virt:x" } } });
    let conflicts = [conflict(AUTOPILOT, "spec.a")];
    let apply = item(Operation::Apply);
    assert_eq!(collisions(&apply, None, &conflicts), []);
    let unchanged = Item {
        unchanged: true,
        ..apply
    };
    assert_eq!(collisions(&unchanged, Some(&live), &conflicts), []);
}

/// A deletion takes no field from anyone; the owner creates the object again.
#[test]
fn deletion_collides_with_the_owner_of_the_object() {
    let live = json!({ "metadata": { "managedFields": [
        { "manager": AUTOPILOT, "operation": "Apply" },
        { "manager": "argocd-controller", "operation": "Update", "subresource": "status" },
    ] } });
    let all = collisions(&item(Operation::Delete), Some(&live), &[]);
    let rivals: Vec<_> = all.iter().map(|it| it.rival.clone()).collect();
    assert_eq!(rivals, [Rival::Autopilot]);
    assert_eq!(
        collisions(&item(Operation::Apply), Some(&live), &[]),
        [],
        "it owns no field that is applied"
    );
}

#[rstest]
#[case::autopilot(
    Rival::Autopilot, &["spec.a", "spec.b"],
    "KubeDescheduler openshift-kube-descheduler-operator/cluster is managed by the virt-platform-autopilot, which sets spec.a, spec.b and reverts this plan; to stop it: kubectl annotate kubedescheduler cluster -n openshift-kube-descheduler-operator platform.kubevirt.io/management-state=Unmanaged platform.kubevirt.io/mode=unmanaged"
)]
#[case::argo(
    Rival::ArgoCd { application: Some("virt".to_owned()) }, &[],
    "KubeDescheduler openshift-kube-descheduler-operator/cluster is managed by Argo CD (Application virt), which reverts this plan if it sets the same fields; to stop it: add {group: \"operator.openshift.io\", kind: KubeDescheduler, name: cluster, managedFieldsManagers: [virt-advisor-operator]} to spec.ignoreDifferences of virt, with the sync option RespectIgnoreDifferences=true, or remove the fields from its source"
)]
#[case::flux(
    Rival::Flux { kustomization: None }, &["spec.a"],
    "KubeDescheduler openshift-kube-descheduler-operator/cluster is managed by Flux, which sets spec.a and reverts this plan; to stop it: remove the fields from its source, or kubectl annotate kubedescheduler cluster -n openshift-kube-descheduler-operator kustomize.toolkit.fluxcd.io/reconcile=disabled"
)]
fn message_names_object_controller_and_next_step(
    #[case] rival: Rival,
    #[case] fields: &[&str],
    #[case] expected: &str,
) {
    let collision = Collision {
        target: item(Operation::Apply).target_ref,
        rival,
        fields: fields.iter().map(|&it| it.to_owned()).collect(),
    };
    assert_eq!(collision.to_string(), expected);
}
