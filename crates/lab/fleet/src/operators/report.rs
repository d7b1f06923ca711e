//! Caches and statuses of kinds that are known at run time only.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use runtime::{Absent as _, Cache, Error, Key, Manager, Queue, Writer};
use serde_json::{Value, json};

use super::OperatorCondition;
use super::conditions::{NewCondition, merge_conditions};

/// The objects of a kind that is known at run time only, and a writer that they show.
#[derive(Clone)]
pub(super) struct Objects {
    pub(super) cache: Cache<DynamicObject>,
    pub(super) writer: Writer<DynamicObject>,
    pub(super) kind: ApiResource,
}

impl Objects {
    /// Runs the cache of a kind until the manager stops.
    pub(super) fn follow(manager: &Manager, client: &Client, kind: ApiResource) -> Self {
        let (cache, running) = Cache::follow(Api::all_with(client.clone(), &kind));
        manager.spawn(running);
        Self {
            writer: Writer::dynamic(client.clone(), &kind).shown_by(&cache),
            cache,
            kind,
        }
    }

    /// Like [`Objects::follow`], with a queue of the changed objects. Returns after the initial list.
    pub(super) async fn start(
        manager: &Manager,
        client: &Client,
        kind: ApiResource,
    ) -> (Self, Queue<Key>) {
        let objects = Self::follow(manager, client, kind);
        let queue = Queue::new();
        queue.enqueue_objects(&objects.cache);
        objects.cache.synced().await;
        (objects, queue)
    }

    /// Adds or removes a finalizer; no error if the object is gone.
    pub(super) async fn set_finalizer(
        &self,
        object: &DynamicObject,
        finalizer: &str,
        present: bool,
    ) -> Result<(), Error> {
        let written = self
            .writer
            .set_finalizer(&object.metadata, finalizer, present);
        written.await.not_found_as_none().map(drop)
    }

    /// Sets status fields that differ; null removes a field. Returns whether there were any.
    pub(super) async fn report(
        &self,
        object: &DynamicObject,
        mut status: Value,
    ) -> Result<bool, Error> {
        let old = object.data.get("status").unwrap_or(&Value::Null);
        if let Some(fields) = status.as_object_mut() {
            fields.retain(|field, value| old.get(field).unwrap_or(&Value::Null) != value);
            if fields.is_empty() {
                return Ok(false);
            }
        }
        let writer = &self.writer;
        writer.set_status_fields(&object.metadata, &status).await?;
        Ok(true)
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

/// The same without empty reasons and messages, as operators of OpenShift write them.
pub(super) fn terse_conditions(object: &DynamicObject, new_conditions: Vec<NewCondition>) -> Value {
    let mut all = conditions(object, new_conditions);
    let fields = all.as_array_mut().into_iter().flatten();
    for fields in fields.filter_map(Value::as_object_mut) {
        fields.retain(|_, value| value != "");
    }
    all
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
