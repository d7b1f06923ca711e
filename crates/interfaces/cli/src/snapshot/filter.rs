//! Which objects of a cluster go into a snapshot.

use crate::redact::is_credential;

/// Whether objects of a resource are worth keeping: not what is only ever news (events, leases),
/// nor what the server computes when asked (metrics, component statuses), nor what is a credential as a whole.
pub(super) fn is_kept(group: &str, plural: &str) -> bool {
    let is_news = matches!(plural, "events" | "leases" | "leasecandidates");
    let is_computed = plural == "componentstatuses"
        || group == "packages.operators.coreos.com"
        || group.ends_with("metrics.k8s.io");
    !(is_computed || is_credential(group, plural) || (is_news && is_of_kubernetes(group)))
}

/// Whether a group is one of Kubernetes' own, as opposed to somebody's whose plural is the same.
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
