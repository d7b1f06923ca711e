//! `ClusterOperator`: the reported state of one operator.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Condition, GROUP};
use crate::Rest;
use crate::rbac::{READ, and_read, rule};

/// The version name of the operator itself.
pub const OPERATOR: &str = "operator";
/// The version name of the operator's image.
pub const OPERATOR_IMAGE: &str = "operator-image";

/// The RBAC rules of the reporter: write its ClusterOperator, and read its own workloads and pods.
pub fn reporter_rules() -> Vec<PolicyRule> {
    vec![
        rule(GROUP, &["clusteroperators"], &and_read(&["create"])),
        rule(GROUP, &["clusteroperators/status"], &["update"]),
        rule("apps", &["daemonsets", "deployments"], &READ),
        rule("", &["pods"], &READ),
    ]
}

/// An empty spec.
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
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The reported state of an operator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorStatus {
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The versions it and its operands have reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<OperandVersion>,
    /// Objects with more information.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<ObjectReference>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A named version: `operator`, `operator-image`, `kube-apiserver`, `kube-apiserver-image`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperandVersion {
    /// The operand.
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
    /// The namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name; all objects if empty.
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

    /// The version of a name. Names should be unique; of several the first counts. An empty version
    /// counts as missing.
    pub fn version(&self, name: &str) -> Option<&str> {
        let found = self.versions().iter().find(|it| it.name == name)?;
        (!found.version.is_empty()).then_some(found.version.as_str())
    }
}
