//! The suffixes of a model name: `-noTSX-IBRS`, `-v4`, `-base`, `.2`.

use super::family::{Family, Version};

/// What the suffixes of a name add to its family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Variant {
    /// The version: of `-vN`, or the one that a suffix is an alias of.
    pub version: u32,
    /// Whether it has the mitigations against speculative execution attacks.
    pub mitigated: bool,
    /// Whether it has transactional memory.
    pub tsx: bool,
    /// Whether it is the base model of a mainframe, with the features that every machine of the
    /// generation has.
    pub base: bool,
    /// The general availability level of a mainframe, 1 if the name has none.
    pub level: u32,
    suffixes: NameSuffixes,
}

/// The suffixes of the name, before the family's versions are applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct NameSuffixes {
    version: Option<u32>,
    mitigated: bool,
    no_tsx: bool,
}

impl Variant {
    /// Applies the versions of the family.
    pub(super) fn completed(mut self, family: &Family) -> Self {
        let known = family.versions;
        let wanted = Version {
            mitigated: self.suffixes.mitigated,
            tsx: !self.suffixes.no_tsx && known.first().is_some_and(|first| first.tsx),
        };
        if let Some(version) = self.suffixes.version {
            // Versions newer than the table have the properties of the last known one.
            let index = usize::try_from(version).unwrap_or(usize::MAX).max(1) - 1;
            let has = known.get(index).or_else(|| known.last()).copied();
            let has = has.unwrap_or(wanted);
            self.version = version;
            self.mitigated = has.mitigated || self.suffixes.mitigated;
            self.tsx = has.tsx && !self.suffixes.no_tsx;
        } else {
            // A suffix is an alias of the first version with its properties. A family whose first
            // version is mitigated needs no suffix for it.
            let mitigated = wanted.mitigated || known.first().is_some_and(|first| first.mitigated);
            let same =
                |version: &Version| version.mitigated == mitigated && version.tsx == wanted.tsx;
            let index = known.iter().position(same).unwrap_or_default();
            self.version = u32::try_from(index).unwrap_or_default() + 1;
            self.mitigated = mitigated;
            self.tsx = wanted.tsx;
        }
        self
    }

    /// The launch year of a level above the first.
    pub(super) fn year(&self, family: &Family) -> Option<i32> {
        let index = usize::try_from(self.level).ok()?.checked_sub(2)?;
        family.levels.get(index).copied()
    }
}

/// The possible splits of a name into family and variant, longest family first.
pub(crate) fn readings(name: &str) -> impl Iterator<Item = (&str, Variant)> {
    let plain = Variant {
        version: 1,
        level: 1,
        ..Variant::default()
    };
    std::iter::successors(Some((name, plain)), |(rest, variant)| strip(rest, *variant))
}

/// Strips one suffix.
fn strip(name: &str, mut variant: Variant) -> Option<(&str, Variant)> {
    if let Some(rest) = name.strip_suffix("-noTSX") {
        variant.suffixes.no_tsx = true;
        return Some((rest, variant));
    }
    for suffix in ["-IBRS", "-IBPB"] {
        if let Some(rest) = name.strip_suffix(suffix) {
            variant.suffixes.mitigated = true;
            return Some((rest, variant));
        }
    }
    if let Some(rest) = name.strip_suffix("-base") {
        variant.base = true;
        return Some((rest, variant));
    }
    let (rest, digits) = name.rsplit_once("-v").or_else(|| name.rsplit_once('.'))?;
    let number = number(digits)?;
    if name.as_bytes().get(rest.len()) == Some(&b'.') {
        variant.level = number;
    } else if variant.suffixes.version.is_none() {
        variant.suffixes.version = Some(number);
    } else {
        return None;
    }
    Some((rest, variant))
}

/// Parses plain decimal digits.
fn number(digits: &str) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}
