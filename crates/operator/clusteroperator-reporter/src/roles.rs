//! The rights that reporting takes.

pub use api::openshift::reporter_rules as rules;
