//! The effective settings of KubeVirt and the policy.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cpu::CpuModelPolicySpec;
use api::kubevirt::KubeVirt;

use crate::machine::Requested;
use crate::names::BEST_MATCH_MODEL;
use crate::policy::{Complaint, Obsolete, Policy};

/// KubeVirt's webhook sets `host-passthrough` on arm64 before it applies the cluster default.
pub(crate) const ARM64: &str = "arm64";

/// The effective settings: those of KubeVirt and of the policy, with defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The rules for choosing a model.
    pub policy: Policy,
    /// The invalid fields of the CpuModelPolicy.
    pub complaints: Vec<Complaint>,
    /// `configuration.cpuModel` of the KubeVirt: the model of VMs that name none.
    pub default_model: Option<String>,
    /// `developerConfiguration.nodeSelectors` of the KubeVirt: labels that every node for VMs must
    /// have.
    pub node_selector: BTreeMap<String, String>,
}

impl Settings {
    /// Reads both objects; a missing one means defaults.
    pub fn new(policy: Option<&CpuModelPolicySpec>, kubevirt: Option<&KubeVirt>) -> Self {
        let (policy, complaints) = policy.map(Policy::read).unwrap_or_default();
        let configuration = kubevirt.map(|it| &it.spec.configuration);
        let obsolete = configuration.and_then(|it| it.obsolete_cpu_models.as_ref());
        let obsolete = Obsolete::from_configuration(obsolete.map(BTreeMap::keys));
        let developers = configuration.and_then(|it| it.developer_configuration.as_ref());
        Self {
            policy: policy.with_obsolete(obsolete),
            complaints,
            default_model: kubevirt.and_then(|it| it.cpu_model().map(str::to_owned)),
            node_selector: developers
                .map(|it| it.node_selectors.clone())
                .unwrap_or_default(),
        }
    }

    /// The model that a VM has after KubeVirt's admission: its own, that of its architecture, or
    /// the cluster default.
    pub fn requested(&self, model: Option<&str>, architecture: Option<&str>) -> Requested {
        match model {
            Some(model) if !model.is_empty() => Requested::new(Some(model)),
            // Before the cluster default, which KubeVirt's webhook applies last.
            _ if architecture == Some(ARM64) => Requested::HostPassthrough,
            _ => Requested::new(self.default_model.as_deref()),
        }
    }

    /// Whether a VM gets `best-match-model`, from its own spec or from the cluster default, which
    /// does not apply on arm64.
    pub fn asks_for_best_match(&self, model: Option<&str>, architecture: Option<&str>) -> bool {
        self.requested(model, architecture).as_str() == BEST_MATCH_MODEL
    }
}
