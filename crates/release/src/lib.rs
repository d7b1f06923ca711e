//! Payloads of a release.
pub mod adoption;
pub mod build;
pub mod conditions;
pub mod diagnose;
pub mod evaluate;
pub mod evidence;
pub mod failure;
pub mod history;
pub mod lint;
pub mod mirror;
pub mod payload;
pub mod preflight;
pub mod replace;
