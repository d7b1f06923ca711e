//! CPU model settings from KubeVirt and the CpuModelPolicy.

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

/// The objects the settings come from.
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

    /// The merged settings. KubeVirt allows one KubeVirt object; of several, the first is used.
    pub(crate) fn settings(&self) -> Settings {
        let policy = self.policy.as_ref().map(|object| &object.spec);
        Settings::new(policy, self.kubevirts.values().next())
    }
}

/// A typed object; `None` if it is invalid.
fn read<K>(object: &Arc<DynamicObject>) -> Option<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    match DynamicObject::clone(object).try_parse() {
        Ok(read) => Some(read),
        Err(error) => {
            let name = Key::of(&object.metadata);
            warn!(kind = %K::kind(&()), %name, %error, "ignoring an invalid object");
            None
        }
    }
}
