//! What KubeVirt and the policy say.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cpu::CpuModelPolicy;
use api::kubevirt::KubeVirt;
use chassis::{Change, Key};
use cpumodel::Policy;
use cpumodel::names::BEST_MATCH_MODEL;
use cpumodel::policy::{Complaint, Obsolete};
use kube::Resource;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use tracing::warn;

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
    /// Whether a machine leaves the choice of its model to Medley: it says so itself, or it says nothing
    /// and KubeVirt is told so. On arm64 KubeVirt sets another default first.
    pub fn asks_for_best_match(&self, model: Option<&str>, architecture: Option<&str>) -> bool {
        match model {
            Some(model) => model == BEST_MATCH_MODEL,
            None => {
                architecture != Some("arm64")
                    && self.default_model.as_deref() == Some(BEST_MATCH_MODEL)
            }
        }
    }
}

/// The objects that say it.
#[derive(Default)]
pub(crate) struct Sources {
    kubevirts: BTreeMap<Key, KubeVirt>,
    policy: Option<CpuModelPolicy>,
}

impl Sources {
    pub(crate) fn kubevirt(&mut self, change: &Change<DynamicObject>) {
        let Some(key) = change.object().map(|object| Key::of(&object.metadata)) else {
            return;
        };
        match change.new.as_ref().and_then(read) {
            Some(kubevirt) => {
                self.kubevirts.insert(key, kubevirt);
            }
            None => {
                self.kubevirts.remove(&key);
            }
        }
    }

    pub(crate) fn policy(&mut self, change: &Change<DynamicObject>) {
        let named =
            |object: &Arc<DynamicObject>| object.metadata.name.as_deref() == Some(api::cpu::NAME);
        if change.object().is_some_and(named) {
            self.policy = change.new.as_ref().and_then(read);
        }
    }

    /// What they say together. KubeVirt allows one of itself; of several the first counts.
    pub(crate) fn settings(&self) -> Settings {
        let spec = self.policy.as_ref().map(|object| &object.spec);
        let (policy, complaints) = spec.map(Policy::read).unwrap_or_default();
        let kubevirt = self.kubevirts.values().next();
        let said = kubevirt.map(|it| &it.spec.configuration);
        let obsolete = said.and_then(|it| it.obsolete_cpu_models.as_ref());
        let obsolete = Obsolete::from_configuration(obsolete.map(BTreeMap::keys));
        let developers = said.and_then(|it| it.developer_configuration.as_ref());
        Settings {
            policy: policy.with_obsolete(obsolete),
            complaints,
            default_model: kubevirt.and_then(|it| it.cpu_model().map(str::to_owned)),
            node_selector: developers
                .map(|it| it.node_selectors.clone())
                .unwrap_or_default(),
        }
    }
}

/// An object as what it is; one that cannot be read says nothing.
fn read<K>(object: &Arc<DynamicObject>) -> Option<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    match DynamicObject::clone(object).try_parse() {
        Ok(read) => Some(read),
        Err(error) => {
            let name = Key::of(&object.metadata);
            warn!(kind = %K::kind(&()), %name, %error, "an object cannot be read and does not count");
            None
        }
    }
}
