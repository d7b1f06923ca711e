//! Adopts manual changes into the options of a configuration.

use api::advisor::{Action, Drift, DriftClass, ProfileOptions, VirtPlatformConfig};
use kube_core::ResourceExt as _;
use machinery::patch::merge_difference;
use serde_json::{Value, json};

use super::{PatchError, list_valid_names};
use crate::Profile;

/// The result of an adoption.
#[derive(Debug)]
pub struct Adoption {
    /// The options that request the live values.
    pub options: ProfileOptions,
    /// The adopted drift.
    pub adopted: Vec<Drift>,
    /// Why the other drift is not adopted.
    pub refused: Vec<String>,
    /// Whether drift remains.
    pub leaves_drift: bool,
}

/// Asks the profile for options that request the live values: of all drift, or of one field and the fields below it.
pub fn adopt(
    profile: &dyn Profile,
    config: &VirtPlatformConfig,
    path: Option<&str>,
) -> Result<Adoption, PatchError> {
    let name = config.name_any();
    let status = config.status.clone().unwrap_or_default();
    if status.observed_generation != config.metadata.generation {
        return Err(PatchError::other(format!(
            "the specification of {name} was changed, and its drift is not known yet; try again in a moment"
        )));
    }
    let edits: Vec<&Drift> = status
        .drift
        .iter()
        .filter(|drift| drift.class == DriftClass::ExternalEdit)
        .collect();
    if edits.is_empty() {
        return Err(PatchError::other(format!(
            "{name} has nothing to adopt: no applied field has drifted"
        )));
    }
    let chosen: Vec<&Drift> = edits
        .iter()
        .copied()
        .filter(|drift| path.is_none_or(|path| within(&drift.path, path)))
        .collect();
    if chosen.is_empty() {
        let known: Vec<&str> = edits.iter().map(|drift| drift.path.as_str()).collect();
        return Err(PatchError::other(format!(
            "nothing drifted at {}; {}",
            path.unwrap_or_default(),
            list_valid_names(&known)
        )));
    }
    let mut adoption = Adoption {
        options: config.spec.options.clone().unwrap_or_default(),
        adopted: Vec::new(),
        refused: Vec::new(),
        leaves_drift: false,
    };
    for drift in chosen {
        match profile.adopt(&adoption.options, drift) {
            Ok(options) => {
                adoption.options = options;
                adoption.adopted.push(drift.clone());
            }
            Err(why) => adoption.refused.push(why),
        }
    }
    if adoption.adopted.is_empty() {
        return Err(PatchError::other(format!(
            "nothing can be adopted: {}",
            adoption.refused.join("; ")
        )));
    }
    adoption.leaves_drift = adoption.adopted.len() < status.drift.len();
    Ok(adoption)
}

/// Whether a field is the given one, or below it.
fn within(field: &str, path: &str) -> bool {
    field
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl Adoption {
    /// Whether the remaining drift becomes a plan for review; under action Apply it would be reverted without one.
    pub fn is_for_review(&self, config: &VirtPlatformConfig) -> bool {
        self.leaves_drift && config.spec.action == Action::Apply
    }

    /// The patch that sets the options.
    pub fn patch(&self, config: &VirtPlatformConfig) -> Value {
        let before = config
            .spec
            .options
            .as_ref()
            .map_or_else(|| json!({}), |options| json!(options));
        let mut patch =
            json!({ "spec": { "options": merge_difference(&before, &json!(self.options)) } });
        if self.is_for_review(config) {
            patch["spec"]["action"] = json!(Action::DryRun);
        }
        patch
    }
}
