//! Pods with names and volumes of their own, in order.

use chassis::Manager;

/// Starts it.
pub(crate) async fn start(_manager: &Manager) {}
