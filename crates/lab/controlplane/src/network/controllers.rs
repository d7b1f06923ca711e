//! The controllers: read caches, compute a plan, write it.

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use runtime::{Error, Events, Key, Next, Reconcile, Writer};

use super::slices::Plan;
use super::{Caches, backends, endpoints, mirror, slices};

/// Manages the slices of services with a selector.
pub(super) struct SliceController {
    pub(super) caches: Caches,
    pub(super) events: Events,
}

/// Manages the Endpoints of services with a selector.
pub(super) struct EndpointsController {
    pub(super) writer: Writer<Endpoints>,
    pub(super) caches: Caches,
    pub(super) events: Events,
}

/// Manages slices that mirror Endpoints.
pub(super) struct MirrorController {
    pub(super) caches: Caches,
    pub(super) events: Events,
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
            // A slice created now could escape the garbage collector, which may have listed the
            // dependents of the Service already.
            plan.create.clear();
        }
        let applied = apply(&self.caches.slice_writer, plan).await;
        if let Err(error) = &applied
            // A conflict means that the cache lags behind. The retry resolves it, and an event
            // would only alarm.
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

/// Executes a plan.
async fn apply(writer: &Writer<EndpointSlice>, plan: Plan) -> Result<(), Error> {
    for slice in &plan.create {
        match writer.create(slice).await {
            Err(error) if error.is_namespace_terminating() => return Ok(()),
            created => created?,
        };
    }
    for slice in &plan.update {
        writer.replace(slice).await?;
    }
    // Last: addresses move between slices, and must not be missing from all of them in between.
    for slice in &plan.delete {
        writer.delete(&slice.metadata).await?;
    }
    Ok(())
}

impl EndpointsController {
    /// Deletes the Endpoints of a deleted service; those of leader elections never had one.
    async fn remove(&self, key: &Key) -> Result<(), Error> {
        let Some(current) = self.caches.endpoints.find(key) else {
            return Ok(());
        };
        if mirror::elects_leader(&current) {
            return Ok(());
        }
        self.writer.delete(&current.metadata).await.map(drop)
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
        let (written, verb, reason) = if current.is_some() {
            let written = self.writer.replace(&wanted).await;
            (written, "update", "FailedToUpdateEndpoint")
        } else {
            let written = self.writer.create(&wanted).await;
            (written, "create", "FailedToCreateEndpoint")
        };
        match written {
            Err(error) if !error.is_namespace_terminating() => {
                if !error.is_conflict() {
                    let text = format!("Failed to {verb} endpoint {key}: {error}");
                    self.events.warning(&wanted, reason, text);
                }
                Err(error)
            }
            _ => Ok(Next::Wait),
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
            let mut plan = Plan::default();
            plan.delete
                .extend(existing.iter().map(|slice| slice.as_ref().clone()));
            apply(&self.caches.slice_writer, plan).await?;
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
        apply(&self.caches.slice_writer, mirrored.plan).await?;
        Ok(Next::Wait)
    }
}
