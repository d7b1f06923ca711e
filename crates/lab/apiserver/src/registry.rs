//! The served resources. CRDs are added and removed, so readers take a snapshot.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::resource::Resource;
use crate::subresources;

/// All resources served at one time.
#[derive(Default)]
pub(crate) struct Snapshot {
    resources: HashMap<(String, String, String), Arc<Resource>>,
    groups: BTreeMap<String, Group>,
    pub(crate) aggregated_core: OnceLock<Bytes>,
    pub(crate) aggregated_groups: OnceLock<Bytes>,
    pub(crate) openapi: parking_lot::Mutex<HashMap<String, Bytes>>,
}

/// The versions of a group and their resources.
#[derive(Default)]
pub(crate) struct Group {
    /// Whether the group is built in rather than defined by CRDs.
    pub(crate) builtin: bool,
    /// Resources by version, the preferred version first.
    pub(crate) versions: Vec<Version>,
}

/// One version of a group.
pub(crate) struct Version {
    /// Name, such as `v1`.
    pub(crate) name: String,
    /// Resources in the order they were registered.
    pub(crate) resources: Vec<Arc<Resource>>,
}

impl Snapshot {
    /// Indexes resources; the order within a version is kept.
    pub(crate) fn new(resources: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut snapshot = Self::default();
        for resource in resources {
            let gvk = &resource.info.gvk;
            let key = (
                gvk.group.clone(),
                gvk.version.clone(),
                resource.info.plural.clone(),
            );
            let group = snapshot.groups.entry(gvk.group.clone()).or_default();
            group.builtin |= resource.custom.is_none();
            match group
                .versions
                .iter_mut()
                .find(|version| version.name == gvk.version)
            {
                Some(version) => version.resources.push(Arc::clone(&resource)),
                None => group.versions.push(Version {
                    name: gvk.version.clone(),
                    resources: vec![Arc::clone(&resource)],
                }),
            }
            snapshot.resources.insert(key, resource);
        }
        for review in &subresources::REVIEWS {
            let group = snapshot.groups.entry(review.group.to_owned()).or_default();
            group.builtin = true;
            if group.versions.is_empty() {
                group.versions.push(Version {
                    name: "v1".to_owned(),
                    resources: Vec::new(),
                });
            }
        }
        for group in snapshot.groups.values_mut() {
            group
                .versions
                .sort_by(|a, b| compare_versions(&a.name, &b.name));
        }
        snapshot
    }

    /// The resource of a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The resource of a kind.
    pub(crate) fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<&Arc<Resource>> {
        let version = self
            .group(group)?
            .versions
            .iter()
            .find(|v| v.name == version)?;
        version
            .resources
            .iter()
            .find(|resource| resource.info.gvk.kind == kind)
    }

    /// A group by name.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name)
    }

    /// All resources, by group.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let versions = self.groups.values().flat_map(|group| &group.versions);
        versions.flat_map(|version| &version.resources)
    }

    /// All groups, by name.
    pub(crate) fn groups(&self) -> &BTreeMap<String, Group> {
        &self.groups
    }
}

/// The served resources: built-in ones, and those of the current CRDs.
pub(crate) struct Registry {
    builtin: Vec<Arc<Resource>>,
    current: ArcSwap<Snapshot>,
}

impl Registry {
    /// A registry of built-in resources.
    pub(crate) fn new(builtin: Vec<Arc<Resource>>) -> Self {
        let current = ArcSwap::from_pointee(Snapshot::new(builtin.iter().cloned()));
        Self { builtin, current }
    }

    /// The resources served now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Replaces the custom resources.
    pub(crate) fn set_custom(&self, custom: impl IntoIterator<Item = Arc<Resource>>) {
        let all = self.builtin.iter().cloned().chain(custom);
        // A whole new snapshot, with empty caches for discovery and OpenAPI: requests in flight
        // keep the one they started with, and no cache needs to be invalidated.
        self.current.store(Arc::new(Snapshot::new(all)));
    }
}

/// Kubernetes' order of versions: stable before beta before alpha, newest first, others after them
/// by name (`apimachinery/pkg/version.CompareKubeAwareVersionStrings`).
pub(crate) fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    match (kube_version(a), kube_version(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability (2 stable, 1 beta, 0 alpha), major, minor.
fn kube_version(text: &str) -> Option<(u8, u64, u64)> {
    let rest = text.strip_prefix('v')?;
    let digits = |text: &str| -> Option<u64> {
        (!text.is_empty() && !text.starts_with('0'))
            .then(|| text.parse().ok())
            .flatten()
    };
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, digits(major)?, digits(minor)?));
        }
    }
    Some((2, digits(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::compare_versions;

    #[test]
    fn versions_are_ordered_by_stability_then_newest_first() {
        let mut versions = vec![
            "foo10",
            "v1alpha2",
            "v1",
            "foo1",
            "v3beta1",
            "v12alpha1",
            "v11beta2",
            "v10",
            "v2",
            "v10beta3",
        ];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v1alpha2",
                "foo1",
                "foo10"
            ]
        );
    }
}
