//! Families of models.

use std::fmt;
use std::sync::Arc;

/// The vendor of a CPU, as node labels spell it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vendor(Arc<str>);

impl Vendor {
    /// A vendor by the name in a label. Zhaoxin CPUs report the CPUID vendor of Centaur, the
    /// company they descend from.
    pub fn new(name: &str) -> Self {
        // The built-in table has Zhaoxin, node labels have what the CPU reports: unequal names
        // would make every node foreign to its own models.
        Self(Arc::from(if name == "CentaurHauls" {
            "Zhaoxin"
        } else {
            name
        }))
    }

    /// A vendor of the built-in table.
    pub(super) fn known(name: &'static str) -> Self {
        Self::new(name)
    }

    /// The canonical name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for Vendor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Models that differ only in their variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// The name in libvirt.
    pub name: &'static str,
    /// The vendor; `None` for generic models and those sold by several vendors.
    pub vendor: Option<&'static str>,
    /// The launch year.
    pub year: Option<i32>,
    /// Rank among the models of the vendor.
    pub generation: i32,
    /// The properties of `-v1`, `-v2` and so on, as far as they differ.
    pub versions: &'static [Version],
    /// Launch years of the second and further general availability levels of a mainframe.
    pub levels: &'static [i32],
}

/// The properties of a version of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Whether it has the mitigations against speculative execution attacks.
    pub mitigated: bool,
    /// Whether it has transactional memory (TSX), which microcode updates remove.
    pub tsx: bool,
}

impl Family {
    /// A family whose versions do not differ.
    pub(super) const fn new(
        name: &'static str,
        vendor: &'static str,
        year: i32,
        generation: i32,
    ) -> Self {
        Self {
            name,
            vendor: Some(vendor),
            year: Some(year),
            generation,
            versions: &[],
            levels: &[],
        }
    }

    /// A generic family, which no vendor sells.
    pub(super) const fn generic(name: &'static str) -> Self {
        Self {
            name,
            vendor: None,
            year: None,
            generation: 0,
            versions: &[],
            levels: &[],
        }
    }

    /// A family that several vendors sold.
    pub(super) const fn unbranded(name: &'static str, year: i32, generation: i32) -> Self {
        Self {
            year: Some(year),
            generation,
            ..Self::generic(name)
        }
    }

    /// The same family with these versions.
    pub(super) const fn versions(self, versions: &'static [Version]) -> Self {
        Self { versions, ..self }
    }

    /// The same family with the years of further levels.
    pub(super) const fn levels(self, levels: &'static [i32]) -> Self {
        Self { levels, ..self }
    }
}
