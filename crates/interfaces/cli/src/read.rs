//! Reads of objects in a cluster, and of files.
//!
//! A kind that is not installed reads as absent: the API server answers 404 for both.

use std::fmt::Debug;

use anyhow::{Context as _, anyhow};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, ListParams};
use kube::{Api, Client, Resource};
use machinery::quantity::Quantity;
use runtime::Absent as _;
use serde::de::DeserializeOwned;

pub(crate) use cluster_view::list::PAGE;

/// A kind that can be read.
pub(crate) trait Readable:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned> Readable for K {}

/// The API of a kind in a namespace, or in all namespaces.
pub(crate) fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// All objects, page by page; `None` if the kind is not installed.
pub(crate) async fn try_list<K: Readable>(
    api: &Api<K>,
    params: ListParams,
) -> anyhow::Result<Option<Vec<K>>> {
    Ok(cluster_view::list::list(api, &params).await?)
}

/// All objects, page by page; empty if the kind is not installed.
pub(crate) async fn list<K: Readable>(api: &Api<K>) -> anyhow::Result<Vec<K>> {
    Ok(try_list(api, ListParams::default())
        .await?
        .unwrap_or_default())
}

/// One object; `None` if it or its kind does not exist.
pub(crate) async fn get<K: Readable>(api: &Api<K>, name: &str) -> anyhow::Result<Option<K>> {
    let found = api.get(name).await.not_found_as_none();
    found.map_err(|error| api_error(error).context(format!("reading {} {name}", K::kind(&()))))
}

/// The message of the API server, without kube's wrapping.
pub(crate) fn api_error(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => anyhow::Error::new(other),
    }
}

/// Name of a resource as in kubectl: `deployments.apps`.
pub(crate) fn resource_name(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

/// Reads a file, or standard input for `-`.
pub(crate) fn file(path: &std::path::Path) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        return std::io::read_to_string(std::io::stdin()).context("reading standard input");
    }
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Parses a flag that is a Kubernetes quantity of bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let quantity: Option<Quantity> = text.parse().ok();
    let bytes = quantity.and_then(|it| u64::try_from(it.value()).ok());
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected more than 0 bytes, such as 50Gi or 5G".to_owned())
}

/// Parses a flag that names an object: `NAMESPACE/NAME`.
pub(crate) fn namespaced(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(
            "expected NAMESPACE/NAME, such as kube-system/extension-apiserver-authentication"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities() {
        assert_eq!(bytes("1Ki"), Ok(1024));
        assert_eq!(bytes("5G"), Ok(5_000_000_000));
        for bad in ["", "0", "-1", "ten", "10 Gi"] {
            let message = bytes(bad).unwrap_err();
            assert!(message.contains("50Gi or 5G"), "{message}");
        }
    }
}
