//! The controllers: read caches, compute a plan, write it.

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};
use runtime::{Absent as _, Error, Events, Key, Next, Reconcile};

use super::slices::Plan;
use super::{Caches, backends, endpoints, mirror, slices};

/// Manages the slices of services with a selector.
pub(super) struct SliceController {
    client: Client,
    caches: Caches,
    events: Events,
}

/// Manages the Endpoints of services with a selector.
pub(super) struct EndpointsController {
    client: Client,
    caches: Caches,
    events: Events,
}

/// Manages slices that mirror Endpoints.
pub(super) struct MirrorController {
    client: Client,
    caches: Caches,
    events: Events,
}

impl SliceController {
    pub(super) fn new(client: Client, caches: Caches, events: Events) -> Self {
        Self {
            client,
            caches,
            events,
        }
    }
}

impl Reconcile for SliceController {
    fn name(&self) -> &'static str {
        "endpointslice"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        // The slices of a deleted service are garbage collected with their owner.
        let Some(service) = self.caches.services.find(key) else {
            return Ok(Next::Wait);
        };
        if backends::selector(&service).is_none() {
            return Ok(Next::Wait);
        }
        let pods = self.caches.pods_of(&key.namespace, &service);
        let existing = self.caches.slices_of(key, slices::MANAGER);
        let nodes = |name: &str| {
            let node = self.caches.nodes.get("", name)?;
            Some(node.metadata.labels.clone().unwrap_or_default())
        };
        let mut plan = slices::plan(&service, &pods, &nodes, &existing);
        if service.metadata.deletion_timestamp.is_some() {
            plan.create.clear();
        }
        let applied = apply(&self.client, &self.caches, key, plan).await;
        if let Err(error) = &applied
            && !error.is_conflict()
        {
            let text = format!("Error updating Endpoint Slices for Service {key}: {error}");
            let service = service.as_ref();
            self.events
                .warning(service, "FailedToUpdateEndpointSlices", text);
        }
        applied.map(|()| Next::Wait)
    }
}

/// Executes a plan, and waits until the cache has the changes.
async fn apply(client: &Client, caches: &Caches, key: &Key, plan: Plan) -> Result<(), Error> {
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), &key.namespace);
    for slice in plan.create {
        match api.create(&PostParams::default(), &slice).await {
            Ok(created) => caches.slices.saw(&created).await,
            Err(error) if is_namespace_terminating(&error) => return Ok(()),
            Err(error) => {
                return Err(Error::api(format!(
                    "create endpoint slice for service {key}"
                ))(error));
            }
        }
    }
    for slice in plan.update {
        let name = slice.metadata.name.clone().unwrap_or_default();
        let updated = api
            .replace(&name, &PostParams::default(), &slice)
            .await
            .map_err(Error::api(format!(
                "update endpoint slice {}/{name}",
                key.namespace
            )))?;
        caches.slices.saw(&updated).await;
    }
    for slice in plan.delete {
        let name = slice.metadata.name.clone().unwrap_or_default();
        let params = exactly(slice.metadata.uid.clone());
        api.delete(&name, &params)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!(
                "delete endpoint slice {}/{name}",
                key.namespace
            )))?;
        caches.slices.wait_for_deletion(&slice.metadata).await;
    }
    Ok(())
}

/// Delete parameters with a precondition on the UID.
fn exactly(uid: Option<String>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// Whether a creation failed because the namespace is terminating.
fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

impl EndpointsController {
    pub(super) fn new(client: Client, caches: Caches, events: Events) -> Self {
        Self {
            client,
            caches,
            events,
        }
    }

    fn api(&self, key: &Key) -> Api<Endpoints> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    /// Deletes the Endpoints of a deleted service; those of leader elections never had one.
    async fn remove(&self, key: &Key) -> Result<(), Error> {
        let Some(current) = self.caches.endpoints.find(key) else {
            return Ok(());
        };
        if mirror::elects_leader(&current) {
            return Ok(());
        }
        self.api(key)
            .delete(&key.name, &exactly(current.metadata.uid.clone()))
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("delete endpoints {key}")))?;
        self.caches
            .endpoints
            .wait_for_deletion(&current.metadata)
            .await;
        Ok(())
    }
}

impl Reconcile for EndpointsController {
    fn name(&self) -> &'static str {
        "endpoints"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(service) = self.caches.services.find(key) else {
            self.remove(key).await?;
            return Ok(Next::Wait);
        };
        if backends::selector(&service).is_none() {
            return Ok(Next::Wait);
        }
        let pods = self.caches.pods_of(&key.namespace, &service);
        let current = self.caches.endpoints.find(key);
        let Some(wanted) = endpoints::wanted(&service, &pods, current.as_deref()) else {
            return Ok(Next::Wait);
        };
        let api = self.api(key);
        let written = if current.is_some() {
            api.replace(&key.name, &PostParams::default(), &wanted)
                .await
        } else {
            api.create(&PostParams::default(), &wanted).await
        };
        match written {
            Ok(written) => self.caches.endpoints.saw(&written).await,
            Err(error) if is_namespace_terminating(&error) => {}
            Err(error) => {
                let (verb, reason) = if current.is_some() {
                    ("update", "FailedToUpdateEndpoint")
                } else {
                    ("create", "FailedToCreateEndpoint")
                };
                let error = Error::api(format!("{verb} endpoints {key}"))(error);
                if !error.is_conflict() {
                    let text = format!("Failed to {verb} endpoint {key}: {error}");
                    self.events.warning(&wanted, reason, text);
                }
                return Err(error);
            }
        }
        Ok(Next::Wait)
    }
}

impl MirrorController {
    pub(super) fn new(client: Client, caches: Caches, events: Events) -> Self {
        Self {
            client,
            caches,
            events,
        }
    }
}

impl Reconcile for MirrorController {
    fn name(&self) -> &'static str {
        "endpointslicemirroring"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let existing = self.caches.slices_of(key, mirror::MANAGER);
        let service = self.caches.services.find(key);
        let endpoints = self.caches.endpoints.find(key);
        let both = service.zip(endpoints);
        let source = both.filter(|(service, endpoints)| mirror::is_mirrored(service, endpoints));
        let Some((_, endpoints)) = source else {
            let delete = existing
                .iter()
                .map(|slice| slice.as_ref().clone())
                .collect();
            let plan = Plan {
                delete,
                ..Plan::default()
            };
            apply(&self.client, &self.caches, key, plan).await?;
            return Ok(Next::Wait);
        };
        let mut mirrored = mirror::plan(&endpoints, &existing);
        if endpoints.metadata.deletion_timestamp.is_some() {
            mirrored.plan.create.clear();
        }
        let (invalid, skipped) = (mirrored.invalid, mirrored.skipped);
        let endpoints = endpoints.as_ref();
        if invalid > 0 {
            let text =
                format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            self.events.warning(endpoints, "InvalidIPAddress", text);
        }
        if skipped > 0 {
            let text = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                 {skipped} addresses were skipped",
                mirror::MAX_ENDPOINTS_PER_SUBSET
            );
            self.events
                .warning(endpoints, "TooManyAddressesToMirror", text);
        }
        apply(&self.client, &self.caches, key, mirrored.plan).await?;
        Ok(Next::Wait)
    }
}
