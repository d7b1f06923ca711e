//! What KubeVirt and the policy say.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cpu::CpuModelPolicySpec;
use api::kubevirt::KubeVirt;

use crate::machine::Requested;
use crate::names::BEST_MATCH_MODEL;
use crate::policy::{Complaint, Obsolete, Policy};

/// An architecture for which KubeVirt has a default of its own.
const ARM64: &str = "arm64";

/// What KubeVirt and the policy say, or the defaults where they say nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// How models are chosen.
    pub policy: Policy,
    /// What in the object that says so makes no sense.
    pub complaints: Vec<Complaint>,
    /// The model of machines that name none, if KubeVirt is told one.
    pub default_model: Option<String>,
    /// Labels that the node of any machine must have, as KubeVirt is told.
    pub node_selector: BTreeMap<String, String>,
}

impl Settings {
    /// What they say together.
    pub fn new(policy: Option<&CpuModelPolicySpec>, kubevirt: Option<&KubeVirt>) -> Self {
        let (policy, complaints) = policy.map(Policy::read).unwrap_or_default();
        let said = kubevirt.map(|it| &it.spec.configuration);
        let obsolete = said.and_then(|it| it.obsolete_cpu_models.as_ref());
        let obsolete = Obsolete::from_configuration(obsolete.map(BTreeMap::keys));
        let developers = said.and_then(|it| it.developer_configuration.as_ref());
        Self {
            policy: policy.with_obsolete(obsolete),
            complaints,
            default_model: kubevirt.and_then(|it| it.cpu_model().map(str::to_owned)),
            node_selector: developers
                .map(|it| it.node_selectors.clone())
                .unwrap_or_default(),
        }
    }

    /// The model that a machine gets from KubeVirt when it is made: its own, that of its architecture,
    /// or the one that KubeVirt is told.
    pub fn requested(&self, model: Option<&str>, architecture: Option<&str>) -> Requested {
        match model {
            Some(model) if !model.is_empty() => Requested::new(Some(model)),
            _ if architecture == Some(ARM64) => Requested::HostPassthrough,
            _ => Requested::new(self.default_model.as_deref()),
        }
    }

    /// Whether a machine leaves the choice of its model to Medley: it says so itself, or it says nothing
    /// and KubeVirt is told so. On arm64 KubeVirt sets another default first.
    pub fn asks_for_best_match(&self, model: Option<&str>, architecture: Option<&str>) -> bool {
        self.requested(model, architecture).as_str() == BEST_MATCH_MODEL
    }
}
