//! The CustomResourceDefinition of ApprovalPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::ApprovalPolicy;
use crate::definition::schema::{Schema, boolean, int32, name, object, one_of, set, text};
use crate::definition::{Definition, maintenance_windows};

/// The CustomResourceDefinition. It has no status: the configurations a policy applies to report
/// missing approvals.
pub fn definition() -> CustomResourceDefinition {
    let crd = Definition {
        short_names: &["apol"],
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
        status: None,
    };
    crd.build::<ApprovalPolicy>()
}

fn spec() -> Schema {
    let spec = object(json!({
        "profiles": set(name(253)).max_items(64)
            .about("The profiles whose configurations the policy applies to. All if empty."),
        "impacts": set(one_of(["Low", "Medium", "High"])).max_items(3)
            .about("The impacts the policy applies to: approvals by the impact of the plan, maintenance windows by the impact of the item. All if empty."),
        "requiredApprovals": int32().range(0, 10).about("The number of users who have to approve a plan before it is applied."),
        "groups": set(name(253)).max_items(64)
            .about("An approver has to be a member of at least one of these groups. If empty, every user with the verb approve may approve."),
        "authorsMayApprove": boolean().default(false)
            .about("Whether approvals by authors of the plan count: users who requested it or changed its inputs."),
        "maintenanceWindows": maintenance_windows("Items of the selected impacts start only within these windows. They apply in addition to those of the configuration: an item starts while both are open."),
        "approvalsExpireAfter": text().with("minLength", 2).with("maxLength", 32).pattern(r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$")
            .about("The lifetime of an approval whose plan has not started, as a Go duration such as 72h. Defaults to 720h."),
    }));
    spec.required(&["requiredApprovals"])
        .about("The required approvals.")
}
