//! Applying the [`Action`]s of the crate `golden_images`.
//!
//! ```text
//! Create --> fails if the object exists      Patch --> fails if it does not
//! Delete --> succeeds if the object is gone; deletes only the uid that was read
//!   then: wait until the cache shows the write
//! ```
//!
//! These failures are races, not errors ([`Error::is_conflict`]): the reconcile is requeued and decides on the current
//! state.

use std::collections::BTreeSet;

use api::cdi::{DataImportCron, DataSource, DataVolume};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use golden_images::action::{Action, Kind, Named};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DynamicObject, ObjectMeta};
use kube::core::{GroupVersionKind, NamespaceResourceScope};
use kube::discovery::ApiResource;
use kube::{Api, Resource};
use runtime::{Cache, Error, Key, Manager, Writer};
use serde_json::{Value, json};

use super::layer::LayerWatch;

/// Concurrent requests: each spends its time waiting for etcd to sync to disk.
// One SSP may need hundreds of objects; one request at a time would take seconds.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Applies actions in the name of one component.
#[derive(Clone)]
pub struct Actions {
    manager: Manager,
    component: &'static str,
    /// The layer that has to manage its objects during each write, if they are those of a genuine operator.
    layer: Option<LayerWatch>,
}

/// A request on one object.
enum Request<'a> {
    Create(&'a Value),
    Patch(&'a Value),
    Status(&'a Value),
    Delete,
}

impl Request<'_> {
    /// The operation, for error messages.
    fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "creating",
            Self::Patch(_) => "changing",
            Self::Status(_) => "writing the status of",
            Self::Delete => "deleting",
        }
    }
}

impl Actions {
    /// `component` is the field manager of the writes.
    pub fn new(manager: &Manager, component: &'static str) -> Self {
        Self {
            manager: manager.clone(),
            component,
            layer: None,
        }
    }

    /// Sends writes only while this layer manages its objects.
    #[must_use]
    pub(super) fn only_by(mut self, layer: &LayerWatch) -> Self {
        self.layer = Some(layer.clone());
        self
    }

    /// Applies all actions in order; consecutive ones of the same type on different objects of one kind run
    /// concurrently. Returns once the caches of the manager show them.
    ///
    /// Stops at the first failure; the next reconcile decides on the resulting state.
    pub async fn carry_out(&self, actions: &[Action]) -> Result<(), Error> {
        let mut later = actions;
        while !later.is_empty() {
            let (now, rest) = later.split_at(leading_run(later));
            later = rest;
            let mut now = now.iter();
            let mut in_flight = FuturesUnordered::new();
            let mut outcome = Ok(());
            loop {
                // No new requests after a failure: later actions may depend on the failed one, and the next decision
                // may not contain them at all.
                while outcome.is_ok()
                    && in_flight.len() < MAX_CONCURRENT_REQUESTS
                    && let Some(action) = now.next()
                {
                    in_flight.push(self.act(action));
                }
                // Await requests in flight: their writes may have happened, and the caches have to show them.
                let Some(done) = in_flight.next().await else {
                    break;
                };
                outcome = outcome.and(done);
            }
            outcome?;
        }
        Ok(())
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        let (kind, request) = match action {
            Action::Create { kind, object } => (*kind, Request::Create(object)),
            Action::Patch { kind, patch, .. } => (*kind, Request::Patch(patch)),
            Action::Delete { kind, .. } => (*kind, Request::Delete),
        };
        self.send(kind, &action.of(), request).await
    }

    /// Replaces the status of an object, through the status subresource if the CRD has one.
    pub async fn write_status(
        &self,
        kind: Kind,
        of: &Named,
        status: &impl serde::Serialize,
    ) -> Result<(), Error> {
        let status = json!(status);
        self.send(kind, of, Request::Status(&status)).await
    }

    async fn send(&self, kind: Kind, of: &Named, request: Request<'_>) -> Result<(), Error> {
        if let Some(layer) = &self.layer {
            layer.permit().await?;
        }
        match kind {
            Kind::DataImportCron => self.send_typed::<DataImportCron>(kind, of, request).await,
            Kind::DataSource => self.send_typed::<DataSource>(kind, of, request).await,
            Kind::DataVolume => self.send_typed::<DataVolume>(kind, of, request).await,
            Kind::Claim => {
                self.send_typed::<PersistentVolumeClaim>(kind, of, request)
                    .await
            }
            Kind::Snapshot | Kind::Template => {
                let of_kind = gvk(kind);
                let foreign = self.manager.optional_kinds();
                let cache = foreign.open(&of_kind).await?;
                let api = foreign.api(&of_kind, Some(&of.namespace));
                let (Some(cache), Some(api)) = (cache, api) else {
                    return Err(Error::Invalid(format!(
                        "{} {}: the kind is not installed; install its CustomResourceDefinition",
                        request.name(),
                        title(kind, of),
                    )));
                };
                self.run(kind, of, request, api, &cache).await
            }
        }
    }

    async fn send_typed<K>(&self, kind: Kind, of: &Named, request: Request<'_>) -> Result<(), Error>
    where
        K: runtime::Kind<DynamicType = ()> + Resource<Scope = NamespaceResourceScope>,
    {
        let resource = ApiResource::erase::<K>(&());
        let client = self.manager.client();
        let api = Api::namespaced_with(client, &of.namespace, &resource);
        self.run(kind, of, request, api, &self.manager.cache::<K>())
            .await
    }

    async fn run<K: runtime::Kind>(
        &self,
        kind: Kind,
        of: &Named,
        request: Request<'_>,
        api: Api<DynamicObject>,
        cache: &Cache<K>,
    ) -> Result<(), Error> {
        let (version, name) = kind.type_of();
        let writer = Writer::of_kind(api, name, self.component).shown_by(cache);
        let key = Key::new(&of.namespace, &of.name);
        match request {
            Request::Create(object) => {
                let mut object = object.clone();
                object["apiVersion"] = json!(version);
                object["kind"] = json!(name);
                let object = serde_json::from_value(object).map_err(|error| {
                    Error::Invalid(format!("creating {}: {error}", title(kind, of)))
                })?;
                writer.create(&object).await?;
            }
            Request::Patch(patch) => {
                writer.merge(&key, patch).await?;
            }
            Request::Status(status) => {
                writer
                    .overwrite_status(&key, status, self.has_status(kind))
                    .await?;
            }
            Request::Delete => {
                // From the cache, not from the decision: actions name objects, and the UID protects one that was
                // recreated since the cache was read.
                let known = cache.find(&key).map(|it| it.meta().clone());
                // Without a uid, whatever has the name now is deleted.
                let named = || ObjectMeta {
                    name: Some(of.name.clone()),
                    namespace: Some(of.namespace.clone()),
                    ..ObjectMeta::default()
                };
                writer.delete(&known.unwrap_or_else(named)).await?;
            }
        }
        Ok(())
    }

    /// Whether the kind has a status subresource. DataImportCrons and DataSources of CDI have none today.
    fn has_status(&self, kind: Kind) -> bool {
        let of_kind = gvk(kind);
        let installed = self
            .manager
            .optional_kinds()
            .kind(&of_kind.group, &of_kind.kind);
        installed.is_none_or(|installed| {
            let mut versions = installed.definition.spec.versions.iter();
            versions.any(|version| {
                let parts = version.subresources.as_ref();
                version.name == of_kind.version && parts.is_some_and(|it| it.status.is_some())
            })
        })
    }
}

/// Length of the leading run of actions of the same type on different objects of one kind, whose order does not matter.
fn leading_run(actions: &[Action]) -> usize {
    let what = |action: &Action| match action {
        Action::Create { kind, .. } => (*kind, 0),
        Action::Patch { kind, .. } => (*kind, 1),
        Action::Delete { kind, .. } => (*kind, 2),
    };
    let first = actions.first().map(what);
    let mut objects = BTreeSet::new();
    let same = |it: &&Action| Some(what(it)) == first && objects.insert(it.of());
    actions.iter().take_while(same).count()
}

/// The GroupVersionKind of a kind.
pub fn gvk(kind: Kind) -> GroupVersionKind {
    let (version, name) = kind.type_of();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    GroupVersionKind::gvk(group, version, name)
}

fn title(kind: Kind, of: &Named) -> String {
    format!("{} {}/{}", kind.type_of().1, of.namespace, of.name)
}
