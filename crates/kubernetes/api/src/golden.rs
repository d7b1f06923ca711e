//! `medley.dev/v1alpha1` GoldenImagePolicy: how golden images are imported and retained.
//!
//! Only the object named `default` is used. Without it, `GoldenImagePolicySpec::default()` applies.

mod definition;
mod spec;
mod status;

#[cfg(test)]
mod tests;

pub use definition::definition;
pub use spec::{
    Discovery, GoldenImagePolicy, GoldenImagePolicySpec, ImagePolicy, Pin, Polling, Retention,
    Retry, Sniffing, UnchangedContent,
};
pub use status::{
    ArchitectureState, GoldenImagePolicyStatus, ImageState, NodeArchitectures, Verification,
};

/// The API group.
pub const GROUP: &str = "medley.dev";
/// The API version.
pub const VERSION: &str = "v1alpha1";
/// The plural resource name, as in URLs and RBAC rules.
pub const PLURAL: &str = "goldenimagepolicies";
/// The name of the only object that is used.
pub const NAME: &str = "default";
/// The webhook configuration that validates the objects golden images are made of.
pub const WEBHOOK: &str = "medley-images";

/// Annotations that Medley sets on objects of other projects.
pub mod names {
    /// On objects of an architecture without nodes: since when.
    pub const UNWANTED_SINCE: &str = "medley.dev/unwanted-since";
    /// On a DataImportCron: the digest of the index that contains the desired digest.
    pub const INDEX_DIGEST: &str = "medley.dev/index-digest";
    /// On a DataImportCron: the architectures found in the image.
    pub const AVAILABLE_ARCHITECTURES: &str = "medley.dev/available-architectures";
    /// On imports: the content hash of the disk, independent of its format.
    pub const CONTENT: &str = "medley.dev/content";
    /// On imports: the imported digest.
    pub const DIGEST: &str = "medley.dev/digest";
    /// On imports: the architectures found on the disk.
    pub const SNIFFED: &str = "medley.dev/sniffed-architectures";
    /// The number of consecutive failures.
    pub const FAILURES: &str = "medley.dev/failures";
    /// When the failed operation is retried.
    pub const NEXT_RETRY: &str = "medley.dev/next-retry-time";
    /// The reason of the failure.
    pub const FAILURE_REASON: &str = "medley.dev/failure-reason";
    /// On a DataImportCron: the message of the failure, without the time of the next try.
    pub const FAILURE_MESSAGE: &str = "medley.dev/failure-message";
    /// On a DataSource: its previous sources, newest first, as JSON.
    pub const HISTORY: &str = "medley.dev/history";
    /// On a DataImportCron that CDI imports, and on its template: the digest that a user pinned it to.
    pub const PINNED: &str = "medley.dev/pinned-digest";
    /// On the same: what the pin changed, as JSON.
    pub const BEFORE_PIN: &str = "medley.dev/before-pin";
    /// On a DataSource: the SSP that Medley created or adopted it for, as `namespace/name`.
    pub const SSP: &str = "medley.dev/ssp";
    /// On a pointer DataSource: why it refers to this architecture.
    pub const DEFAULT_REASON: &str = "medley.dev/default-architecture-reason";
}
