//! What a change from one release to the next was.
//!
//! That a cluster becomes multi-arch shows in its history as the same version with another image. So
//! does a payload that was copied to a mirror, one that was built again, and the way back. What tells
//! them apart is the digest, and what is known of the payloads.

use std::collections::BTreeMap;

use api::openshift::{ClusterVersion, UpdateHistory};
use platform::Reference;
use serde::{Serialize, Serializer};

use crate::payload::Architecture;

/// What a change was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// There was nothing before.
    Install,
    /// To another version.
    Update {
        /// The version before.
        from: String,
        /// Whether it was all there.
        complete: bool,
    },
    /// The same version, for several architectures instead of one.
    SingleToMulti,
    /// The same version for several architectures, with other content.
    MultiToMulti,
    /// The same version, for one architecture instead of several.
    Back,
    /// The same content, from another place.
    Remirror,
    /// The same version for one architecture, with other content.
    Rebuild,
    /// The same version with another image, of which nobody knows what it is for.
    SameVersion,
}

impl Change {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Install => "Install",
            Self::Update { .. } => "Update",
            Self::SingleToMulti => "SingleToMulti",
            Self::MultiToMulti => "MultiToMulti",
            Self::Back => "Back",
            Self::Remirror => "Remirror",
            Self::Rebuild => "Rebuild",
            Self::SameVersion => "SameVersion",
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// What is known of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadFacts {
    /// For what machines it is.
    pub architecture: Architecture,
}

/// What is known of payloads, by image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownPayloads(BTreeMap<String, PayloadFacts>);

impl KnownPayloads {
    /// What a ClusterVersion tells by itself: that what it is at or on its way to is for several
    /// architectures, where its status says so or where nothing else was asked for.
    pub fn of(version: &ClusterVersion) -> Self {
        let mut known = Self::default();
        let Some(status) = &version.status else {
            return known;
        };
        let asked = version.spec.desired_update.as_ref();
        let is_asked = asked.is_some_and(|it| {
            it.architecture == "Multi"
                && it.image.is_empty()
                && it.version == status.desired.version
        });
        // `Payload loaded version="4.18.0" image="..." architecture="Multi"`
        let loaded = version.condition("ReleaseAccepted").is_some_and(|it| {
            it.message.contains("architecture=\"Multi\"")
                && it
                    .message
                    .contains(&format!("image={:?}", status.desired.image))
        });
        if status.desired.architecture == "Multi" || loaded || is_asked {
            known.add(&status.desired.image, Architecture::Multi);
        }
        // Of a cluster that is multi already the request is ignored. So who got another image of the same
        // version by it was not before.
        if let ([new, old, ..], true) = (status.history.as_slice(), is_asked)
            && new.version == old.version
            && new.image == status.desired.image
            && new.image != old.image
        {
            known.add(&old.image, Architecture::Single(None));
        }
        known
    }

    /// Takes note of a payload. What was known of it before is forgotten.
    pub fn add(&mut self, image: &str, architecture: Architecture) {
        if !image.is_empty() {
            let facts = PayloadFacts { architecture };
            self.0.insert(image.to_owned(), facts);
        }
    }

    /// For what machines a payload is: as it is known, or as its tag says, which by custom ends with
    /// the architecture (`4.18.0-x86_64`, `4.18.0-multi`).
    pub fn architecture(&self, image: &str) -> Option<Architecture> {
        if let Some(facts) = self.0.get(image) {
            return Some(facts.architecture.clone());
        }
        let reference: Reference = image.parse().ok()?;
        let tag = reference.tag()?.to_string();
        let architecture = match tag.rsplit_once('-')?.1 {
            "multi" => return Some(Architecture::Multi),
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "ppc64le" => "ppc64le",
            "s390x" => "s390x",
            _ => return None,
        };
        Some(Architecture::Single(Some(architecture.to_owned())))
    }
}

/// What every change of a history was, newest first as the history is.
pub fn classify(history: &[UpdateHistory], known: &KnownPayloads) -> Vec<Change> {
    let before = history.iter().skip(1).map(Some).chain([None]);
    history
        .iter()
        .zip(before)
        .map(|(entry, before)| {
            before.map_or(Change::Install, |before| change(before, entry, known))
        })
        .collect()
}

fn change(before: &UpdateHistory, after: &UpdateHistory, known: &KnownPayloads) -> Change {
    if before.version != after.version {
        return Change::Update {
            from: before.version.clone(),
            complete: before.is_completed(),
        };
    }
    let digest = |image: &str| {
        let reference: Option<Reference> = image.parse().ok();
        reference.and_then(|it| it.digest().cloned())
    };
    let (old, new) = (digest(&before.image), digest(&after.image));
    if old.is_some() && old == new {
        return Change::Remirror;
    }
    let architecture = |image: &str| known.architecture(image);
    match (architecture(&before.image), architecture(&after.image)) {
        (Some(Architecture::Single(_)), Some(Architecture::Multi)) => Change::SingleToMulti,
        (Some(Architecture::Multi), Some(Architecture::Multi)) => Change::MultiToMulti,
        (Some(Architecture::Multi), Some(Architecture::Single(_))) => Change::Back,
        (Some(Architecture::Single(_)), Some(Architecture::Single(_))) => Change::Rebuild,
        _ => Change::SameVersion,
    }
}
