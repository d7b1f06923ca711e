//! Cluster roles made of other cluster roles.

use chassis::Manager;

/// Starts it.
pub async fn start(_manager: &Manager) {}
