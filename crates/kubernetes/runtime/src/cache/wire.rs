//! List and watch requests with raw objects.
//!
//! kube's own list deserializes every object twice: into a `serde_json::Value` and from there. Here an
//! object of a list or an event stays raw JSON until its type is known, and is deserialized once. This
//! needs `type` before `object` in watch events, which kube-apiserver and the embedded server send.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Kind;

/// Objects per page of a list.
// client-go's pager asks for 500 (`tools/pager/pager.go`). Larger pages mean fewer round trips at the start, and the
// memory for one page is bounded anyway: objects are decoded page by page. Without a limit, the API server holds the
// whole list in memory as one response.
const PAGE: u32 = 2000;
/// Seconds until the server ends a watch; kube rejects 295 and more.
// client-go chooses five to ten minutes at random, so that clients do not reconnect at the same time. The reflector's
// jitter and the different start times of the kinds do that here.
const WATCH: u32 = 290;

/// An object as raw JSON.
pub(super) type Raw = Box<RawValue>;

/// One page of a list.
#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    /// Missing or null when the list is empty.
    #[serde(default, deserialize_with = "or_none")]
    pub(super) items: Vec<Raw>,
}

fn or_none<'de, D: serde::Deserializer<'de>>(items: D) -> Result<Vec<Raw>, D::Error> {
    Option::deserialize(items).map(Option::unwrap_or_default)
}

/// Which objects of a kind are watched; all by default.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    /// A field selector.
    fields: Option<String>,
    /// A label selector.
    labels: Option<String>,
}

impl Selection {
    /// Objects that match a field selector.
    pub(super) fn by_fields(fields: String) -> Self {
        Self {
            fields: Some(fields),
            labels: None,
        }
    }

    /// Objects that match a label selector.
    pub(super) fn by_labels(labels: String) -> Self {
        Self {
            fields: None,
            labels: Some(labels),
        }
    }
}

/// The endpoint objects are listed and watched at.
pub(super) struct Wire {
    client: Client,
    request: Request,
    selection: Selection,
    /// Whether only metadata is requested (`PartialObjectMetadata`).
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

    /// The URL path of the requests.
    pub(super) fn url(&self) -> &str {
        &self.request.url_path
    }

    /// A page of the list: the first one, or the one of a continue token.
    pub(super) async fn page(&self, token: Option<&str>) -> Result<Page, kube::Error> {
        let params = ListParams {
            field_selector: self.selection.fields.clone(),
            label_selector: self.selection.labels.clone(),
            continue_token: token.map(ToOwned::to_owned),
            // No `resourceVersion`: the list is consistent with the latest write. client-go lists at
            // "0", which the watch cache may answer with an older state; a restarted controller would
            // then act on a cluster before its own last writes.
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

    /// Watches the changes after a resource version.
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

/// The metadata of an object of any kind; empty if it has none that can be decoded.
pub(super) fn identity(object: &Raw) -> ObjectMeta {
    #[derive(Deserialize)]
    struct Identity {
        metadata: ObjectMeta,
    }
    serde_json::from_str(object.get())
        .map_or_else(|_| ObjectMeta::default(), |it: Identity| it.metadata)
}
