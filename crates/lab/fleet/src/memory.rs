//! Names of objects that were created from the fleet file, so that each is created once.
//!
//! They are stored in the cluster: an object that the user deleted does not come back at the next
//! start, and objects added to the file are created.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use runtime::{Error, Key, Writer};
use serde_json::json;

/// Namespace of the ConfigMap.
const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
const NAME: &str = "medley-fleet";

/// Names created for one kind of object: a key of the ConfigMap, with one name per line.
pub(crate) struct CreatedNames {
    writer: Writer<ConfigMap>,
    entry: &'static str,
    there: bool,
    /// Names created so far.
    pub(crate) known: BTreeSet<String>,
}

impl CreatedNames {
    /// Reads the names from the ConfigMap.
    pub(crate) async fn read(client: &Client, entry: &'static str) -> Result<Self, Error> {
        let writer = Writer::<ConfigMap>::namespaced(client.clone());
        let found = writer.get(&Key::new(NAMESPACE, NAME)).await?;
        let there = found.is_some();
        let text = found.and_then(|map| map.data?.remove(entry));
        let known = text
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect();
        Ok(Self {
            writer,
            entry,
            there,
            known,
        })
    }

    /// Stores the names in the ConfigMap.
    pub(crate) async fn write(&self) -> Result<(), Error> {
        let text = self.known.iter().cloned().collect::<Vec<_>>().join("\n");
        let data: BTreeMap<_, _> = [(self.entry.to_owned(), text)].into();
        if self.there {
            let patch = json!({ "data": data });
            let key = Key::new(NAMESPACE, NAME);
            return self.writer.merge(&key, &patch).await.map(drop);
        }
        let mut map = ConfigMap {
            data: Some(data),
            ..ConfigMap::default()
        };
        map.metadata.name = Some(NAME.to_owned());
        map.metadata.namespace = Some(NAMESPACE.to_owned());
        self.writer.create(&map).await.map(drop)
    }
}
