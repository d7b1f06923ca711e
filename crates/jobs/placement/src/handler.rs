//! Runtime handlers for Windows containers, by name.
//!
//! A RuntimeClass names a handler, and a handler is a section in the containerd configuration. Its name determines
//! which images it runs: `runhcs-wcow-process` those of the node's build, `runhcs-wcow-hypervisor` also older ones, and
//! `runhcs-wcow-hypervisor-17763` those of that build, in a utility VM.

#[cfg(test)]
mod tests;

use std::fmt;

use platform::Platform;
use platform::windows::{Isolation, Version};

use crate::names::{HYPER_V_HANDLER, PROCESS_HANDLER};

/// A runtime handler for Windows containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Handler {
    /// The isolation of its containers.
    pub isolation: Isolation,
    /// The build of the images that it runs; `None` if the node decides.
    pub build: Option<u16>,
}

impl Handler {
    /// The handler for process isolation.
    pub const PROCESS: Self = Self {
        isolation: Isolation::Process,
        build: None,
    };

    /// The handler that runs images of this build under Hyper-V.
    pub fn hyper_v(build: u16) -> Self {
        Self {
            isolation: Isolation::HyperV,
            build: Some(build),
        }
    }

    /// Parses the name of a handler; `None` if it is not one of these.
    pub fn parse(name: &str) -> Option<Self> {
        if name == PROCESS_HANDLER {
            return Some(Self::PROCESS);
        }
        let rest = name.strip_prefix(HYPER_V_HANDLER)?;
        let build = match rest.strip_prefix('-') {
            None if rest.is_empty() => None,
            // A suffix that is not a number is a custom handler, also for Hyper-V.
            Some(build) => build.parse().ok(),
            None => return None,
        };
        Some(Self {
            isolation: Isolation::HyperV,
            build,
        })
    }

    /// The platform it runs instead of the node's, if it is for one build.
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
