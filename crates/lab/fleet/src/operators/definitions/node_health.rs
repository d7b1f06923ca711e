//! `NodeHealthCheck` and the remediation templates.

use serde_json::{Value, json};

use super::schema::{
    Names, PHASE, anything, conditions, defaulted, definition, int_or_text, int32, keyed,
    label_selector, list, object, reference, requiring, text, time, with,
};

pub(super) fn definitions() -> [Value; 3] {
    [
        checks(),
        template(
            "fence-agents-remediation.medik8s.io",
            "FenceAgentsRemediationTemplate",
            "fenceagentsremediationtemplates",
            &["fartemplate"],
        ),
        template(
            "self-node-remediation.medik8s.io",
            "SelfNodeRemediationTemplate",
            "selfnoderemediationtemplates",
            &["snrt"],
        ),
    ]
}

fn checks() -> Value {
    let duration = || {
        json!({
            "type": "string",
            "pattern": "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$",
        })
    };
    let share = || {
        with(
            int_or_text(),
            json!({ "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$" }),
        )
    };
    let condition = requiring(
        object([
            ("type", json!({ "type": "string", "minLength": 1 })),
            ("status", json!({ "type": "string", "minLength": 1 })),
            ("duration", duration()),
        ]),
        &["duration", "status", "type"],
    );
    let escalation = requiring(
        object([
            ("order", int32()),
            ("remediationTemplate", reference()),
            ("timeout", duration()),
        ]),
        &["order", "remediationTemplate", "timeout"],
    );
    let ready = |status: &str| json!({ "type": "Ready", "status": status, "duration": "300s" });
    let spec = with(
        object([
            ("escalatingRemediations", list(&escalation)),
            (
                "healthyDelay",
                json!({ "type": "string", "pattern": "^-?([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$" }),
            ),
            ("maxUnhealthy", share()),
            ("minHealthy", share()),
            ("pauseRequests", list(&text())),
            ("remediationTemplate", reference()),
            ("selector", label_selector()),
            ("stormCooldownDuration", duration()),
            (
                "unhealthyConditions",
                defaulted(
                    keyed(&condition, &["type", "status"]),
                    &json!([ready("False"), ready("Unknown")]),
                ),
            ),
        ]),
        json!({
            "required": ["selector"],
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.minHealthy) != has(self.maxUnhealthy)",
                    "message": "exactly one of minHealthy and maxUnhealthy must be set",
                },
                {
                    "rule": "has(self.remediationTemplate) != has(self.escalatingRemediations)",
                    "message": "exactly one of remediationTemplate and escalatingRemediations must be set",
                },
            ],
        }),
    );
    let unhealthy = object([("name", text()), ("conditionsHealthyTimestamp", time())]);
    let status = object([
        ("conditions", conditions()),
        ("healthyNodes", int32()),
        ("lastUpdateTime", time()),
        ("observedNodes", int32()),
        ("phase", text()),
        ("reason", text()),
        ("unhealthyNodes", list(&unhealthy)),
    ]);
    let names = Names::new(
        "remediation.medik8s.io",
        "v1alpha1",
        "NodeHealthCheck",
        "nodehealthchecks",
    )
    .short(&["nhc"])
    .cluster_wide();
    definition(
        &names,
        object([("spec", spec), ("status", status)]),
        &[
            PHASE,
            ("Observed", "integer", ".status.observedNodes"),
            ("Healthy", "integer", ".status.healthyNodes"),
        ],
    )
}

fn template(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
) -> Value {
    let spec = requiring(
        object([("template", object([("spec", anything())]))]),
        &["template"],
    );
    let names = Names::new(group, "v1alpha1", kind, plural).short(short);
    definition(
        &names,
        object([("spec", spec), ("status", anything())]),
        &[],
    )
}
