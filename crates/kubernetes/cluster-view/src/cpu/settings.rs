//! What KubeVirt and the policy say.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cpu::CpuModelPolicy;
use api::kubevirt::KubeVirt;
use cpu_models::Settings;
use kube::Resource;
use kube::api::DynamicObject;
use runtime::{Change, Key};
use serde::de::DeserializeOwned;
use tracing::warn;

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
        let policy = self.policy.as_ref().map(|object| &object.spec);
        Settings::new(policy, self.kubevirts.values().next())
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
