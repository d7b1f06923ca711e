//! Nodes that fell silent, and the pods on them.

use chassis::Manager;

/// Starts it.
pub async fn start(_manager: &Manager) {}
