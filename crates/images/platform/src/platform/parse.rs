//! Parses platforms in containerd's notation.
//!
//! ```text
//! os[(version[+feature]...)]/architecture[/variant]  |  os[(...)]  |  architecture
//! ```

use std::str::FromStr;

use super::normal::{architecture, is_known_os, known_architecture, os};
use super::{MAX_FEATURES, Platform};
use crate::excerpt::excerpt;

/// Upper bound of the text.
const MAX_LENGTH: usize = 1024;

/// Why a text is not a platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// It is too long.
    #[error("reading platform {text}: it has {found} characters, the maximum is {MAX_LENGTH}")]
    TooLong {
        /// The text, shortened.
        text: String,
        /// Its length.
        found: usize,
    },
    /// The number of slashes is wrong.
    #[error("reading platform {text}: expected os[(version+feature)]/architecture[/variant]")]
    Form {
        /// The text.
        text: String,
    },
    /// It contains a `*`.
    #[error("reading platform {text}: wildcards are not supported; name one platform")]
    Wildcard {
        /// The text.
        text: String,
    },
    /// A part contains invalid characters.
    #[error(
        "reading platform {text}: part {part} is malformed; letters, digits, _ and - are accepted, and dots after the operating system"
    )]
    Part {
        /// The text.
        text: String,
        /// The part between slashes.
        part: String,
    },
    /// The part in parentheses is malformed.
    #[error(
        "reading platform {text}: options {options} are malformed; expected (version+feature+feature), with % + ( ) / percent-encoded"
    )]
    Options {
        /// The text.
        text: String,
        /// The part in parentheses.
        options: String,
    },
    /// A single word is neither an operating system nor an architecture.
    #[error(
        "reading platform {text}: neither an operating system nor an architecture has this name"
    )]
    Unknown {
        /// The text.
        text: String,
    },
    /// It names only an operating system.
    #[error(
        "reading platform {text}: it names no architecture; write {text_bare}/amd64, for example"
    )]
    NoArchitecture {
        /// The text.
        text: String,
        /// The operating system.
        text_bare: String,
    },
}

impl Platform {
    /// Parses a platform; missing parts are those of a host. Aliases are resolved, but explicit default
    /// variants are kept (`linux/arm64/v8`), as in containerd.
    pub fn parse_on(text: &str, host: &Self) -> Result<Self, PlatformError> {
        match read(text)? {
            Read::Whole(platform) => Ok(platform),
            Read::Os(platform) => Ok(Self {
                architecture: host.architecture.clone(),
                variant: host.variant.clone(),
                ..platform
            }),
            Read::Architecture(platform) => Ok(Self {
                os: host.os.clone(),
                ..platform
            }),
        }
    }
}

/// An architecture alone means Linux. An operating system alone is rejected: the architecture would be
/// a guess.
impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        match read(text)? {
            Read::Whole(platform) => Ok(platform),
            Read::Os(platform) => Err(PlatformError::NoArchitecture {
                text: excerpt(text),
                text_bare: platform.os,
            }),
            Read::Architecture(platform) => Ok(Self {
                os: "linux".to_owned(),
                ..platform
            }),
        }
    }
}

enum Read {
    Whole(Platform),
    Os(Platform),
    Architecture(Platform),
}

fn read(text: &str) -> Result<Read, PlatformError> {
    if text.len() > MAX_LENGTH {
        return Err(PlatformError::TooLong {
            text: excerpt(text),
            found: text.len(),
        });
    }
    if text.contains('*') {
        return Err(PlatformError::Wildcard {
            text: excerpt(text),
        });
    }
    let mut parts = text.split('/');
    // `split` returns at least one part.
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    let mut platform = system(first, text)?;
    let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    for part in &rest {
        if part.is_empty() || !part.bytes().all(is_part) {
            return Err(PlatformError::Part {
                text: excerpt(text),
                part: excerpt(part),
            });
        }
    }
    match rest.as_slice() {
        // containerd's order: a single word is first tried as an operating system,
        // then as an architecture; no word is both.
        [] if is_known_os(&platform.os) => Ok(Read::Os(platform)),
        [] if known_architecture(first).is_some() => {
            (platform.architecture, platform.variant) =
                without_default_variant(architecture(first, ""));
            Ok(Read::Architecture(platform))
        }
        [] => Err(PlatformError::Unknown {
            text: excerpt(text),
        }),
        [name] => {
            (platform.architecture, platform.variant) =
                without_default_variant(architecture(name, ""));
            Ok(Read::Whole(platform))
        }
        [name, variant] => {
            (platform.architecture, platform.variant) = architecture(name, variant);
            if platform.architecture == "arm64" && platform.variant.is_empty() {
                "v8".clone_into(&mut platform.variant);
            }
            Ok(Read::Whole(platform))
        }
        _ => Err(PlatformError::Form {
            text: excerpt(text),
        }),
    }
}

/// `arm` without variant stays so, although it means `v7`.
fn without_default_variant((architecture, variant): (String, String)) -> (String, String) {
    if architecture == "arm" && variant == "v7" {
        (architecture, String::new())
    } else {
        (architecture, variant)
    }
}

/// Parses `os[(version[+feature]...)]`.
fn system(part: &str, text: &str) -> Result<Platform, PlatformError> {
    let (name, options) = match part.split_once('(') {
        Some((name, options)) => (name, Some(options)),
        None => (part, None),
    };
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(PlatformError::Part {
            text: excerpt(text),
            part: excerpt(part),
        });
    }
    let mut platform = Platform {
        os: os(name),
        ..Platform::default()
    };
    if let Some(options) = options {
        let wrong = || PlatformError::Options {
            text: excerpt(text),
            options: excerpt(options),
        };
        let inner = options.strip_suffix(')').ok_or_else(wrong)?;
        let mut words = inner.split('+');
        platform.os_version = decode(words.next().unwrap_or_default()).ok_or_else(wrong)?;
        let features: Option<Vec<String>> = words
            .map(|word| decode(word).filter(|feature| !feature.is_empty()))
            .collect();
        platform.os_features = features
            .filter(|features| features.len() <= MAX_FEATURES)
            .ok_or_else(wrong)?;
        platform.os_features.sort_unstable();
        platform.os_features.dedup();
    }
    Ok(platform)
}

/// Percent-decodes; `None` if there are characters that have to be encoded.
fn decode(word: &str) -> Option<String> {
    let mut bytes = word.bytes();
    let mut decoded = Vec::with_capacity(word.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                decoded.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'_' | b'.' | b'-' => decoded.push(byte),
            _ if byte.is_ascii_alphanumeric() => decoded.push(byte),
            _ => return None,
        }
    }
    String::from_utf8(decoded).ok()
}
