//! Payloads of a release.
pub mod replace;
