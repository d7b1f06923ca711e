//! Claims and the volumes bound to them.

use chassis::Manager;

/// Starts it.
pub async fn start(_manager: &Manager) {}
