//! Advertising: creates a VirtPlatformConfig for each advertised profile, so that `kubectl get` lists the profiles.

use api::advisor::{Action, VirtPlatformConfig, VirtPlatformConfigSpec, names};
use governance::snapshot::GroupKind;
use governance::{Profile, Registry, advertised};
use kube::{Api, Client};
use runtime::{Cache, Error, OptionalKinds, Writer};
use tracing::{info, warn};

/// Creates the missing configurations of all profiles.
pub(super) async fn ensure_all(
    client: &Client,
    registry: &Registry,
    configs: &Cache<VirtPlatformConfig>,
    foreign: &OptionalKinds,
) {
    // The prerequisites are named by their served versions.
    foreign.synced().await;
    for profile in registry.iter() {
        let name = profile.about().name;
        if configs.get("", name).is_some() {
            continue;
        }
        if let Err(error) = ensure(client, registry, name, foreign).await {
            // The other profiles do not depend on it; this one is retried at the next start.
            warn!(profile = name, %error, "cannot create the VirtPlatformConfig of a profile; retrying at the next start");
        }
    }
}

/// Recreates the configuration of an advertised profile after it was deleted.
pub(super) async fn ensure(
    client: &Client,
    registry: &Registry,
    name: &str,
    foreign: &OptionalKinds,
) -> Result<(), Error> {
    let Some(profile) = registry
        .get(name)
        .filter(|profile| profile.about().advertised)
    else {
        return Ok(());
    };
    let writer = Writer::new(Api::all(client.clone()), super::COMPONENT);
    // If the user created one meanwhile, it stays.
    let created = writer
        .create_if_absent(&configuration(&**profile, foreign))
        .await?;
    if created.is_some() {
        info!(
            profile = name,
            "created the VirtPlatformConfig of a profile"
        );
    }
    Ok(())
}

/// A configuration with action `Ignore`, which only describes its profile.
fn configuration(profile: &dyn Profile, foreign: &OptionalKinds) -> VirtPlatformConfig {
    let about = profile.about();
    let served = |of: &GroupKind, versions: &[&str]| {
        let installed = foreign.kind(of.group, of.kind)?;
        let mut versions = versions.iter();
        let best = versions.find(|version| installed.serves(version))?;
        Some((*best).to_owned())
    };
    let mut config = VirtPlatformConfig::new(
        about.name,
        VirtPlatformConfigSpec {
            profile: about.name.to_owned(),
            action: Action::Ignore,
            ..VirtPlatformConfigSpec::default()
        },
    );
    let annotations = [
        (names::DESCRIPTION, about.description.to_owned()),
        (names::IMPACT_SUMMARY, about.impact_summary.to_owned()),
        (names::DOCUMENTATION_URL, about.documentation_url.to_owned()),
        (
            names::PREREQUISITES,
            advertised::prerequisites(profile, served),
        ),
        (names::OPTIONS, advertised::options(about.name)),
        (names::AUTO_CREATED, "true".to_owned()),
    ];
    config.metadata.annotations = Some(
        annotations
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name.to_owned(), text))
            .collect(),
    );
    config.metadata.labels = Some([(names::CATEGORY.to_owned(), about.category.to_owned())].into());
    config
}
