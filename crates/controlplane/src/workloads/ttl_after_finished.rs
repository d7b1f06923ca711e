//! Jobs that are cleaned away after they finished.

use chassis::Manager;

/// Starts it.
pub(crate) async fn start(_manager: &Manager) {}
