//! Handlers of a container runtime that run Windows, by name.
//!
//! A RuntimeClass names a handler, and a handler is a section in the configuration of containerd. What it
//! runs is in its name: `runhcs-wcow-process` what the node is, `runhcs-wcow-hypervisor` that and
//! everything older, and `runhcs-wcow-hypervisor-17763` images of that build, in a virtual machine.

#[cfg(test)]
mod tests;

use std::fmt;

use platform::Platform;
use platform::windows::{Isolation, Version};

use crate::names::{HYPER_V_HANDLER, PROCESS_HANDLER};

/// A handler that runs Windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Handler {
    /// How containers are kept apart.
    pub isolation: Isolation,
    /// The build of the images that it runs, if it is for one; otherwise the node decides.
    pub build: Option<u16>,
}

impl Handler {
    /// The one that shares the kernel of the node.
    pub const PROCESS: Self = Self {
        isolation: Isolation::Process,
        build: None,
    };

    /// The one that runs images of a build under Hyper-V.
    pub fn hyper_v(build: u16) -> Self {
        Self {
            isolation: Isolation::HyperV,
            build: Some(build),
        }
    }

    /// Reads the name of a handler; none if it is not one of these.
    pub fn parse(name: &str) -> Option<Self> {
        if name == PROCESS_HANDLER {
            return Some(Self::PROCESS);
        }
        let rest = name.strip_prefix(HYPER_V_HANDLER)?;
        let build = match rest.strip_prefix('-') {
            None if rest.is_empty() => None,
            // What is not a number is somebody's own, of Hyper-V all the same.
            Some(build) => build.parse().ok(),
            None => return None,
        };
        Some(Self {
            isolation: Isolation::HyperV,
            build,
        })
    }

    /// What it runs instead of what the node is, if it is for one build.
    pub fn platform(self, architecture: &str) -> Option<Platform> {
        let version = Version::of_build(self.build?);
        Some(Platform::new("windows", architecture).with_os_version(version.to_string()))
    }
}

impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.isolation {
            Isolation::Process => PROCESS_HANDLER,
            Isolation::HyperV => HYPER_V_HANDLER,
        })?;
        match self.build {
            Some(build) => write!(f, "-{build}"),
            None => Ok(()),
        }
    }
}
