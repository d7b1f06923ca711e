//! Payloads of a release.
pub mod evaluate;
pub mod failure;
pub mod payload;
pub mod replace;
