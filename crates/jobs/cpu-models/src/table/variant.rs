//! The part of a name that comes after the family: `-noTSX-IBRS`, `-v4`, `-base`, `.2`.

use super::family::{Family, Version};

/// What a name says besides its family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Variant {
    /// The version that is meant: of `-vN`, or the one that a suffix is another name of.
    pub version: u32,
    /// Whether the mitigations for speculation are in.
    pub mitigated: bool,
    /// Whether transactional memory is in.
    pub tsx: bool,
    /// Whether it is the base of a mainframe: what all machines of its kind have.
    pub base: bool,
    /// The general availability level of a mainframe, 1 if the name says none.
    pub level: u32,
    named: Named,
}

/// What the name itself says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Named {
    version: Option<u32>,
    mitigated: bool,
    no_tsx: bool,
}

impl Variant {
    /// The variant, with what the family knows about its versions.
    pub(super) fn completed(mut self, family: &Family) -> Self {
        let known = family.versions;
        let wanted = Version {
            mitigated: self.named.mitigated,
            tsx: !self.named.no_tsx && known.first().is_some_and(|first| first.tsx),
        };
        if let Some(version) = self.named.version {
            // Versions newer than the table keep what the last one had.
            let index = usize::try_from(version).unwrap_or(usize::MAX).max(1) - 1;
            let has = known.get(index).or_else(|| known.last()).copied();
            let has = has.unwrap_or(wanted);
            self.version = version;
            self.mitigated = has.mitigated || self.named.mitigated;
            self.tsx = has.tsx && !self.named.no_tsx;
        } else {
            // A suffix is another name of the first version with what it says. A family whose first
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

    /// The year of the level, if it is not the first.
    pub(super) fn year(&self, family: &Family) -> Option<i32> {
        let index = usize::try_from(self.level).ok()?.checked_sub(2)?;
        family.levels.get(index).copied()
    }
}

/// The ways to read a name, the longest family first: nothing is taken off before it has to be.
pub(crate) fn readings(name: &str) -> impl Iterator<Item = (&str, Variant)> {
    let plain = Variant {
        version: 1,
        level: 1,
        ..Variant::default()
    };
    std::iter::successors(Some((name, plain)), |(rest, variant)| strip(rest, *variant))
}

/// Takes one suffix off.
fn strip(name: &str, mut variant: Variant) -> Option<(&str, Variant)> {
    if let Some(rest) = name.strip_suffix("-noTSX") {
        variant.named.no_tsx = true;
        return Some((rest, variant));
    }
    for suffix in ["-IBRS", "-IBPB"] {
        if let Some(rest) = name.strip_suffix(suffix) {
            variant.named.mitigated = true;
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
    } else if variant.named.version.is_none() {
        variant.named.version = Some(number);
    } else {
        return None;
    }
    Some((rest, variant))
}

/// A number in plain digits.
fn number(digits: &str) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}
