//! `KubeVirt`: how KubeVirt itself is set up, as far as processors are concerned.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use crate::Rest;

/// How it is set up.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "KubeVirt",
    plural = "kubevirts",
    namespaced,
    status = "KubeVirtStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtSpec {
    /// What machines get.
    #[serde(default)]
    pub configuration: Configuration,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What machines get.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// The model of a processor that has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Models that nodes are not said to support. Only the names count, not what they are set to;
    /// without the map a built-in list counts.
    #[serde(
        rename = "obsoleteCPUModels",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub obsolete_cpu_models: Option<BTreeMap<String, bool>>,
    /// What developers set, and not only they.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_configuration: Option<DeveloperConfiguration>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What developers set, and not only they.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeveloperConfiguration {
    /// Labels that a node of any machine must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selectors: BTreeMap<String, String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KubeVirtStatus {
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

impl KubeVirt {
    /// The model of a processor that has none of its own, if one is set.
    pub fn cpu_model(&self) -> Option<&str> {
        let model = self.spec.configuration.cpu_model.as_deref();
        model.filter(|model| !model.is_empty())
    }
}
