//! Windows versions, and which containers run on which hosts.
//!
//! Containers share the kernel of their host unless Hyper-V isolates them, and before Windows Server
//! 2022 every kernel had its own ABI. Since then a host runs everything from the previous long-term
//! release up to itself.

#[cfg(test)]
mod tests;

use std::fmt;

/// Windows Server 2022: from here on the ABI is stable.
// The rule is containerd's (`checkWindowsHostAndContainerCompat` in `platform_windows_compat.go` of
// containerd/platforms). KEP-1301 still has the older one, exact builds.
const LTSC_2022: u16 = 20348;

/// Long-term releases whose ABI later hosts keep, oldest first.
const STABLE_ABI_BUILDS: [u16; 2] = [LTSC_2022, 26100];

/// Releases with a product name, oldest first. Later builds of a year have a number.
const PRODUCTS: [(u16, &str); 4] = [
    (14393, "Windows Server 2016"),
    (17763, "Windows Server 2019"),
    (LTSC_2022, "Windows Server 2022"),
    (26100, "Windows Server 2025"),
];

/// A version of Windows: `10.0.20348.2113`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version {
    /// 10 in all supported releases.
    pub major: u8,
    /// 0 in all supported releases.
    pub minor: u8,
    /// The build: 20348 is Windows Server 2022.
    pub build: u16,
    /// The update level. No rule depends on it, but of two images the newer is preferred.
    pub revision: u32,
}

/// The isolation of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Isolation {
    /// They share the kernel of the host.
    #[default]
    Process,
    /// Each has a VM with its own kernel.
    HyperV,
}

impl Version {
    /// Parses a version: at least three numbers separated by dots. What follows the build is used only
    /// if it is a number.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let major = number(parts.next()?)?;
        let minor = number(parts.next()?)?;
        let build = number(parts.next()?)?;
        Some(Self {
            major: u8::try_from(major).ok()?,
            minor: u8::try_from(minor).ok()?,
            build: u16::try_from(build).ok()?,
            revision: parts.next().and_then(number).unwrap_or_default(),
        })
    }

    /// Builds of long-term releases with images, oldest first.
    pub const LONG_TERM: [u16; 3] = [17763, LTSC_2022, 26100];

    /// The version of `10.0` with this build.
    pub fn of_build(build: u16) -> Self {
        Self {
            major: 10,
            build,
            ..Self::default()
        }
    }

    /// The version of a product name (`Windows Server 2022 Datacenter`), if it is known.
    pub fn of_product(name: &str) -> Option<Self> {
        let product = PRODUCTS.iter().find(|(_, product)| name.contains(product));
        product.map(|(build, _)| Self::of_build(*build))
    }

    /// The product name, if it has one.
    pub fn product(self) -> Option<&'static str> {
        let product = PRODUCTS.iter().find(|(build, _)| *build == self.build);
        product.map(|(_, name)| *name)
    }

    /// Without the update level, as in node labels: `10.0.20348`.
    #[must_use]
    pub fn release(self) -> Self {
        Self {
            revision: 0,
            ..self
        }
    }

    /// Whether a host of this version runs containers of another.
    pub fn runs(self, container: Self, isolation: Isolation) -> bool {
        if (self.major, self.minor) != (container.major, container.minor) {
            return false;
        }
        match isolation {
            // Containers newer than the host were never supported.
            Isolation::HyperV => container.build <= self.build,
            Isolation::Process if self.build < LTSC_2022 => container.build == self.build,
            Isolation::Process => (self.oldest()..=self.build).contains(&container.build),
        }
    }

    /// The oldest build that runs here without Hyper-V: the last long-term release before this host.
    fn oldest(self) -> u16 {
        STABLE_ABI_BUILDS
            .into_iter()
            .rfind(|release| *release < self.build)
            .unwrap_or(LTSC_2022)
    }
}

/// Digits only: `parse` would accept a sign.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            major,
            minor,
            build,
            revision,
        } = self;
        write!(f, "{major}.{minor}.{build}")?;
        if *revision != 0 {
            write!(f, ".{revision}")?;
        }
        Ok(())
    }
}
