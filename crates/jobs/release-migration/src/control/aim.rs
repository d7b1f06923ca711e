//! Which release a cluster is to be held against, before any of its files is read.

use api::openshift::{ClusterVersion, Release};
use jiff::Timestamp;
use semver::Version;

use super::Loaded;
use crate::payload::{Architecture, Metadata};
use crate::target::{Invalid, Target, Unknown, target};

/// The release that counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aim {
    /// The release; none if nobody says.
    pub wanted: Option<Release>,
    /// Why what is asked for makes no sense.
    pub invalid: Option<Invalid>,
    /// Why nobody knows whether there is what is asked for.
    pub unknown: Option<Unknown>,
    /// What the cluster could be updated to, of what it keeps.
    pub updates: Vec<Release>,
}

/// A release that a cluster keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its image.
    pub image: String,
    /// What it is.
    pub metadata: Metadata,
    /// Since when it is kept.
    pub since: Option<Timestamp>,
}

impl Kept {
    fn release(&self) -> Release {
        described(&self.image, &self.metadata)
    }
}

/// A release, as a ClusterVersion has it.
pub(super) fn described(image: &str, metadata: &Metadata) -> Release {
    let mut release = Release {
        version: metadata.version.clone(),
        image: image.to_owned(),
        ..Release::default()
    };
    if metadata.is_multi() {
        "Multi".clone_into(&mut release.architecture);
    }
    if let Some(url) = metadata.metadata.get("url") {
        release.rest.insert("url".to_owned(), url.clone());
    }
    let channels = metadata.channels();
    if !channels.is_empty() {
        release.rest.insert("channels".to_owned(), channels.into());
    }
    release
}

/// What a cluster says that it is on its way to; what is asked of it, as long as it says nothing.
pub fn observed(version: &ClusterVersion) -> Aim {
    let status = version.status.as_ref();
    let desired = status.map(|it| it.desired.clone());
    Aim {
        wanted: desired
            .filter(|it| !it.image.is_empty())
            .or_else(|| asked_image(version)),
        ..Aim::default()
    }
}

fn asked_image(version: &ClusterVersion) -> Option<Release> {
    let asked = version.spec.desired_update.as_ref()?;
    (!asked.image.is_empty()).then(|| Release {
        version: asked.version.clone(),
        image: asked.image.clone(),
        ..Release::default()
    })
}

/// What a cluster is to be on its way to. The releases that it keeps are those that it knows of, unless
/// somebody else tells it of others.
pub fn owned(
    version: &ClusterVersion,
    current: Option<&Loaded>,
    kept: &[Kept],
    told_by_others: bool,
) -> Aim {
    let status = version.status.clone().unwrap_or_default();
    let desired = status.desired.clone();
    if desired.image.is_empty() {
        return Aim {
            wanted: asked_image(version).or_else(|| first(kept)),
            ..Aim::default()
        };
    }
    let architecture = match current {
        Some(loaded) => loaded.payload.metadata.architecture(),
        None if desired.architecture == "Multi" => Architecture::Multi,
        None => Architecture::Single(None),
    };
    let asked = version.spec.desired_update.as_ref();
    let is_multi = architecture == Architecture::Multi;
    let wants_multi = !is_multi && asked.is_some_and(|it| it.architecture == "Multi");
    let mut updates: Vec<Release> = if told_by_others {
        status.available_updates.clone().unwrap_or_default()
    } else {
        let others = kept.iter().filter(|it| it.image != desired.image);
        let fits = |it: &&Kept| {
            let metadata = &it.metadata;
            // Who is to become multi-arch can do nothing else, and only at its version.
            if wants_multi {
                return metadata.is_multi() && metadata.version == desired.version;
            }
            metadata.is_multi() == is_multi
                && metadata.version != desired.version
                && metadata.previous.contains(&desired.version)
        };
        others.filter(fits).map(Kept::release).collect()
    };
    updates.sort_by(|one, other| (&one.version, &one.image).cmp(&(&other.version, &other.image)));
    let mut informed = version.clone();
    informed.status.get_or_insert_default().available_updates = Some(updates.clone());
    let mut aim = Aim {
        wanted: Some(desired),
        updates,
        ..Aim::default()
    };
    match target(&informed, &architecture) {
        Ok(Target::Stay) => {}
        Ok(Target::Go(release)) => aim.wanted = Some(release),
        Ok(Target::Unknown(unknown)) => aim.unknown = Some(unknown),
        Err(invalid) => aim.invalid = Some(invalid),
    }
    aim
}

/// The release of a cluster of which nobody says what it runs: the first that it kept, and of several that
/// came together one for a single architecture, and the oldest.
fn first(kept: &[Kept]) -> Option<Release> {
    let order = |it: &&Kept| {
        let version = Version::parse(&it.metadata.version).ok();
        (it.since, it.metadata.is_multi(), version, it.image.clone())
    };
    kept.iter().min_by_key(order).map(Kept::release)
}
