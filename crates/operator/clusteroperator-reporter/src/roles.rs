//! RBAC rules for reporting.

pub use api::openshift::reporter_rules as rules;
