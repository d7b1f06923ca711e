//! The GoldenImagePolicy of a cluster.

use edits::Policies;
use kube::Client;

use crate::governance::configs::MANAGER;

/// API of the GoldenImagePolicy.
pub(super) fn policies(client: &Client) -> Policies {
    Policies::new(client, MANAGER)
}
