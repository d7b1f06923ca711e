//! Namespaces whose pods are never placed: those of the platform, and those that the policy `default` names.
//!
//! Pods there may be needed to bring up what a pod at the gate waits for: the network, DNS, the control plane, the
//! operator. The API server does not send them ([`ExemptNamespaces::names`], [`ExemptNamespaces::condition`]), and if it
//! does, because it is older than match conditions, they are not placed either ([`ExemptNamespaces::contains`]).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

/// Namespaces of Kubernetes, OpenShift and hosted control planes. A star stands for any end.
const SYSTEM: [&str; 8] = [
    // By name as well: a namespace selector has no prefixes, and works on every API server.
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kube-*",
    "openshift",
    "openshift-*",
    "hypershift",
    "hypershift-*",
];
/// The length limit of a namespace.
const MAX_LENGTH: usize = 63;

/// Namespaces whose pods are never placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExemptNamespaces {
    names: BTreeSet<String>,
    prefixes: BTreeSet<String>,
}

impl Default for ExemptNamespaces {
    /// The system namespaces.
    fn default() -> Self {
        let mut exempt = Self {
            names: BTreeSet::new(),
            prefixes: BTreeSet::new(),
        };
        for pattern in SYSTEM {
            exempt.insert(pattern);
        }
        exempt
    }
}

impl ExemptNamespaces {
    /// Adds a namespace, or with a star at its end all that begin with it. Returns false for any other text.
    #[must_use]
    pub fn add(&mut self, pattern: &str) -> bool {
        let (text, is_prefix) = match pattern.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (pattern, false),
        };
        // What a namespace can consist of, and nothing that would end a string in an expression of the registration.
        let is_allowed = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        let is_valid = !text.is_empty()
            && text.len() <= MAX_LENGTH
            && text.chars().all(is_allowed)
            && !text.starts_with('-')
            && (is_prefix || !text.ends_with('-'));
        if is_valid {
            self.insert(pattern);
        }
        is_valid
    }

    fn insert(&mut self, pattern: &str) {
        match pattern.strip_suffix('*') {
            Some(prefix) => self.prefixes.insert(prefix.to_owned()),
            None => self.names.insert(pattern.to_owned()),
        };
    }

    /// Whether pods of this namespace are never placed.
    pub fn contains(&self, namespace: &str) -> bool {
        let mut prefixes = self.prefixes.iter();
        self.names.contains(namespace) || prefixes.any(|prefix| namespace.starts_with(prefix))
    }

    /// The namespaces that are exempt by name, for the namespace selector of the webhook.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// The expression for the match conditions of the webhook: true for pods of namespaces that are not exempt by
    /// prefix.
    pub fn condition(&self) -> String {
        let prefixes = self.prefixes.iter();
        let conditions: Vec<String> = prefixes
            // Not `object.metadata.namespace`, which the client may leave out.
            .map(|prefix| format!("!request.namespace.startsWith('{prefix}')"))
            .collect();
        conditions.join(" && ")
    }
}
