//! What an administrator asks for.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::status::GoldenImagePolicyStatus;

/// How golden images are kept.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "medley.dev",
    version = "v1alpha1",
    kind = "GoldenImagePolicy",
    plural = "goldenimagepolicies",
    status = "GoldenImagePolicyStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct GoldenImagePolicySpec {
    /// The architecture that names without one stand for, where there is a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// How long images stay after the last node of their architecture went (`1h`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<String>,
    /// What is kept.
    #[serde(default)]
    pub retention: Retention,
    /// How registries are asked.
    #[serde(default)]
    pub polling: Polling,
    /// When what failed is tried again.
    #[serde(default)]
    pub retry: Retry,
    /// What is done with the architectures that an image really has (`Report`).
    #[serde(default)]
    pub discovery: Discovery,
    /// What is done if a disk is for another architecture than its image says (`Refuse`).
    #[serde(default)]
    pub sniffing: Sniffing,
    /// What is done with a new image whose disk is the old one (`Skip`).
    #[serde(default)]
    pub unchanged_content: UnchangedContent,
    /// What is different for single images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImagePolicy>,
}

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// How many imports are kept, for images that do not say it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imports_to_keep: Option<i32>,
    /// How many earlier versions a DataSource remembers (10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<i32>,
}

/// How registries are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Polling {
    /// By how much polls are spread after the minute that is scheduled (`5m`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
}

/// When what failed is tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// After the first failure (`30s`); it doubles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_delay: Option<String>,
    /// At the latest (`1h`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<String>,
}

/// What is done with the architectures that an image really has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discovery {
    /// Nothing.
    Off,
    /// A template that says something else gets a condition.
    #[default]
    Report,
    /// And a template that says nothing gets them.
    Adopt,
}

/// What is done if a disk is for another architecture than its image says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sniffing {
    /// Nobody looks.
    Off,
    /// It is told.
    Warn,
    /// Nothing points to it.
    #[default]
    Refuse,
}

/// What is done with a new image whose disk is the old one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnchangedContent {
    /// It is not imported.
    #[default]
    Skip,
    /// It is imported.
    Import,
}

/// What is different for an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePolicy {
    /// The DataSource, without architecture.
    pub name: String,
    /// Where it is (`kubevirt-os-images`).
    #[serde(default = "golden_namespace")]
    pub namespace: String,
    /// The architecture that the name stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// Versions that are held on to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<Pin>,
}

fn golden_namespace() -> String {
    crate::ssp::GOLDEN_NAMESPACE.to_owned()
}

/// A version that is held on to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// For this architecture; for an image that has none, if empty.
    #[serde(default)]
    pub architecture: String,
    /// The version.
    pub digest: String,
    /// Why, for those who find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
