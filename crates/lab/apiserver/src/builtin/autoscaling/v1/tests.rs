use super::*;

fn v2(spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "h" }, "spec": spec, "status": status,
    })
}

fn empty_status() -> Value {
    json!({ "currentMetrics": null, "desiredReplicas": 0 })
}

fn cpu(percentage: i32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percentage });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

#[test]
fn cpu_utilization_has_its_own_field() {
    let object = v2(
        &json!({ "maxReplicas": 3, "metrics": [cpu(50)] }),
        &empty_status(),
    );
    let old = to_v1(&object);
    assert_eq!(old["apiVersion"], "autoscaling/v1");
    assert_eq!(
        old["spec"],
        json!({ "maxReplicas": 3, "targetCPUUtilizationPercentage": 50 })
    );
    assert_eq!(
        old["status"],
        json!({ "currentReplicas": 0, "desiredReplicas": 0 })
    );
    assert_eq!(old["metadata"], json!({ "name": "h" }));
    assert_eq!(to_v2(&old), object);
}

#[test]
fn everything_else_survives_in_annotations() {
    let reference = json!({ "kind": "Service", "name": "s", "apiVersion": "v1" });
    let metrics = json!([
        { "type": "Pods", "pods": {
            "metric": { "name": "p" },
            "target": { "type": "AverageValue", "averageValue": "5" } } },
        { "type": "Object", "object": {
            "describedObject": reference, "metric": { "name": "o" },
            "target": { "type": "Value", "value": "7" } } },
        { "type": "External", "external": {
            "metric": { "name": "e", "selector": { "matchLabels": { "a": "b" } } },
            "target": { "type": "AverageValue", "averageValue": "1" } } },
        { "type": "ContainerResource", "containerResource": {
            "name": "memory", "container": "c",
            "target": { "type": "Utilization", "averageUtilization": 9 } } },
        cpu(50),
    ]);
    let policies = json!([{ "type": "Pods", "value": 4, "periodSeconds": 15 }]);
    let behavior = json!({ "scaleUp": { "selectPolicy": "Max", "policies": policies } });
    let conditions =
        json!([{ "type": "ScalingActive", "status": "True", "lastTransitionTime": null }]);
    let current = json!([{ "type": "Resource", "resource": {
        "name": "cpu", "current": { "averageUtilization": 40, "averageValue": "3m" } } }]);
    let object = v2(
        &json!({ "maxReplicas": 3, "metrics": metrics, "behavior": behavior }),
        &json!({ "currentMetrics": current, "conditions": conditions, "desiredReplicas": 2 }),
    );
    let old = to_v1(&object);
    assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 40);
    assert_eq!(
        old.annotation(BEHAVIOR),
        Some(
            "{\"ScaleUp\":{\"StabilizationWindowSeconds\":null,\"SelectPolicy\":\"Max\",\"Policies\":[{\"Type\":\"Pods\",\"Value\":4,\"PeriodSeconds\":15}],\"Tolerance\":null},\"ScaleDown\":null}"
        )
    );
    assert_eq!(to_v2(&old), object);
}

#[test]
fn without_metrics_cpu_is_the_default() {
    let old = json!({ "apiVersion": "autoscaling/v1", "spec": { "maxReplicas": 3 } });
    assert_eq!(to_v2(&old)["spec"]["metrics"], json!([cpu(80)]));
}

#[test]
fn malformed_annotations_are_dropped() {
    let old = json!({
        "apiVersion": "autoscaling/v1",
        "metadata": { "annotations": { METRICS: "[5]", STATUSES: "{", BEHAVIOR: "{\"ScaleUp\":5}", "kept": "x" } },
        "spec": { "maxReplicas": 3 },
    });
    let new = to_v2(&old);
    assert_eq!(new["metadata"]["annotations"], json!({ "kept": "x" }));
    assert_eq!(new["spec"]["metrics"], json!([cpu(80)]));
    assert!(!new.has("spec.behavior"));
}
