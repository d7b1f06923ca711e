//! `NodeHealthCheck` and the remediation templates.

use serde_json::{Value, json};

use crate::schema::{
    AGE, Crd, PHASE, anything, conditions, defaulted, int_or_text, int32, keyed, label_selector,
    list, object, reference, text, time, validated, with,
};

pub(super) fn definitions() -> [Crd; 3] {
    [
        checks(),
        template(
            "fence-agents-remediation.medik8s.io",
            "FenceAgentsRemediationTemplate",
            "fartemplate",
        ),
        template(
            "self-node-remediation.medik8s.io",
            "SelfNodeRemediationTemplate",
            "snrt",
        ),
    ]
}

fn checks() -> Crd {
    let matching = |pattern: &str| with(text(), json!({ "pattern": pattern }));
    let duration = || matching("^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$");
    let share = json!({ "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$" });
    let condition = object([
        ("type! status!", with(text(), json!({ "minLength": 1 }))),
        ("duration!", duration()),
    ]);
    let escalation = object([
        ("order!", int32()),
        ("remediationTemplate!", reference()),
        ("timeout!", duration()),
    ]);
    let ready = |status: &str| json!({ "type": "Ready", "status": status, "duration": "300s" });
    let unhealthy = keyed(&condition, &["type", "status"]);
    let unhealthy = defaulted(unhealthy, json!([ready("False"), ready("Unknown")]));
    let spec = object([
        ("escalatingRemediations", list(&escalation)),
        (
            "healthyDelay",
            matching("^-?([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"),
        ),
        ("maxUnhealthy minHealthy", with(int_or_text(), share)),
        ("pauseRequests", list(&text())),
        ("remediationTemplate", reference()),
        ("selector!", label_selector()),
        ("stormCooldownDuration", duration()),
        ("unhealthyConditions", unhealthy),
    ]);
    let rules = [
        (
            "has(self.minHealthy) != has(self.maxUnhealthy)",
            "exactly one of minHealthy and maxUnhealthy must be set",
        ),
        (
            "has(self.remediationTemplate) != has(self.escalatingRemediations)",
            "exactly one of remediationTemplate and escalatingRemediations must be set",
        ),
    ];
    let node = object([("name", text()), ("conditionsHealthyTimestamp", time())]);
    let status = object([
        ("conditions", conditions()),
        ("healthyNodes observedNodes", int32()),
        ("lastUpdateTime", time()),
        ("phase reason", text()),
        ("unhealthyNodes", list(&node)),
    ]);
    let schema = object([("spec", validated(spec, &rules)), ("status", status)]);
    Crd::new(
        "remediation.medik8s.io",
        "v1alpha1",
        "NodeHealthCheck",
        schema,
    )
    .short(&["nhc"])
    .cluster_wide()
    .columns(&[
        PHASE,
        "Observed:integer .status.observedNodes",
        "Healthy:integer .status.healthyNodes",
        AGE,
    ])
}

fn template(group: &str, kind: &str, short: &str) -> Crd {
    let template: Value = object([("spec", anything())]);
    let spec = object([("template!", template)]);
    let schema = object([("spec", spec), ("status", anything())]);
    Crd::new(group, "v1alpha1", kind, schema).short(&[short])
}
