//! The CustomResourceDefinition of ApprovalPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::ApprovalPolicy;
use crate::advisor::Phase;
use crate::definition::schema::{
    Schema, boolean, int32, map_list, name, object, one_of, set, text,
};
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

/// Lower case words: they are parts of keys in a Secret, and of messages.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

fn gate() -> Schema {
    let objects = object(json!({
        "apiVersion": name(253).about("The group and version, such as batch/v1."),
        "kind": name(63).about("The kind."),
    }));
    let gate = object(json!({
        "name": name(63).pattern(LABEL).about("Identifies the gate in messages."),
        "preset": one_of(["Migrations", "Imports", "Backups"])
            .about("A ready-made gate: running live migrations, imports and clones of disks, or backups and restores of Velero. Kinds that are not installed have nothing in flight."),
        "objects": objects.required(&["apiVersion", "kind"]).atomic()
            .about("The kind whose objects the expression is evaluated for. The operator needs the permission to list it."),
        "expression": name(4096)
            .about("A CEL expression that is true while the object in the variable object is in flight."),
    }));
    gate.required(&["name"])
        .rule(
            "has(self.preset) != has(self.expression)",
            "exactly one of preset and expression must be set",
        )
        .rule(
            "has(self.objects) == has(self.expression)",
            "objects and expression must be set together",
        )
        .about("Work in the cluster that holds disruptive items.")
}

fn receiver() -> Schema {
    let phases = Phase::ALL.map(Phase::as_str);
    let receiver = object(json!({
        "name": name(63).pattern(LABEL)
            .about("Names the receiver. The Secret has its URL in the key NAME.url, the key of its signatures in NAME.key, and its CA certificates in NAME.ca.crt."),
        "format": one_of(["CloudEvents", "Slack", "Teams", "Alertmanager"]).default("CloudEvents")
            .about("What is sent."),
        "phases": set(one_of(phases)).max_items(16)
            .about("The phases of which the receiver is notified. If empty: ReviewRequired, Drifted, Failed, PrerequisiteFailed, CompletedWithErrors and CompletedWithUpgrade."),
        "consoleURL": text().with("maxLength", 1024).pattern("^https?://")
            .about("The URL of the console. Links in notifications lead to the page of the plan there."),
    }));
    receiver
        .required(&["name"])
        .about("A receiver of notifications.")
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
        "inFlightGates": map_list(&["name"], gate()).max_items(16)
            .about("Work in the cluster that would be interrupted: items of high impact wait until it has finished. A gate that cannot be evaluated holds them, too."),
        "notifications": map_list(&["name"], receiver()).max_items(16)
            .about("Receivers of notifications about the selected configurations. The Secret medley-notifications in the operator's namespace has their URLs and keys."),
    }));
    spec.required(&["requiredApprovals"])
        .about("The required approvals.")
}
