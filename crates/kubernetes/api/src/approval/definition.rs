//! The CustomResourceDefinition of ApprovalPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, PLURAL, VERSION};
use crate::definition::{Definition, maintenance_windows};

/// The CustomResourceDefinition. It has no status: the configurations a policy applies to report
/// missing approvals.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "ApprovalPolicy",
        plural: PLURAL,
        short: &["apol"],
        description: "ApprovalPolicy sets the minimum approvals for VirtPlatformConfigs: how many users have to approve a plan, who may approve, when its items may start and how long an approval is valid. All policies that select a configuration apply; spec.approvalPolicy of the configuration can only add to them.",
        columns: &[
            ("Profiles", ".spec.profiles"),
            ("Impacts", ".spec.impacts"),
            ("Approvals", ".spec.requiredApprovals"),
        ],
        name: (
            "size(self.metadata.name) <= 63".to_owned(),
            "the name of an ApprovalPolicy is shown in conditions and has at most 63 characters"
                .to_owned(),
        ),
        spec: spec(),
        status: Value::Null,
    };
    kind.build()
}

fn spec() -> Value {
    json!({
        "description": "The required approvals.",
        "type": "object",
        "required": ["requiredApprovals"],
        "properties": {
            "profiles": {
                "description": "The profiles whose configurations the policy applies to. All if empty.",
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 253 },
            },
            "impacts": {
                "description": "The impacts the policy applies to: approvals by the impact of the plan, maintenance windows by the impact of the item. All if empty.",
                "type": "array",
                "maxItems": 3,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "enum": ["Low", "Medium", "High"] },
            },
            "requiredApprovals": {
                "description": "The number of users who have to approve a plan before it is applied.",
                "type": "integer", "format": "int32", "minimum": 0, "maximum": 10,
            },
            "groups": {
                "description": "An approver has to be a member of at least one of these groups. If empty, every user with the verb approve may approve.",
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 253 },
            },
            "authorsMayApprove": {
                "description": "Whether approvals by authors of the plan count: users who requested it or changed its inputs.",
                "type": "boolean", "default": false,
            },
            "maintenanceWindows": maintenance_windows("Items of the selected impacts start only within these windows. They apply in addition to those of the configuration: an item starts while both are open."),
            "approvalsExpireAfter": {
                "description": "The lifetime of an approval whose plan has not started, as a Go duration such as 72h. Defaults to 720h.",
                "type": "string", "minLength": 2, "maxLength": 32, "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$",
            },
        },
    })
}
