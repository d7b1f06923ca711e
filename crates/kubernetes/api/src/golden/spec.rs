//! The spec of GoldenImagePolicy.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::status::GoldenImagePolicyStatus;
use crate::mode::ModeSetting;

/// How golden images are imported and retained.
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
    /// The architecture that names without architecture refer to, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// How long images are kept after the last node of their architecture has been removed (`1h`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<String>,
    /// The retention of imports and history.
    #[serde(default)]
    pub retention: Retention,
    /// How registries are polled.
    #[serde(default)]
    pub polling: Polling,
    /// The backoff of failed operations.
    #[serde(default)]
    pub retry: Retry,
    /// How the architectures found in an image are used (`Report`).
    #[serde(default)]
    pub discovery: Discovery,
    /// What happens if a disk boots on another architecture than its image declares (`Refuse`).
    #[serde(default)]
    pub sniffing: Sniffing,
    /// What happens with a new version whose disk contents are unchanged (`Skip`).
    #[serde(default)]
    pub unchanged_content: UnchangedContent,
    /// Whether golden images are managed (`Auto`), also if no other operator does.
    #[serde(default)]
    pub mode: ModeSetting,
    /// Settings of single images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImagePolicy>,
}

/// The retention of imports and history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// How many imports are kept for images that do not set `importsToKeep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imports_to_keep: Option<i32>,
    /// How many earlier versions are recorded in the history of a DataSource (10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<i32>,
}

/// How registries are polled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Polling {
    /// The maximum random delay of a poll after its scheduled time (`5m`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
}

/// The backoff of failed operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// The delay after the first failure (`30s`); it doubles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_delay: Option<String>,
    /// The longest delay (`1h`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<String>,
}

/// How the architectures found in an image are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discovery {
    /// Not at all.
    Off,
    /// A template that declares others gets a condition.
    #[default]
    Report,
    /// In addition, a template that declares none gets them.
    Adopt,
}

/// What happens if a disk boots on another architecture than its image declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sniffing {
    /// The disk is not checked.
    Off,
    /// A warning event is emitted.
    Warn,
    /// No DataSource refers to the import.
    #[default]
    Refuse,
}

/// What happens with a new version whose disk contents are unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnchangedContent {
    /// It is not imported.
    #[default]
    Skip,
    /// It is imported.
    Import,
}

/// Settings of one image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePolicy {
    /// The name of the DataSource without architecture.
    pub name: String,
    /// The namespace (`kubevirt-os-images`).
    #[serde(default = "golden_namespace")]
    pub namespace: String,
    /// The architecture the name without architecture refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_architecture: Option<String>,
    /// Versions the DataSource stays at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<Pin>,
}

fn golden_namespace() -> String {
    crate::ssp::GOLDEN_NAMESPACE.to_owned()
}

/// A pinned version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// The architecture; empty for an image without architecture.
    #[serde(default)]
    pub architecture: String,
    /// The digest of the manifest.
    pub digest: String,
    /// Why it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
