//! What may run: whether an image of a platform is good for what is wanted, and how good.
//!
//! The rules are those of containerd (`platforms.Only`): every node has a list of architectures and
//! variants that it runs, the best first, and the place in that list is what images are compared by.

mod fallback;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::fmt;

use crate::platform::{Meant, Platform};
use crate::windows::{Isolation, Version};
use fallback::Step;

/// Windows images name this feature, and every host has it.
const WIN32K: &str = "win32k";

/// What is wanted, ready to be compared with images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    wanted: Platform,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// One of these, the best first.
    Steps(Vec<Step>, Isolation),
    /// This operating system; this architecture before others.
    AnyArchitecture,
    /// This architecture in any variant.
    AnyVariant,
}

/// How good an image is: smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    step: usize,
    version: Reverse<Option<Version>>,
    features: Reverse<usize>,
}

impl Rank {
    /// How many better architectures and variants there would have been; zero is what was asked for.
    pub fn step(self) -> usize {
        self.step
    }
}

/// Why an image is not good for what is wanted. Later ones came nearer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// It is for another operating system.
    Os,
    /// It is for another architecture.
    Architecture,
    /// It needs another variant of the architecture.
    Variant,
    /// It needs another version of Windows.
    OsVersion,
    /// It needs features that are not there.
    OsFeatures(Vec<String>),
}

impl Unfit {
    /// A word for metrics and reasons.
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
    /// What a node runs, older variants and 32-bit architectures included.
    pub fn node(node: &Platform) -> Self {
        Self::isolated(node, Isolation::Process)
    }

    /// What a node runs if containers of Windows are isolated in this way.
    pub fn isolated(node: &Platform, isolation: Isolation) -> Self {
        let wanted = node.normalised();
        // containerd has no other architectures on Windows.
        let steps = if wanted.os == "windows" {
            vec![Step::of(&wanted)]
        } else {
            fallback::steps(&wanted)
        };
        Self {
            wanted,
            rule: Rule::Steps(steps, isolation),
        }
    }

    /// One platform and nothing like it (`OnlyStrict`): neither older variants nor 32 bits.
    pub fn exact(platform: &Platform) -> Self {
        let wanted = platform.normalised();
        let steps = vec![Step::of(&wanted)];
        Self {
            wanted,
            rule: Rule::Steps(steps, Isolation::Process),
        }
    }

    /// An operating system on whatever architecture (`OnlyOS`), that of the platform first.
    pub fn any_architecture(platform: &Platform) -> Self {
        Self {
            wanted: platform.normalised(),
            rule: Rule::AnyArchitecture,
        }
    }

    /// An architecture, when nothing is known of what will run it, as for the disk of a virtual
    /// machine: its plain form first, then variants, the least demanding first. Other architectures
    /// are never good, since a machine of 64 bits does not boot a disk of 32.
    pub fn architecture(os: &str, architecture: &str) -> Self {
        Self {
            wanted: Platform::new(os, architecture).normalised(),
            rule: Rule::AnyVariant,
        }
    }

    /// What is wanted, normalised.
    pub fn wanted(&self) -> &Platform {
        &self.wanted
    }

    /// Says how good an image is, or why it is not.
    ///
    /// An operating system that the image does not name is taken to be the one that is wanted.
    pub fn judge(&self, image: &Platform) -> Result<Rank, Unfit> {
        self.judge_meant(&image.meant())
    }

    /// The same of an image that is compared with many.
    pub fn judge_meant(&self, image: &Meant) -> Result<Rank, Unfit> {
        let image = image.platform();
        if !image.os.is_empty() && image.os != self.wanted.os {
            return Err(Unfit::Os);
        }
        let (step, isolation) = match &self.rule {
            Rule::Steps(steps, isolation) => (place(steps, image)?, *isolation),
            Rule::AnyArchitecture => {
                let same = Step::of(&self.wanted).is(image);
                (usize::from(!same), Isolation::Process)
            }
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

    /// Says whether an image is good enough.
    pub fn matches(&self, image: &Platform) -> bool {
        self.judge(image).is_ok()
    }

    /// The version of a Windows image, if the host runs it. Elsewhere versions do not count.
    fn version(&self, image: &Platform, isolation: Isolation) -> Result<Option<Version>, Unfit> {
        if self.wanted.os != "windows" {
            return Ok(None);
        }
        let version = Version::parse(&image.os_version);
        let Some(host) = Version::parse(&self.wanted.os_version) else {
            return Ok(version);
        };
        match version {
            None if image.os_version.is_empty() => Ok(None),
            Some(version) if host.runs(version, isolation) => Ok(Some(version)),
            _ => Err(Unfit::OsVersion),
        }
    }

    /// How many features an image asks for, if all of them are there.
    fn features(&self, image: &Platform) -> Result<usize, Unfit> {
        let given = |feature: &&String| {
            self.wanted.os_features.contains(feature)
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

/// Where in the list an image is.
fn place(steps: &[Step], image: &Platform) -> Result<usize, Unfit> {
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
