//! Names of kinds and resources: group, version and kind or plural.

use std::fmt;

/// A kind in one version of one API group. The core group is the empty string.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// API group, empty for core.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `Pod`.
    pub kind: String,
}

impl GroupVersionKind {
    /// Puts the three parts together.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// Reads `apiVersion` and `kind`; `None` when the apiVersion has more than one slash.
    pub fn from_api_version(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = split_api_version(api_version)?;
        Some(Self::new(group, version, kind))
    }

    /// The `apiVersion` value of objects of this kind.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }
}

impl fmt::Display for GroupVersionKind {
    /// Go's `schema.GroupVersionKind.String`: `apps/v1, Kind=Deployment`; core prints `/v1, Kind=Pod`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A plural resource name within a group, as errors name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group, empty for core.
    pub group: String,
    /// Plural, such as `pods`.
    pub resource: String,
}

impl GroupResource {
    /// Puts the two parts together.
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&qualify(&self.resource, &self.group))
    }
}

/// `name.group`, or just `name` in the core group.
pub fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// Splits `apiVersion` into group and version; `None` when it has more than one slash.
pub fn split_api_version(api_version: &str) -> Option<(&str, &str)> {
    match api_version.split_once('/') {
        None => Some(("", api_version)),
        Some((_, rest)) if rest.contains('/') => None,
        Some((group, version)) => Some((group, version)),
    }
}

/// Joins group and version into an `apiVersion`.
pub fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}
