//! The CustomResourceDefinition of VirtPlatformConfig.
//!
//! Names, enums, defaults, rules and their messages are those of the published CRD. Medley's additions
//! are optional: a manifest written for the original is accepted, and means the same.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::VirtPlatformConfig;
use super::status::{DeviationClass, Phase};
use crate::definition::schema::{
    Schema, anything, atomic_list, boolean, int32, int64, map, map_list, name, object, one_of, set,
    text, time,
};
use crate::definition::{DIGEST, Definition, conditions, maintenance_windows};

/// The profiles that are part of the program. No PlatformProfile can have such a name: theirs contain a dot.
pub const BUILT_IN_PROFILES: [&str; 4] = [
    "load-aware-rebalancing",
    "virt-higher-density",
    "example-profile",
    "node-health-remediation",
];
/// Maximum length of a label key: a DNS name, a slash and a name.
const MAX_LABEL_KEY: u32 = 317;
/// Maximum number of terms of a label selector, and of values of a term.
const MAX_TERMS: u32 = 64;

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let crd = Definition {
        short_names: &[],
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
        status: Some(status()),
    };
    crd.build::<VirtPlatformConfig>()
}

fn spec() -> Schema {
    let accepted = BUILT_IN_PROFILES.map(|name| format!("'{name}'")).join(", ");
    let profile = name(63)
        .rule("self == oldSelf", "Profile is immutable")
        // Not an enum: the names of PlatformProfiles are not known here. They contain a dot, so that a misspelled
        // built-in profile is still rejected.
        .rule(
            &format!("self in [{accepted}] || self.contains('.')"),
            &format!("supported values: {accepted}, and the names of PlatformProfiles, which contain a dot"),
        );
    // A number of approvers.
    let count = || int32().range(0, 10).default(0);
    let approvals = object(json!({ "low": count(), "medium": count(), "high": count() }));
    let approval_policy = object(json!({
        "requiredApprovals": approvals.about("The number of approvers by the impact of the plan."),
        "authorMayApprove": boolean().default(false)
            .about("Whether approvals by authors of the plan count: users who requested it or changed its inputs."),
    }));
    let spec = object(json!({
        "profile": profile
            .about("The profile: load-aware-rebalancing, virt-higher-density, example-profile, node-health-remediation, or the name of a PlatformProfile. It is immutable, and metadata.name has to be equal to it."),
        "action": one_of(["DryRun", "Apply", "Ignore"]).default("DryRun")
            .about("DryRun creates a plan and waits for review; Apply applies the plan; Ignore stops managing the targets without reverting them."),
        "failurePolicy": one_of(["Abort", "Continue"]).default("Abort")
            .about("Whether to stop (Abort) or to continue with the remaining items (Continue) when an item of the plan fails."),
        "bypassOptimisticLock": boolean().default(false)
            .about("Dangerous: applies the plan even if its targets have changed since it was created, takes over fields from any manager without consent, and re-applies it whenever a target drifts."),
        "waitTimeout": text().with("maxLength", 64).about("How long an item may take to become healthy, as a Go duration such as 30m or 2h. No timeout if absent."),
        "options": options(),
        "approval": approval(),
        "approvalPolicy": approval_policy
            .about("The approvals a plan of this configuration needs, in addition to those required by ApprovalPolicies. It cannot lower their requirements."),
        "maintenanceWindows": maintenance_windows("When items of high impact may start. Other items are not restricted. At any time if empty."),
        "rollbackTo": int64().with("minimum", 1)
            .about("Rolls back the plan of this history revision and all later ones: changed fields get their former values, created objects are deleted. A rollback is itself a plan and needs approval."),
    }));
    spec.required(&["profile"])
        .about("The desired configuration.")
        .rule(
            "!has(self.options) || self.profile != 'load-aware-rebalancing' || (has(self.options.loadAware) && !has(self.options.virtHigherDensity) && !has(self.options.nodeHealth))",
            "When profile is 'load-aware-rebalancing', only options.loadAware may be set",
        )
        .rule(
            "!has(self.options) || self.profile != 'virt-higher-density' || (has(self.options.virtHigherDensity) && !has(self.options.loadAware) && !has(self.options.nodeHealth))",
            "When profile is 'virt-higher-density', only options.virtHigherDensity may be set",
        )
        .rule(
            "!has(self.options) || !has(self.options.loadAware) || self.profile == 'load-aware-rebalancing'",
            "options.loadAware can only be used with profile 'load-aware-rebalancing'",
        )
        .rule(
            "!has(self.options) || !has(self.options.virtHigherDensity) || self.profile == 'virt-higher-density'",
            "options.virtHigherDensity can only be used with profile 'virt-higher-density'",
        )
        .rule(
            "!has(self.options) || !has(self.options.nodeHealth) || self.profile == 'node-health-remediation'",
            "options.nodeHealth can only be used with profile 'node-health-remediation'",
        )
        .rule(
            "!has(self.options) || !has(self.options.values) || self.profile.contains('.')",
            "options.values can only be used with the profile of a PlatformProfile",
        )
}

fn approval() -> Schema {
    let takeover = object(json!({
        "item": text().about("The name of the item in the plan."),
        "path": text().about("The field path as listed in the plan. All fields listed for the item if absent."),
        "manager": text().about("The field manager to take the field over from. Defaults to the one listed in the approved plan."),
    }));
    let rejected = object(json!({
        "planDigest": text().pattern(DIGEST),
        "reason": text().with("maxLength", 1024),
    }));
    let approval = object(json!({
        "planDigest": text().pattern(DIGEST)
            .about("The status.planDigest of the plan that was reviewed. No other plan is applied."),
        "items": set(text()).about("The items to apply, together with their dependencies. All if empty."),
        // Atomic, because the keys of a map list have to be required or have a
        // default, and `path` and `manager` are optional.
        "takeovers": atomic_list(takeover.required(&["item"]))
            .about("Consent to take over fields from the field managers that own them."),
        "rejected": rejected.required(&["planDigest"])
            .about("A plan that was reviewed and rejected. It is not applied, even if action is Apply."),
    }));
    approval.about("The approval of a specific plan. If absent, setting action to Apply approves the plan in status at that moment.")
}

fn options() -> Schema {
    let options = object(json!({
        "loadAware": load_aware(),
        "virtHigherDensity": virt_higher_density(),
        "nodeHealth": node_health(),
        "values": anything().with("type", "object").atomic()
            .about("The options of a PlatformProfile, which has their schema. They are checked at admission, and before planning."),
    }));
    options
        .spelled_out()
        .about("The options of the profile. Only the member of the selected profile may be set.")
}

fn load_aware() -> Schema {
    let thresholds = [
        "Low",
        "Medium",
        "High",
        "AsymmetricLow",
        "AsymmetricMedium",
        "AsymmetricHigh",
    ];
    let options = object(json!({
        "deschedulingIntervalSeconds": int32().range(60, 86400).default(60).about("The interval of descheduler runs in seconds."),
        "mode": one_of(["Automatic", "Predictive"]).default("Automatic")
            .about("Whether the descheduler evicts VMs (Automatic) or only simulates evictions (Predictive)."),
        "enablePSIMetrics": boolean().default(true)
            .about("Whether to set the kernel argument psi=1 on worker nodes, which reboots them."),
        "devDeviationThresholds": one_of(thresholds).default("AsymmetricLow")
            .about("How far the utilization of a node may deviate from the average."),
        "evictionLimitTotal": int32().range(1, 1000)
            .about("The maximum number of concurrent evictions in the cluster. Defaults to a value derived from the live migration limits of the HyperConverged."),
        "evictionLimitNode": int32().range(1, 100)
            .about("The maximum number of concurrent evictions from one node. Defaults to a value derived from the live migration limits of the HyperConverged."),
    }));
    options.about("Options of the profile load-aware-rebalancing.")
}

fn virt_higher_density() -> Schema {
    // Bounded: the options are copied into the status and into every history entry, and 600 KB of labels would leave
    // no room for a plan. The lengths are those of label keys (with a prefix) and values.
    let key = || text().with("maxLength", MAX_LABEL_KEY);
    let value = || text().with("maxLength", 63);
    let expression = object(json!({
        "key": key(),
        "operator": text().with("maxLength", 16),
        "values": atomic_list(value()).max_items(MAX_TERMS),
    }));
    let labels = map(value()).with("maxProperties", MAX_TERMS).rule(
        &format!("self.all(key, size(key) <= {MAX_LABEL_KEY})"),
        &format!("a label key has at most {MAX_LABEL_KEY} characters"),
    );
    let selector = object(json!({
        "matchLabels": labels,
        "matchExpressions": atomic_list(expression.required(&["key", "operator"])).max_items(MAX_TERMS),
    }));
    let ksm = object(json!({
        "enabled": boolean().default(true),
        "nodeLabelSelector": selector.atomic().about("Selects the nodes; an empty selector selects all."),
    }));
    let options = object(json!({
        "enableSwap": boolean().default(true)
            .about("Whether kubelets on worker nodes may use swap. Nodes need a swap partition labelled CNV_SWAP."),
        "ksmConfiguration": ksm.about("Kernel samepage merging (KSM). Defaults to enabled on all nodes."),
        "memoryToRequestRatio": int32().range(100, 300).default(150)
            .about("The guest memory as a percentage of the memory requested for the VM's pod."),
    }));
    options.about("Options of the profile virt-higher-density.").rule(
        "!has(self.memoryToRequestRatio) || self.memoryToRequestRatio <= 120 || (has(self.enableSwap) && self.enableSwap)",
        "memoryToRequestRatio > 120 requires enableSwap=true",
    )
}

fn node_health() -> Schema {
    let named = |default: &str| name(253).default(default);
    let options = object(json!({
        "minHealthy": text().pattern("^((100|[0-9]{1,2})%|[0-9]+)$").with("maxLength", 9).default("51%")
            .about("The minimum of healthy nodes for remediation to proceed: a number or a percentage."),
        "unhealthySeconds": int32().range(1, 86400).default(300)
            .about("How long a node may be unhealthy before it is remediated, in seconds."),
        "remediationTemplate": named("fenceagentsremediationtemplate-default").about("The remediation template."),
        "remediationKind": named("FenceAgentsRemediationTemplate").about("The kind of the remediation template."),
        "remediationNamespace": named("openshift-workload-availability").about("The namespace of the remediation template."),
    }));
    options.about("Options of the profile node-health-remediation.")
}

fn impact() -> Schema {
    one_of(["Low", "Medium", "High"])
}

/// Values by path. Like targets and desired states they are written as a whole, so they are atomic:
/// field ownership of their parts would take as much space as the values.
fn values() -> Schema {
    anything().with("type", "object").atomic()
}

fn target() -> Schema {
    let target = object(
        json!({ "apiVersion": text(), "kind": text(), "name": text(), "namespace": text() }),
    );
    target.atomic().required(&["apiVersion", "kind", "name"])
}

fn status() -> Schema {
    let requirement = object(json!({
        "source": text(), "approvals": int32(), "groups": atomic_list(text()), "authorsExcluded": boolean(),
    }));
    let input = object(json!({
        "name": text(), "object": target(), "path": text(), "raw": anything(), "derived": anything(),
    }));
    let applied = object(json!({
        "name": text(), "targetRef": target(), "values": values(), "created": boolean(), "appliedAt": time(), "revision": int64(),
        "deviations": deviations(),
    }));
    let drift = object(json!({
        "item": text(), "path": text(), "applied": anything(), "live": anything(), "manager": text(), "time": time(),
        "class": one_of(["ExternalEdit", "InputChange", "LogicUpgrade", "CapabilityChange"]),
    }));
    let capability = object(json!({ "name": text(), "version": text(), "revision": text() }));
    let enforcement = object(json!({
        "corrections": atomic_list(time()), "paused": boolean(), "against": text(),
    }));
    let status = object(json!({
        "phase": one_of(Phase::ALL).about("The phase of the configuration."),
        "impactSeverity": impact(),
        "observedGeneration": int64(),
        "sourceSnapshotHash": text(),
        "operatorVersion": text(),
        "profileHash": text().about("The hash of the PlatformProfile that the plan was generated from."),
        "appliedOptions": options(),
        "items": map_list(&["name"], item()),
        "conditions": conditions(),
        "planDigest": text(),
        "requiredApprovals": atomic_list(requirement.required(&["source", "approvals"]))
            .about("The approvals the plan needs, one entry per policy that requires any."),
        "inputs": map_list(&["name"], input.required(&["name", "object", "path", "derived"])),
        "warnings": atomic_list(text()),
        "revision": int64(),
        "applied": atomic_list(applied.required(&["name", "targetRef", "values", "revision"])),
        "drift": atomic_list(drift.required(&["item", "path", "class"])),
        "capabilities": atomic_list(capability.required(&["name", "version", "revision"]))
            .about("The CustomResourceDefinitions that the plan was derived from."),
        "reviewedDigest": text()
            .about("The plan that was under review when action was set to Apply, where admission does not record approvals."),
        "enforcement": enforcement,
        "nextWindow": time(),
        "rolledBackTo": int64(),
        "retry": object(json!({ "attempts": int32(), "at": time() })).required(&["attempts"])
            .about("When a plan that failed, or that waits for a namespace, is tried again."),
    }));
    status.about("The observed state: the plan, its progress, and drift.")
}

fn deviations() -> Schema {
    let deviation = object(json!({
        "path": text(), "class": one_of(DeviationClass::ALL), "wanted": anything(), "kept": anything(), "by": text(),
    }));
    atomic_list(deviation.required(&["path", "class"]))
        .about("What the API server keeps instead of what was sent.")
}

fn item() -> Schema {
    let takeover = object(json!({
        "path": text(), "manager": text(), "since": time(), "live": anything(), "wanted": anything(), "reclaimed": boolean(),
    }));
    let item = object(json!({
        "name": text(),
        "targetRef": target(),
        "impactSeverity": impact(),
        "diff": text(),
        "desiredState": values(),
        "state": one_of(["Pending", "InProgress", "Completed", "Failed"]).default("Pending"),
        "message": text(),
        "lastTransitionTime": time(),
        "managedFields": atomic_list(text()),
        "operation": one_of(["Apply", "Restore", "Delete"]),
        "dependsOn": atomic_list(text()),
        "base": values(),
        "targetUid": text(),
        "unchanged": boolean(),
        "takeovers": atomic_list(takeover.required(&["path", "manager"])),
        "deviations": deviations(),
    }));
    item.required(&["name", "targetRef"])
}
