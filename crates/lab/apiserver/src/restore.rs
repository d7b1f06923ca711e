//! Putting objects back as they were on another server.
//!
//! What an object was given there (uid, creation time, generation, status, owners) stays, so that
//! whatever refers to it still does; only the revision is new. No admission, no defaults, no checks
//! beyond what decoding needs: the other server has made them.

use std::time::Duration;

use machinery::gvk::split_api_version;
use machinery::meta;
use serde_json::Value;
use uuid::Uuid;

use crate::server::{ApiServer, Refused};
use crate::store::Expect;

/// How often it is looked whether a definition is served by now.
const LOOK: Duration = Duration::from_millis(10);
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why an object cannot be put back.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// No such kind is served here.
    #[error("{api_version} {kind} is not served here")]
    UnknownKind {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
    },
    /// It is not an object of its kind.
    #[error("{kind} {name:?} cannot be read: {reason}")]
    Unreadable {
        /// Kind.
        kind: String,
        /// Name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It cannot be stored.
    #[error("{kind} {name:?} cannot be stored: {reason}")]
    Store {
        /// Kind.
        kind: String,
        /// Name.
        name: String,
        /// What the store said.
        reason: String,
    },
}

impl ApiServer {
    /// Stores an object as it is, in place of one of the same name.
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
                    Refused::Race(_) => "somebody else writes it".to_owned(),
                },
            })
    }

    /// Waits until a kind is served, as happens soon after its definition is stored; whether it is.
    pub async fn serves(&self, api_version: &str, kind: &str) -> bool {
        let looking = async {
            while !self.state().knows_kind(api_version, kind) {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.is_ok()
    }
}
