//! Restores objects of another server.
//!
//! System fields (UID, creation time, generation, status, owners) are kept, so that references stay
//! valid; only the revision is new. There is no admission, no defaulting and no validation beyond
//! decoding: the other server has done them.

use std::time::Duration;

use machinery::gvk::split_api_version;
use machinery::meta;
use serde_json::Value;
use uuid::Uuid;

use crate::server::{ApiServer, Refused};
use crate::store::Expect;

/// Poll interval until a CRD is served.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Timeout until a CRD is served.
const SERVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why an object cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The kind is not served.
    #[error("{api_version} {kind} is not served here")]
    UnknownKind {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
    },
    /// The object does not decode.
    #[error("{kind} {name:?} cannot be read: {reason}")]
    Unreadable {
        /// Kind.
        kind: String,
        /// Name.
        name: String,
        /// The decoding error.
        reason: String,
    },
    /// The object cannot be stored.
    #[error("{kind} {name:?} cannot be stored: {reason}")]
    Store {
        /// Kind.
        kind: String,
        /// Name.
        name: String,
        /// The store's error.
        reason: String,
    },
}

impl ApiServer {
    /// Stores an object unchanged, replacing one of the same name.
    pub async fn restore(&self, mut object: Value) -> Result<(), RestoreError> {
        let state = self.state();
        let api_version = meta::api_version(&object).to_owned();
        let kind = meta::kind(&object).to_owned();
        let name = meta::name(&object).to_owned();
        let resource = split_api_version(&api_version)
            .and_then(|(group, version)| {
                let snapshot = state.registry.snapshot();
                snapshot.find_kind(group, version, &kind).cloned()
            })
            .ok_or_else(|| RestoreError::UnknownKind {
                api_version: api_version.clone(),
                kind: kind.clone(),
            })?;
        // Versions of another server mean nothing here; owner references and managed fields do, and
        // stay.
        meta::remove(&mut object, "resourceVersion");
        if meta::uid(&object).is_empty() {
            meta::set_uid(&mut object, &Uuid::new_v4().to_string());
        }
        let decoded =
            resource
                .strategy
                .decode(object)
                .map_err(|reason| RestoreError::Unreadable {
                    kind: kind.clone(),
                    name: name.clone(),
                    reason,
                })?;
        if name.is_empty() {
            return Err(RestoreError::Unreadable {
                kind,
                name,
                reason: "it has no name".to_owned(),
            });
        }
        let key = resource.key(meta::namespace(&decoded.object), &name);
        state
            .store_object(&resource, key, Expect::Any, decoded.object)
            .await
            .map(drop)
            .map_err(|refused| RestoreError::Store {
                kind,
                name,
                reason: match refused {
                    Refused::Failed(status) => status.message,
                    Refused::Race(_) => "conflict with another write".to_owned(),
                },
            })
    }

    /// Waits until a kind is served, which happens soon after its CRD is stored; returns whether it
    /// is.
    pub async fn serves(&self, api_version: &str, kind: &str) -> bool {
        let looking = async {
            while !self.state().knows_kind(api_version, kind) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(SERVE_TIMEOUT, looking).await.is_ok()
    }
}
