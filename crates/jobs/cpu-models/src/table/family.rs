//! Families of models.

use std::fmt;
use std::sync::Arc;

/// Who makes a CPU, as the labels of nodes spell it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vendor(Arc<str>);

impl Vendor {
    /// A vendor as a label spells it. Zhaoxin's CPUs still say the name of the company that it came
    /// from.
    pub fn new(name: &str) -> Self {
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

    /// The name.
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

/// Models that differ in their variant only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// What libvirt calls it.
    pub name: &'static str,
    /// Who makes it.
    pub vendor: Option<&'static str>,
    /// When it was launched.
    pub year: Option<i32>,
    /// Its place among the models of its vendor.
    pub generation: i32,
    /// What `-v1`, `-v2` and so on stand for, as far as they differ.
    pub versions: &'static [Version],
    /// When the second, third and further general availability levels of a mainframe came.
    pub levels: &'static [i32],
}

/// What a version of a family has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The mitigations that guests of its time need.
    pub mitigated: bool,
    /// Transactional memory, which microcode updates take away.
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

    /// A family that nobody sells.
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

    /// A family that several sold.
    pub(super) const fn unbranded(name: &'static str, year: i32, generation: i32) -> Self {
        Self {
            year: Some(year),
            generation,
            ..Self::generic(name)
        }
    }

    /// The same with versions.
    pub(super) const fn versions(self, versions: &'static [Version]) -> Self {
        Self { versions, ..self }
    }

    /// The same with the years of further levels.
    pub(super) const fn levels(self, levels: &'static [i32]) -> Self {
        Self { levels, ..self }
    }
}
