//! Whether an image of a platform runs on a node, and how good the match is.
//!
//! The rules are containerd's (`platforms.Only`): every node has a list of architectures and variants
//! it runs, best first, and images are ranked by their position in that list.

mod fallback;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::fmt;

use crate::platform::{NormalisedPlatform, Platform};
use crate::windows::{Isolation, Version};
use fallback::FallbackPlatform;

/// A feature Windows images may require, and every host has.
const WIN32K: &str = "win32k";

/// A requested platform, prepared for comparison with images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    wanted: Platform,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// One of these, best first.
    Steps(Vec<FallbackPlatform>, Isolation),
    /// This architecture in any variant.
    AnyVariant,
}

/// The rank of a match: smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    step: usize,
    version: Reverse<Option<Version>>,
    features: Reverse<usize>,
}

impl Rank {
    /// How many better architectures and variants are possible; zero is an exact match.
    pub fn step(self) -> usize {
        self.step
    }
}

/// Why an image does not match. Later variants are closer matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// Another operating system.
    Os,
    /// Another architecture.
    Architecture,
    /// Another variant of the architecture.
    Variant,
    /// Another version of Windows.
    OsVersion,
    /// Missing features.
    OsFeatures(Vec<String>),
}

impl Unfit {
    /// The reason for conditions and metrics.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Os => "OSNotFound",
            Self::Architecture => "ArchitectureNotFound",
            Self::Variant => "VariantNotFound",
            Self::OsVersion => "OSVersionNotFound",
            Self::OsFeatures(_) => "OSFeaturesNotFound",
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Os => "another operating system",
            Self::Architecture => "another architecture",
            Self::Variant => "another variant of the architecture",
            Self::OsVersion => "another version of Windows",
            Self::OsFeatures(_) => "features of the operating system that are missing",
        })
    }
}

impl Matcher {
    /// A node, including older variants and 32-bit architectures it runs.
    pub fn node(node: &Platform) -> Self {
        Self::isolated(node, Isolation::Process)
    }

    /// A node with this isolation of Windows containers.
    pub fn isolated(node: &Platform, isolation: Isolation) -> Self {
        let wanted = node.normalised();
        // containerd supports no other architectures on Windows.
        let steps = if wanted.os == "windows" {
            vec![FallbackPlatform::of(&wanted)]
        } else {
            fallback::steps(&wanted)
        };
        Self {
            wanted,
            rule: Rule::Steps(steps, isolation),
        }
    }

    /// One platform exactly (`OnlyStrict`): neither older variants nor 32-bit architectures.
    pub fn exact(platform: &Platform) -> Self {
        let wanted = platform.normalised();
        let steps = vec![FallbackPlatform::of(&wanted)];
        Self {
            wanted,
            rule: Rule::Steps(steps, Isolation::Process),
        }
    }

    /// An architecture without a known node, as for the disk of a VM: the base variant first, then
    /// others, the least demanding first. Other architectures never match, as a 64-bit VM does not boot
    /// a 32-bit disk.
    pub fn architecture(os: &str, architecture: &str) -> Self {
        Self {
            wanted: Platform::new(os, architecture).normalised(),
            rule: Rule::AnyVariant,
        }
    }

    /// The requested platform, normalised.
    pub fn wanted(&self) -> &Platform {
        &self.wanted
    }

    /// The rank of an image, or why it does not match.
    ///
    /// If the image does not state an operating system, the requested one is assumed.
    pub fn judge(&self, image: &Platform) -> Result<Rank, Unfit> {
        self.judge_normalised(&image.meant())
    }

    /// Like [`Self::judge`] for an image that is compared repeatedly.
    pub fn judge_normalised(&self, image: &NormalisedPlatform) -> Result<Rank, Unfit> {
        let image = image.platform();
        // Indexes made by hand often lack `os`. containerd treats that as the wanted system, and an image that a node
        // would pull must not be reported as missing.
        if !image.os.is_empty() && image.os != self.wanted.os {
            return Err(Unfit::Os);
        }
        let (step, isolation) = match &self.rule {
            Rule::Steps(steps, isolation) => (place(steps, image)?, *isolation),
            Rule::AnyVariant if image.architecture == self.wanted.architecture => {
                (fallback::demand(image), Isolation::Process)
            }
            Rule::AnyVariant => return Err(Unfit::Architecture),
        };
        let version = self.version(image, isolation)?;
        let features = self.features(image)?;
        Ok(Rank {
            step,
            version: Reverse(version),
            features: Reverse(features),
        })
    }

    /// Whether an image matches.
    pub fn matches(&self, image: &Platform) -> bool {
        self.judge(image).is_ok()
    }

    /// The version of a Windows image the host can run. For other systems versions are ignored.
    fn version(&self, image: &Platform, isolation: Isolation) -> Result<Option<Version>, Unfit> {
        if self.wanted.os != "windows" {
            return Ok(None);
        }
        let version = Version::parse(&image.os_version);
        let Some(host) = Version::parse(&self.wanted.os_version) else {
            return Ok(version);
        };
        match version {
            // An image without a version, of programs that need nothing of the system, is pulled on any host.
            None if image.os_version.is_empty() => Ok(None),
            Some(version) if host.runs(version, isolation) => Ok(Some(version)),
            _ => Err(Unfit::OsVersion),
        }
    }

    /// The number of features an image requires, if all are present.
    fn features(&self, image: &Platform) -> Result<usize, Unfit> {
        let given = |feature: &&String| {
            self.wanted.os_features.contains(feature)
                // containerd ignores the feature when it matches, as Nano Server lacks it (`stripWin32kFeature` in
                // `platform_windows_compat.go` of containerd/platforms).
                || (self.wanted.os == "windows" && *feature == WIN32K)
        };
        let missing: Vec<String> = image
            .os_features
            .iter()
            .filter(|feature| !given(feature))
            .cloned()
            .collect();
        if missing.is_empty() {
            Ok(image.os_features.len())
        } else {
            Err(Unfit::OsFeatures(missing))
        }
    }
}

/// The position of an image in the list.
fn place(steps: &[FallbackPlatform], image: &Platform) -> Result<usize, Unfit> {
    steps.iter().position(|step| step.is(image)).ok_or_else(|| {
        if steps
            .iter()
            .any(|step| step.architecture == image.architecture)
        {
            Unfit::Variant
        } else {
            Unfit::Architecture
        }
    })
}
