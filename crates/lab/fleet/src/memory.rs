//! Names of objects that were created from the fleet file, so that each is created once.
//!
//! They are stored in the cluster: an object that the user deleted does not come back at the next
//! start, and objects added to the file are created.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use runtime::Error;
use serde_json::json;

/// Namespace of the ConfigMap.
const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
const NAME: &str = "medley-fleet";

/// Names created for one kind of object: a key of the ConfigMap, with one name per line.
pub(crate) struct CreatedNames {
    api: Api<ConfigMap>,
    entry: &'static str,
    there: bool,
    /// Names created so far.
    pub(crate) known: BTreeSet<String>,
}

impl CreatedNames {
    /// Reads the names from the ConfigMap.
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

    /// Stores the names in the ConfigMap.
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
            "record the created names in config map {NAMESPACE}/{NAME}"
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
