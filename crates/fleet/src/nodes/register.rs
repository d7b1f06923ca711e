//! The first start of a fleet.
//!
//! Which nodes of the file have ever been registered is written down in the cluster, so that a node
//! somebody removed does not come back with the next start, and a node the file has gained does come.

use std::collections::BTreeSet;
use std::sync::Arc;

use chassis::{Cache, Error};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;

use super::address::{self, Addresses};
use super::status;
use crate::model::{Fleet, expand};

/// Where the fleet remembers the nodes it has registered.
const MEMORY_NAMESPACE: &str = "kube-system";
/// The ConfigMap with what it remembers.
const MEMORY_NAME: &str = "medley-fleet";
/// Its entry: the names, one a line.
const REGISTERED: &str = "registered";
/// Nodes created at the same time.
const AT_ONCE: usize = 32;

/// Creates the nodes of a fleet that have never been created.
pub(super) async fn register(
    client: &Client,
    nodes: &Cache<Node>,
    addresses: &Arc<Mutex<Addresses>>,
    fleet: &Fleet,
) -> Result<(), Error> {
    let memory: Api<ConfigMap> = Api::namespaced(client.clone(), MEMORY_NAMESPACE);
    let remembered = memory
        .get_opt(MEMORY_NAME)
        .await
        .map_err(Error::api(format!(
            "get config map {MEMORY_NAMESPACE}/{MEMORY_NAME}"
        )))?;
    let mut known = names(remembered.as_ref());
    let fresh = missing(fleet, &known);
    if fresh.is_empty() {
        return Ok(());
    }
    let api: Api<Node> = Api::all(client.clone());
    let now = Timestamp::now();
    let mut prepared = Vec::with_capacity(fresh.len());
    for mut node in fresh {
        let name = node.metadata.name.clone().unwrap_or_default();
        let number = addresses.lock().assign(&name)?;
        address::place(&mut node, number);
        let conditions = status::conditions(&node, now);
        node.status.get_or_insert_default().conditions = Some(conditions);
        known.insert(name);
        prepared.push(node);
    }
    let last = stream::iter(prepared)
        .map(|node| create(&api, node))
        .buffer_unordered(AT_ONCE)
        .try_fold(None, |last, created| async move { Ok(created.or(last)) })
        .await?;
    if let Some(last) = last {
        nodes.saw(&last).await;
    }
    remember(&memory, remembered.is_some(), &known).await
}

/// Creates a node, unless somebody has already.
async fn create(api: &Api<Node>, node: Node) -> Result<Option<Node>, Error> {
    match api.create(&PostParams::default(), &node).await {
        Ok(created) => Ok(Some(created)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => {
            let name = node.metadata.name.unwrap_or_default();
            Err(Error::api(format!("create node {name}"))(error))
        }
    }
}

/// The nodes of a fleet that have never been registered.
pub(super) fn missing(fleet: &Fleet, known: &BTreeSet<String>) -> Vec<Node> {
    let mut nodes = expand(fleet);
    nodes.retain(|node| {
        let name = node.metadata.name.as_ref();
        name.is_some_and(|name| !known.contains(name))
    });
    nodes
}

pub(super) fn names(memory: Option<&ConfigMap>) -> BTreeSet<String> {
    let text = memory
        .and_then(|memory| memory.data.as_ref()?.get(REGISTERED))
        .map(String::as_str)
        .unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn remember(
    memory: &Api<ConfigMap>,
    there: bool,
    known: &BTreeSet<String>,
) -> Result<(), Error> {
    let text = known.iter().cloned().collect::<Vec<_>>().join("\n");
    let written = if there {
        let patch = json!({ "data": { REGISTERED: text } });
        memory
            .patch(MEMORY_NAME, &PatchParams::default(), &Patch::Merge(patch))
            .await
    } else {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(MEMORY_NAME.into()),
                ..ObjectMeta::default()
            },
            data: Some([(REGISTERED.to_owned(), text)].into()),
            ..ConfigMap::default()
        };
        memory.create(&PostParams::default(), &map).await
    };
    written.map(drop).map_err(Error::api(format!(
        "remember the registered nodes in config map {MEMORY_NAMESPACE}/{MEMORY_NAME}"
    )))
}
