//! Which version is held on to: what people ask for, and what the policy says then.

#[cfg(test)]
mod tests;

use api::cdi::{Named, annotations};
use api::golden::{GoldenImagePolicySpec, ImagePolicy, Pin, names};
use jiff::{SignedDuration, Timestamp};
use machinery::time::format_time;
use serde_json::{Value, json};

use crate::history;
use crate::overview::Variant;

/// A version that somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The one in use.
    InUse,
    /// This one, whether it was ever in use or not.
    Digest(&'a str),
    /// One that was in use: the beginning of its digest, or its volume.
    Earlier(&'a str),
    /// So many versions before the one in use.
    Back(usize),
}

/// Why there is no such version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoVersion {
    /// Nothing is in use.
    #[error("{0} stands for no version yet; --digest names one to import")]
    NothingInUse(String),
    /// A text is no digest.
    #[error("{0:?} is no digest; sha256: and 64 hexadecimal digits in lower case are accepted")]
    NoDigest(String),
    /// It was not in use.
    #[error("{data_source} has no version {wanted:?} in its history; {}", listed(.there))]
    Unknown {
        /// The DataSource.
        data_source: String,
        /// What was asked for.
        wanted: String,
        /// What was in use.
        there: Vec<String>,
    },
    /// It may be several.
    #[error("{wanted:?} may be several versions of {data_source}: {}; more of the digest tells which", .there.join(", "))]
    Ambiguous {
        /// The DataSource.
        data_source: String,
        /// What was asked for.
        wanted: String,
        /// What it may be.
        there: Vec<String>,
    },
    /// It cannot be had any more.
    #[error("{digest} of {data_source} is not kept, and a web server has the newest version alone; {}", kept(.there))]
    Gone {
        /// The DataSource.
        data_source: String,
        /// What was asked for.
        digest: String,
        /// What is kept.
        there: Vec<String>,
    },
    /// Nobody would import it.
    #[error(
        "{0} cannot be held to a version: no DataImportCron keeps it current, so it changes only by hand"
    )]
    NobodyKeeps(String),
    /// There is nothing before.
    #[error("{data_source} remembers {there} earlier versions, {steps} were asked to be gone back")]
    TooFar {
        /// The DataSource.
        data_source: String,
        /// How far.
        steps: usize,
        /// How many there are.
        there: usize,
    },
}

fn listed(there: &[String]) -> String {
    if there.is_empty() {
        "it remembers none".to_owned()
    } else {
        format!("it remembers: {}", there.join(", "))
    }
}

fn kept(there: &[String]) -> String {
    if there.is_empty() {
        "nothing else is kept".to_owned()
    } else {
        format!("these are kept: {}", there.join(", "))
    }
}

/// The digest of the version that is asked for.
pub fn version(variant: &Variant, wanted: Wanted<'_>) -> Result<String, NoVersion> {
    let data_source = variant.data_source.clone();
    let found = match wanted {
        Wanted::Digest(digest) => digest.to_owned(),
        Wanted::InUse => match &variant.digest {
            Some(digest) => digest.clone(),
            None => return Err(NoVersion::NothingInUse(data_source)),
        },
        Wanted::Earlier(text) => earlier(variant, text)?,
        Wanted::Back(steps) => match history::back(&variant.history, steps) {
            Some(entry) => entry.digest.clone(),
            None => {
                return Err(NoVersion::TooFar {
                    data_source,
                    steps,
                    there: known(variant).len().saturating_sub(1),
                });
            }
        },
    };
    let hex = found.strip_prefix("sha256:");
    let digits = |hex: &str| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if !hex.is_some_and(digits) {
        return Err(NoVersion::NoDigest(found));
    }
    let is_there = variant.kept.contains(&found)
        || [&variant.digest, &variant.newest].contains(&&Some(found.clone()));
    let url = variant.url.as_deref().unwrap_or_default();
    if !is_there && (url.starts_with("https://") || url.starts_with("http://")) {
        return Err(NoVersion::Gone {
            data_source,
            digest: found,
            there: variant.kept.clone(),
        });
    }
    Ok(found)
}

/// Something that the policy is to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Held<'a> {
    /// What it is about.
    pub variant: &'a Variant,
    /// Under which name.
    pub image: Named,
    /// What is said.
    pub pin: Pin,
}

/// What the policy has to say so that a version is used.
pub fn hold<'a>(
    variant: &'a Variant,
    wanted: Wanted<'_>,
    reason: Option<&str>,
) -> Result<Held<'a>, NoVersion> {
    let digest = version(variant, wanted)?;
    let Some((image, architecture)) = variant.policy_key.clone() else {
        return Err(NoVersion::NobodyKeeps(variant.data_source.clone()));
    };
    Ok(Held {
        variant,
        image,
        pin: Pin {
            architecture,
            digest,
            reason: reason.map(str::to_owned),
        },
    })
}

impl Held<'_> {
    /// What comes of it.
    pub fn effect(&self) -> &'static str {
        let Self { variant, pin, .. } = self;
        if variant.digest.as_ref() == Some(&pin.digest) {
            "it is in use"
        } else if variant.kept.contains(&pin.digest) {
            "it is there still"
        } else {
            "it is imported again"
        }
    }
}

/// The images of a policy that says all of it.
pub fn with_all(spec: &GoldenImagePolicySpec, held: &[Held<'_>]) -> Vec<ImagePolicy> {
    let mut spec = spec.clone();
    for held in held {
        spec.images = with(&spec, &held.image, held.pin.clone());
    }
    spec.images
}

/// What has the source of an image asked at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The DataImportCron, and what is written to it.
    pub poll: (String, Value),
    /// The DataVolume whose import failed, and what is written to it.
    pub retry: Option<(String, Value)>,
}

/// What has the source of an image asked at once, and what failed tried again; nothing, if nobody imports
/// it.
pub fn asked(variant: &Variant, now: Timestamp) -> Option<Asked> {
    let cron = variant.cron.clone()?;
    // Times have whole seconds: one that is not later than the last poll would say nothing.
    let second = SignedDuration::from_secs(1);
    let after = variant.last_poll.and_then(|it| it.checked_add(second).ok());
    let at = after.map_or(now, |after| after.max(now));
    let write = |name: &str, at: Timestamp| json!({ "metadata": { "annotations": { name: format_time(at) } } });
    let failed = variant.importing.as_ref().filter(|_| variant.import_failed);
    Some(Asked {
        poll: (cron, write(annotations::NEXT_CRON_TIME, at)),
        retry: failed.map(|import| (import.clone(), write(names::NEXT_RETRY, now))),
    })
}

/// The versions that were in use, each once, newest first.
fn known(variant: &Variant) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for entry in &variant.history {
        if !known.contains(&entry.digest) {
            known.push(entry.digest.clone());
        }
    }
    known
}

fn earlier(variant: &Variant, text: &str) -> Result<String, NoVersion> {
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
        [] => Err(NoVersion::Unknown {
            data_source: variant.data_source.clone(),
            wanted: text.to_owned(),
            there: known(variant),
        }),
        _ => Err(NoVersion::Ambiguous {
            data_source: variant.data_source.clone(),
            wanted: text.to_owned(),
            there: fitting,
        }),
    }
}

/// The images of a policy in which a version is held on to.
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

/// The images of a policy in which no version of an architecture is held on to. An image about which
/// nothing else is said goes, too.
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
