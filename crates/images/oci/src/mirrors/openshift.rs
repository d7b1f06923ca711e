//! Mirrors configured by OpenShift objects: ImageContentSourcePolicy, ImageDigestMirrorSet,
//! ImageTagMirrorSet, and the registries of `image.config.openshift.io/cluster`.
//!
//! The objects are converted to the entries a node's `registries.conf` would have.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Mirror, MirrorError, PullFrom, Registries, Registry};

/// Whether the source itself may be contacted after its mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum SourcePolicy {
    /// It may be contacted.
    #[default]
    AllowContactingSource,
    /// It must not be contacted.
    NeverContactSource,
}

/// One source and its mirrors.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// The prefix of the image names.
    pub source: String,
    /// The mirrors, in order.
    #[serde(default)]
    pub mirrors: Vec<String>,
    /// Whether the source may be contacted, too.
    #[serde(default)]
    pub mirror_source_policy: Option<SourcePolicy>,
}

/// The `spec` of one of the three kinds: only the list of that kind is set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MirrorSet {
    /// Of an ImageContentSourcePolicy.
    pub repository_digest_mirrors: Vec<Scope>,
    /// Of an ImageDigestMirrorSet.
    pub image_digest_mirrors: Vec<Scope>,
    /// Of an ImageTagMirrorSet.
    pub image_tag_mirrors: Vec<Scope>,
}

/// `spec.registrySources` of `image.config.openshift.io/cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrySources {
    /// Hosts and paths that may use plain HTTP or unverified TLS.
    pub insecure_registries: Vec<String>,
    /// Hosts and paths that must not be contacted.
    pub blocked_registries: Vec<String>,
    /// Hosts and paths of the only images that may be read; all, if empty.
    pub allowed_registries: Vec<String>,
}

/// The `registries.conf` entries of these objects.
pub fn registries_of(
    sets: &[MirrorSet],
    sources: &RegistrySources,
) -> Result<Registries, MirrorError> {
    let digests = merge(sets.iter().flat_map(|set| {
        set.repository_digest_mirrors
            .iter()
            .chain(&set.image_digest_mirrors)
    }));
    let tags = merge(sets.iter().flat_map(|set| &set.image_tag_mirrors));
    let insecure = &sources.insecure_registries;
    let never = sets
        .iter()
        .flat_map(|set| {
            set.image_digest_mirrors
                .iter()
                .chain(&set.image_tag_mirrors)
        })
        .filter(|scope| scope.mirror_source_policy == Some(SourcePolicy::NeverContactSource))
        .map(|scope| scope.source.clone());
    let blocked: Vec<String> = sources
        .blocked_registries
        .iter()
        .cloned()
        .chain(never)
        .collect();

    let mut names: BTreeSet<&str> = digests
        .keys()
        .chain(tags.keys())
        .map(String::as_str)
        .collect();
    names.extend(insecure.iter().chain(&blocked).map(String::as_str));
    let mut all = Registries::default();
    for name in names {
        let mirrors = |all: &BTreeMap<String, Vec<String>>, pull_from: PullFrom| -> Vec<Mirror> {
            inherited(all, name)
                .into_iter()
                .map(|location| Mirror {
                    insecure: within_any(insecure, &location),
                    location,
                    pull_from_mirror: Some(pull_from),
                })
                .collect()
        };
        let mut found = mirrors(&digests, PullFrom::DigestOnly);
        found.extend(mirrors(&tags, PullFrom::TagOnly));
        let registry = Registry {
            prefix: name.to_owned(),
            location: String::new(),
            insecure: within_any(insecure, name),
            blocked: within_any(&blocked, name),
            mirror_by_digest_only: false,
            mirrors: found,
        };
        all.add("the mirrors of the cluster", registry)?;
    }
    Ok(all)
}

/// The mirrors of a name, or those of the longest scope around it, with the rest of the name appended:
/// an entry for a part of a registry inherits the registry's mirrors.
fn inherited(all: &BTreeMap<String, Vec<String>>, name: &str) -> Vec<String> {
    all.iter()
        .filter(|(source, _)| is_within(source, name) && !source.starts_with("*."))
        .max_by_key(|(source, _)| source.len())
        .map(|(source, mirrors)| {
            let rest = name.get(source.len()..).unwrap_or_default();
            mirrors
                .iter()
                .map(|mirror| format!("{mirror}{rest}"))
                .collect()
        })
        .or_else(|| all.get(name).cloned())
        .unwrap_or_default()
}

fn within_any(scopes: &[String], name: &str) -> bool {
    scopes.iter().any(|scope| is_within(scope, name))
}

/// Whether a name is a scope or a part of it.
pub(super) fn is_within(scope: &str, name: &str) -> bool {
    if let Some(suffix) = scope.strip_prefix('*') {
        let host = name
            .trim_start_matches('*')
            .split('/')
            .next()
            .unwrap_or_default();
        return scope == name || (host.ends_with(suffix) && host.len() > suffix.len());
    }
    name.strip_prefix(scope)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The mirrors of each source, merged from all objects in an order consistent with every object if
/// there is one: B,C and A,B become A,B,C. A mirror equal to its source is dropped.
fn merge<'a>(scopes: impl Iterator<Item = &'a Scope>) -> BTreeMap<String, Vec<String>> {
    let mut lists: BTreeMap<String, Vec<Vec<&str>>> = BTreeMap::new();
    for scope in scopes {
        let mirrors: Vec<&str> = scope
            .mirrors
            .iter()
            .map(String::as_str)
            .filter(|mirror| *mirror != scope.source)
            .collect();
        if !mirrors.is_empty() {
            lists.entry(scope.source.clone()).or_default().push(mirrors);
        }
    }
    lists
        .into_iter()
        .map(|(source, mut lists)| {
            // The order of objects in the API has no meaning.
            lists.sort();
            (source, in_order(&lists))
        })
        .collect()
}

fn in_order(lists: &[Vec<&str>]) -> Vec<String> {
    let mut before: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut left: Vec<&str> = Vec::new();
    for list in lists {
        let mut seen: Option<&str> = None;
        for mirror in list {
            if !left.contains(mirror) {
                left.push(mirror);
            }
            let wanted = before.entry(mirror).or_default();
            if let Some(seen) = seen.filter(|seen| seen != mirror) {
                wanted.insert(seen);
            }
            seen = Some(mirror);
        }
    }
    let mut order = Vec::new();
    while !left.is_empty() {
        // In a cycle, take the first one listed.
        let next = left
            .iter()
            .position(|mirror| {
                before
                    .get(mirror)
                    .is_none_or(|wanted| !wanted.iter().any(|other| left.contains(other)))
            })
            .unwrap_or(0);
        order.push(left.remove(next).to_owned());
    }
    order
}
