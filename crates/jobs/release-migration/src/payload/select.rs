//! Which manifests of a release apply to a cluster.

use std::collections::BTreeSet;

use api::openshift::{ClusterVersion, ComponentOverride, annotations};
use serde_json::Value;

use super::Manifest;

/// The properties of a cluster that select manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Its cluster profile.
    pub profile: String,
    /// The name in the exclude annotation; empty for none.
    pub exclude: String,
    /// Its feature set; `Default` by default.
    pub feature_set: String,
    /// The enabled feature gates.
    pub feature_gates: BTreeSet<String>,
    /// The major version of the release; `None` for any.
    pub major: Option<u64>,
    /// The enabled capabilities; `None` for all.
    pub capabilities: Option<BTreeSet<String>>,
    /// Objects that are overridden as unmanaged.
    pub overrides: Vec<ComponentOverride>,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            profile: "self-managed-high-availability".to_owned(),
            exclude: String::new(),
            feature_set: "Default".to_owned(),
            feature_gates: BTreeSet::new(),
            major: None,
            capabilities: None,
            overrides: Vec::new(),
        }
    }
}

/// Why a manifest does not apply to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Excluded {
    /// It is excluded by annotation.
    #[error("{0}=true")]
    Kept(String),
    /// It is for other profiles.
    #[error("{0} is not true")]
    Profile(String),
    /// It names a feature set and feature gates.
    #[error("it has both a feature-set and a feature-gate annotation")]
    Both,
    /// It is for other feature sets.
    #[error("it is for the feature sets {0}")]
    FeatureSet(String),
    /// It requires other feature gates.
    #[error("it requires the feature gates {0}")]
    FeatureGate(String),
    /// It is for other major versions.
    #[error("it is for the major versions {0}")]
    Major(String),
    /// It belongs to a disabled capability.
    #[error("capability {0} is disabled")]
    Capability(String),
    /// It is overridden as unmanaged.
    #[error("it is overridden as unmanaged")]
    Unmanaged,
}

impl Selection {
    /// The properties of a cluster, from its ClusterVersion.
    pub fn of(version: &ClusterVersion) -> Self {
        let status = version.status.as_ref();
        let capabilities = status
            .and_then(|it| it.rest.get("capabilities"))
            .and_then(|it| it.get("enabledCapabilities"))
            .and_then(Value::as_array);
        let capabilities = capabilities.map(|all| {
            let names = all.iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        });
        Self {
            capabilities,
            overrides: version.spec.overrides.clone(),
            ..Self::default()
        }
    }

    /// Whether a manifest applies to a cluster, or why not.
    pub fn check(&self, manifest: &Manifest) -> Result<(), Excluded> {
        let has_annotation = |key: &str, value: &str| manifest.annotation(key) == Some(value);
        // The order of the checks is upstream's, in library-go's pkg/manifest; it decides which reason is reported.
        let key = format!("{}{}", annotations::EXCLUDE, self.exclude);
        if !self.exclude.is_empty() && has_annotation(&key, "true") {
            return Err(Excluded::Kept(key));
        }
        let key = format!("{}{}", annotations::INCLUDE, self.profile);
        if !has_annotation(&key, "true") {
            return Err(Excluded::Profile(key));
        }
        let gates = manifest.annotation(annotations::FEATURE_GATE);
        let set = manifest.annotation(annotations::FEATURE_SET);
        if gates.is_some() && set.is_some() {
            return Err(Excluded::Both);
        }
        if let Some(set) = set
            && !set.split(',').any(|it| it.trim() == self.feature_set)
        {
            return Err(Excluded::FeatureSet(set.to_owned()));
        }
        let on = |name: &str| self.feature_gates.contains(name);
        if let Some(gates) = gates
            && !listed(gates, on)
        {
            return Err(Excluded::FeatureGate(gates.to_owned()));
        }
        let major = manifest.annotation(annotations::MAJOR_VERSION);
        if let (Some(wanted), Some(major)) = (major, self.major)
            && !any_listed(wanted, &major.to_string())
        {
            return Err(Excluded::Major(wanted.to_owned()));
        }
        let capabilities = manifest.annotation(annotations::CAPABILITY).unwrap_or("");
        if let Some(enabled) = &self.capabilities {
            // A manifest may need several capabilities, joined by a plus; it applies only if all are enabled.
            let mut wanted = capabilities.split('+').filter(|it| !it.is_empty());
            if let Some(missing) = wanted.find(|it| !enabled.contains(*it)) {
                return Err(Excluded::Capability(missing.to_owned()));
            }
        }
        let is_overridden = |it: &&ComponentOverride| {
            it.kind == manifest.kind()
                && it.group == manifest.group()
                && it.namespace == manifest.namespace()
                && it.name == manifest.name()
        };
        match self.overrides.iter().find(is_overridden) {
            Some(found) if found.unmanaged => Err(Excluded::Unmanaged),
            _ => Ok(()),
        }
    }
}

/// Whether all entries of a list hold; a leading dash negates one.
fn listed(list: &str, holds: impl Fn(&str) -> bool) -> bool {
    list.split(',').map(str::trim).all(|it| {
        it.strip_prefix('-')
            .map_or_else(|| holds(it), |name| !holds(name))
    })
}

/// Whether a value is in a list. A leading dash means all but it.
fn any_listed(list: &str, value: &str) -> bool {
    let all = || list.split(',').map(str::trim);
    if all().any(|it| it.strip_prefix('-') == Some(value)) {
        return false;
    }
    let mut named = all().filter(|it| !it.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|it| it == value)
}
