//! Fuzz targets: untrusted bytes, and the invariants that must hold for them.
//!
//! A target is a function that takes bytes and panics if an invariant is violated. Targets that need private items
//! are in the `fuzz` module of their crate; the others are here. `fuzz_targets` has a program for each, which
//! `cargo xtask fuzz` builds with coverage and runs with libFuzzer, starting from the [`seeds`].
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic reports a finding"
)]

pub mod images;
pub mod registries;
pub mod seeds;

#[cfg(test)]
mod tests;

use seeds::Seeds;

/// A fuzz target and its seeds.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]),
    /// Initial inputs, which reach deep into the code.
    pub seeds: fn() -> Seeds,
}

/// All targets, sorted by name.
pub const TARGETS: [Target; 11] = [
    target("challenge", oci::fuzz::challenge, seeds::challenges),
    target("credentials", registries::credentials, seeds::credentials),
    target("document", images::document, seeds::documents),
    target("layer", disk::fuzz::layer, seeds::layers),
    target("mirrors", registries::mirrors, seeds::mirrors),
    target("qcow2", disk::fuzz::qcow2, seeds::qcow2_images),
    target("reference", images::reference, seeds::references),
    target("snapshot", cri::fuzz::snapshot, seeds::snapshots),
    target("tar", disk::fuzz::tar, seeds::archives),
    target("token", oci::fuzz::token, seeds::tokens),
    target("unpack", disk::fuzz::unpack, seeds::streams),
];

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Seeds) -> Target {
    Target { name, run, seeds }
}
