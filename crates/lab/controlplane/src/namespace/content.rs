//! Deletion of all objects of one kind in a namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use runtime::{Absent as _, Cache, Error};

use crate::discovery::Served;
use crate::object;
use crate::pod::is_terminal;

/// Estimate for finalizers.
// `finalizerEstimateSeconds` in
// `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`.
const FINALIZER_ESTIMATE: Duration = Duration::from_secs(15);

/// Access to the objects of all kinds.
pub(super) struct Content {
    pub(super) client: Client,
    pub(super) pods: Cache<Pod>,
}

/// The remaining objects of a kind.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Remaining {
    /// Estimated time until they are gone.
    pub(super) estimate: Duration,
    pub(super) count: usize,
    /// Number of objects blocked by each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// The error, if any.
    pub(super) problem: Option<String>,
}

impl Content {
    /// Deletes all objects of a kind.
    pub(super) async fn delete(&self, kind: &Served, namespace: &Namespace) -> Remaining {
        let name = object::name(&namespace.metadata);
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
            Err(error) => Remaining {
                estimate,
                problem: Some(Error::api("deletion")(error).message()),
                ..Remaining::default()
            },
        }
    }
}

/// Deletes all, and lists the remaining objects. Kinds that are not served have none.
async fn delete(
    api: &Api<PartialObjectMeta<DynamicObject>>,
    kind: &Served,
) -> Result<Vec<ObjectMeta>, kube::Error> {
    let background = DeleteParams::background();
    let everything = ListParams::default();
    // One request for each kind where the API allows it; objects one by one are the fallback of
    // upstream, too.
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

/// `None` for a missing resource or an unsupported verb (404, 405).
fn or_unsupported<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer.not_found_as_none() {
        Err(kube::Error::Api(status)) if status.code == 405 => Ok(None),
        other => other,
    }
}

/// Evaluates the remaining objects. Without grace period and finalizers there should be none.
fn rest(left: &[ObjectMeta], grace: Duration, unexpected: impl FnOnce() -> String) -> Remaining {
    let mut finalizers = BTreeMap::new();
    for finalizer in left
        .iter()
        .flat_map(|meta| meta.finalizers.iter().flatten())
    {
        *finalizers.entry(finalizer.clone()).or_insert(0) += 1;
    }
    if left.is_empty() {
        return Remaining::default();
    }
    let estimate = if grace.is_zero() && !finalizers.is_empty() {
        FINALIZER_ESTIMATE
    } else {
        grace
    };
    Remaining {
        count: left.len(),
        problem: estimate.is_zero().then(unexpected),
        estimate,
        finalizers,
    }
}

/// The remaining grace period of running pods; zero once it has passed.
fn grace(pods: &[&Pod], since: Duration) -> Duration {
    let longest = pods
        .iter()
        .filter(|pod| !is_terminal(pod))
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

/// Time since the deletion of an object.
pub(super) fn age(meta: &ObjectMeta, now: Timestamp) -> Duration {
    let deleted = meta.deletion_timestamp.as_ref();
    deleted.map_or(Duration::ZERO, |deleted| {
        Duration::try_from(now.duration_since(deleted.0)).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests;
