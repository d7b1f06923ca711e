//! `medley.dev/v1alpha1` GoldenImagePolicy: how golden images are kept, where the built-in ways do
//! not suit.
//!
//! One object counts, the one called `default`. Without it, everything is as
//! `GoldenImagePolicySpec::default()` says.

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
pub use status::{ArchitectureState, GoldenImagePolicyStatus, ImageState, NodeArchitectures};

/// The group of the kind.
pub const GROUP: &str = "medley.dev";
/// The version of the kind.
pub const VERSION: &str = "v1alpha1";
/// What the kind is called in URLs.
pub const PLURAL: &str = "goldenimagepolicies";
/// The one object that counts.
pub const NAME: &str = "default";
/// The registration of what checks the objects that images are made of.
pub const WEBHOOK: &str = "medley-images";

/// Annotations that Medley puts on objects of others.
pub mod names {
    /// On what is for an architecture that no node has any more: since when.
    pub const UNWANTED_SINCE: &str = "medley.dev/unwanted-since";
    /// On a DataImportCron: the digest of the index behind the digest that is desired.
    pub const INDEX_DIGEST: &str = "medley.dev/index-digest";
    /// On a DataImportCron: the architectures that the image really has.
    pub const AVAILABLE_ARCHITECTURES: &str = "medley.dev/available-architectures";
    /// On imports: what the disk holds, whatever it was packed into.
    pub const CONTENT: &str = "medley.dev/content";
    /// On imports: the digest that was imported.
    pub const DIGEST: &str = "medley.dev/digest";
    /// On imports: the architectures that were found on the disk.
    pub const SNIFFED: &str = "medley.dev/sniffed-architectures";
    /// How often something failed in a row.
    pub const FAILURES: &str = "medley.dev/failures";
    /// When what failed is tried again.
    pub const NEXT_RETRY: &str = "medley.dev/next-retry-time";
    /// Why it failed, in a word.
    pub const FAILURE_REASON: &str = "medley.dev/failure-reason";
    /// On a DataSource: what it pointed to, newest first, as JSON.
    pub const HISTORY: &str = "medley.dev/history";
    /// On a pointer: why it points where it points.
    pub const DEFAULT_REASON: &str = "medley.dev/default-architecture-reason";
}
