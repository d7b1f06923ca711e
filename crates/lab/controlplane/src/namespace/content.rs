//! Deleting all objects of one kind in a namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use runtime::{Absent, Cache};

use crate::discovery::Served;

/// How long finalizers are taken to need.
const FINALIZERS: Duration = Duration::from_secs(15);

/// Reaches the objects of all namespaces.
pub(super) struct Content {
    pub(super) client: Client,
    pub(super) pods: Cache<Pod>,
}

/// What is left of a kind.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Rest {
    /// How long it may take to go.
    pub(super) estimate: Duration,
    pub(super) count: usize,
    /// How many each finalizer keeps.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// What went wrong.
    pub(super) problem: Option<String>,
}

impl Content {
    /// Deletes all objects of a kind.
    pub(super) async fn delete(&self, kind: &Served, namespace: &Namespace) -> Rest {
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        let estimate = if kind.is("", "pods") {
            let pods = self.pods.in_namespace(name);
            let pods: Vec<&Pod> = pods.iter().map(AsRef::as_ref).collect();
            grace(&pods, age(&namespace.metadata, Timestamp::now()))
        } else {
            Duration::ZERO
        };
        let api = Api::namespaced_with(self.client.clone(), name, &kind.resource);
        match delete(&api, kind).await {
            Ok(left) => rest(&left, estimate, || {
                let resource = &kind.resource;
                format!(
                    "unexpected items still remain in namespace: {name} for gvr: {}/{}, Resource={}",
                    resource.group, resource.version, resource.plural
                )
            }),
            Err(error) => Rest {
                estimate,
                problem: Some(message(&error)),
                ..Rest::default()
            },
        }
    }
}

/// Deletes all, and lists what is there afterwards. Kinds that turn out not to be there have nothing.
async fn delete(
    api: &Api<PartialObjectMeta<DynamicObject>>,
    kind: &Served,
) -> Result<Vec<ObjectMeta>, kube::Error> {
    let background = DeleteParams::background();
    let everything = ListParams::default();
    let supported = kind.can(&["deletecollection"])
        && or_unsupported(api.delete_collection(&background, &everything).await)?.is_some();
    if !kind.can(&["list"]) {
        return Ok(Vec::new());
    }
    if !supported {
        for object in list(api).await? {
            let name = object.name.as_deref().unwrap_or_default();
            or_unsupported(api.delete(name, &background).await)?;
        }
    }
    list(api).await
}

async fn list(api: &Api<PartialObjectMeta<DynamicObject>>) -> Result<Vec<ObjectMeta>, kube::Error> {
    let listed = or_unsupported(api.list(&ListParams::default()).await)?;
    let objects = listed.map(|list| list.items).unwrap_or_default();
    Ok(objects.into_iter().map(|object| object.metadata).collect())
}

/// `None` for what is not there or cannot be asked (404, 405).
fn or_unsupported<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer.or_absent() {
        Err(kube::Error::Api(status)) if status.code == 405 => Ok(None),
        other => other,
    }
}

/// What to make of objects that are still there. Without grace and finalizers there should be none.
fn rest(left: &[ObjectMeta], grace: Duration, unexpected: impl FnOnce() -> String) -> Rest {
    let mut finalizers = BTreeMap::new();
    for finalizer in left
        .iter()
        .flat_map(|meta| meta.finalizers.iter().flatten())
    {
        *finalizers.entry(finalizer.clone()).or_insert(0) += 1;
    }
    if left.is_empty() {
        return Rest::default();
    }
    let estimate = if grace.is_zero() && !finalizers.is_empty() {
        FINALIZERS
    } else {
        grace
    };
    Rest {
        count: left.len(),
        problem: estimate.is_zero().then(unexpected),
        estimate,
        finalizers,
    }
}

/// How long pods that run may take to end. Once it has passed there is nothing to expect.
fn grace(pods: &[&Pod], since: Duration) -> Duration {
    let longest = pods
        .iter()
        .filter(|pod| {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            !matches!(phase, Some("Succeeded" | "Failed"))
        })
        .filter_map(|pod| pod.spec.as_ref()?.termination_grace_period_seconds)
        .filter_map(|seconds| u64::try_from(seconds).ok())
        .max();
    let longest = Duration::from_secs(longest.unwrap_or_default());
    if since >= longest {
        Duration::ZERO
    } else {
        longest
    }
}

/// How long ago an object was deleted.
pub(super) fn age(meta: &ObjectMeta, now: Timestamp) -> Duration {
    let deleted = meta.deletion_timestamp.as_ref();
    deleted.map_or(Duration::ZERO, |deleted| {
        Duration::try_from(now.duration_since(deleted.0)).unwrap_or_default()
    })
}

/// What the server said, or else what happened.
pub(super) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
