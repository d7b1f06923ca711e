//! Webhooks and built-in admission plugins on the same pod.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster, WebhookServer};

use crate::webhooks_support::{Hooks, ask};

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    if let (Some(fields), Value::Object(more)) = (pod["spec"].as_object_mut(), spec) {
        fields.extend(more);
    }
    pod
}

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

fn windows(name: &str) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name},
        "handler": "h", "overhead": {"podFixed": {"memory": "128Mi"}},
        "scheduling": {
            "nodeSelector": {"kubernetes.io/os": "windows"},
            "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}],
        },
    })
}

#[tokio::test]
async fn plugins_run_again_after_webhooks() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(|path, request| {
        let add = |path: &str, value: Value| {
            Reply::patch(&json!([{"op": "add", "path": path, "value": value}]))
        };
        match (path, request["name"].as_str().unwrap_or_default()) {
            ("/late", "classed") => add("/spec/runtimeClassName", json!("late-windows")),
            ("/late", "torn") => add("/spec/nodeSelector", json!({"kubernetes.io/os": "linux"})),
            _ => Reply::allow(),
        }
    })
    .await?;
    let hooks = Hooks::new(&cluster, &server, "plugins").await?;
    let (code, body, _) = ask(&cluster, "POST", CLASSES, &windows("late-windows")).await?;
    assert_eq!(code, 201, "{body}");
    hooks
        .mutating("plugins", vec![hooks.hook("late", "pods", json!({}))])
        .await?;
    let pods = format!("/api/v1/namespaces/{}/pods", hooks.namespace);
    let (code, body, _) = ask(&cluster, "POST", &pods, &pod("classed", json!({}))).await?;
    assert_eq!(code, 201, "{body}");
    let spec = &body["spec"];
    assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    assert_eq!(spec["overhead"], json!({"memory": "128Mi"}));
    let keys: Vec<&Value> = spec["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|toleration| &toleration["key"])
        .collect();
    assert!(keys.contains(&&json!("os")), "{keys:?}");
    // A webhook sees the fields set from the RuntimeClass, and may not contradict them.
    let torn = pod("torn", json!({"runtimeClassName": "late-windows"}));
    let (code, body, _) = ask(&cluster, "POST", &pods, &torn).await?;
    assert_eq!(code, 403, "{body}");
    assert_eq!(
        body["message"],
        "pods \"torn\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[kubernetes.io/os] \
         = windows; pod.spec.nodeSelector[kubernetes.io/os] = linux"
    );
    let questions = server.questions("/late");
    let seen = &questions[1].review["request"]["object"]["spec"];
    assert_eq!(seen["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    Ok(())
}
