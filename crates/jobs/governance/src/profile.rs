//! Profiles: named sets of changes. A profile is one file here, and one line in [`Registry::standard`].

mod adoption;
pub mod example;
pub mod higher_density;
mod hyperconverged;
pub mod impact;
pub mod kinds;
pub mod load_aware;
pub mod node_health;
mod pools;
pub mod schema;
mod settings;
mod swap;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::advisor::{Drift, Impact, ProfileOptions};

use crate::intent::Intents;
use crate::snapshot::{GroupKind, Snapshot};

/// What is told about a profile.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The name, which is also that of its configuration.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub description: &'static str,
    /// What it is about (`scheduling`).
    pub category: &'static str,
    /// What it may cost, in a sentence.
    pub impact_summary: &'static str,
    /// What it may cost, before a plan says so exactly.
    pub impact: Impact,
    /// Where it is documented.
    pub documentation_url: &'static str,
    /// Whether a configuration is made for it without being asked for.
    pub advertised: bool,
}

/// Something that has to be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prerequisite {
    /// The kind.
    pub of: GroupKind,
    /// Its version, for the message.
    pub version: &'static str,
    /// What to do if it is missing.
    pub remedy: &'static str,
}

/// A kind that a profile has to do with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uses {
    /// The kind.
    pub of: GroupKind,
    /// Versions that the profile understands, best first.
    pub versions: &'static [&'static str],
    /// What the kind is called in URLs, for the roles of the operator.
    pub plural: &'static str,
    /// What the profile does with it.
    pub access: Access,
}

/// What a profile does with a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Reads, applies, and creates it.
    Apply,
    /// All of that, and deletes what it created.
    ApplyAndDelete,
}

/// Why a profile cannot say what it wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The options make no sense.
    #[error("Invalid profile options: {0}")]
    Options(String),
    /// An object that is read is not as it must be.
    #[error("{0}")]
    Unreadable(String),
}

/// A named set of changes.
pub trait Profile: Send + Sync {
    /// What is told about it.
    fn about(&self) -> &About;

    /// The kinds it has to do with. They are watched.
    fn uses(&self) -> &[Uses];

    /// What has to be installed, given the options.
    fn prerequisites(&self, options: &ProfileOptions) -> Vec<Prerequisite>;

    /// What it wants, given the options and what there is.
    ///
    /// Called again after everything has been applied it wants the same: nothing here may depend on
    /// whether an item has been carried out, but for impact and message.
    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal>;

    /// The options that want what somebody has set by hand; the error says why there are none.
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

/// A profile was to be switched on that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("There is no profile '{name}' to switch on; there are: {}", known.join(", "))]
pub struct UnknownProfile {
    /// What was asked for.
    pub name: String,
    /// What could have been.
    pub known: Vec<&'static str>,
}

/// When a profile is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Always.
    Always,
    /// When it is switched on.
    SwitchedOn,
}

/// The profiles that there are.
#[derive(Clone, Default)]
pub struct Registry {
    profiles: Vec<Arc<dyn Profile>>,
}

impl Registry {
    /// The profiles of Medley: those that are always there, and those that are switched on by name.
    pub fn standard<S: AsRef<str>>(switched_on: &[S]) -> Result<Self, UnknownProfile> {
        let all: [(Presence, Arc<dyn Profile>); 4] = [
            (Presence::Always, Arc::new(load_aware::LoadAwareRebalancing)),
            (
                Presence::Always,
                Arc::new(higher_density::VirtHigherDensity),
            ),
            (Presence::Always, Arc::new(example::Example)),
            (
                Presence::SwitchedOn,
                Arc::new(node_health::NodeHealthRemediation),
            ),
        ];
        let names = || all.iter().map(|(_, profile)| profile.about().name);
        let asked = |name: &str| switched_on.iter().any(|asked| asked.as_ref() == name);
        let unknown = switched_on.iter().map(AsRef::as_ref);
        if let Some(name) = unknown
            .into_iter()
            .find(|asked| names().all(|name| name != *asked))
        {
            return Err(UnknownProfile {
                name: name.to_owned(),
                known: names().collect(),
            });
        }
        let there = all.into_iter().filter(|(presence, profile)| {
            *presence == Presence::Always || asked(profile.about().name)
        });
        Ok(Self::new(there.map(|(_, profile)| profile).collect()))
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
