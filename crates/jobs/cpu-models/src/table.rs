//! What is known of CPU models: who makes them, when they were launched, which is better.
//!
//! A name is a family and a variant. The family says vendor, year and generation; the variant says
//! which mitigations are in and whether TSX is. Names that no family fits have no year, and are
//! never chosen.

mod arm64;
mod family;
mod ppc64;
mod s390x;
#[cfg(test)]
mod tests;
mod variant;
mod x86;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use family::{Family, Vendor};
pub use variant::Variant;
pub(crate) use variant::readings;

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The family that its name belongs to.
    pub family: String,
    /// Who makes it; none if it is nobody's, as with `qemu64`, or if it is not known.
    pub vendor: Option<Vendor>,
    /// When it was launched; none for models that were never sold.
    pub year: Option<i32>,
    /// Its place among the models of its vendor: higher is better.
    pub generation: i32,
    /// What the rest of its name says.
    pub variant: Variant,
}

/// The families that are built in, by name.
static FAMILIES: LazyLock<BTreeMap<&'static str, &'static Family>> =
    LazyLock::new(|| listed().map(|family| (family.name, family)).collect());

/// What the tables list, in their order.
fn listed() -> impl Iterator<Item = &'static Family> {
    [
        x86::FAMILIES,
        s390x::FAMILIES,
        arm64::FAMILIES,
        ppc64::FAMILIES,
    ]
    .into_iter()
    .flatten()
}

/// Looks a name up in the built-in table: as it is, then without its variant.
pub fn lookup(name: &str) -> Option<Model> {
    let (family, variant) = resolve(name)?;
    let year = variant.year(family).or(family.year);
    Some(Model {
        family: family.name.to_owned(),
        vendor: family.vendor.map(Vendor::known),
        year,
        generation: family.generation,
        variant,
    })
}

/// All families that are built in, sorted by name.
pub fn families() -> impl Iterator<Item = &'static Family> {
    FAMILIES.values().copied()
}

/// The family that a name belongs to, and its variant.
fn resolve(name: &str) -> Option<(&'static Family, Variant)> {
    readings(name).find_map(|(family, variant)| {
        let family = FAMILIES.get(family)?;
        Some((*family, variant.completed(family)))
    })
}
