//! `NodeHealthCheck` and the templates of what remedies.

use serde_json::{Value, json};

use super::schema::{
    Names, anything, conditions, defaulted, definition, int_or_text, int32, keyed, label_selector,
    list, object, reference, text, time, with,
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
    let condition = with(
        object([
            ("type", json!({ "type": "string", "minLength": 1 })),
            ("status", json!({ "type": "string", "minLength": 1 })),
            ("duration", duration()),
        ]),
        json!({ "required": ["duration", "status", "type"] }),
    );
    let escalation = with(
        object([
            ("order", int32()),
            ("remediationTemplate", reference()),
            ("timeout", duration()),
        ]),
        json!({ "required": ["order", "remediationTemplate", "timeout"] }),
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
    let names = Names {
        group: "remediation.medik8s.io",
        version: "v1alpha1",
        kind: "NodeHealthCheck",
        plural: "nodehealthchecks",
        short: &["nhc"],
        namespaced: false,
    };
    definition(
        &names,
        object([("spec", spec), ("status", status)]),
        &[
            ("Phase", "string", ".status.phase"),
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
    let spec = with(
        object([("template", object([("spec", anything())]))]),
        json!({ "required": ["template"] }),
    );
    let names = Names {
        group,
        version: "v1alpha1",
        kind,
        plural,
        short,
        namespaced: true,
    };
    definition(
        &names,
        object([("spec", spec), ("status", anything())]),
        &[],
    )
}
