//! Changes to pods, and pods in a table.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::builtin::tests::{created, find, update_errors};
use crate::builtin::value::{Read, set};
use crate::kind::Grace;

fn pod(spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "img" }] },
    });
    for (key, value) in spec.entries("") {
        set(&mut pod, &format!("spec.{key}"), value.clone());
    }
    pod
}

const FORBIDDEN: &str = "spec: Forbidden: pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

#[test]
fn forbidden_changes_are_reported_as_in_kube_apiserver() {
    let errors = update_errors(&pod(&json!({})), &[("spec.hostNetwork", json!(true))]);
    let difference = "@@ -44,7 +44,7 @@\n  \"AutomountServiceAccountToken\": null,\n  \"NodeName\": \
        \"\",\n  \"SecurityContext\": {\n-  \"HostNetwork\": false,\n+  \"HostNetwork\": true,\n   \
        \"HostPID\": false,\n   \"HostIPC\": false,\n   \"ShareProcessNamespace\": null,\n";
    assert_eq!(errors, [format!("{FORBIDDEN}{difference}")]);

    let given = pod(&json!({ "nodeSelector": { "a": "b" } }));
    let errors = update_errors(
        &given,
        &[("spec.nodeSelector", json!({ "a": "b", "c": "d" }))],
    );
    let difference = "@@ -40,7 +40,8 @@\n  \"ActiveDeadlineSeconds\": null,\n  \"DNSPolicy\": \
        \"ClusterFirst\",\n  \"NodeSelector\": {\n-  \"a\": \"b\"\n+  \"a\": \"b\",\n+  \"c\": \
        \"d\"\n  },\n  \"ServiceAccountName\": \"\",\n  \"AutomountServiceAccountToken\": null,\n";
    assert_eq!(errors, [format!("{FORBIDDEN}{difference}")]);
}

#[test]
fn gated_pod_accepts_additional_node_affinity() {
    let gated = pod(&json!({
        "schedulingGates": [{ "name": "x.example.com/g" }],
        "nodeSelector": { "a": "b" },
    }));
    let affinity = |values: Value| {
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": values }],
        } } })
    };
    let arch = json!([{ "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] }]);
    for allowed in [
        ("spec.nodeSelector", json!({ "a": "b", "c": "d" })),
        ("spec.affinity", affinity(arch)),
        ("spec.schedulingGates", json!([])),
        (
            "spec.containers",
            json!([{ "name": "c", "image": "other" }]),
        ),
    ] {
        assert_eq!(
            update_errors(&gated, std::slice::from_ref(&allowed)),
            [""; 0],
            "{allowed:?}"
        );
    }
    assert_eq!(
        update_errors(&gated, &[("spec.nodeSelector", json!({ "a": "c" }))]),
        [
            "spec.nodeSelector: Invalid value: {\"a\":\"c\"}: only additions to spec.nodeSelector are \
          allowed (no mutations or deletions)"
        ],
    );
    assert_eq!(
        update_errors(
            &gated,
            &[("spec.schedulingGates", json!([{ "name": "y" }]))]
        ),
        [
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new \
          scheduling gate 'y'"
        ],
    );
}

#[test]
fn only_running_pods_get_a_grace_period() {
    let strategy = find(&pod(&json!({}))).1;
    let mut running = created(&pod(&json!({ "nodeName": "n" })));
    assert_eq!(
        strategy.grace(&created(&pod(&json!({}))), None),
        Grace::Seconds(0)
    );
    assert_eq!(strategy.grace(&running, None), Grace::Seconds(30));
    assert_eq!(strategy.grace(&running, Some(5)), Grace::Seconds(5));
    assert_eq!(strategy.grace(&running, Some(0)), Grace::Seconds(0));
    set(&mut running, "status.phase", "Succeeded");
    assert_eq!(strategy.grace(&running, None), Grace::Seconds(0));
}

#[test]
fn quality_of_service_follows_requests_and_limits() {
    let with = |resources: Value| {
        let pod = pod(&json!({
            "containers": [{ "name": "c", "image": "i", "resources": resources }],
        }));
        created(&pod).text("status.qosClass").to_owned()
    };
    assert_eq!(with(json!({})), "BestEffort");
    assert_eq!(with(json!({ "requests": { "cpu": "1" } })), "Burstable");
    assert_eq!(
        with(json!({ "limits": { "cpu": "1", "memory": "1Gi" } })),
        "Guaranteed"
    );
}

#[test]
fn table_shows_the_first_problem() {
    let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let cases = [
        (json!({ "phase": "Pending" }), ["0/1", "Pending", "0"]),
        (
            json!({ "phase": "Running", "containerStatuses": [
                { "name": "c", "ready": true, "restartCount": 2, "state": { "running": {} },
                  "lastState": { "terminated": { "finishedAt": "2026-11-15T11:55:00Z" } } },
            ] }),
            ["1/1", "Running", "2 (5m ago)"],
        ),
        (
            json!({ "phase": "Running", "containerStatuses": [
                { "name": "c", "restartCount": 1, "state": { "waiting": { "reason": "CrashLoopBackOff" } } },
            ] }),
            ["0/1", "CrashLoopBackOff", "1"],
        ),
        (
            json!({ "phase": "Pending", "initContainerStatuses": [
                { "name": "i", "state": { "terminated": { "exitCode": 3 } } },
            ] }),
            ["0/1", "Init:ExitCode:3", "0"],
        ),
    ];
    for (status, expected) in cases {
        let mut object = created(&pod(&json!({})));
        set(&mut object, "status", status.clone());
        let cells = find(&object).1.cells(&object, now);
        let shown: Vec<&str> = cells[1..4].iter().filter_map(Value::as_str).collect();
        assert_eq!(shown, expected, "{status}");
    }
}
