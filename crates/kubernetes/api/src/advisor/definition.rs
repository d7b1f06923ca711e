//! The CustomResourceDefinition of VirtPlatformConfig.
//!
//! Names, enums, defaults, rules and their messages are those of the published CRD. Medley's additions
//! are optional: a manifest written for the original is accepted, and means the same.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::status::Phase;
use super::{GROUP, PLURAL, VERSION};
use crate::definition::{DIGEST, Definition, conditions, maintenance_windows};

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "VirtPlatformConfig",
        plural: PLURAL,
        short: &[],
        description: "VirtPlatformConfig requests a profile: a set of changes to the configuration of other operators. The changes are planned, reviewed, applied, and monitored for drift.",
        columns: &[
            ("Action", ".spec.action"),
            ("Impact", ".status.impactSeverity"),
            ("Phase", ".status.phase"),
        ],
        name: (
            "self.metadata.name == self.spec.profile".to_owned(),
            "To ensure a singleton pattern, the VirtPlatformConfig name must exactly match the spec.profile.".to_owned(),
        ),
        spec: spec(),
        status: status(),
    };
    kind.build()
}

fn spec() -> Value {
    json!({
        "description": "The desired configuration.",
        "type": "object",
        "required": ["profile"],
        "properties": {
            "profile": {
                "description": "The profile. It is immutable, and metadata.name has to be equal to it.",
                "type": "string",
                "enum": ["load-aware-rebalancing", "virt-higher-density", "example-profile", "node-health-remediation"],
                "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "Profile is immutable" }],
            },
            "action": {
                "description": "DryRun creates a plan and waits for review; Apply applies the plan; Ignore stops managing the targets without reverting them.",
                "type": "string",
                "enum": ["DryRun", "Apply", "Ignore"],
                "default": "DryRun",
            },
            "failurePolicy": {
                "description": "Whether to stop (Abort) or to continue with the remaining items (Continue) when an item of the plan fails.",
                "type": "string",
                "enum": ["Abort", "Continue"],
                "default": "Abort",
            },
            "bypassOptimisticLock": {
                "description": "Dangerous: applies the plan even if its targets have changed since it was created, takes over fields from any manager without consent, and re-applies it whenever a target drifts.",
                "type": "boolean",
                "default": false,
            },
            "waitTimeout": {
                "description": "How long an item may take to become healthy, as a Go duration such as 30m or 2h. No timeout if absent.",
                "type": "string",
            },
            "options": options(),
            "approval": approval(),
            "approvalPolicy": {
                "description": "The approvals a plan of this configuration needs, in addition to those required by ApprovalPolicies. It cannot lower their requirements.",
                "type": "object",
                "properties": {
                    "requiredApprovals": {
                        "description": "The number of approvers by the impact of the plan.",
                        "type": "object",
                        "properties": { "low": count(), "medium": count(), "high": count() },
                    },
                    "authorMayApprove": {
                        "description": "Whether approvals by authors of the plan count: users who requested it or changed its inputs.",
                        "type": "boolean",
                        "default": false,
                    },
                },
            },
            "maintenanceWindows": maintenance_windows("When items of high impact may start. Other items are not restricted. At any time if empty."),
            "rollbackTo": {
                "description": "Rolls back the plan of this history revision and all later ones: changed fields get their former values, created objects are deleted. A rollback is itself a plan and needs approval.",
                "type": "integer",
                "format": "int64",
                "minimum": 1,
            },
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.options) || self.profile != 'load-aware-rebalancing' || (has(self.options.loadAware) && !has(self.options.virtHigherDensity) && !has(self.options.nodeHealth))",
                "message": "When profile is 'load-aware-rebalancing', only options.loadAware may be set",
            },
            {
                "rule": "!has(self.options) || self.profile != 'virt-higher-density' || (has(self.options.virtHigherDensity) && !has(self.options.loadAware) && !has(self.options.nodeHealth))",
                "message": "When profile is 'virt-higher-density', only options.virtHigherDensity may be set",
            },
            {
                "rule": "!has(self.options) || !has(self.options.loadAware) || self.profile == 'load-aware-rebalancing'",
                "message": "options.loadAware can only be used with profile 'load-aware-rebalancing'",
            },
            {
                "rule": "!has(self.options) || !has(self.options.virtHigherDensity) || self.profile == 'virt-higher-density'",
                "message": "options.virtHigherDensity can only be used with profile 'virt-higher-density'",
            },
            {
                "rule": "!has(self.options) || !has(self.options.nodeHealth) || self.profile == 'node-health-remediation'",
                "message": "options.nodeHealth can only be used with profile 'node-health-remediation'",
            },
        ],
    })
}

/// A number of approvers.
fn count() -> Value {
    json!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 10, "default": 0 })
}

fn approval() -> Value {
    json!({
        "description": "The approval of a specific plan. If absent, setting action to Apply approves the plan in status at that moment.",
        "type": "object",
        "properties": {
            "planDigest": {
                "description": "The status.planDigest of the plan that was reviewed. No other plan is applied.",
                "type": "string",
                "pattern": DIGEST,
            },
            "items": {
                "description": "The items to apply, together with their dependencies. All if empty.",
                "type": "array",
                "items": { "type": "string" },
                "x-kubernetes-list-type": "set",
            },
            "takeovers": {
                "description": "Consent to take over fields from the field managers that own them.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["item"],
                    "properties": {
                        "item": { "description": "The name of the item in the plan.", "type": "string" },
                        "path": { "description": "The field path as listed in the plan. All fields listed for the item if absent.", "type": "string" },
                        "manager": { "description": "The field manager to take the field over from. Defaults to the one listed in the approved plan.", "type": "string" },
                    },
                },
            },
            "rejected": {
                "description": "A plan that was reviewed and rejected. It is not applied, even if action is Apply.",
                "type": "object",
                "required": ["planDigest"],
                "properties": {
                    "planDigest": { "type": "string", "pattern": DIGEST },
                    "reason": { "type": "string", "maxLength": 1024 },
                },
            },
        },
    })
}

fn options() -> Value {
    json!({
        "description": "The options of the profile. Only the member of the selected profile may be set.",
        "type": "object",
        "properties": {
            "loadAware": load_aware(),
            "virtHigherDensity": virt_higher_density(),
            "nodeHealth": node_health(),
        },
    })
}

fn load_aware() -> Value {
    json!({
        "description": "Options of the profile load-aware-rebalancing.",
        "type": "object",
        "properties": {
            "deschedulingIntervalSeconds": {
                "description": "The interval of descheduler runs in seconds.",
                "type": "integer", "format": "int32", "minimum": 60, "maximum": 86400, "default": 60,
            },
            "mode": {
                "description": "Whether the descheduler evicts VMs (Automatic) or only simulates evictions (Predictive).",
                "type": "string", "enum": ["Automatic", "Predictive"], "default": "Automatic",
            },
            "enablePSIMetrics": {
                "description": "Whether to set the kernel argument psi=1 on worker nodes, which reboots them.",
                "type": "boolean", "default": true,
            },
            "devDeviationThresholds": {
                "description": "How far the utilization of a node may deviate from the average.",
                "type": "string",
                "enum": ["Low", "Medium", "High", "AsymmetricLow", "AsymmetricMedium", "AsymmetricHigh"],
                "default": "AsymmetricLow",
            },
            "evictionLimitTotal": {
                "description": "The maximum number of concurrent evictions in the cluster. Defaults to a value derived from the live migration limits of the HyperConverged.",
                "type": "integer", "format": "int32", "minimum": 1, "maximum": 1000,
            },
            "evictionLimitNode": {
                "description": "The maximum number of concurrent evictions from one node. Defaults to a value derived from the live migration limits of the HyperConverged.",
                "type": "integer", "format": "int32", "minimum": 1, "maximum": 100,
            },
        },
    })
}

fn virt_higher_density() -> Value {
    json!({
        "description": "Options of the profile virt-higher-density.",
        "type": "object",
        "properties": {
            "enableSwap": {
                "description": "Whether kubelets on worker nodes may use swap. Nodes need a swap partition labelled CNV_SWAP.",
                "type": "boolean", "default": true,
            },
            "ksmConfiguration": {
                "description": "Kernel samepage merging (KSM). Defaults to enabled on all nodes.",
                "type": "object",
                "properties": {
                    "enabled": { "type": "boolean", "default": true },
                    "nodeLabelSelector": {
                        "description": "Selects the nodes; an empty selector selects all.",
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {
                            "matchLabels": { "type": "object", "additionalProperties": { "type": "string" } },
                            "matchExpressions": {
                                "type": "array",
                                "x-kubernetes-list-type": "atomic",
                                "items": {
                                    "type": "object",
                                    "required": ["key", "operator"],
                                    "properties": {
                                        "key": { "type": "string" },
                                        "operator": { "type": "string" },
                                        "values": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "atomic" },
                                    },
                                },
                            },
                        },
                    },
                },
            },
            "memoryToRequestRatio": {
                "description": "The guest memory as a percentage of the memory requested for the VM's pod.",
                "type": "integer", "format": "int32", "minimum": 100, "maximum": 300, "default": 150,
            },
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.memoryToRequestRatio) || self.memoryToRequestRatio <= 120 || (has(self.enableSwap) && self.enableSwap)",
            "message": "memoryToRequestRatio > 120 requires enableSwap=true",
        }],
    })
}

fn node_health() -> Value {
    json!({
        "description": "Options of the profile node-health-remediation.",
        "type": "object",
        "properties": {
            "minHealthy": {
                "description": "The minimum of healthy nodes for remediation to proceed: a number or a percentage.",
                "type": "string", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$", "default": "51%",
            },
            "unhealthySeconds": {
                "description": "How long a node may be unhealthy before it is remediated, in seconds.",
                "type": "integer", "format": "int32", "minimum": 1, "maximum": 86400, "default": 300,
            },
            "remediationTemplate": {
                "description": "The remediation template.",
                "type": "string", "minLength": 1, "default": "fenceagentsremediationtemplate-default",
            },
            "remediationKind": {
                "description": "The kind of the remediation template.",
                "type": "string", "minLength": 1, "default": "FenceAgentsRemediationTemplate",
            },
            "remediationNamespace": {
                "description": "The namespace of the remediation template.",
                "type": "string", "minLength": 1, "default": "openshift-workload-availability",
            },
        },
    })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

/// A schema that accepts any value.
fn anything() -> Value {
    json!({ "x-kubernetes-preserve-unknown-fields": true })
}

fn impact() -> Value {
    json!({ "type": "string", "enum": ["Low", "Medium", "High"] })
}

/// Values by path. Like targets and desired states they are written as a whole, so they are atomic:
/// field ownership of their parts would take as much space as the values.
fn values() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

fn target() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["apiVersion", "kind", "name"],
        "properties": { "apiVersion": text(), "kind": text(), "name": text(), "namespace": text() },
    })
}

fn status() -> Value {
    json!({
        "description": "The observed state: the plan, its progress, and drift.",
        "type": "object",
        "properties": {
            "phase": {
                "description": "The phase of the configuration.",
                "type": "string",
                "enum": Phase::ALL,
            },
            "impactSeverity": impact(),
            "observedGeneration": { "type": "integer", "format": "int64" },
            "sourceSnapshotHash": text(),
            "operatorVersion": text(),
            "appliedOptions": options(),
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": item(),
            },
            "conditions": conditions(),
            "planDigest": text(),
            "requiredApprovals": {
                "description": "The approvals the plan needs, one entry per policy that requires any.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["source", "approvals"],
                    "properties": {
                        "source": text(),
                        "approvals": { "type": "integer", "format": "int32" },
                        "groups": { "type": "array", "items": text(), "x-kubernetes-list-type": "atomic" },
                        "authorsExcluded": { "type": "boolean" },
                    },
                },
            },
            "inputs": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name", "object", "path", "derived"],
                    "properties": { "name": text(), "object": target(), "path": text(), "raw": anything(), "derived": anything() },
                },
            },
            "warnings": { "type": "array", "items": text(), "x-kubernetes-list-type": "atomic" },
            "revision": { "type": "integer", "format": "int64" },
            "applied": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["name", "targetRef", "values", "revision"],
                    "properties": {
                        "name": text(),
                        "targetRef": target(),
                        "values": values(),
                        "created": { "type": "boolean" },
                        "appliedAt": time(),
                        "revision": { "type": "integer", "format": "int64" },
                    },
                },
            },
            "drift": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["item", "path", "class"],
                    "properties": {
                        "item": text(),
                        "path": text(),
                        "applied": anything(),
                        "live": anything(),
                        "manager": text(),
                        "time": time(),
                        "class": { "type": "string", "enum": ["ExternalEdit", "InputChange", "LogicUpgrade"] },
                    },
                },
            },
            "enforcement": {
                "type": "object",
                "properties": {
                    "corrections": { "type": "array", "items": time(), "x-kubernetes-list-type": "atomic" },
                    "paused": { "type": "boolean" },
                    "against": text(),
                    "exhaustions": { "type": "integer", "format": "int32" },
                    "waitUntil": time(),
                },
            },
            "nextWindow": time(),
            "rolledBackTo": { "type": "integer", "format": "int64" },
        },
    })
}

fn item() -> Value {
    json!({
        "type": "object",
        "required": ["name", "targetRef"],
        "properties": {
            "name": text(),
            "targetRef": target(),
            "impactSeverity": impact(),
            "diff": text(),
            "desiredState": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "x-kubernetes-preserve-unknown-fields": true,
            },
            "state": {
                "type": "string",
                "enum": ["Pending", "InProgress", "Completed", "Failed"],
                "default": "Pending",
            },
            "message": text(),
            "lastTransitionTime": time(),
            "managedFields": { "type": "array", "items": text(), "x-kubernetes-list-type": "atomic" },
            "operation": { "type": "string", "enum": ["Apply", "Restore", "Delete"] },
            "dependsOn": { "type": "array", "items": text(), "x-kubernetes-list-type": "atomic" },
            "base": values(),
            "targetUid": text(),
            "unchanged": { "type": "boolean" },
            "takeovers": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["path", "manager"],
                    "properties": {
                        "path": text(),
                        "manager": text(),
                        "since": time(),
                        "live": anything(),
                        "wanted": anything(),
                        "reclaimed": { "type": "boolean" },
                    },
                },
            },
        },
    })
}
