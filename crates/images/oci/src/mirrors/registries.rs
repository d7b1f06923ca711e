//! `registries.conf`, version 2 (containers-registries.conf(5)).

use platform::Reference;
use serde::{Deserialize, Serialize};

use super::{Endpoint, MirrorError, Security, direct};
use crate::error::Cause;

/// Upper bound of a file.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Upper bound of entries; they are searched for every image.
const MAX_REGISTRIES: usize = 10_000;

/// Which images a mirror serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullFrom {
    /// All.
    #[default]
    All,
    /// Images referenced by digest.
    DigestOnly,
    /// Images referenced by tag.
    TagOnly,
}

/// A mirror.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Mirror {
    /// The host and an optional path prefix.
    pub location: String,
    /// Whether plain HTTP or unverified TLS is allowed.
    #[serde(default)]
    pub insecure: bool,
    /// Which images it serves.
    #[serde(default)]
    pub pull_from_mirror: Option<PullFrom>,
}

/// The configuration of all images with a common name prefix.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub struct Registry {
    /// The prefix; the location if empty. A leading `*.` matches subdomains.
    #[serde(default)]
    pub prefix: String,
    /// The replacement of the prefix; none if empty.
    #[serde(default)]
    pub location: String,
    /// Whether plain HTTP or unverified TLS is allowed.
    #[serde(default)]
    pub insecure: bool,
    /// Whether the registry must not be contacted. Its mirrors may be.
    #[serde(default)]
    pub blocked: bool,
    /// Whether the mirrors serve only images referenced by digest.
    #[serde(default)]
    pub mirror_by_digest_only: bool,
    /// The mirrors, in order.
    #[serde(default, rename = "mirror")]
    pub mirrors: Vec<Mirror>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    registry: Vec<Registry>,
    /// Only version 1 has this key.
    registries: Option<toml::Value>,
}

/// All entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registries {
    entries: Vec<Registry>,
}

impl Registries {
    /// Reads `registries.conf` and then its drop-ins, as (name, text). A later entry replaces an
    /// earlier one with the same prefix.
    pub fn read<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, MirrorError> {
        let mut all = Self::default();
        for (name, text) in files {
            if text.len() > MAX_FILE_BYTES {
                return Err(MirrorError::new(
                    name,
                    format!("{} bytes, the maximum is {MAX_FILE_BYTES}", text.len()),
                ));
            }
            let file: File =
                toml::from_str(text).map_err(|error| MirrorError::new(name, error.message()))?;
            if file.registries.is_some() {
                return Err(MirrorError::new(
                    name,
                    "[registries...] is version 1, which is not supported; use [[registry]]",
                ));
            }
            for registry in file.registry {
                all.add(name, registry)?;
            }
        }
        Ok(all)
    }

    /// Adds an entry, replacing one with the same prefix. `what` names the source in errors.
    pub fn add(&mut self, what: &str, mut registry: Registry) -> Result<(), MirrorError> {
        let trim = |text: &str| {
            text.trim_start_matches("https://")
                .trim_start_matches("http://")
                .trim_end_matches('/')
                .to_owned()
        };
        registry.prefix = trim(&registry.prefix);
        registry.location = trim(&registry.location);
        if registry.prefix.is_empty() {
            registry.prefix.clone_from(&registry.location);
        }
        if registry.prefix.is_empty() {
            return Err(MirrorError::new(
                what,
                "a registry has neither prefix nor location",
            ));
        }
        let wild = registry.prefix.starts_with("*.");
        if registry.prefix.trim_start_matches("*.").contains('*')
            || (wild && registry.prefix.contains('/'))
        {
            return Err(MirrorError::new(
                what,
                format!(
                    "prefix {:?}: a star may only be the first label of a host alone",
                    registry.prefix
                ),
            ));
        }
        if !wild && registry.location.is_empty() {
            registry.location.clone_from(&registry.prefix);
        }
        for mirror in &mut registry.mirrors {
            mirror.location = trim(&mirror.location);
            if mirror.location.is_empty() {
                return Err(MirrorError::new(
                    what,
                    format!("a mirror of {:?} has no location", registry.prefix),
                ));
            }
            if registry.mirror_by_digest_only && mirror.pull_from_mirror.is_some() {
                return Err(MirrorError::new(
                    what,
                    format!(
                        "{:?} has mirror-by-digest-only, and its mirror {:?} pull-from-mirror: only one of them can be set",
                        registry.prefix, mirror.location
                    ),
                ));
            }
        }
        let same = |entry: &Registry| entry.prefix == registry.prefix;
        if let Some(at) = self.entries.iter().position(same) {
            self.entries.remove(at);
            self.entries.insert(at, registry);
        } else if self.entries.len() >= MAX_REGISTRIES {
            return Err(MirrorError::new(
                what,
                format!("more than {MAX_REGISTRIES} registries"),
            ));
        } else {
            self.entries.push(registry);
        }
        Ok(())
    }

    /// These entries, except those that the others replace.
    pub(super) fn overridden_by(mut self, others: Self) -> Self {
        let replaced = |entry: &Registry| others.entries.iter().any(|it| it.prefix == entry.prefix);
        self.entries.retain(|entry| !replaced(entry));
        self.entries.extend(others.entries);
        self
    }

    /// The entries, as they were read.
    pub fn entries(&self) -> &[Registry] {
        &self.entries
    }

    /// The entry of a name (`host[:port]/path`): the one with the longest prefix, the first of equals.
    pub(super) fn find(&self, name: &str) -> Option<&Registry> {
        let mut best: Option<&Registry> = None;
        for entry in &self.entries {
            let longer = best.is_none_or(|best| entry.prefix.len() > best.prefix.len());
            if longer && matched(&entry.prefix, name).is_some() {
                best = Some(entry);
            }
        }
        best
    }

    /// The endpoints of a name under an entry.
    pub(super) fn sources(
        &self,
        registry: &Registry,
        name: &str,
        by_digest: bool,
    ) -> Result<Vec<Endpoint>, Cause> {
        let rest = matched(&registry.prefix, name)
            .and_then(|end| name.get(end..))
            .unwrap_or_default();
        let mut found = Vec::new();
        for mirror in &registry.mirrors {
            let wanted = match mirror.pull_from_mirror.unwrap_or_default() {
                _ if registry.mirror_by_digest_only => by_digest,
                PullFrom::All => true,
                PullFrom::DigestOnly => by_digest,
                PullFrom::TagOnly => !by_digest,
            };
            if wanted {
                let mut endpoint =
                    self.endpoint(&format!("{}{rest}", mirror.location), mirror.insecure)?;
                endpoint.is_mirror = true;
                // A registry blocked under its own name is not used as a mirror either.
                let name = format!("{}/{}", endpoint.known_as, endpoint.repository);
                if !self.find(&name).is_some_and(|own| own.blocked) {
                    found.push(endpoint);
                }
            }
        }
        if !registry.blocked {
            let location = if registry.location.is_empty() {
                name.to_owned()
            } else {
                format!("{}{rest}", registry.location)
            };
            found.push(self.endpoint(&location, registry.insecure)?);
        }
        if found.is_empty() {
            return Err(Cause::Blocked(format!("{:?} is blocked", registry.prefix)));
        }
        Ok(found)
    }

    fn endpoint(&self, name: &str, insecure: bool) -> Result<Endpoint, Cause> {
        // Names are validated by parsing them as references: hosts and paths of mirrors become part of
        // URLs. Without a host it would refer to Docker Hub, which is never intended here.
        let has_host = name
            .split_once('/')
            .is_some_and(|(host, _)| host == "localhost" || host.contains(['.', ':']));
        let reference: Reference = name.parse().ok().filter(|_| has_host).ok_or_else(|| {
            Cause::Invalid(format!(
                "the registry configuration leads to {:?}: expected host[:port]/repository",
                crate::error::clean(name, &[])
            ))
        })?;
        let mut endpoint = direct(reference.host().as_str(), reference.repository().as_str());
        if insecure || self.find(name).is_some_and(|own| own.insecure) {
            endpoint.security = Security::Insecure;
        }
        Ok(endpoint)
    }
}

/// Where the matched prefix of a name ends: at a slash or at the end of the name. `example.com` matches
/// neither `example.company` nor, unlike in containers/image, `example.com:5000`, which is another
/// registry.
fn matched(prefix: &str, name: &str) -> Option<usize> {
    let end = match prefix.strip_prefix('*') {
        None => name.starts_with(prefix).then_some(prefix.len())?,
        Some(suffix) => {
            let host = name.split('/').next().unwrap_or_default();
            (host.ends_with(suffix) && host.len() > suffix.len()).then_some(host.len())?
        }
    };
    match name.as_bytes().get(end) {
        None | Some(b'/') => Some(end),
        Some(_) => None,
    }
}
