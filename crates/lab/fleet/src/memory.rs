//! What a fleet remembers of its file: everything in it is made once.
//!
//! It is written down in the cluster, so that what somebody removed does not come back with the next
//! start, and what the file has gained does come.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use runtime::Error;
use serde_json::json;

/// Where it is.
const NAMESPACE: &str = "kube-system";
/// The ConfigMap.
const NAME: &str = "medley-fleet";

/// The names of one kind of thing that have been made: an entry with a name a line.
pub(crate) struct Memory {
    api: Api<ConfigMap>,
    entry: &'static str,
    there: bool,
    /// The names.
    pub(crate) known: BTreeSet<String>,
}

impl Memory {
    /// Reads what is remembered.
    pub(crate) async fn read(client: &Client, entry: &'static str) -> Result<Self, Error> {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        let found = api
            .get_opt(NAME)
            .await
            .map_err(Error::api(format!("get config map {NAMESPACE}/{NAME}")))?;
        Ok(Self {
            api,
            entry,
            there: found.is_some(),
            known: names(found.as_ref(), entry),
        })
    }

    /// Writes down all that is known.
    pub(crate) async fn write(&self) -> Result<(), Error> {
        let text = self.known.iter().cloned().collect::<Vec<_>>().join("\n");
        let written = if self.there {
            let patch = json!({ "data": { self.entry: text } });
            self.api
                .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
                .await
        } else {
            let map = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(NAME.into()),
                    ..ObjectMeta::default()
                },
                data: Some([(self.entry.to_owned(), text)].into()),
                ..ConfigMap::default()
            };
            self.api.create(&PostParams::default(), &map).await
        };
        written.map(drop).map_err(Error::api(format!(
            "remember what has been made in config map {NAMESPACE}/{NAME}"
        )))
    }
}

fn names(map: Option<&ConfigMap>, entry: &str) -> BTreeSet<String> {
    let text = map
        .and_then(|map| map.data.as_ref()?.get(entry))
        .map(String::as_str)
        .unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
