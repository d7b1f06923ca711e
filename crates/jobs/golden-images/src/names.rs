//! Derived names, and how they are shortened.
//!
//! Names of DataImportCrons and of the DataSources they manage are also label values, which are
//! limited to 63 characters. A longer name is cut, and a hash of the whole name distinguishes it
//! from others with the same beginning.

#[cfg(test)]
mod tests;

use machinery::names::{LABEL_MAX, SUBDOMAIN_MAX};

/// The number of digest characters in the name of a PVC, as in CDI.
const SUFFIX: usize = 12;
/// The digest prefixes that CDI supports.
const PREFIXES: [&str; 2] = ["sha256:", "uid:"];

/// A digest that no PVC name can be derived from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Its prefix is not supported.
    #[error("cannot name a PVC: digest {0:?} has no supported prefix; must be sha256: or uid:")]
    Prefix(String),
    /// It is too short.
    #[error(
        "cannot name a PVC: digest {0:?} is too short; 12 characters after the prefix are required"
    )]
    Short(String),
    /// It has characters that a name cannot have.
    #[error(
        "cannot name a PVC: digest {0:?} has characters that a name cannot have; must be lower-case letters, digits and -"
    )]
    Characters(String),
}

/// The name for an architecture: `fedora` for `arm64` is `fedora-arm64`.
pub fn for_architecture(base: &str, architecture: &str) -> String {
    with_suffix(base, architecture, LABEL_MAX)
}

/// A name that is short enough for a label value.
pub fn fitting(name: &str) -> String {
    if name.len() <= LABEL_MAX {
        return name.to_owned();
    }
    let hash = format!("{:08x}", fnv1a(name.as_bytes()));
    format!("{}-{hash}", cut(name, LABEL_MAX - 1 - hash.len()))
}

/// The name of the PVC that a version of an image is imported into.
pub fn volume(data_source: &str, digest: &str) -> Result<String, DigestError> {
    let rest = PREFIXES
        .iter()
        .find_map(|prefix| digest.strip_prefix(prefix));
    let Some(rest) = rest else {
        return Err(DigestError::Prefix(digest.to_owned()));
    };
    let Some(suffix) = rest.get(..SUFFIX) else {
        return Err(DigestError::Short(digest.to_owned()));
    };
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    // The digest comes from an annotation that users can write. CDI checks its prefix and length
    // only, and then fails to create the DataVolume on every reconcile.
    if !suffix.chars().all(plain) || suffix.ends_with('-') {
        return Err(DigestError::Characters(digest.to_owned()));
    }
    Ok(with_suffix(data_source, suffix, SUBDOMAIN_MAX))
}

/// A name and a suffix, in at most this many characters; the name is cut.
fn with_suffix(base: &str, suffix: &str, most: usize) -> String {
    let whole = format!("{base}-{suffix}");
    if whole.len() <= most {
        return whole;
    }
    let hash = format!("{:08x}", fnv1a(base.as_bytes()));
    // Suffixes are architectures or digest parts, which are short enough.
    let room = most.saturating_sub(hash.len() + suffix.len() + 2);
    format!("{}-{hash}-{suffix}", cut(base, room))
}

/// The beginning of a name, in at most this many bytes.
fn cut(name: &str, most: usize) -> &str {
    let mut end = most.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}

/// FNV-1a with 32 bits, which CDI uses to shorten names.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// FNV-1a with 64 bits, for jitter.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
