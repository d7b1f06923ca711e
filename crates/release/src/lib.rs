//! Payloads of a release.
pub mod conditions;
pub mod evaluate;
pub mod failure;
pub mod history;
pub mod payload;
pub mod replace;
