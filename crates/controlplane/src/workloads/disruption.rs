//! How many pods a budget lets go.

use chassis::Manager;

/// Starts it.
pub(crate) async fn start(_manager: &Manager) {}
