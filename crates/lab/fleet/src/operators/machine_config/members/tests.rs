//! Assignment of nodes to pools.

use rstest::rstest;
use serde_json::Value;

use super::*;

fn pool(name: &str, selector: &Value) -> Arc<MachineConfigPool> {
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": name },
        "spec": { "nodeSelector": selector },
    });
    Arc::new(serde_json::from_value(pool).unwrap())
}

fn of_role(name: &str) -> Arc<MachineConfigPool> {
    let label = format!("node-role.kubernetes.io/{name}");
    pool(name, &json!({ "matchLabels": { label: "" } }))
}

#[rstest]
#[case(&["worker"], Some("worker"))]
#[case(&["master", "control-plane"], Some("master"))]
#[case::compact(&["master", "worker"], Some("master"))]
#[case::custom(&["worker", "infra"], Some("infra"))]
#[case::custom_alone(&["infra"], Some("infra"))]
#[case::masters_stay(&["master", "infra"], Some("master"))]
#[case::torn(&["worker", "infra", "gpu"], None)]
#[case::nobody(&["edge"], None)]
#[case::nothing(&[], None)]
fn node_is_in_one_pool(#[case] roles: &[&str], #[case] expected: Option<&str>) {
    let pools = [
        of_role("gpu"),
        of_role("infra"),
        of_role("master"),
        of_role("worker"),
        // Pools without a selector, which must not select all nodes.
        pool("empty", &json!({})),
        pool("silent", &Value::Null),
    ];
    let pools = Pools::new(&pools);
    let labels: serde_json::Map<String, Value> = roles
        .iter()
        .map(|role| (format!("node-role.kubernetes.io/{role}"), json!("")))
        .collect();
    let mut node: Node =
        serde_json::from_value(json!({ "metadata": { "labels": labels } })).unwrap();
    assert_eq!(pools.of(&node), expected);
    let labels = node.metadata.labels.get_or_insert_default();
    labels.insert(OS.to_owned(), "windows".to_owned());
    assert_eq!(pools.of(&node), None, "Windows nodes belong to no pool");
}
