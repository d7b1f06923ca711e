//! Replaces snapshot versions by those of a release.

use std::collections::{BTreeMap, BTreeSet};

use api::openshift::{ImageStream, annotations};
use machinery::json::go_quote;
use semver::Version;

use super::{Match, SNAPSHOT, at_word_start, is_word, with};

/// Why versions cannot be inserted into a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// A dash without a component.
    #[error("empty version references are not allowed")]
    Empty,
    /// The component is unknown.
    #[error("unknown version reference {}", go_quote(.0))]
    Unknown(String),
    /// The components are unknown.
    #[error("unknown version references: {}", .0.join(", "))]
    UnknownAll(Vec<String>),
    /// Images declare different versions of a component.
    #[error("the version for {} is inconsistent across the referenced images: {}", go_quote(.component), .tags.join(", "))]
    Inconsistent {
        /// The component.
        component: String,
        /// The images that declare one, by name.
        tags: Vec<String>,
    },
}

/// Why a version annotation is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "reading the versions {} of {of}: {} is not NAME=VERSION, with a name of lower-case letters, digits and inner dashes and a semantic version",
    go_quote(.annotation), go_quote(.pair)
)]
pub struct VersionTableError {
    /// The owner of the annotation.
    of: String,
    /// Its value.
    annotation: String,
    /// The invalid entry.
    pair: String,
}

/// Versions of components, and the images that declare them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentVersions(BTreeMap<String, Component>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Component {
    versions: BTreeSet<String>,
    tags: BTreeSet<String>,
}

impl ComponentVersions {
    /// From the annotations of images (`io.openshift.build.versions`), and of the image stream where they have none.
    pub fn new(
        images: &ImageStream,
        used: impl Fn(&str) -> bool,
    ) -> Result<Self, VersionTableError> {
        let mut all: BTreeMap<String, Component> = BTreeMap::new();
        // Only images that the operator uses: another image may have another version of the component.
        for tag in images.spec.tags.iter().filter(|tag| used(&tag.name)) {
            let Some(annotation) = tag.annotations.get(annotations::BUILD_VERSIONS) else {
                continue;
            };
            for (name, version) in pairs(annotation, &format!("image {}", go_quote(&tag.name)))? {
                // Many images contain kubectl; only the version in the CLI images counts.
                if name == "kubectl" && !matches!(tag.name.as_str(), "cli" | "cli-artifacts") {
                    continue;
                }
                let component = all.entry(name).or_default();
                component.versions.insert(version);
                component.tags.insert(tag.name.clone());
            }
        }
        let annotation = images.metadata.annotations.as_ref();
        if let Some(annotation) = annotation.and_then(|it| it.get(annotations::BUILD_VERSIONS)) {
            for (name, version) in pairs(annotation, "the image stream")? {
                let usual = || Component {
                    versions: BTreeSet::from([version]),
                    tags: BTreeSet::new(),
                };
                // The annotations of images win: those of the stream are for components without one.
                all.entry(name).or_insert_with(usual);
            }
        }
        Ok(Self(all))
    }

    /// Versions by component, without conflicts.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs.into_iter().map(|(name, version)| {
            let component = Component {
                versions: BTreeSet::from([version.to_owned()]),
                tags: BTreeSet::new(),
            };
            (name.to_owned(), component)
        });
        Self(pairs.collect())
    }
}

/// The entries of an annotation, with versions stripped of build metadata.
fn pairs(annotation: &str, of: &str) -> Result<Vec<(String, String)>, VersionTableError> {
    let annotation = annotation.trim();
    if annotation.is_empty() {
        return Ok(Vec::new());
    }
    let pairs = annotation.split(',').map(|pair| {
        let pair = pair.trim();
        let wrong = || VersionTableError {
            of: of.to_owned(),
            annotation: annotation.to_owned(),
            pair: pair.to_owned(),
        };
        let (name, version) = pair.split_once('=').ok_or_else(wrong)?;
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.len() < 2
            || !name.chars().all(is_inner)
            || name.starts_with('-')
            || name.ends_with('-')
        {
            return Err(wrong());
        }
        let version = without_build(version).ok_or_else(wrong)?;
        Ok((name.to_owned(), version))
    });
    pairs.collect()
}

/// A semantic version without build metadata.
fn without_build(version: &str) -> Option<String> {
    let mut version = Version::parse(version).ok()?;
    version.build = semver::BuildMetadata::EMPTY;
    Some(version.to_string())
}

/// Snapshot versions with their replacements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionMap {
    release: Option<String>,
    components: ComponentVersions,
}

impl VersionMap {
    /// For a release. If its name is not a semantic version, `0.0.1-snapshot` is kept.
    pub fn new(release: &str, components: ComponentVersions) -> Self {
        Self {
            release: without_build(release),
            components,
        }
    }

    /// Replaces snapshot versions: `0.0.1-snapshot` between word boundaries by the version of the release, and
    /// `0.0.1-snapshot-component` by that of a component.
    pub fn replace(&self, text: &str) -> Result<String, VersionError> {
        let mut places = Vec::new();
        let mut values = Vec::new();
        let mut missing = Vec::new();
        let mut conflict = None;
        for (start, _) in text.match_indices(SNAPSHOT) {
            let after = start + SNAPSHOT.len();
            let rest = text.get(after..).unwrap_or_default();
            if !at_word_start(text, start) || rest.bytes().next().is_some_and(is_word) {
                continue;
            }
            let Some(behind) = rest.strip_prefix('-') else {
                if let Some(release) = &self.release {
                    places.push((start, after));
                    values.push(release.clone());
                }
                continue;
            };
            let is_key =
                |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
            let length = behind.bytes().take_while(is_key).count();
            let key = behind.get(..length).unwrap_or_default();
            match self.components.0.get(key) {
                None => missing.push(key.to_owned()),
                Some(component) if component.versions.len() > 1 => {
                    conflict.get_or_insert_with(|| VersionError::Inconsistent {
                        component: key.to_owned(),
                        tags: component.tags.iter().cloned().collect(),
                    });
                }
                Some(component) => {
                    places.push((start, after + 1 + length));
                    values.extend(component.versions.first().cloned());
                }
            }
        }
        // All unknown keys of a file at once, as in `oc` (pkg/cli/admin/release/image_mapper.go), before conflicts: a
        // typo is the likelier cause.
        match missing.as_slice() {
            [] => {}
            [key] if key.is_empty() => return Err(VersionError::Empty),
            [key] => return Err(VersionError::Unknown(key.clone())),
            _ => return Err(VersionError::UnknownAll(missing)),
        }
        if let Some(conflict) = conflict {
            return Err(conflict);
        }
        let places: Vec<Match> = places
            .into_iter()
            .enumerate()
            .map(|(which, (start, end))| Match { start, end, which })
            .collect();
        Ok(with(text, &places, |which| {
            values.get(which).cloned().unwrap_or_default()
        }))
    }
}
