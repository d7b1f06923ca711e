//! What is left in namespaces that are to go.

use chassis::Manager;

/// Starts it.
pub async fn start(_manager: &Manager) {}
