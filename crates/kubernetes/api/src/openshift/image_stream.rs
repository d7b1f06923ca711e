//! `ImageStream` of `image.openshift.io/v1`, as files: the images of a release, by name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::Rest;

/// Images by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageStream {
    /// `image.openshift.io/v1`.
    #[serde(default)]
    pub api_version: String,
    /// `ImageStream`.
    #[serde(default)]
    pub kind: String,
    /// Its name is the version of the release.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The images.
    #[serde(default)]
    pub spec: ImageStreamSpec,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The images of a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageStreamSpec {
    /// One for every name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<TagReference>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A named image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TagReference {
    /// Its name in the release.
    #[serde(default)]
    pub name: String,
    /// Its annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TagSource>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The source of an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TagSource {
    /// `DockerImage`, if `name` is a pull specification.
    #[serde(default)]
    pub kind: String,
    /// The pull specification.
    #[serde(default)]
    pub name: String,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl ImageStream {
    /// The API version in files.
    pub const API_VERSION: &'static str = "image.openshift.io/v1";
    /// The kind in files.
    pub const KIND: &'static str = "ImageStream";

    /// Pull specifications by name, in order. Tags that do not refer to an image are skipped.
    pub fn images(&self) -> impl Iterator<Item = (&str, &str)> {
        self.spec
            .tags
            .iter()
            .filter_map(|tag| Some((tag.name.as_str(), tag.image()?)))
    }

    /// The pull specification under a name.
    pub fn image(&self, name: &str) -> Option<&str> {
        self.images()
            .find(|(tag, _)| *tag == name)
            .map(|(_, image)| image)
    }
}

impl TagReference {
    /// The pull specification, if it refers to one.
    pub fn image(&self) -> Option<&str> {
        let from = self.from.as_ref()?;
        (from.kind == "DockerImage").then_some(from.name.as_str())
    }
}
