//! Registration of nodes in the fleet file that were never registered.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use runtime::{Cache, Error, Writer};

use super::address::{self, Addresses};
use super::status;
use crate::memory::CreatedNames;
use crate::model::{Fleet, expand};

/// Key in the fleet's ConfigMap.
const REGISTERED: &str = "registered";
/// Number of nodes created concurrently.
const CREATE_CONCURRENCY: usize = 32;

/// Creates the nodes of a fleet that have never been created.
pub(super) async fn register(
    client: &Client,
    nodes: &Cache<Node>,
    addresses: &Arc<Mutex<Addresses>>,
    fleet: &Fleet,
) -> Result<(), Error> {
    let mut memory = CreatedNames::read(client, REGISTERED).await?;
    let fresh = missing(fleet, &memory.known);
    if fresh.is_empty() {
        return Ok(());
    }
    // Not shown by the cache: one wait for the last of thousands of nodes is enough.
    let writer = Writer::<Node>::cluster(client.clone());
    let now = Timestamp::now();
    let mut prepared = Vec::with_capacity(fresh.len());
    for mut node in fresh {
        let name = node.metadata.name.clone().unwrap_or_default();
        let number = addresses.lock().assign(&name)?;
        address::place(&mut node, number);
        let conditions = status::conditions(&node, now);
        node.status.get_or_insert_default().conditions = Some(conditions);
        memory.known.insert(name);
        prepared.push(node);
    }
    let last = stream::iter(&prepared)
        .map(|node| writer.create_if_absent(node))
        .buffer_unordered(CREATE_CONCURRENCY)
        .try_fold(None, |last, created| async move { Ok(created.or(last)) })
        .await?;
    if let Some(last) = last {
        nodes.saw(&last).await;
    }
    // After the nodes exist: a crash before this creates the missing ones at the next start. With
    // the order reversed, they would count as deleted by the user.
    memory.write().await
}

/// The nodes of a fleet that were never registered.
pub(super) fn missing(fleet: &Fleet, known: &BTreeSet<String>) -> Vec<Node> {
    let mut nodes = expand(fleet);
    nodes.retain(|node| {
        let name = node.metadata.name.as_ref();
        name.is_some_and(|name| !known.contains(name))
    });
    nodes
}
