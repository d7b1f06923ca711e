//! Reads platforms as people write them: containerd's specifiers.
//!
//! ```text
//! os[(version[+feature]...)]/architecture[/variant]  |  os[(...)]  |  architecture
//! ```

use std::str::FromStr;

use super::normal::{architecture, is_known_os, known_architecture, os};
use super::{MAX_FEATURES, Platform};
use crate::excerpt::excerpt;

/// The longest text that is read.
const LONGEST: usize = 1024;

/// Why a text is no platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// It is too long.
    #[error("reading platform {text}: it has {found} characters, {LONGEST} are the most")]
    TooLong {
        /// What was read, shortened.
        text: String,
        /// How long it is.
        found: usize,
    },
    /// There are too few or too many slashes.
    #[error("reading platform {text}: expected os[(version+feature)]/architecture[/variant]")]
    Form {
        /// What was read.
        text: String,
    },
    /// There is a `*`.
    #[error("reading platform {text}: wildcards are not supported; name one platform")]
    Wildcard {
        /// What was read.
        text: String,
    },
    /// Some part has characters that it may not have.
    #[error(
        "reading platform {text}: part {part} is malformed; letters, digits, _ and - are accepted, and dots after the operating system"
    )]
    Part {
        /// What was read.
        text: String,
        /// The part between slashes.
        part: String,
    },
    /// What stands in parentheses cannot be read.
    #[error(
        "reading platform {text}: options {options} are malformed; expected (version+feature+feature), with % + ( ) / percent-encoded"
    )]
    Options {
        /// What was read.
        text: String,
        /// What stands in parentheses.
        options: String,
    },
    /// A single word is neither an operating system nor an architecture.
    #[error(
        "reading platform {text}: neither an operating system nor an architecture has this name"
    )]
    Unknown {
        /// What was read.
        text: String,
    },
    /// Only an operating system is named.
    #[error(
        "reading platform {text}: it names no architecture; write {text_bare}/amd64, for example"
    )]
    NoArchitecture {
        /// What was read.
        text: String,
        /// The operating system.
        text_bare: String,
    },
}

impl Platform {
    /// Reads a platform; what is not named is as on a host. Aliases are resolved, but variants that go
    /// without saying are kept where they are said (`linux/arm64/v8`), as containerd does.
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

/// An architecture alone is one of Linux. An operating system alone is refused: what it runs on would be
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
    if text.len() > LONGEST {
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
    // `split` gives at least one part.
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
        [] if is_known_os(&platform.os) => Ok(Read::Os(platform)),
        [] if known_architecture(first).is_some() => {
            (platform.architecture, platform.variant) = unsaid(architecture(first, ""));
            Ok(Read::Architecture(platform))
        }
        [] => Err(PlatformError::Unknown {
            text: excerpt(text),
        }),
        [name] => {
            (platform.architecture, platform.variant) = unsaid(architecture(name, ""));
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

/// `arm` alone stays alone, although `v7` is meant.
fn unsaid((architecture, variant): (String, String)) -> (String, String) {
    if architecture == "arm" && variant == "v7" {
        (architecture, String::new())
    } else {
        (architecture, variant)
    }
}

/// Reads `os[(version[+feature]...)]`.
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

/// Undoes percent-encoding; none if there are characters that would have to be encoded.
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
