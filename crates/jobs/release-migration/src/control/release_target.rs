//! Determines the target release, before its files are read.

use api::openshift::{ClusterVersion, Release};
use jiff::Timestamp;
use semver::Version;

use super::LoadedRelease;
use crate::payload::{Architecture, Metadata};
use crate::target::{InvalidUpdate, Target, UnknownRelease, target};

/// The target release.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReleaseTarget {
    /// The release; `None` if unknown.
    pub wanted: Option<Release>,
    /// Why the request is invalid.
    pub invalid: Option<InvalidUpdate>,
    /// Why it is unknown whether the requested release exists.
    pub unknown: Option<UnknownRelease>,
    /// Available updates among the stored releases.
    pub updates: Vec<Release>,
}

/// A release stored in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRelease {
    /// Its image.
    pub image: String,
    /// Its metadata.
    pub metadata: Metadata,
    /// When it was stored.
    pub since: Option<Timestamp>,
}

impl StoredRelease {
    fn release(&self) -> Release {
        described(&self.image, &self.metadata)
    }
}

/// A release in the form of a ClusterVersion.
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

/// The target that the ClusterVersion reports; the requested one, while it reports none.
pub fn observed(version: &ClusterVersion) -> ReleaseTarget {
    let status = version.status.as_ref();
    let desired = status.map(|it| it.desired.clone());
    ReleaseTarget {
        wanted: desired
            .filter(|it| !it.image.is_empty())
            .or_else(|| requested_image(version)),
        ..ReleaseTarget::default()
    }
}

fn requested_image(version: &ClusterVersion) -> Option<Release> {
    let request = version.spec.desired_update.as_ref()?;
    (!request.image.is_empty()).then(|| Release {
        version: request.version.clone(),
        image: request.image.clone(),
        ..Release::default()
    })
}

/// The target where Medley maintains the ClusterVersion. The stored releases are the known ones, unless another manager
/// writes available updates.
pub fn owned(
    version: &ClusterVersion,
    current: Option<&LoadedRelease>,
    kept: &[StoredRelease],
    updates_by_others: bool,
) -> ReleaseTarget {
    let status = version.status.clone().unwrap_or_default();
    let desired = status.desired.clone();
    if desired.image.is_empty() {
        return ReleaseTarget {
            wanted: requested_image(version).or_else(|| first(kept)),
            ..ReleaseTarget::default()
        };
    }
    // The payload knows best. The status names the architecture only with the feature gate ImageStreamImportMode, so
    // its absence proves nothing.
    let architecture = match current {
        Some(loaded) => loaded.payload.metadata.architecture(),
        None if desired.architecture == "Multi" => Architecture::Multi,
        None => Architecture::Single(None),
    };
    let request = version.spec.desired_update.as_ref();
    let is_multi = architecture == Architecture::Multi;
    let wants_multi = !is_multi && request.is_some_and(|it| it.architecture == "Multi");
    let mut updates: Vec<Release> = if updates_by_others {
        status.available_updates.clone().unwrap_or_default()
    } else {
        let others = kept.iter().filter(|it| it.image != desired.image);
        let fits = |it: &&StoredRelease| {
            let metadata = &it.metadata;
            // A request for Multi excludes other updates, and is only possible at the current version.
            if wants_multi {
                return metadata.is_multi() && metadata.version == desired.version;
            }
            metadata.is_multi() == is_multi
                && metadata.version != desired.version
                // Only tested updates, as in the graph of the update service: `previous` lists what a release may be
                // updated from.
                && metadata.previous.contains(&desired.version)
        };
        others.filter(fits).map(StoredRelease::release).collect()
    };
    updates.sort_by(|one, other| (&one.version, &one.image).cmp(&(&other.version, &other.image)));
    let mut informed = version.clone();
    informed.status.get_or_insert_default().available_updates = Some(updates.clone());
    let mut aim = ReleaseTarget {
        wanted: Some(desired),
        updates,
        ..ReleaseTarget::default()
    };
    match target(&informed, &architecture) {
        Ok(Target::Stay) => {}
        Ok(Target::Go(release)) => aim.wanted = Some(release),
        Ok(Target::Unknown(unknown)) => aim.unknown = Some(unknown),
        Err(invalid) => aim.invalid = Some(invalid),
    }
    aim
}

/// The release of a cluster that reports none: the first stored one; of several stored at the same time one for a
/// single architecture, then the oldest version.
fn first(kept: &[StoredRelease]) -> Option<Release> {
    let order = |it: &&StoredRelease| {
        let version = Version::parse(&it.metadata.version).ok();
        (it.since, it.metadata.is_multi(), version, it.image.clone())
    };
    kept.iter().min_by_key(order).map(StoredRelease::release)
}
