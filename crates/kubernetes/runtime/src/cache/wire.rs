//! What a server says of a kind, object by object, before anybody reads it.
//!
//! kube's own lists read every object twice: into something that can be anything, and from there. Here an object
//! of a list or an event is left as it came until it is known what it is, and read once. Events have to say their
//! type before their object for that, as kube-apiserver and the embedded server do.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Api, Client};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Kind;

/// Objects a page of a list.
const PAGE: u32 = 2000;
/// Seconds until the server ends a watch; kube allows less than 295.
const WATCH: u32 = 290;

/// An object as it came.
pub(super) type Raw = Box<RawValue>;

/// Some objects of a list.
#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    /// Nothing, or none at all, where there is nothing to list.
    #[serde(default, deserialize_with = "or_none")]
    pub(super) items: Vec<Raw>,
}

fn or_none<'de, D: serde::Deserializer<'de>>(items: D) -> Result<Vec<Raw>, D::Error> {
    Option::deserialize(items).map(Option::unwrap_or_default)
}

/// What of a kind is followed; everything by default.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    /// A field selector.
    fields: Option<String>,
    /// A label selector.
    labels: Option<String>,
}

impl Selection {
    /// What a field selector selects.
    pub(super) fn by_fields(fields: String) -> Self {
        Self {
            fields: Some(fields),
            labels: None,
        }
    }

    /// What a label selector selects.
    pub(super) fn by_labels(labels: String) -> Self {
        Self {
            fields: None,
            labels: Some(labels),
        }
    }
}

/// Where objects come from.
pub(super) struct Wire {
    client: Client,
    request: Request,
    selection: Selection,
    /// Whether nothing but metadata is asked for.
    metadata: bool,
}

impl Wire {
    pub(super) fn new<K: Kind>(api: Api<K>, selection: Selection) -> Self {
        Self {
            request: Request::new(api.resource_url()),
            client: api.into_client(),
            selection,
            metadata: K::metadata_api(),
        }
    }

    /// The path that is asked.
    pub(super) fn url(&self) -> &str {
        &self.request.url_path
    }

    /// A page of everything: the first one, or that of a token.
    pub(super) async fn page(&self, token: Option<&str>) -> Result<Page, kube::Error> {
        let params = ListParams {
            field_selector: self.selection.fields.clone(),
            label_selector: self.selection.labels.clone(),
            continue_token: token.map(ToOwned::to_owned),
            ..ListParams::default().limit(PAGE)
        };
        let request = if self.metadata {
            self.request.list_metadata(&params)
        } else {
            self.request.list(&params)
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// What happens after a revision.
    pub(super) async fn watch(
        &self,
        from: u64,
    ) -> Result<BoxStream<'static, Result<WatchEvent<Raw>, kube::Error>>, kube::Error> {
        let params = WatchParams {
            field_selector: self.selection.fields.clone(),
            label_selector: self.selection.labels.clone(),
            ..WatchParams::default().timeout(WATCH)
        };
        let from = from.to_string();
        let request = if self.metadata {
            self.request.watch_metadata(&params, &from)
        } else {
            self.request.watch(&params, &from)
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let events = self.client.request_events(request).await?;
        Ok(events.boxed())
    }
}

/// Reads an object as what it is.
pub(super) fn read<K: DeserializeOwned>(object: &Raw) -> Result<K, kube::Error> {
    serde_json::from_str(object.get()).map_err(kube::Error::SerdeError)
}
