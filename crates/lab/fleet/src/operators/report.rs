//! Writes the status of objects whose kind is known only at run time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use runtime::{Absent as _, Cache, Error, Key, Manager, Queue};
use serde_json::{Value, json};

use super::OperatorCondition;
use super::conditions::{NewCondition, merge_conditions};

/// A cache of a kind, and a writer of its status.
#[derive(Clone)]
pub(super) struct Reports {
    client: Client,
    kind: ApiResource,
    pub(super) objects: Cache<DynamicObject>,
}

impl Reports {
    /// Creates the cache of a kind; the caller has to run the returned task.
    pub(super) fn follow(
        client: Client,
        kind: ApiResource,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (objects, running) = Cache::follow(Api::all_with(client.clone(), &kind));
        let reports = Self {
            client,
            kind,
            objects,
        };
        (reports, running)
    }

    /// Runs the cache of a kind until the manager stops, and enqueues changed objects. Returns
    /// after the initial list.
    pub(super) async fn start(
        manager: &Manager,
        client: Client,
        kind: ApiResource,
    ) -> (Self, Queue<Key>) {
        let (reports, running) = Self::follow(client, kind);
        manager.spawn(running);
        let queue = Queue::new();
        let to = queue.clone();
        reports.objects.on_change(move |change| {
            if let Some(object) = &change.new {
                to.add(Key::of(&object.metadata));
            }
        });
        reports.objects.synced().await;
        (reports, queue)
    }

    /// Patches the status of an object, unless it has these values already. A null value removes a
    /// field.
    pub(super) async fn report(&self, object: &DynamicObject, status: Value) -> Result<(), Error> {
        let old = object.data.get("status").unwrap_or(&Value::Null);
        let unchanged = status.as_object().is_some_and(|status| {
            status
                .iter()
                .all(|(key, value)| old.get(key).unwrap_or(&Value::Null) == value)
        });
        if unchanged {
            return Ok(());
        }
        let key = Key::of(&object.metadata);
        let api: Api<DynamicObject> = if key.namespace.is_empty() {
            Api::all_with(self.client.clone(), &self.kind)
        } else {
            Api::namespaced_with(self.client.clone(), &key.namespace, &self.kind)
        };
        let patch = json!({ "metadata": { "uid": object.metadata.uid }, "status": status });
        let written = api
            .patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .not_found_as_none()
            .map_err(Error::api(format!(
                "patch status of {} {key}",
                self.kind.kind
            )))?;
        if let Some(written) = written {
            self.objects.saw(&written).await;
        }
        Ok(())
    }
}

/// The conditions of an object, merged with new ones.
pub(super) fn conditions(object: &DynamicObject, new_conditions: Vec<NewCondition>) -> Value {
    let old = object.data.pointer("/status/conditions").cloned();
    let old: Vec<OperatorCondition> = old
        .and_then(|old| serde_json::from_value(old).ok())
        .unwrap_or_default();
    json!(merge_conditions(&old, new_conditions, &now()))
}

/// The same in the form of `metav1.Condition`, with the observed generation.
pub(super) fn observed_conditions(
    object: &DynamicObject,
    new_conditions: Vec<NewCondition>,
) -> Value {
    let mut all = conditions(object, new_conditions);
    for condition in all.as_array_mut().into_iter().flatten() {
        condition["observedGeneration"] = json!(generation(object));
    }
    all
}

/// The generation of an object.
pub(super) fn generation(object: &DynamicObject) -> i64 {
    object.metadata.generation.unwrap_or_default()
}

/// The current time, truncated to seconds as in Kubernetes.
pub(super) fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
