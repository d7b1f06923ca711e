//! Payloads of a release.
pub mod payload;
pub mod replace;
