//! Pods that run to their end.

use chassis::Manager;

/// Starts it.
pub(crate) async fn start(_manager: &Manager) {}
