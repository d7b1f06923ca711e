//! URLs of files that differ by architecture.
//!
//! An index in a registry has an image for every architecture behind one reference. Web servers
//! have a file for each, usually named after the architecture as GOARCH or as `uname -m` spells it.

use crate::list::machine;

/// Placeholder for the architecture as GOARCH spells it: `amd64`.
const ARCHITECTURE: &str = "{architecture}";
/// Placeholder for the architecture as `uname -m` spells it: `x86_64`.
const MACHINE: &str = "{machine}";

/// The URL of the file for an architecture.
pub(super) fn of_architecture(url: &str, architecture: &str) -> String {
    url.replace(ARCHITECTURE, architecture)
        .replace(MACHINE, machine(architecture))
}
