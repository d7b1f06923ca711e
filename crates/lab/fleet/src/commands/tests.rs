use k8s_openapi::api::core::v1::{Node, Pod};
use rstest::rstest;
use serde_json::{Value, json};

use super::drain::{DrainOptions, choose};
use super::{NodeLine, copy};

fn pod(name: &str, owner: Option<&str>, more: &Value) -> Pod {
    let owners = owner.map(|kind| {
        json!([{ "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true }])
    });
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "ns", "ownerReferences": owners },
        "spec": { "containers": [] },
    });
    machinery::patch::merge_patch(&mut pod, more).expect("a patch");
    serde_json::from_value(pod).expect("a pod")
}

fn all() -> DrainOptions {
    DrainOptions {
        ignore_daemonsets: true,
        force: true,
        delete_emptydir_data: true,
        ..DrainOptions::default()
    }
}

#[rstest]
#[case::owned(pod("p", Some("ReplicaSet"), &json!({})), Ok(true), Ok(true))]
#[case::alone(pod("p", None, &json!({})), Err("declare no controller (use --force to override): ns/p"), Ok(true))]
#[case::daemon(pod("p", Some("DaemonSet"), &json!({})), Err("DaemonSet-managed Pods (use --ignore-daemonsets to ignore): ns/p"), Ok(false))]
#[case::local(pod("p", Some("ReplicaSet"), &json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})), Err("local storage (use --delete-emptydir-data to override): ns/p"), Ok(true))]
#[case::over(pod("p", None, &json!({"status": {"phase": "Succeeded"}})), Ok(true), Ok(true))]
#[case::mirror(pod("p", None, &json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})), Ok(false), Ok(false))]
fn drain_selects_pods_as_kubectl_does(
    #[case] pod: Pod,
    #[case] carefully: Result<bool, &str>,
    #[case] forced: Result<bool, &str>,
) {
    let pods = [pod];
    for (options, expected) in [(DrainOptions::default(), carefully), (all(), forced)] {
        match (choose(&pods, &options), expected) {
            (Ok(leaving), Ok(leaves)) => assert_eq!(leaving.len(), usize::from(leaves)),
            (Err(why), Err(part)) => assert!(why.join(", ").contains(part), "{why:?}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }
}

#[test]
fn copied_node_keeps_shared_fields_only() {
    let fleet = crate::Fleet::demo().expect("valid");
    let nodes = crate::model::expand(&fleet);
    let mut model: Node = nodes
        .into_iter()
        .find(|node| node.metadata.name.as_deref() == Some("win2022-1"))
        .expect("a Windows node");
    model.metadata.uid = Some("u".into());
    let spec = model.spec.get_or_insert_default();
    spec.pod_cidr = Some("10.128.1.0/24".into());
    spec.unschedulable = Some(true);
    let copy = copy(&model, "other");
    assert_eq!(copy.metadata.uid, None);
    let line = NodeLine::of(&copy);
    assert_eq!(
        (line.os.as_str(), line.arch.as_str()),
        ("windows 10.0.20348", "amd64")
    );
    assert!(line.simulated && line.schedulable);
    let spec = copy.spec.expect("a spec");
    assert_eq!(spec.pod_cidr, None);
    assert_eq!(spec.taints.map(|taints| taints.len()), Some(1));
    let labels = copy.metadata.labels.expect("labels");
    assert_eq!(
        labels.get("kubernetes.io/hostname").map(String::as_str),
        Some("other")
    );
    let capacity = |node: &Node| node.status.clone().and_then(|status| status.capacity);
    assert_eq!(capacity(&model).map(|all| all.len()), Some(4));
}
