//! The profiles of a cluster: those of the program, and those of its PlatformProfiles.

use std::sync::Arc;

use api::profile::PlatformProfile;
use cluster_view::policies;
use governance::profile::data::{Names, compile, unready};
use governance::{Profile, Registry};
use kube::{Client, ResourceExt as _};
use runtime::Error;

use crate::registry;

/// Every built-in profile, and the PlatformProfiles of a cluster. One with errors is known, and plans nothing.
///
/// Whether the operator has the permissions that a profile needs is in the status of the profile; a plan made here needs
/// those of the user.
pub async fn registry_of(client: &Client) -> Result<Registry, Error> {
    let built_in = registry()?;
    let objects = policies::list::<PlatformProfile>(client).await?;
    let mut names = Names::default();
    let mut profiles: Vec<Arc<dyn Profile>> = built_in.iter().cloned().collect();
    for object in objects.unwrap_or_default() {
        let name = object.name_any();
        let compiled = compile(&name, &object.spec, &mut names);
        let profile = if let Some(profile) = compiled.profile {
            Some(Arc::new(profile) as Arc<dyn Profile>)
        } else {
            let errors = compiled.findings.iter().filter(|finding| finding.error);
            let errors: Vec<String> = errors
                .map(|finding| format!("{}: {}", finding.path, finding.message))
                .collect();
            unready(&name, &object.spec, None, errors.join("; "), &mut names)
        };
        profiles.extend(profile);
    }
    Ok(Registry::new(profiles))
}
