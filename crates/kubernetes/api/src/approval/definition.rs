//! The CustomResourceDefinition of ApprovalPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, PLURAL, VERSION};
use crate::definition::{Definition, maintenance_windows};

/// The definition of the kind. It has no status: the configurations that a policy applies to report what they wait for.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "ApprovalPolicy",
        plural: PLURAL,
        short: &["apol"],
        description: "ApprovalPolicy is the floor for approvals of VirtPlatformConfigs: how many users have to approve a plan, who they may be, when its items may start and how long an approval lasts. All policies that select a configuration apply; spec.approvalPolicy of the configuration can only add to them.",
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
        "description": "The requirements.",
        "type": "object",
        "required": ["requiredApprovals"],
        "properties": {
            "profiles": {
                "description": "Profiles whose configurations are governed. Without it, all.",
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 253 },
            },
            "impacts": {
                "description": "Impacts that the policy is about: approvals are required by the impact of the plan, windows by the impact of the item. Without it, all.",
                "type": "array",
                "maxItems": 3,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "enum": ["Low", "Medium", "High"] },
            },
            "requiredApprovals": {
                "description": "Number of users who have to approve a plan before it is applied.",
                "type": "integer", "format": "int32", "minimum": 0, "maximum": 10,
            },
            "groups": {
                "description": "Groups of which an approver has to be in at least one. Without it, everyone with the verb approve counts.",
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 253 },
            },
            "authorsMayApprove": {
                "description": "Whether approvals by users who requested the plan or changed what it is made from count.",
                "type": "boolean", "default": false,
            },
            "maintenanceWindows": maintenance_windows("Windows outside of which items of the selected impacts do not start. They apply in addition to those of the configuration: an item starts while both are open."),
            "approvalsExpireAfter": {
                "description": "Lifetime of an approval whose plan has not started, as a Go duration such as 72h. Without it, 720h.",
                "type": "string", "minLength": 2, "maxLength": 32, "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$",
            },
        },
    })
}
