//! What a profile wants, before anybody has asked the server.

use api::advisor::{Impact, Input, TargetRef};
use serde_json::Value;

/// One change that a profile wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// What it is called; unique in the profile.
    pub name: &'static str,
    /// What it changes.
    pub target: TargetRef,
    /// The object to apply: identity and the fields that are wanted, nothing else.
    pub desired: Value,
    /// The fields that it manages, as dotted paths. [`crate`] compares and locks these.
    pub managed: Vec<String>,
    /// What it may cost.
    pub impact: Impact,
    /// What it does, in words.
    pub message: String,
    /// Items that have to be in force before it.
    pub depends_on: Vec<&'static str>,
}

/// Everything that a profile wants, with what it was derived from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Intents {
    /// In the order in which they are to be carried out.
    pub items: Vec<Intent>,
    /// What they were derived from.
    pub inputs: Vec<Input>,
    /// What may go wrong although everything is applied.
    pub warnings: Vec<String>,
}
