//! The write path of controllers.
//!
//! ```text
//! Writer --create, replace, apply, merge, json_patch, replace_status, set_finalizer, delete--> API server
//!    ^                                                                                            |
//!    `----------------------- waits until the cache shows the write <----- watch -----------------'
//! ```
//!
//! A write names its field manager, an error names the operation and the object, and a method returns
//! once the cache shows the write: the next reconcile never acts on the state before it. Methods that
//! take the metadata of an object as it was read fail with a conflict ([`Error::is_conflict`]) if the
//! object has changed since, so that a decision is never applied to a state it was not made for.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, ClusterResourceScope, DynamicResourceScope};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Absent as _, Cache, Error, Key, Kind};

/// Writes objects of one kind in the name of one field manager.
///
/// `C` is the type of the cache that has to show the writes. It may differ from `K`: a typed write of a
/// kind that is cached as [`DynamicObject`], for example.
pub struct Writer<K, C = K> {
    api: ApiOf<K>,
    kind: String,
    /// `None`: the API server derives it from the `User-Agent` of the client.
    manager: Option<String>,
    force: bool,
    dry_run: bool,
    cache: Option<Cache<C>>,
}

/// The API of the namespace of an object.
type ApiOf<K> = Arc<dyn Fn(&str) -> Api<K> + Send + Sync>;

impl<K, C> Clone for Writer<K, C> {
    fn clone(&self) -> Self {
        Self {
            api: Arc::clone(&self.api),
            kind: self.kind.clone(),
            manager: self.manager.clone(),
            cache: self.cache.clone(),
            ..*self
        }
    }
}

impl<K: Kind<DynamicType = (), Scope = NamespaceResourceScope>> Writer<K> {
    /// Writes objects in all namespaces, in the name of the client.
    pub fn namespaced(client: Client) -> Self {
        Self::unnamed(&K::kind(&()), move |namespace| {
            Api::namespaced(client.clone(), namespace)
        })
    }
}

impl<K: Kind<DynamicType = (), Scope = ClusterResourceScope>> Writer<K> {
    /// Writes cluster-scoped objects, in the name of the client.
    pub fn cluster(client: Client) -> Self {
        Self::unnamed(&K::kind(&()), move |_| Api::all(client.clone()))
    }
}

impl<K: Kind<DynamicType = ApiResource, Scope = DynamicResourceScope>> Writer<K> {
    /// Writes objects of a kind that is known at run time only, in all namespaces or without one, in the
    /// name of the client.
    pub fn dynamic(client: Client, kind: &ApiResource) -> Self {
        let resource = kind.clone();
        Self::unnamed(&kind.kind, move |namespace| match namespace {
            "" => Api::all_with(client.clone(), &resource),
            _ => Api::namespaced_with(client.clone(), namespace, &resource),
        })
    }
}

impl<K: Kind<DynamicType = ()>> Writer<K> {
    /// Writes through `api`; no cache waits for the writes until [`Writer::shown_by`] names one.
    pub fn new(api: Api<K>, manager: impl Into<String>) -> Self {
        Self::of_kind(api, &K::kind(&()), manager)
    }
}

impl<K: Kind> Writer<K> {
    /// Like [`Writer::new`], for a kind that is known at run time only.
    pub fn of_kind(api: Api<K>, kind: &str, manager: impl Into<String>) -> Self {
        Self {
            manager: Some(manager.into()),
            ..Self::unnamed(kind, move |_| api.clone())
        }
    }

    fn unnamed(kind: &str, api: impl Fn(&str) -> Api<K> + Send + Sync + 'static) -> Self {
        Self {
            api: Arc::new(api),
            kind: kind.to_owned(),
            manager: None,
            // A controller that does not force stops at the first field that `kubectl edit` has touched; the desired
            // state would then never be reached.
            force: true,
            dry_run: false,
            cache: None,
        }
    }
}

impl<K, C> Writer<K, C> {
    /// Makes every write wait until this cache shows it.
    pub fn shown_by<D>(self, cache: &Cache<D>) -> Writer<K, D> {
        Writer {
            api: self.api,
            kind: self.kind,
            manager: self.manager,
            force: self.force,
            dry_run: self.dry_run,
            cache: Some(cache.clone()),
        }
    }

    /// Names the field manager of the writes.
    #[must_use]
    pub fn managed_by(mut self, manager: &str) -> Self {
        self.manager = Some(manager.to_owned());
        self
    }

    /// Whether [`Writer::apply`] takes fields that other managers own. Controllers of their own objects
    /// do, as the Kubernetes documentation on server-side apply recommends; this is the default.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Whether the API server validates and admits the write without persisting it.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    fn post_params(&self) -> PostParams {
        PostParams {
            field_manager: self.manager.clone(),
            dry_run: self.dry_run,
        }
    }

    fn patch_params(&self, apply: bool) -> PatchParams {
        PatchParams {
            field_manager: self.manager.clone(),
            dry_run: self.dry_run,
            // The API server rejects `force` with any other kind of patch.
            force: apply && self.force,
            ..PatchParams::default()
        }
    }

    fn api(&self, key: &Key) -> Api<K> {
        (self.api)(&key.namespace)
    }

    fn operation(&self, verb: &str, key: &Key) -> String {
        format!("{verb} {} {key}", self.kind)
    }
}

impl<K, C> Writer<K, C>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    C: Kind,
{
    /// Creates an object; a conflict if it exists.
    pub async fn create(&self, object: &K) -> Result<K, Error>
    where
        K: Serialize,
    {
        let key = Key::of(object.meta());
        let created = self.api(&key).create(&self.post_params(), object).await;
        self.written(self.operation("creating", &key), created)
            .await
    }

    /// Creates an object; `None` if it exists.
    pub async fn create_if_absent(&self, object: &K) -> Result<Option<K>, Error>
    where
        K: Serialize,
    {
        match self.create(object).await {
            // 409 of a create means `AlreadyExists`, possibly because of an earlier attempt whose response was lost.
            Err(error) if error.code() == Some(409) => Ok(None),
            created => created.map(Some),
        }
    }

    /// The live object, for decisions that must not rest on a cache: deletions and adoptions.
    pub async fn get(&self, key: &Key) -> Result<Option<K>, Error> {
        let found = self.api(key).get(&key.name).await.not_found_as_none();
        found.map_err(Error::api(self.operation("reading", key)))
    }

    /// Replaces a whole object but its status; a conflict if it has changed since it was read.
    pub async fn replace(&self, object: &K) -> Result<K, Error>
    where
        K: Serialize,
    {
        let key = Key::of(object.meta());
        let params = self.post_params();
        let replaced = self.api(&key).replace(&key.name, &params, object).await;
        self.written(self.operation("updating", &key), replaced)
            .await
    }

    /// Replaces the status, and where the kind allows it the metadata, of an object; a conflict if it has
    /// changed since it was read. [`Writer::replace_status`] does for a status alone.
    pub async fn put_status(&self, object: &K) -> Result<K, Error>
    where
        K: Serialize,
    {
        let key = Key::of(object.meta());
        let (api, params) = (self.api(&key), self.post_params());
        let replaced = api.replace_status(&key.name, &params, object).await;
        let operation = self.operation("writing the status of", &key);
        self.written(operation, replaced).await
    }

    /// Applies an object (server-side apply): creates it, or sets the given fields and removes those
    /// applied before and not given now.
    pub async fn apply(&self, key: &Key, object: &(impl Serialize + Debug)) -> Result<K, Error> {
        self.patch("applying", key, &Patch::Apply(object)).await
    }

    /// Merges a patch into an object, whatever its state.
    pub async fn merge(&self, key: &Key, patch: &Value) -> Result<K, Error> {
        self.patch("patching", key, &Patch::Merge(patch)).await
    }

    /// Sends a strategic merge patch of an object, whatever its state: for built-in kinds, whose lists are
    /// merged by key.
    pub async fn strategic_merge(&self, key: &Key, patch: &Value) -> Result<K, Error> {
        self.patch("patching", key, &Patch::Strategic(patch)).await
    }

    /// Merges a patch into an object that was read with this metadata; a conflict if it has changed.
    pub async fn merge_into(&self, read: &ObjectMeta, mut patch: Value) -> Result<K, Error> {
        patch["metadata"]["resourceVersion"] = json!(read.resource_version);
        self.merge(&Key::of(read), &patch).await
    }

    /// Sends a JSON patch of an object that was read with this metadata; a conflict if it has changed.
    pub async fn json_patch(&self, read: &ObjectMeta, steps: Vec<Value>) -> Result<K, Error> {
        let key = Key::of(read);
        let patch = self.guarded(read, steps)?;
        self.patch("patching", &key, &patch).await
    }

    /// Like [`Writer::json_patch`], of the status subresource.
    pub async fn json_patch_status(
        &self,
        read: &ObjectMeta,
        steps: Vec<Value>,
    ) -> Result<K, Error> {
        let patch = self.guarded(read, steps)?;
        self.patch_status(&Key::of(read), &patch).await
    }

    /// Replaces the whole status of an object that was read with this metadata; a conflict if it has
    /// changed. `add` in a JSON patch creates a missing status, which `replace` would not.
    pub async fn replace_status(
        &self,
        read: &ObjectMeta,
        status: &impl Serialize,
    ) -> Result<K, Error> {
        // A merge patch would keep fields of the old status that the new one lacks; `replace` of the whole object
        // would need its current spec.
        let step = json!({ "op": "add", "path": "/status", "value": status });
        self.json_patch_status(read, vec![step]).await
    }

    /// Replaces the whole status of an object, whatever its state: for statuses that one controller alone
    /// writes. Some CRDs of CDI have no status subresource; then the status is written with the object.
    pub async fn overwrite_status(
        &self,
        key: &Key,
        status: &Value,
        subresource: bool,
    ) -> Result<K, Error> {
        let steps = vec![json!({ "op": "add", "path": "/status", "value": status })];
        let patch = self.json_steps(key, steps)?;
        if subresource {
            self.patch_status(key, &patch).await
        } else {
            self.patch("writing the status of", key, &patch).await
        }
    }

    /// Sends a strategic merge patch of the status subresource, whatever the object's state: for built-in
    /// kinds, whose conditions are merged by type.
    pub async fn merge_status(&self, key: &Key, patch: &Value) -> Result<K, Error> {
        self.patch_status(key, &Patch::Strategic(patch)).await
    }

    /// Sets fields of the status of this very object (of any of that name if the metadata has no UID),
    /// whatever its state; null removes a field. `None` if the object is gone.
    pub async fn set_status_fields(
        &self,
        read: &ObjectMeta,
        fields: &Value,
    ) -> Result<Option<K>, Error> {
        let mut patch = json!({ "status": fields });
        if let Some(uid) = &read.uid {
            // The API server rejects a patch that would change the UID. A status must not end up on a new object that
            // has the name of a deleted one.
            patch["metadata"] = json!({ "uid": uid });
        }
        let patched = self
            .patch_status(&Key::of(read), &Patch::Merge(&patch))
            .await;
        patched.not_found_as_none()
    }

    /// Adds or removes a finalizer of an object that was read with this metadata; a conflict if it has
    /// changed. Removing the last finalizer of a terminating object deletes it.
    pub async fn set_finalizer(
        &self,
        read: &ObjectMeta,
        finalizer: &str,
        present: bool,
    ) -> Result<(), Error> {
        // The whole list with the resource version, because a merge patch cannot add to a list: without the version
        // it would drop a finalizer that another controller added in between.
        let mut all = read.finalizers.clone().unwrap_or_default();
        all.retain(|it| it != finalizer);
        if present {
            all.push(finalizer.to_owned());
        }
        let key = Key::of(read);
        let patch = json!({ "metadata": {
            "resourceVersion": read.resource_version,
            "finalizers": all,
        } });
        let params = self.patch_params(false);
        let patched = self
            .api(&key)
            .patch(&key.name, &params, &Patch::Merge(&patch))
            .await;
        patched.map_err(Error::api(
            self.operation("changing the finalizers of", &key),
        ))?;
        let Some(cache) = &self.cache else {
            return Ok(());
        };
        // Not `saw`: an object that is deleted by this write never appears with its resource version.
        let shows = |object: Option<&C>| match object {
            Some(object) => {
                // Another object of that name may have none, and this one is gone.
                let mut left = object.meta().finalizers.iter().flatten();
                object.meta().uid != read.uid || left.any(|it| it == finalizer) == present
            }
            None => true,
        };
        cache.shows(&key, shows).await;
        Ok(())
    }

    /// Deletes an object, but not a new one of the same name. Returns false if it was gone already.
    pub async fn delete(&self, read: &ObjectMeta) -> Result<bool, Error> {
        self.delete_with(read, DeleteParams::default()).await
    }

    /// Like [`Writer::delete`], with another grace period or propagation policy.
    pub async fn delete_with(&self, read: &ObjectMeta, by: DeleteParams) -> Result<bool, Error> {
        let uid_only = ObjectMeta {
            resource_version: None,
            ..read.clone()
        };
        self.delete_unchanged_with(&uid_only, by).await
    }

    /// Like [`Writer::delete`]; a conflict if the object has changed since it was read with this metadata.
    pub async fn delete_unchanged(&self, read: &ObjectMeta) -> Result<bool, Error> {
        self.delete_unchanged_with(read, DeleteParams::default())
            .await
    }

    /// Like [`Writer::delete_unchanged`], with another grace period or propagation policy.
    pub async fn delete_unchanged_with(
        &self,
        read: &ObjectMeta,
        by: DeleteParams,
    ) -> Result<bool, Error> {
        let key = Key::of(read);
        let params = DeleteParams {
            dry_run: self.dry_run,
            // The UID protects an object that was created under the same name after the
            // decision; a cache may be behind by that much.
            preconditions: read.uid.as_ref().map(|uid| Preconditions {
                uid: Some(uid.clone()),
                resource_version: read.resource_version.clone(),
            }),
            ..by
        };
        let deleted = self.api(&key).delete(&key.name, &params).await;
        let deleted = deleted
            .not_found_as_none()
            .map_err(Error::api(self.operation("deleting", &key)))?;
        // Also after 404: the object is gone, but the cache may still show it, and
        // the next reconcile would delete it again.
        if let Some(cache) = &self.cache {
            cache.wait_for_deletion(read).await;
        }
        Ok(deleted.is_some())
    }

    async fn patch<P>(&self, verb: &str, key: &Key, patch: &Patch<P>) -> Result<K, Error>
    where
        P: Serialize + Debug,
    {
        let params = self.patch_params(matches!(patch, Patch::Apply(_)));
        let patched = self.api(key).patch(&key.name, &params, patch).await;
        self.written(self.operation(verb, key), patched).await
    }

    async fn patch_status<P>(&self, key: &Key, patch: &Patch<P>) -> Result<K, Error>
    where
        P: Serialize + Debug,
    {
        let params = self.patch_params(false);
        let patched = self.api(key).patch_status(&key.name, &params, patch).await;
        let operation = self.operation("writing the status of", key);
        self.written(operation, patched).await
    }

    /// A JSON patch that fails if the object has changed since it was read: the API server compares the
    /// resourceVersion of the patched object with the live one.
    fn guarded(&self, read: &ObjectMeta, steps: Vec<Value>) -> Result<Patch<()>, Error> {
        let guard = json!({
            "op": "add", "path": "/metadata/resourceVersion", "value": read.resource_version,
        });
        let all = std::iter::once(guard).chain(steps).collect();
        self.json_steps(&Key::of(read), all)
    }

    fn json_steps(&self, key: &Key, steps: Vec<Value>) -> Result<Patch<()>, Error> {
        serde_json::from_value(Value::Array(steps))
            .map(Patch::Json)
            .map_err(|error| {
                let operation = self.operation("patching", key);
                Error::Invalid(format!("{operation}: {error}"))
            })
    }

    async fn written(&self, operation: String, result: Result<K, kube::Error>) -> Result<K, Error> {
        let written = result.map_err(Error::api(operation))?;
        if let Some(cache) = &self.cache
            // A dry run returns the object with the resource version of the live one
            // or none; nothing will ever be observed.
            && !self.dry_run
        {
            cache.saw(&written).await;
        }
        Ok(written)
    }
}

/// Decodes an object that was read without its type.
pub fn decode<K>(object: &DynamicObject) -> Result<K, Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    object.clone().try_parse().map_err(|error| {
        let key = Key::of(&object.metadata);
        Error::Invalid(format!("decoding {} {key}: {error}", K::kind(&())))
    })
}

#[cfg(test)]
mod tests;
