//! As many pods as a ReplicaSet asks for.

use chassis::Manager;

/// Starts it.
pub(crate) async fn start(_manager: &Manager) {}
