//! Versions of Windows, and which containers run on which hosts.
//!
//! Containers share the kernel of their host unless Hyper-V isolates them, and until Windows Server 2022
//! every kernel had its own interface. Since then a host runs everything from the long-term release
//! before it up to itself.

#[cfg(test)]
mod tests;

use std::fmt;

/// Windows Server 2022: from here on interfaces are kept.
const LTSC_2022: u16 = 20348;

/// Long-term releases whose interfaces later hosts keep, the oldest first.
const KEPT: [u16; 2] = [LTSC_2022, 26100];

/// Releases that have a name of their own, the oldest first. Later builds of a year go by a number.
const PRODUCTS: [(u16, &str); 4] = [
    (14393, "Windows Server 2016"),
    (17763, "Windows Server 2019"),
    (LTSC_2022, "Windows Server 2022"),
    (26100, "Windows Server 2025"),
];

/// A version of Windows: `10.0.20348.2113`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version {
    /// 10, for a decade.
    pub major: u8,
    /// 0, for a decade.
    pub minor: u8,
    /// What counts: 20348 is Windows Server 2022.
    pub build: u16,
    /// Which updates are in it. No rule asks for it, but of two images the newer is the better.
    pub revision: u32,
}

/// How containers are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Isolation {
    /// They share the kernel of the host.
    #[default]
    Process,
    /// Each has a virtual machine with its own kernel.
    HyperV,
}

impl Version {
    /// Reads a version: two dots at least, and numbers between them. What follows the build is only
    /// taken if it is a number.
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

    /// Builds of long-term releases that there are images of, the oldest first.
    pub const LONG_TERM: [u16; 3] = [17763, LTSC_2022, 26100];

    /// The version of `10.0` with this build.
    pub fn of_build(build: u16) -> Self {
        Self {
            major: 10,
            build,
            ..Self::default()
        }
    }

    /// The version of what an edition is called (`Windows Server 2022 Datacenter`), if its name tells.
    pub fn of_product(name: &str) -> Option<Self> {
        let product = PRODUCTS.iter().find(|(_, product)| name.contains(product));
        product.map(|(build, _)| Self::of_build(*build))
    }

    /// What it is called, if it has a name.
    pub fn product(self) -> Option<&'static str> {
        let product = PRODUCTS.iter().find(|(build, _)| *build == self.build);
        product.map(|(_, name)| *name)
    }

    /// Without the updates, as kubelets label their nodes: `10.0.20348`.
    #[must_use]
    pub fn release(self) -> Self {
        Self {
            revision: 0,
            ..self
        }
    }

    /// Says whether a host of this version runs containers of another.
    pub fn runs(self, container: Self, isolation: Isolation) -> bool {
        if (self.major, self.minor) != (container.major, container.minor) {
            return false;
        }
        match isolation {
            // Newer ones than the host were never supported.
            Isolation::HyperV => container.build <= self.build,
            Isolation::Process if self.build < LTSC_2022 => container.build == self.build,
            Isolation::Process => (self.oldest()..=self.build).contains(&container.build),
        }
    }

    /// The oldest build that runs here without Hyper-V: the last long-term release before this host.
    fn oldest(self) -> u16 {
        KEPT.into_iter()
            .rfind(|release| *release < self.build)
            .unwrap_or(LTSC_2022)
    }
}

/// Digits alone: `parse` would take a sign as well.
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
