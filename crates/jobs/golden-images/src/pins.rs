//! Pins: the versions that users request, and the policy that pins them.

#[cfg(test)]
mod tests;

use api::cdi::{Named, annotations};
use api::golden::{GoldenImagePolicySpec, ImagePolicy, Pin, names};
use jiff::{SignedDuration, Timestamp};
use machinery::time::format_time;
use serde_json::{Value, json};

use crate::history;
use crate::overview::Variant;

/// A version that a user requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedVersion<'a> {
    /// The version in use.
    InUse,
    /// This digest, whether it was ever in use or not.
    Digest(&'a str),
    /// A version of the history: the beginning of its digest, or the name of its PVC or snapshot.
    Earlier(&'a str),
    /// This many versions before the one in use.
    Back(usize),
}

/// Why a version cannot be pinned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// No version is in use.
    #[error("{0} has no version yet; import one with --digest")]
    NothingInUse(String),
    /// The text is not a digest.
    #[error("{0:?} is not a digest; must be sha256: and 64 hexadecimal digits in lower case")]
    NoDigest(String),
    /// Only the first digits of the digest are known.
    #[error(
        "only the first digits of {digest} of {data_source} are known: CDI keeps no more of a snapshot; use --digest with all of them"
    )]
    Shortened {
        /// The DataSource.
        data_source: String,
        /// The first digits of the digest.
        digest: String,
    },
    /// The history does not have it.
    #[error("{data_source} has no version {wanted:?} in its history; {}", listed(.there))]
    Unknown {
        /// The DataSource.
        data_source: String,
        /// The requested version.
        wanted: String,
        /// The versions of the history.
        there: Vec<String>,
    },
    /// Several versions match.
    #[error("{wanted:?} matches several versions of {data_source}: {}; use more digits of the digest", .there.join(", "))]
    Ambiguous {
        /// The DataSource.
        data_source: String,
        /// The requested version.
        wanted: String,
        /// The versions that match.
        there: Vec<String>,
    },
    /// It is not kept, and cannot be imported again.
    #[error("{digest} of {data_source} is not kept, and an HTTP server offers only the newest version; {}", kept(.there))]
    Gone {
        /// The DataSource.
        data_source: String,
        /// The requested digest.
        digest: String,
        /// The versions that are kept.
        there: Vec<String>,
    },
    /// No DataImportCron manages the DataSource.
    #[error("{0} cannot be pinned: no DataImportCron manages it")]
    NotManaged(String),
    /// The history is too short.
    #[error("{data_source} has {there} earlier versions in its history, cannot roll back {steps}")]
    TooFar {
        /// The DataSource.
        data_source: String,
        /// The requested number of versions.
        steps: usize,
        /// The number of earlier versions.
        there: usize,
    },
}

fn listed(there: &[String]) -> String {
    if there.is_empty() {
        "its history is empty".to_owned()
    } else {
        format!("known versions: {}", there.join(", "))
    }
}

fn kept(there: &[String]) -> String {
    if there.is_empty() {
        "no other version is kept".to_owned()
    } else {
        format!("kept versions: {}", there.join(", "))
    }
}

/// The digest of the requested version.
pub fn version(variant: &Variant, wanted: RequestedVersion<'_>) -> Result<String, PinError> {
    let data_source = variant.data_source.clone();
    let found = match wanted {
        RequestedVersion::Digest(digest) => digest.to_owned(),
        RequestedVersion::InUse => match &variant.digest {
            Some(digest) => digest.clone(),
            None => return Err(PinError::NothingInUse(data_source)),
        },
        RequestedVersion::Earlier(text) => earlier(variant, text)?,
        RequestedVersion::Back(steps) => match history::back(&variant.history, steps) {
            Some(entry) => entry.digest.clone(),
            None => {
                return Err(PinError::TooFar {
                    data_source,
                    steps,
                    there: known(variant).len().saturating_sub(1),
                });
            }
        },
    };
    let is_shortened = |entry: &history::Entry| entry.digest == found && !entry.is_whole();
    if variant.history.iter().any(is_shortened) {
        return Err(PinError::Shortened {
            data_source,
            digest: found,
        });
    }
    let hex = found.strip_prefix("sha256:");
    let digits = |hex: &str| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if !hex.is_some_and(digits) {
        return Err(PinError::NoDigest(found));
    }
    let is_there = variant.kept.contains(&found)
        || [&variant.digest, &variant.newest].contains(&&Some(found.clone()));
    let url = variant.url.as_deref().unwrap_or_default();
    // Registries serve old digests, web servers do not. Refused here, because the import would
    // fetch the current file under the name of the old one.
    if !is_there && (url.starts_with("https://") || url.starts_with("http://")) {
        return Err(PinError::Gone {
            data_source,
            digest: found,
            there: variant.kept.clone(),
        });
    }
    Ok(found)
}

/// A pin to add to the policy.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPin<'a> {
    /// The DataSource that it is about.
    pub variant: &'a Variant,
    /// The image in the policy.
    pub image: Named,
    /// The pin.
    pub pin: Pin,
}

/// The pin that makes a version the one in use.
pub fn hold<'a>(
    variant: &'a Variant,
    wanted: RequestedVersion<'_>,
    reason: Option<&str>,
) -> Result<NewPin<'a>, PinError> {
    let digest = version(variant, wanted)?;
    let Some((image, architecture)) = variant.policy_key.clone() else {
        return Err(PinError::NotManaged(variant.data_source.clone()));
    };
    Ok(NewPin {
        variant,
        image,
        pin: Pin {
            architecture,
            digest,
            reason: reason.map(str::to_owned),
        },
    })
}

impl NewPin<'_> {
    /// What the pin leads to.
    pub fn effect(&self) -> &'static str {
        let Self { variant, pin, .. } = self;
        if variant.digest.as_ref() == Some(&pin.digest) {
            "it is in use"
        } else if variant.kept.contains(&pin.digest) {
            "it is still kept"
        } else {
            "it is imported again"
        }
    }
}

/// The images of a policy with all of these pins.
pub fn with_all(spec: &GoldenImagePolicySpec, held: &[NewPin<'_>]) -> Vec<ImagePolicy> {
    let mut spec = spec.clone();
    for held in held {
        spec.images = with(&spec, &held.image, held.pin.clone());
    }
    spec.images
}

/// The patches that trigger a poll, and the retry of a failed import.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPatches {
    /// The DataImportCron and its patch.
    pub poll: (String, Value),
    /// The DataVolume whose import failed, and its patch.
    pub retry: Option<(String, Value)>,
}

/// The patches that poll the source of an image now and retry its failed import; `None` if no
/// DataImportCron manages it.
pub fn asked(variant: &Variant, now: Timestamp) -> Option<RetryPatches> {
    let cron = variant.cron.clone()?;
    // The annotation has whole seconds: a time that is not later than the last poll would have no
    // effect.
    let second = SignedDuration::from_secs(1);
    let after = variant.last_poll.and_then(|it| it.checked_add(second).ok());
    let at = after.map_or(now, |after| after.max(now));
    let write = |name: &str, at: Timestamp| json!({ "metadata": { "annotations": { name: format_time(at) } } });
    let failed = variant.importing.as_ref().filter(|_| variant.import_failed);
    Some(RetryPatches {
        poll: (cron, write(annotations::NEXT_CRON_TIME, at)),
        retry: failed.map(|import| (import.clone(), write(names::NEXT_RETRY, now))),
    })
}

/// The distinct versions that were in use, newest first.
fn known(variant: &Variant) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for entry in &variant.history {
        if !known.contains(&entry.digest) {
            known.push(entry.digest.clone());
        }
    }
    known
}

fn earlier(variant: &Variant, text: &str) -> Result<String, PinError> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    let named = variant.history.iter().find(|entry| entry.name == text);
    let mut fitting = known(variant);
    if let Some(named) = named {
        return Ok(named.digest.clone());
    }
    fitting.retain(|digest| {
        let own = digest.strip_prefix("sha256:").unwrap_or(digest);
        !hex.is_empty() && own.starts_with(hex)
    });
    match fitting.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(PinError::Unknown {
            data_source: variant.data_source.clone(),
            wanted: text.to_owned(),
            there: known(variant),
        }),
        _ => Err(PinError::Ambiguous {
            data_source: variant.data_source.clone(),
            wanted: text.to_owned(),
            there: fitting,
        }),
    }
}

/// The images of a policy with one more pin.
pub fn with(spec: &GoldenImagePolicySpec, image: &Named, pin: Pin) -> Vec<ImagePolicy> {
    let mut images = spec.images.clone();
    let known = images
        .iter_mut()
        .find(|it| it.namespace == image.namespace && it.name == image.name);
    match known {
        Some(known) => {
            let same = known
                .pins
                .iter_mut()
                .find(|it| it.architecture == pin.architecture);
            match same {
                Some(same) => *same = pin,
                None => known.pins.push(pin),
            }
        }
        None => images.push(ImagePolicy {
            name: image.name.clone(),
            namespace: image.namespace.clone(),
            default_architecture: None,
            pins: vec![pin],
        }),
    }
    images
}

/// The images of a policy without the pin of an architecture. An image without any other setting is
/// removed.
pub fn without(
    spec: &GoldenImagePolicySpec,
    image: &Named,
    architecture: &str,
) -> Vec<ImagePolicy> {
    let mut images = spec.images.clone();
    images.retain_mut(|it| {
        if it.namespace != image.namespace || it.name != image.name {
            return true;
        }
        let before = it.pins.len();
        it.pins.retain(|pin| pin.architecture != architecture);
        it.pins.len() == before || !it.pins.is_empty() || it.default_architecture.is_some()
    });
    images
}
