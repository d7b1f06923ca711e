//! `ClusterOperator`: what one operator says of itself.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Condition, GROUP};
use crate::Rest;
use crate::rbac::{READ, and_read, rule};

/// The name of the version of the operator.
pub const OPERATOR: &str = "operator";
/// The name of the image of the operator.
pub const OPERATOR_IMAGE: &str = "operator-image";

/// What whoever reports may do: say what it knows, and see whether its own pods truly run.
pub fn reporter_rules() -> Vec<PolicyRule> {
    vec![
        rule(GROUP, &["clusteroperators"], &and_read(&["create"])),
        rule(GROUP, &["clusteroperators/status"], &["update"]),
        rule("apps", &["daemonsets", "deployments"], &READ),
        rule("", &["pods"], &READ),
    ]
}

/// Nothing can be asked of an operator here.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterOperator",
    plural = "clusteroperators",
    shortname = "co",
    status = "ClusterOperatorStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
pub struct ClusterOperatorSpec {
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What an operator says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorStatus {
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What it and its operands have arrived at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<OperandVersion>,
    /// Objects that tell more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<ObjectReference>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A version under a name: `operator`, `operator-image`, `kube-apiserver`, `kube-apiserver-image`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperandVersion {
    /// What has it.
    #[serde(default)]
    pub name: String,
    /// A version, or for `...-image` a pull specification.
    #[serde(default)]
    pub version: String,
}

/// An object, or all objects of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectReference {
    /// The group; empty for the core.
    #[serde(default)]
    pub group: String,
    /// The resource, in the plural.
    #[serde(default)]
    pub resource: String,
    /// Where it is, if it is in a namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What it is called; all of them, if empty.
    #[serde(default)]
    pub name: String,
}

impl ClusterOperator {
    /// A condition by type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }

    /// All versions, in order.
    pub fn versions(&self) -> &[OperandVersion] {
        self.status
            .as_ref()
            .map_or(&[], |status| status.versions.as_slice())
    }

    /// The version under a name. Names should be there once; of several the first counts. One that is
    /// empty says nothing.
    pub fn version(&self, name: &str) -> Option<&str> {
        let found = self.versions().iter().find(|it| it.name == name)?;
        (!found.version.is_empty()).then_some(found.version.as_str())
    }
}
