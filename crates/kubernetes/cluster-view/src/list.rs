//! Lists of objects for views that are read once.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use runtime::{Absent as _, Error};
use serde::de::DeserializeOwned;

/// Page size of list requests, as in client-go's pager.
pub const PAGE: u32 = 500;

/// All objects that match, page by page; `None` if the kind is not installed.
pub async fn list<K>(api: &Api<K>, params: &ListParams) -> Result<Option<Vec<K>>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut params = params.clone().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&params).await.not_found_as_none();
        let page = page.map_err(Error::api(format!("listing {}", K::plural(&()))))?;
        let Some(page) = page else { return Ok(None) };
        found.extend(page.items);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(Some(found)),
        }
    }
}

/// The response, `None` if the object or its kind does not exist, or the user may not read it.
pub fn unless_forbidden<T>(
    operation: impl Into<String>,
    found: kube::Result<T>,
) -> Result<Option<T>, Error> {
    match found.map_err(Error::api(operation)) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.code(), Some(403 | 404)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// All objects of a namespace, or of the cluster; `None` if the kind is not installed.
pub async fn list_in<K>(
    client: &Client,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<Option<Vec<K>>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    list(&api, params).await
}
