//! Addresses of files that differ by architecture.
//!
//! An index in a registry has an image for every architecture behind one name. Web servers have one file
//! for each, and most name it after the architecture, in the words of Go or in those of the kernel.

use crate::list::machine;

/// Stands for the architecture in an address, as Kubernetes calls it: `amd64`.
const ARCHITECTURE: &str = "{architecture}";
/// The same, as `uname -m` calls it: `x86_64`.
const MACHINE: &str = "{machine}";

/// The address of the file for an architecture.
pub(super) fn of_architecture(url: &str, architecture: &str) -> String {
    url.replace(ARCHITECTURE, architecture)
        .replace(MACHINE, machine(architecture))
}
