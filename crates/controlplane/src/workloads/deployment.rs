//! Deployments: rolling from one ReplicaSet to the next.

use chassis::Manager;

/// Starts it.
pub(crate) async fn start(_manager: &Manager) {}
