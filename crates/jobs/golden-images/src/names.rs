//! Names that are made of others, and what is done when they get too long.
//!
//! Names of DataImportCrons and of the DataSources they manage are also values of labels, so they
//! have 63 characters at the most. A name that would be longer is cut, and a hash of the whole name
//! keeps it apart from others that begin alike.

#[cfg(test)]
mod tests;

use machinery::names::{LABEL_MAX, SUBDOMAIN_MAX};

/// How many characters of a digest a volume has in its name.
const SUFFIX: usize = 12;
/// What digests may begin with.
const PREFIXES: [&str; 2] = ["sha256:", "uid:"];

/// A digest that no volume can be named after.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// It is of another kind.
    #[error("naming a volume: digest {0:?} has no supported prefix; sha256: and uid: are accepted")]
    Prefix(String),
    /// There is not enough of it.
    #[error(
        "naming a volume: digest {0:?} is too short; 12 characters after the prefix are needed"
    )]
    Short(String),
    /// It has characters that a name cannot have.
    #[error(
        "naming a volume: digest {0:?} has characters that a name cannot have; lower-case letters, digits and - are accepted"
    )]
    Characters(String),
}

/// What something is called for an architecture: `fedora` for `arm64` is `fedora-arm64`.
pub fn for_architecture(base: &str, architecture: &str) -> String {
    with_suffix(base, architecture, LABEL_MAX)
}

/// A name that is short enough to be the value of a label.
pub fn fitting(name: &str) -> String {
    if name.len() <= LABEL_MAX {
        return name.to_owned();
    }
    let hash = format!("{:08x}", fnv1a(name.as_bytes()));
    format!("{}-{hash}", cut(name, LABEL_MAX - 1 - hash.len()))
}

/// What the volume is called that a version of an image is imported into.
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
    if !suffix.chars().all(plain) || suffix.ends_with('-') {
        return Err(DigestError::Characters(digest.to_owned()));
    }
    Ok(with_suffix(data_source, suffix, SUBDOMAIN_MAX))
}

/// A name and a suffix, in so many characters; the name gives way.
fn with_suffix(base: &str, suffix: &str, most: usize) -> String {
    let whole = format!("{base}-{suffix}");
    if whole.len() <= most {
        return whole;
    }
    let hash = format!("{:08x}", fnv1a(base.as_bytes()));
    // A suffix that leaves no room does not come about: architectures and digests are short.
    let room = most.saturating_sub(hash.len() + suffix.len() + 2);
    format!("{}-{hash}-{suffix}", cut(base, room))
}

/// The beginning of a name, in so many bytes.
fn cut(name: &str, most: usize) -> &str {
    let mut end = most.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}

/// FNV-1a with 32 bits, as upstream shortens names.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// FNV-1a with 64 bits, to spread what would otherwise happen at once.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
