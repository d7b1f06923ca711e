//! The changes that a profile requests, before the dry run.

use api::advisor::{Impact, Input, TargetRef};
use serde_json::Value;

/// One change that a profile requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// Its name; unique in the profile.
    pub name: &'static str,
    /// The target object.
    pub target: TargetRef,
    /// The object to apply: identity and desired fields only.
    pub desired: Value,
    /// The managed fields as dotted paths. Only these are compared and locked.
    pub managed: Vec<String>,
    /// The impact of the change.
    pub impact: Impact,
    /// Description of the change.
    pub message: String,
    /// Items that have to be in force first.
    pub depends_on: Vec<&'static str>,
}

/// All changes that a profile requests, with their inputs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Intents {
    /// In the order of execution.
    pub items: Vec<Intent>,
    /// The inputs they were derived from.
    pub inputs: Vec<Input>,
    /// What may fail although everything is applied.
    pub warnings: Vec<String>,
}
