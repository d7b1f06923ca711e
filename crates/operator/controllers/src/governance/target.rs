//! Requests about the target of an item.

use api::advisor::{FIELD_MANAGER, TargetRef};
use governance::Snapshot;
use governance::exchange::{Request, Response};
use governance::snapshot::whole;
use kube::api::DynamicObject;
use kube::core::{GroupVersionKind, ObjectMeta};
use kube::discovery::ApiResource;
use kube::{Api, Client};
use runtime::{Absent as _, Error, Key, Writer};

/// The target of an item, and what was last read and written.
pub(super) struct Target<'a> {
    api: Api<DynamicObject>,
    kind: GroupVersionKind,
    reference: &'a TargetRef,
    /// Empty if it does not exist.
    read: ObjectMeta,
    /// Whether something was written since it was read.
    is_written: bool,
    /// The object after that write; absent if it was deleted.
    after: Option<DynamicObject>,
}

/// A write to a target.
#[derive(Debug)]
pub(super) struct TargetWrite {
    /// Kind of the target.
    pub(super) kind: GroupVersionKind,
    /// Metadata before the write; empty if the object was created.
    pub(super) meta: ObjectMeta,
    /// The object after the write; absent if it was deleted.
    pub(super) object: Option<DynamicObject>,
}

impl<'a> Target<'a> {
    /// A target of a kind that is installed.
    pub(super) fn new(
        client: &Client,
        snapshot: &Snapshot,
        target: &'a TargetRef,
    ) -> Result<Self, Error> {
        let (group, version) = target
            .api_version
            .split_once('/')
            .unwrap_or(("", &target.api_version));
        let kind = GroupVersionKind::gvk(group, version, &target.kind);
        let Some(known) = snapshot.kind_of(target) else {
            return Err(Error::Invalid(format!(
                "reaching {target}: kind {} of {} is not installed",
                target.kind, target.api_version
            )));
        };
        let resource = ApiResource::from_gvk_with_plural(&kind, &known.plural);
        let api = match &target.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        Ok(Self {
            api,
            kind,
            reference: target,
            read: ObjectMeta::default(),
            is_written: false,
            after: None,
        })
    }

    /// Sends a request; an error if a retry may succeed.
    pub(super) async fn send(&mut self, request: Request) -> Result<Response, Error> {
        let is_read = request == Request::Read;
        let object = match self.object_after(request).await {
            Ok(object) => object,
            // A target that cannot be read is no result of the item.
            Err(error) if is_read => return Err(error),
            Err(error) => {
                // An answer of the API server (conflict, invalid, forbidden) is a result that the plan records; an
                // unreachable server is not, and the reconcile is retried.
                let response = error.status().and_then(Response::from_status);
                return response.ok_or(error);
            }
        };
        let response = Response::Object(object.as_ref().map(whole));
        self.is_written = !is_read;
        if is_read {
            self.read = object.map(|read| read.metadata).unwrap_or_default();
        } else {
            self.after = object;
        }
        Ok(response)
    }

    async fn object_after(&self, request: Request) -> Result<Option<DynamicObject>, Error> {
        let target = self.reference;
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let key = Key::new(namespace, &target.name);
        let writer =
            |manager: &str| Writer::of_kind(self.api.clone(), &target.kind, manager.to_owned());
        match request {
            Request::Read => {
                let read = self.api.get(&target.name).await.not_found_as_none();
                read.map_err(Error::api(format!("reading {target}")))
            }
            Request::Apply {
                object,
                force,
                dry_run,
            } => {
                let writer = writer(FIELD_MANAGER).force(force).dry_run(dry_run);
                writer.apply(&key, &object).await.map(Some)
            }
            Request::Merge {
                manager,
                patch,
                dry_run,
            } => {
                let writer = writer(&manager).dry_run(dry_run);
                writer.merge(&key, &patch).await.map(Some)
            }
            Request::Delete {
                uid,
                resource_version,
            } => {
                let unchanged = ObjectMeta {
                    name: Some(target.name.clone()),
                    namespace: target.namespace.clone(),
                    uid,
                    resource_version,
                    ..ObjectMeta::default()
                };
                writer(FIELD_MANAGER).delete_unchanged(&unchanged).await?;
                Ok(None)
            }
        }
    }

    /// The write since the target was last read, if there was one.
    pub(super) fn written(self) -> Option<TargetWrite> {
        self.is_written.then_some(TargetWrite {
            kind: self.kind,
            meta: self.read,
            object: self.after,
        })
    }
}
