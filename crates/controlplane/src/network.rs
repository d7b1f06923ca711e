//! The endpoints behind services.

use chassis::Manager;

/// Starts it.
pub async fn start(_manager: &Manager) {}
