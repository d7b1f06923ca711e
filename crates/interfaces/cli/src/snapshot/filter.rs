//! Which objects of a cluster go into a snapshot.

use crate::redact::is_credential;

/// Whether objects of a resource are kept: not transient ones (events, leases), nor those that the
/// server computes (metrics, component statuses), nor credentials.
pub(super) fn is_kept(group: &str, plural: &str) -> bool {
    let is_transient = matches!(plural, "events" | "leases" | "leasecandidates");
    let is_computed = plural == "componentstatuses"
        || group == "packages.operators.coreos.com"
        || group.ends_with("metrics.k8s.io");
    !(is_computed || is_credential(group, plural) || (is_transient && is_of_kubernetes(group)))
}

/// Whether a group is built into Kubernetes, as opposed to a third-party group with the same
/// plural.
fn is_of_kubernetes(group: &str) -> bool {
    group.is_empty() || group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_not_kept() {
        assert!(is_kept("", "configmaps"));
        assert!(!is_kept("oauth.openshift.io", "oauthaccesstokens"));
    }
}
