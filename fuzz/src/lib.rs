//! Fuzz targets: bytes of anybody, and what always holds.
//!
//! A target is a function that takes bytes and panics if something is wrong. Those that need what a crate keeps
//! to itself are in its module `fuzz`; the others are here. `fuzz_targets` has a program for each, which
//! `cargo xtask fuzz` builds with coverage and hands to libFuzzer, together with the [`seeds`].
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how something is found"
)]

pub mod images;
pub mod registries;
pub mod seeds;

#[cfg(test)]
mod tests;

use seeds::Seeds;

/// A function that is fuzzed, and what it starts from.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// As it is called on the command line.
    pub name: &'static str,
    /// What is done with an input.
    pub run: fn(&[u8]),
    /// Inputs that get far.
    pub seeds: fn() -> Seeds,
}

/// All of them, by name.
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
