//! Profiles: named sets of changes. Those of the program are in [`built_in`], in the same form as those of a cluster
//! ([`data`]).

mod adoption;
pub mod built_in;
pub mod data;
pub mod impact;
pub mod kinds;
mod pools;
pub mod schema;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::advisor::{Drift, Impact, ProfileOptions};
use kube_core::DynamicObject;

use crate::health::Health;
use crate::intent::Intents;
use crate::snapshot::{GroupKind, Snapshot};

/// The description of a profile.
#[derive(Debug, Clone, Copy)]
pub struct ProfileInfo {
    /// Its name, which is also that of its configuration.
    pub name: &'static str,
    /// Its purpose, as a sentence.
    pub description: &'static str,
    /// Its category (`scheduling`).
    pub category: &'static str,
    /// Its impact, as a sentence.
    pub impact_summary: &'static str,
    /// Its impact before a plan determines it exactly.
    pub impact: Impact,
    /// Its documentation.
    pub documentation_url: &'static str,
    /// Whether the operator creates a configuration for it by default.
    pub advertised: bool,
}

/// A required CRD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prerequisite {
    /// The kind.
    pub of: GroupKind,
    /// Its version, for the message.
    pub version: &'static str,
    /// What to do if it is missing.
    pub remedy: &'static str,
}

/// A kind that a profile reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindUse {
    /// The kind.
    pub of: GroupKind,
    /// Supported versions, best first.
    pub versions: &'static [&'static str],
    /// The plural resource name, for RBAC rules.
    pub plural: &'static str,
    /// The access that the profile needs.
    pub access: Access,
    /// Only objects of this name are read; all, if it is `None`.
    pub named: Option<&'static str>,
}

/// The access that a profile needs to a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Read, apply and create.
    Apply,
    /// Also delete objects that it created.
    ApplyAndDelete,
}

/// Why a profile cannot generate its changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The options are invalid.
    #[error("Invalid profile options: {0}")]
    Options(String),
    /// A live object is malformed.
    #[error("{0}")]
    Unreadable(String),
    /// The profile cannot be used at the moment.
    #[error("{0}")]
    NotReady(String),
}

/// A named set of changes.
pub trait Profile: Send + Sync {
    /// The description of the profile.
    fn about(&self) -> &ProfileInfo;

    /// The kinds it reads or writes. They are watched.
    fn uses(&self) -> &[KindUse];

    /// The required CRDs, given the options.
    fn prerequisites(&self, options: &ProfileOptions) -> Vec<Prerequisite>;

    /// The requested changes, given the options and the live objects.
    ///
    /// The result must be the same after everything has been applied: only impact and message may depend on whether an
    /// item has been executed, or the plan would become stale by being applied.
    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal>;

    /// The hash of its content, if that does not belong to the version of the program. A plan is made for one content.
    fn revision(&self) -> Option<&str> {
        None
    }

    /// Whether the change of an item has taken effect on its target, if the profile knows; by the kind otherwise.
    fn health(&self, item: &str, live: &DynamicObject) -> Option<Health> {
        let _ = (item, live);
        None
    }

    /// The options that request the manually set values; the error states why there are none.
    fn adopt(&self, options: &ProfileOptions, drift: &Drift) -> Result<ProfileOptions, String> {
        let _ = options;
        Err(format!(
            "Cannot adopt {} of item '{}': profile {} has no option for it",
            drift.path,
            drift.item,
            self.about().name
        ))
    }
}

/// A profile to enable does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("There is no profile '{name}' to enable; known profiles: {}", known.join(", "))]
pub struct UnknownProfile {
    /// The requested name.
    pub name: String,
    /// The known names.
    pub known: Vec<&'static str>,
}

/// When a profile is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Always.
    Always,
    /// Only if it is enabled.
    Optional,
}

/// The available profiles.
#[derive(Clone, Default)]
pub struct Registry {
    profiles: Vec<Arc<dyn Profile>>,
}

impl Registry {
    /// The profiles of Medley: those that are always available, and the enabled optional ones.
    pub fn standard<S: AsRef<str>>(enabled_names: &[S]) -> Result<Self, UnknownProfile> {
        let all = &*built_in::ALL;
        let names = || all.iter().map(|(_, profile)| profile.about().name);
        let enabled = |name: &str| enabled_names.iter().any(|enabled| enabled.as_ref() == name);
        let unknown = enabled_names.iter().map(AsRef::as_ref);
        if let Some(name) = unknown
            .into_iter()
            .find(|enabled| names().all(|name| name != *enabled))
        {
            return Err(UnknownProfile {
                name: name.to_owned(),
                known: names().collect(),
            });
        }
        let there = all.iter().filter(|(presence, profile)| {
            *presence == Presence::Always || enabled(profile.about().name)
        });
        Ok(Self::new(
            there.map(|(_, profile)| Arc::clone(profile)).collect(),
        ))
    }

    /// A registry of these profiles.
    pub fn new(profiles: Vec<Arc<dyn Profile>>) -> Self {
        Self { profiles }
    }

    /// A profile by name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Profile>> {
        self.profiles
            .iter()
            .find(|profile| profile.about().name == name)
    }

    /// All profiles.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Profile>> {
        self.profiles.iter()
    }
}
