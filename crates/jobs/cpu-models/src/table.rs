//! Known CPU models: vendor, launch year and rank.
//!
//! A name consists of a family and a variant. The family determines vendor, year and generation;
//! the variant determines mitigations and TSX. Names that match no family have no year, and are
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

/// The properties of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The family that its name belongs to.
    pub family: String,
    /// Its vendor; `None` if it is generic, as `qemu64`, or unknown.
    pub vendor: Option<Vendor>,
    /// Its launch year; `None` for models that were never sold.
    pub year: Option<i32>,
    /// Its rank among the models of its vendor: higher is better.
    pub generation: i32,
    /// What the suffixes of its name add.
    pub variant: Variant,
}

/// The built-in families, by name.
static FAMILIES: LazyLock<BTreeMap<&'static str, &'static Family>> =
    LazyLock::new(|| listed().map(|family| (family.name, family)).collect());

/// The families of all tables, in their order.
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

/// Looks a name up in the built-in table: the whole name first, then without its suffixes.
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

/// All built-in families, sorted by name.
pub fn families() -> impl Iterator<Item = &'static Family> {
    FAMILIES.values().copied()
}

/// The family of a name, and its variant.
fn resolve(name: &str) -> Option<(&'static Family, Variant)> {
    readings(name).find_map(|(family, variant)| {
        let family = FAMILIES.get(family)?;
        Some((*family, variant.completed(family)))
    })
}
