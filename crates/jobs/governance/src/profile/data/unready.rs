//! A PlatformProfile that cannot be used: it is known, and plans nothing.

use std::sync::Arc;

use api::advisor::ProfileOptions;
use api::profile::PlatformProfileSpec;

use super::names::Names;
use crate::intent::Intents;
use crate::profile::{KindUse, Prerequisite, Profile, ProfileInfo, Refusal};
use crate::snapshot::Snapshot;

/// The profile.
#[derive(Debug)]
struct Unready {
    about: ProfileInfo,
    /// Those of its last usable content: what was applied stays watched for drift.
    uses: Vec<KindUse>,
    why: String,
}

/// A stand-in for a profile that cannot be used, so that its configurations say why. `former` is its last usable content;
/// without permission for its kinds, none is given.
pub fn unready(
    name: &str,
    spec: &PlatformProfileSpec,
    former: Option<&dyn Profile>,
    why: String,
    names: &mut Names,
) -> Option<Arc<dyn Profile>> {
    Some(Arc::new(Unready {
        about: ProfileInfo {
            name: names.keep(name)?,
            description: "",
            category: "",
            impact_summary: "",
            impact: spec.impact,
            documentation_url: "",
            // Its prerequisites are not known.
            advertised: false,
        },
        uses: former.map(Profile::uses).unwrap_or_default().to_vec(),
        why,
    }))
}

impl Profile for Unready {
    fn about(&self) -> &ProfileInfo {
        &self.about
    }

    fn uses(&self) -> &[KindUse] {
        &self.uses
    }

    fn prerequisites(&self, _options: &ProfileOptions) -> Vec<Prerequisite> {
        Vec::new()
    }

    fn intents(&self, _options: &ProfileOptions, _snapshot: &Snapshot) -> Result<Intents, Refusal> {
        Err(Refusal::NotReady(format!(
            "PlatformProfile {} is not ready: {}",
            self.about.name, self.why
        )))
    }
}
