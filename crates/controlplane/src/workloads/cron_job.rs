//! Jobs by the clock.

use chassis::Manager;

/// Starts it.
pub(crate) async fn start(_manager: &Manager) {}
