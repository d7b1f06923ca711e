//! Writes of pods at the gate: within the rules of the API, and all at once.

use std::collections::BTreeMap;

use ::placement::words::CONDITIONS;
use ::placement::{Notice, Settled, changes};
use api::words::says;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{Patch, PatchParams};
use runtime::{Error, Key};
use serde_json::{Value, json};
use tracing::warn;

use super::ledger::Held;
use super::{COMPONENT, Placing};

/// The condition of pods that are, or were, held.
const CONDITION: &str = "medley.dev/Placed";

impl Placing {
    /// Lets a pod go, narrowed. What the API server does not take is not insisted on: it goes as it is
    /// then, because nobody else would take the gate away.
    pub(super) async fn release(
        &self,
        pod: &Pod,
        before: &Value,
        after: &Value,
        notice: &Notice,
    ) -> Result<(), Error> {
        let key = Key::of(&pod.metadata);
        let held = self.ledger.is_held(&key);
        match self.write(pod, before, after).await {
            Err(error) if error.code() == Some(422) => {
                warn!(pod = %key, %error, "a pod cannot be narrowed; it goes as it is");
                let settings = self.watch.settings();
                let as_it_is = self.settled(before, None, &settings, &BTreeMap::new());
                if let Settled::Release { pod: after, .. } = as_it_is {
                    self.write(pod, before, &after).await?;
                }
                let notice = Notice {
                    warning: true,
                    reason: "NotPlaced",
                    message: format!("it goes as it is: {error}"),
                };
                self.released(&key, pod, &notice);
                return Ok(());
            }
            written => written?,
        }
        if held {
            self.condition(pod, true, notice).await?;
        }
        self.released(&key, pod, notice);
        Ok(())
    }

    /// Has a pod wait until a node comes, and tells why, once.
    pub(super) async fn hold(
        &self,
        key: &Key,
        pod: &Pod,
        (before, after): (&Value, &Value),
        notice: &Notice,
    ) -> Result<(), Error> {
        self.write(pod, before, after).await?;
        let held = Held {
            reason: notice.reason,
            message: notice.message.clone(),
        };
        if self.ledger.held(key, held) {
            self.condition(pod, false, notice).await?;
            self.events.warning(pod, notice.reason, &notice.message);
        }
        Ok(())
    }

    async fn write(&self, pod: &Pod, before: &Value, after: &Value) -> Result<(), Error> {
        let mut patch = changes(before, after);
        if patch.is_empty() {
            return Ok(());
        }
        let revision = &pod.metadata.resource_version;
        patch.push(json!({ "op": "add", "path": "/metadata/resourceVersion", "value": revision }));
        let (api, name) = self.api(pod);
        let operation = format!("changing pod {}", Key::of(&pod.metadata));
        let patch = serde_json::from_value(patch.into())
            .map_err(|error| Error::Invalid(format!("{operation}: {error}")))?;
        let written = api
            .patch(name, &ours(), &Patch::Json::<()>(patch))
            .await
            .map_err(Error::api(operation))?;
        self.pods.saw(&written).await;
        Ok(())
    }

    /// Says in the status of a pod whether it has a place.
    async fn condition(&self, pod: &Pod, placed: bool, notice: &Notice) -> Result<(), Error> {
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let status = if placed { "True" } else { "False" };
        debug_assert!(
            says(CONDITIONS, CONDITION, status, notice.reason),
            "{CONDITION}={status} {} is not explained",
            notice.reason
        );
        let patch = json!({ "status": { "conditions": [{
            "type": CONDITION, "status": status, "reason": notice.reason,
            "message": notice.message, "lastTransitionTime": Time(now),
        }] } });
        let (api, name) = self.api(pod);
        let operation = format!("writing the status of pod {}", Key::of(&pod.metadata));
        let written = api
            .patch_status(name, &ours(), &Patch::Strategic(patch))
            .await
            .map_err(Error::api(operation))?;
        self.pods.saw(&written).await;
        Ok(())
    }

    fn api<'a>(&self, pod: &'a Pod) -> (Api<Pod>, &'a str) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        (Api::namespaced(self.client.clone(), namespace), name)
    }
}

fn ours() -> PatchParams {
    PatchParams {
        field_manager: Some(COMPONENT.to_owned()),
        ..PatchParams::default()
    }
}
