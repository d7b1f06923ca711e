//! `KubeVirt`: the configuration of KubeVirt, as far as CPU models are concerned.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use crate::Rest;

/// The configuration of KubeVirt.
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
    /// The configuration of VMs.
    #[serde(default)]
    pub configuration: Configuration,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The configuration of VMs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// The default CPU model of VMs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Models that are not advertised by nodes. Only the keys count, not the values; without the map a
    /// built-in list is used.
    #[serde(
        rename = "obsoleteCPUModels",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub obsolete_cpu_models: Option<BTreeMap<String, bool>>,
    /// Developer settings, which are also used in production.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_configuration: Option<DeveloperConfiguration>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Developer settings, which are also used in production.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeveloperConfiguration {
    /// Labels required on the node of every VM.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selectors: BTreeMap<String, String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KubeVirtStatus {
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl KubeVirt {
    /// The default CPU model of VMs, if set.
    pub fn cpu_model(&self) -> Option<&str> {
        let model = self.spec.configuration.cpu_model.as_deref();
        model.filter(|model| !model.is_empty())
    }
}
