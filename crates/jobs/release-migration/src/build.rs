//! Builds a release from the manifests of its operators.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::openshift::ImageStream;
use machinery::json::{go_quote, to_vec_pretty};
use semver::Version;
use serde::Serialize;

use crate::payload::{
    Files, METADATA, Manifest, ManifestError, Metadata, REFERENCES, ReferencesError, is_manifest,
    read_references,
};
use crate::replace::{
    ComponentVersions, ImageMap, ImageMapError, VersionError, VersionMap, VersionTableError,
};

/// Prefix of a file name with its own position in the order.
const POSITION_PREFIX: &str = "0000_";
/// Default prefix, followed by the operator name, for files without a position.
const DEFAULT_POSITION: &str = "0000_50_";

/// The manifests of an operator, from `/manifests` of its image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorFolder {
    /// The name of the operator in the release.
    pub name: String,
    /// Its files.
    pub files: Files,
}

/// Build options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The version of the release.
    pub version: String,
    /// Whether it is for several architectures.
    pub multi: bool,
    /// Whether images may be missing: their placeholders are kept then.
    pub allow_missing: bool,
}

/// A built release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BuiltRelease {
    /// Its files.
    #[serde(skip)]
    pub files: Files,
    /// The number of manifests.
    pub manifests: usize,
    /// The names of the images it uses.
    pub images: Vec<String>,
    /// Problems that are no errors.
    pub warnings: Vec<String>,
}

/// Why a release cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Its name is not a semantic version.
    #[error("building release {}: {why}; a release is called by a semantic version, as in 4.18.0", go_quote(.version))]
    Version {
        /// The name.
        version: String,
        /// The parse error.
        why: String,
    },
    /// The image-references of an operator are invalid.
    #[error("operator {} contained an invalid image-references file: {source}", go_quote(.operator))]
    References {
        /// The operator.
        operator: String,
        /// The cause.
        source: ReferencesProblem,
    },
    /// The version annotations of images are invalid.
    #[error(transparent)]
    Table(#[from] VersionTableError),
    /// A version cannot be inserted into a manifest.
    #[error("operator {}: file {file}: {source}", go_quote(.operator))]
    Versions {
        /// The operator.
        operator: String,
        /// The file.
        file: String,
        /// The cause.
        source: VersionError,
    },
    /// A manifest is invalid.
    #[error("operator {}: {source}", go_quote(.operator))]
    Manifest {
        /// The operator.
        operator: String,
        /// The cause.
        source: ManifestError,
    },
}

/// What is wrong with the image-references of an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferencesProblem {
    /// It cannot be parsed.
    #[error(transparent)]
    Read(#[from] ReferencesError),
    /// It does not match the images of the release.
    #[error(transparent)]
    Map(#[from] ImageMapError),
}

/// Builds a release: replaces placeholders and snapshot versions in all manifests of all operators, in ClusterOperators
/// as well as in flags and variables of the Deployments that report them; names files so that they sort in the order of
/// application; and includes the used images.
pub fn build(
    operators: &[OperatorFolder],
    images: &ImageStream,
    options: &Options,
) -> Result<BuiltRelease, BuildError> {
    if let Err(error) = Version::parse(&options.version) {
        return Err(BuildError::Version {
            version: options.version.clone(),
            why: error.to_string(),
        });
    }
    let mut built = BuiltRelease::default();
    let mut used = BTreeSet::new();
    for operator in operators {
        let map = image_map(operator, images, options.allow_missing)?;
        for missing in map.missing() {
            built.warnings.push(format!(
                "operator {}: no input image tag named {}; its placeholder stays",
                go_quote(&operator.name),
                go_quote(missing)
            ));
        }
        let components: BTreeSet<&str> = map.components().collect();
        let versions = ComponentVersions::new(images, |tag| components.contains(tag))?;
        let versions = VersionMap::new(&options.version, versions);
        used.extend(components.iter().map(|&it| it.to_owned()));
        for (file, text) in &operator.files {
            if file == REFERENCES {
                continue;
            }
            if !is_manifest(file) {
                built.warnings.push(format!(
                    "operator {}: {file} is left out: manifests end with .yaml, .yml or .json",
                    go_quote(&operator.name)
                ));
                continue;
            }
            let text =
                versions
                    .replace(&map.replace(text))
                    .map_err(|source| BuildError::Versions {
                        operator: operator.name.clone(),
                        file: file.clone(),
                        source,
                    })?;
            // After the replacement: only then is the result what clusters have to parse.
            Manifest::read(file, &text).map_err(|source| BuildError::Manifest {
                operator: operator.name.clone(),
                source,
            })?;
            let name = free_name(&built.files, &operator.name, file);
            built.files.insert(name, text);
        }
    }
    built.manifests = built.files.len();
    built.images = used.iter().cloned().collect();
    let references = references(images, &options.version, &used);
    built
        .files
        .insert(REFERENCES.to_owned(), pretty(&references));
    let metadata = Metadata::new(&options.version, options.multi);
    built.files.insert(METADATA.to_owned(), pretty(&metadata));
    Ok(built)
}

fn image_map(
    operator: &OperatorFolder,
    images: &ImageStream,
    allow_missing: bool,
) -> Result<ImageMap, BuildError> {
    let Some(text) = operator.files.get(REFERENCES) else {
        return Ok(ImageMap::default());
    };
    let read = read_references(text).map_err(ReferencesProblem::from);
    let map = read.and_then(|local| Ok(ImageMap::new(&local, images, allow_missing)?));
    map.map_err(|source| BuildError::References {
        operator: operator.name.clone(),
        source,
    })
}

/// The file name in the release: unchanged if it has a position, and with a number before its extension if the name is
/// taken.
fn free_name(taken: &Files, operator: &str, file: &str) -> String {
    let name = if file.starts_with(POSITION_PREFIX) {
        file.to_owned()
    } else {
        format!("{DEFAULT_POSITION}{operator}_{file}")
    };
    if !taken.contains_key(&name) {
        return name;
    }
    let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, ""));
    let numbered = (2..).map(|number: u64| format!("{stem}_{number}.{ending}"));
    let mut free = numbered.skip_while(|name| taken.contains_key(name));
    // There are more numbers than files.
    free.next().unwrap_or_default()
}

/// The used images of a release, by name.
fn references(images: &ImageStream, version: &str, used: &BTreeSet<String>) -> ImageStream {
    let mut stream = images.clone();
    ImageStream::API_VERSION.clone_into(&mut stream.api_version);
    ImageStream::KIND.clone_into(&mut stream.kind);
    stream.metadata.name = Some(version.to_owned());
    stream.spec.tags.retain(|tag| used.contains(&tag.name));
    stream
        .spec
        .tags
        .sort_by(|one, other| one.name.cmp(&other.name));
    // The status of an image stream describes another registry.
    stream.rest.remove("status");
    stream
}

/// Pretty-printed JSON.
pub(crate) fn pretty<T: Serialize>(value: &T) -> String {
    let mut text = String::from_utf8(to_vec_pretty(value)).unwrap_or_default();
    text.push('\n');
    text
}
