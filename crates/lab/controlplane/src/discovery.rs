//! Discovery, for controllers that handle all kinds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::Client;
use kube::discovery::{ApiGroup, ApiResource, Discovery, Scope};

/// One kind in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
}

impl Served {
    /// Whether it supports all of these verbs.
    pub(crate) fn can(&self, verbs: &[&str]) -> bool {
        verbs
            .iter()
            .all(|verb| self.verbs.iter().any(|known| known == verb))
    }

    /// Whether this is the resource with this group and plural.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.resource.group == group && self.resource.plural == plural
    }
}

/// All kinds of an API server.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// Each kind once, in the preferred version of its group, or else the first that has it.
    preferred: Vec<Arc<Served>>,
    /// Every kind in every version, by `apiVersion` and `kind`.
    by_type: HashMap<(String, String), Arc<Served>>,
}

impl Kinds {
    /// Runs discovery.
    pub(crate) async fn discover(client: Client) -> Result<Self, kube::Error> {
        let found = Discovery::new(client).run_aggregated().await?;
        let groups = found.groups_alphabetical();
        Ok(Self::new(groups.into_iter().map(versions)))
    }

    /// Kinds from groups: each a list of versions, the preferred one first.
    fn new(groups: impl IntoIterator<Item = Vec<Vec<Served>>>) -> Self {
        let mut kinds = Self::default();
        for versions in groups {
            let mut seen = HashSet::new();
            for served in versions.into_iter().flatten() {
                let resource = &served.resource;
                let of = (resource.api_version.clone(), resource.kind.clone());
                let first = seen.insert(resource.plural.clone());
                let served = Arc::new(served);
                if first {
                    kinds.preferred.push(Arc::clone(&served));
                }
                // Virtual review kinds may share a name with a stored kind.
                let known = kinds
                    .by_type
                    .entry(of)
                    .or_insert_with(|| Arc::clone(&served));
                if !known.can(&["get"]) && served.can(&["get"]) {
                    *known = served;
                }
            }
        }
        kinds
    }

    /// Each kind once.
    pub(crate) fn preferred(&self) -> &[Arc<Served>] {
        &self.preferred
    }

    /// The kind of an owner reference.
    pub(crate) fn named(&self, api_version: &str, kind: &str) -> Option<&Arc<Served>> {
        self.by_type.get(&(api_version.to_owned(), kind.to_owned()))
    }
}

/// The versions of a group, the preferred one first.
fn versions(group: &ApiGroup) -> Vec<Vec<Served>> {
    let preferred = group.preferred_version_or_latest();
    let others = group.versions().filter(|version| *version != preferred);
    std::iter::once(preferred)
        .chain(others)
        .map(|version| {
            let resources = group.versioned_resources(version).into_iter();
            resources
                .map(|(resource, about)| Served {
                    resource,
                    namespaced: about.scope == Scope::Namespaced,
                    verbs: about.operations,
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests;
