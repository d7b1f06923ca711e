//! Objects whose owners are gone.

use chassis::Manager;

/// Starts it.
pub async fn start(_manager: &Manager) {}
