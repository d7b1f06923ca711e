//! The multiarch-tuning-operator beside Medley: pods that it places are left to it.
//!
//! Both hold a pod at a scheduling gate of their own and add node affinity. Each lifts only its own gate, and pods would
//! wait for both. Medley stands back where the other operator's webhook is registered: without the registration it gates
//! nothing, whatever else of it is installed.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use machinery::selector::LabelSelector;
use serde_json::Value;

use crate::gated::has_gate;

/// Name of the MutatingWebhookConfiguration. The operator creates it when its webhook and its controller are available,
/// and deletes it before they go (`CanDeployMutatingWebhook` in api/v1beta1/clusterpodplacementconfig_types.go).
pub const REGISTRATION: &str = "pod-placement-mutating-webhook-configuration";
/// Name of the webhook in it.
const WEBHOOK: &str = "pod-placement-scheduling-gate.multiarch.openshift.io";
/// Its scheduling gate.
const GATE: &str = "multiarch.openshift.io/scheduling-gate";
/// Node selectors of pods that it leaves alone.
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// A live multiarch-tuning-operator.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiarchTuning {
    /// Selects the namespaces whose pods it places: `spec.namespaceSelector` of its ClusterPodPlacementConfig.
    namespaces: LabelSelector,
    /// The same as written, for messages.
    selector: Option<String>,
    /// Its own namespace.
    home: Option<String>,
}

impl MultiarchTuning {
    /// Reads the MutatingWebhookConfiguration [`REGISTRATION`].
    pub fn read(registration: &Value) -> Option<Self> {
        let webhooks = registration.get("webhooks")?.as_array()?;
        let name = |webhook: &&Value| webhook.get("name").and_then(Value::as_str) == Some(WEBHOOK);
        let webhook = webhooks.iter().find(name)?;
        let selector = webhook.get("namespaceSelector");
        let selector = selector.filter(|it| it.as_object().is_some_and(|it| !it.is_empty()));
        let namespaces = match selector {
            None => LabelSelector::everything(),
            // The API server has validated it.
            Some(selector) => LabelSelector::from_label_selector_object(selector).ok()?,
        };
        let home = webhook.pointer("/clientConfig/service/namespace");
        Some(Self {
            namespaces,
            selector: selector.map(ToString::to_string),
            home: home.and_then(Value::as_str).map(ToOwned::to_owned),
        })
    }

    /// The namespaces whose pods it places, in a message.
    pub(crate) fn describe_namespaces(&self) -> String {
        match &self.selector {
            None => "all namespaces".to_owned(),
            Some(selector) => format!("the namespaces that its selector {selector} matches"),
        }
    }

    /// Whether it places a pod. `labels` are those of the namespace.
    ///
    /// The same pods as in `shouldIgnorePod` (internal/controller/podplacement/pod_model.go), except that pods which
    /// select an architecture themselves are always left to it: it gates them if it has preferences to add.
    pub(crate) fn places(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        pod: &Value,
    ) -> bool {
        if has_gate(pod, GATE) {
            return true;
        }
        self.home.as_deref() != Some(namespace)
            && self
                .namespaces
                .matches(|key| labels.get(key).map(String::as_str))
            && !selects_control_plane(pod)
            && !is_of_daemon_set(pod)
    }
}

fn selects_control_plane(pod: &Value) -> bool {
    let selector = pod.pointer("/spec/nodeSelector");
    selector.is_some_and(|selector| CONTROL_PLANE.iter().any(|key| selector.get(key).is_some()))
}

fn is_of_daemon_set(pod: &Value) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences");
    let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
    owners.any(|owner| {
        owner.get("kind").and_then(Value::as_str) == Some("DaemonSet")
            && owner.get("controller").and_then(Value::as_bool) == Some(true)
    })
}
