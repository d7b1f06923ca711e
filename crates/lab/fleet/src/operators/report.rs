//! Writing the status of objects whose kind is known only at run time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use runtime::{Absent as _, Cache, Error, Key, Manager, Queue};
use serde_json::{Value, json};

use super::OperatorCondition;
use super::conditions::{Said, settle};

/// Objects of a kind, and how to report on them.
#[derive(Clone)]
pub(super) struct Reports {
    client: Client,
    kind: ApiResource,
    pub(super) objects: Cache<DynamicObject>,
}

impl Reports {
    /// Follows all objects of a kind; the task has to run.
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

    /// Follows all objects of a kind until the manager stops, and says which of them changed. Nothing
    /// is there before it has been listed.
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

    /// Says these things about an object, unless it is what its status says already. To say nothing
    /// (null) about something is to take back what was said.
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
            .or_absent()
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

/// The conditions of an object with something new to say.
pub(super) fn conditions(object: &DynamicObject, said: Vec<Said>) -> Value {
    let old = object.data.pointer("/status/conditions").cloned();
    let old: Vec<OperatorCondition> = old
        .and_then(|old| serde_json::from_value(old).ok())
        .unwrap_or_default();
    json!(settle(&old, said, &now()))
}

/// The same in the form of `metav1.Condition`, which says what generation it is about.
pub(super) fn observed_conditions(object: &DynamicObject, said: Vec<Said>) -> Value {
    let mut all = conditions(object, said);
    for condition in all.as_array_mut().into_iter().flatten() {
        condition["observedGeneration"] = json!(generation(object));
    }
    all
}

/// The generation of an object.
pub(super) fn generation(object: &DynamicObject) -> i64 {
    object.metadata.generation.unwrap_or_default()
}

/// The time, as precise as Kubernetes writes it.
pub(super) fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
