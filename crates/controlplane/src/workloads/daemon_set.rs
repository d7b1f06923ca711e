//! One pod on every node that a DaemonSet fits.

use chassis::Manager;

/// Starts it.
pub(crate) async fn start(_manager: &Manager) {}
