//! The requests about the target of an item, and the responses: how a decision that takes several requests
//! talks to the API server.
//!
//! ```text
//! ItemExecution, DryRun --Next::Send(Request)--> edge --> API server
//!          ^-------------------Response-----------'
//! ```
//!
//! An edge sends a request and returns the response, and decides nothing. It does not report network and server
//! errors, which a retry of the whole item resolves.

use kube_core::Status;
use serde_json::Value;

use crate::ownership::{self, Conflict};

/// A request about the target.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Reads it.
    Read,
    /// Applies an object (server-side apply) as our field manager.
    Apply {
        /// The object.
        object: Value,
        /// Whether to take fields that other managers own.
        force: bool,
        /// Whether nothing is persisted.
        dry_run: bool,
    },
    /// Sends a JSON merge patch.
    Merge {
        /// The field manager.
        manager: String,
        /// The patch.
        patch: Value,
        /// Whether nothing is persisted.
        dry_run: bool,
    },
    /// Deletes it, if it has this identity and is unchanged.
    Delete {
        /// `metadata.uid`.
        uid: Option<String>,
        /// `metadata.resourceVersion`.
        resource_version: Option<String>,
    },
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// Success: the target after the request, if it exists.
    Object(Option<Value>),
    /// The target has changed since it was read.
    Outdated,
    /// Other managers own fields that the request would change.
    Conflicts(Vec<Conflict>),
    /// Rejected, with the message of the API server. The same request can only succeed after something else has changed.
    Rejected(String),
    /// The namespace of the target does not exist.
    NoNamespace(String),
}

impl Response {
    /// The response in an error of the API server; `None` if the load has to pass, and a retry at once is right.
    pub fn from_status(status: &Status) -> Option<Self> {
        match status.code {
            409 => {
                let conflicts = ownership::conflicts(status);
                Some(if conflicts.is_empty() {
                    Self::Outdated
                } else {
                    Self::Conflicts(conflicts)
                })
            }
            // API Priority and Fairness: the load passes.
            429 => None,
            // From the admission plugin NamespaceLifecycle, when the target would be created.
            404 => Some(match missing_namespace(status) {
                Some(name) => Self::NoNamespace(name),
                None => Self::Rejected(status.message.clone()),
            }),
            // Also 403: a missing permission is reported at once, instead of being retried until the timeout.
            // A request that timed out in the server (504), and a webhook that does not answer (500), last longer than a
            // reconcile: the status has to name them. Server-side apply of a field that the schema does not declare
            // fails with 500 as well, and a retry at once cannot succeed.
            400..500 | 504 => Some(Self::Rejected(status.message.clone())),
            500 if [WEBHOOK_FAILURE, UNDECLARED_FIELD]
                .iter()
                .any(|it| status.message.contains(it)) =>
            {
                Some(Self::Rejected(status.message.clone()))
            }
            _ => None,
        }
    }
}

/// In the message of the 500 that an unreachable admission webhook causes (`toStatusErr` in
/// staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors).
const WEBHOOK_FAILURE: &str = "failed calling webhook";
/// In the message of the 500 that server-side apply of an undeclared field causes.
const UNDECLARED_FIELD: &str = "field not declared in schema";

/// The namespace that a 404 is about, if it is about one.
fn missing_namespace(status: &Status) -> Option<String> {
    let details = status.details.as_ref()?;
    (details.kind == "namespaces" && !details.name.is_empty()).then(|| details.name.clone())
}

/// What follows from a response.
#[derive(Debug, Clone, PartialEq)]
pub enum Next<T> {
    /// Send this request.
    Send(Request),
    /// This is the result.
    Finished(T),
    /// Other clients are in the way: fail with this message, and retry later.
    GiveUp(String),
}
