//! The profiles of the program: data in `built_in/*.yaml`, in the same form as a PlatformProfile.

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use super::data::Names;
use super::data::read::built_in;
use super::{Presence, Profile};

/// When a profile is available, its text, and the member of the options union with its options.
pub(super) const TEXTS: [(Presence, &str, &str); 4] = [
    (
        Presence::Always,
        include_str!("built_in/load-aware-rebalancing.yaml"),
        "loadAware",
    ),
    (
        Presence::Always,
        include_str!("built_in/virt-higher-density.yaml"),
        "virtHigherDensity",
    ),
    // It has no options, so no member either.
    (
        Presence::Always,
        include_str!("built_in/example-profile.yaml"),
        "example",
    ),
    (
        Presence::Optional,
        include_str!("built_in/node-health-remediation.yaml"),
        "nodeHealth",
    ),
];

/// The name of the profile that is not enabled by default.
pub const NODE_HEALTH_REMEDIATION: &str = "node-health-remediation";

/// All of them, compiled once.
pub(super) static ALL: LazyLock<Vec<(Presence, Arc<dyn Profile>)>> = LazyLock::new(|| {
    let mut names = Names::default();
    let compiled = TEXTS.iter().filter_map(|(presence, text, member)| {
        let profile = built_in(text, member, &mut names)?.profile?;
        let profile: Arc<dyn Profile> = Arc::new(profile);
        Some((*presence, profile))
    });
    compiled.collect()
});
