//! Classifies the change from one release to the next.
//!
//! A migration to multi-arch appears in the history as the same version with another image. So do a mirrored payload, a
//! rebuilt one, and the migration back. The digest, and what is known about the payloads, distinguish them.

use std::collections::BTreeMap;

use api::openshift::{ClusterVersion, UpdateHistory};
use platform::Reference;
use serde::{Serialize, Serializer};

use crate::payload::Architecture;

/// The kind of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The first release.
    Install,
    /// To another version.
    Update {
        /// The previous version.
        from: String,
        /// Whether it was completed.
        complete: bool,
    },
    /// The same version, for several architectures instead of one.
    SingleToMulti,
    /// The same version for several architectures, with other content.
    MultiToMulti,
    /// The same version, for one architecture instead of several.
    Back,
    /// The same content, from another repository.
    Remirror,
    /// The same version for one architecture, with other content.
    Rebuild,
    /// The same version with another image of unknown architecture.
    SameVersion,
}

impl Change {
    /// The name of the kind.
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

/// What is known about a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadFacts {
    /// Its architecture.
    pub architecture: Architecture,
}

/// Known payloads, by image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownPayloads(BTreeMap<String, PayloadFacts>);

impl KnownPayloads {
    /// From a ClusterVersion alone: the current or target release is for several architectures if the status reports it
    /// or if nothing else was requested.
    pub fn of(version: &ClusterVersion) -> Self {
        let mut known = Self::default();
        let Some(status) = &version.status else {
            return known;
        };
        let request = version.spec.desired_update.as_ref();
        let is_multi_requested = request.is_some_and(|it| {
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
        if status.desired.architecture == "Multi" || loaded || is_multi_requested {
            known.add(&status.desired.image, Architecture::Multi);
        }
        // A cluster that is multi already ignores the request. So if it led to another image of the same version, the
        // previous one was for a single architecture.
        if let ([new, old, ..], true) = (status.history.as_slice(), is_multi_requested)
            && new.version == old.version
            && new.image == status.desired.image
            && new.image != old.image
        {
            known.add(&old.image, Architecture::Single(None));
        }
        known
    }

    /// Adds a payload, replacing what was known about it.
    pub fn add(&mut self, image: &str, architecture: Architecture) {
        if !image.is_empty() {
            let facts = PayloadFacts { architecture };
            self.0.insert(image.to_owned(), facts);
        }
    }

    /// The architecture of a payload: as known, or by the conventional suffix of its tag (`4.18.0-x86_64`,
    /// `4.18.0-multi`).
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

/// The kind of every change of a history, newest first as the history.
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
    // Before architectures: `oc` takes every change of the image at the same version for a migration, and so reports
    // one when a cluster moves to a mirror.
    if old.is_some() && old == new {
        return Change::Remirror;
    }
    let architecture = |image: &str| known.architecture(image);
    match (architecture(&before.image), architecture(&after.image)) {
        (Some(Architecture::Single(_)), Some(Architecture::Multi)) => Change::SingleToMulti,
        (Some(Architecture::Multi), Some(Architecture::Multi)) => Change::MultiToMulti,
        (Some(Architecture::Multi), Some(Architecture::Single(_))) => Change::Back,
        (Some(Architecture::Single(_)), Some(Architecture::Single(_))) => Change::Rebuild,
        // A guess could be wrong in either direction, and estimates and messages depend on it.
        _ => Change::SameVersion,
    }
}
