//! CPU model settings from KubeVirt and the CpuModelPolicy.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cpu::CpuModelPolicy;
use api::kubevirt::KubeVirt;
use cpu_models::Settings;
use kube::api::DynamicObject;
use runtime::Change;

use crate::policies;
use crate::settings::apply;

/// The objects the settings come from.
#[derive(Default)]
pub(crate) struct Sources {
    kubevirts: BTreeMap<String, KubeVirt>,
    policies: BTreeMap<String, CpuModelPolicy>,
}

impl Sources {
    pub(crate) fn kubevirt(&mut self, change: &Change<DynamicObject>) {
        apply(&mut self.kubevirts, change, policies::decode);
    }

    pub(crate) fn policy(&mut self, change: &Change<DynamicObject>) {
        apply(&mut self.policies, change, policies::decode);
    }
}

impl crate::settings::Sources for Sources {
    type Settings = Settings;

    fn settings(&self) -> Settings {
        settings(self.policies.values(), self.kubevirts.values())
    }
}

/// The merged settings. KubeVirt allows one KubeVirt object; of several, the first by namespace and name is used.
pub fn settings<'a>(
    policies: impl IntoIterator<Item = &'a CpuModelPolicy>,
    kubevirts: impl IntoIterator<Item = &'a KubeVirt>,
) -> Settings {
    let policy = policies::find(policies).map(|policy| &policy.spec);
    Settings::new(policy, kubevirts.into_iter().next())
}
