//! The policies of a cluster: one reader for controllers, webhooks, the command line and the console.
//!
//! A missing policy means the built-in defaults. One that cannot be decoded is an error for a controller: it must not act
//! on defaults that the user did not choose. A view that answers requests ignores it instead ([`decode`]). Invalid fields
//! are replaced by defaults, one by one, in the crate of the job, which reports them.

use std::fmt::Debug;

use api::cpu::CpuModelPolicy;
use api::golden::GoldenImagePolicy;
use api::release::ReleasePolicy;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Resource};
use runtime::{Absent as _, Error, OptionalKinds, kind_of};
use serde::de::DeserializeOwned;
use tracing::warn;

/// A cluster-scoped policy of which only the object of one name counts.
pub trait SinglePolicy: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {
    /// The name.
    const NAME: &'static str;
}

impl SinglePolicy for CpuModelPolicy {
    const NAME: &'static str = api::cpu::NAME;
}

impl SinglePolicy for GoldenImagePolicy {
    const NAME: &'static str = api::golden::NAME;
}

impl SinglePolicy for ReleasePolicy {
    const NAME: &'static str = api::release::NAME;
}

/// The policy in the cache; `None` without one, or if its kind is not installed.
pub async fn cached<K: SinglePolicy>(kinds: &OptionalKinds) -> Result<Option<K>, Error> {
    let cache = kinds.open(&kind_of::<K>()).await?;
    let object = cache.and_then(|cache| cache.get("", K::NAME));
    object.map(|object| runtime::decode(&object)).transpose()
}

/// The policy, read from the API server; `None` without one, or if its kind is not installed.
pub async fn read<K: SinglePolicy>(client: &Client) -> Result<Option<K>, Error> {
    let api: Api<K> = Api::all(client.clone());
    // The API server answers 404 for a kind that is not installed, too.
    let found = api.get(K::NAME).await.not_found_as_none();
    found.map_err(Error::api(format!("reading {} {}", K::kind(&()), K::NAME)))
}

/// All objects of a kind that has several, read from the API server; `None` if it is not installed. One that cannot be
/// decoded is skipped.
pub async fn list<K>(client: &Client) -> Result<Option<Vec<K>>, Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let found = api.list(&ListParams::default()).await.not_found_as_none();
    let found = found.map_err(Error::api(format!("listing {}", K::plural(&()))))?;
    // Listed untyped, so that one invalid object does not fail the whole list: `Api<K>` decodes all items or none.
    Ok(found.map(|found| found.iter().filter_map(decode).collect()))
}

/// The policy among all objects of its kind.
pub fn find<'a, K: SinglePolicy + 'a>(objects: impl IntoIterator<Item = &'a K>) -> Option<&'a K> {
    let mut objects = objects.into_iter();
    objects.find(|it| it.meta().name.as_deref() == Some(K::NAME))
}

/// A typed object; `None`, with a warning in the log, if it cannot be decoded.
pub fn decode<K>(object: &DynamicObject) -> Option<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let read = runtime::decode(object);
    read.inspect_err(|error| warn!(%error, "ignoring an invalid object"))
        .ok()
}
