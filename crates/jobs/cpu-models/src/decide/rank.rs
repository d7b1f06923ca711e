//! The policy's view of a model, and the order of models.

use std::cmp::Reverse;

use api::cpu::Bias;

use super::reason::ModelRejection;
use crate::policy::Policy;
use crate::table::{Model, Vendor};

/// The assessment of a model by the policy alone, independent of the nodes.
#[derive(Debug, Clone)]
pub(crate) struct ModelAssessment {
    pub(crate) model: Option<Model>,
    pub(super) ruled_out: Option<ModelRejection>,
}

impl ModelAssessment {
    /// Launch year and generation; `None` for models that were never sold.
    pub(crate) fn age(&self) -> Option<(i32, i32)> {
        let model = self.model.as_ref()?;
        Some((model.year?, model.generation))
    }
}

/// Sort key of a model: the greatest is chosen.
pub(super) type Rank<'n> = (
    bool,
    u32,
    i32,
    bool,
    u32,
    i32,
    bool,
    bool,
    u32,
    bool,
    Reverse<&'n str>,
);

/// Checks a model against the policy.
pub(super) fn assess(policy: &Policy, name: &str) -> ModelAssessment {
    let model = policy.model(name);
    // The administrator's list first, so that the reason names what can be changed.
    let ruled_out = if policy.excludes(name) {
        Some(ModelRejection::Excluded)
    } else if policy.obsolete.contains(name) {
        Some(ModelRejection::Obsolete)
    } else {
        match &model {
            None => Some(ModelRejection::Unknown),
            Some(Model { year: None, .. }) => Some(ModelRejection::Generic),
            Some(Model {
                year: Some(year), ..
            }) => (*year < policy.minimal_launch_year).then_some(ModelRejection::TooOld {
                year: *year,
                minimum: policy.minimal_launch_year,
            }),
        }
    };
    ModelAssessment { model, ruled_out }
}

/// Sort key: own or no vendor before a foreign one, then the year, own vendor before none, the
/// number of supporting nodes, the generation, mitigations, no TSX (microcode updates remove it),
/// the higher version, the base model of a mainframe, the name. Names are unique, so the order is
/// total; the upstream proof of concept (kubevirt#9060) picks at random among models of one year.
pub(super) fn rank<'n>(
    bias: Bias,
    vendor: &Vendor,
    model: Option<&Model>,
    supporters: u32,
    name: &'n str,
) -> Rank<'n> {
    let model_vendor = model.and_then(|model| model.vendor.as_ref());
    let own = model_vendor == Some(vendor);
    let variant = model.map(|model| model.variant).unwrap_or_default();
    (
        own || model_vendor.is_none(),
        // Zero in the other case, so that one tuple serves both orders.
        if bias == Bias::Widest { supporters } else { 0 },
        model.and_then(|model| model.year).unwrap_or_default(),
        own,
        supporters,
        model.map_or(0, |model| model.generation),
        variant.mitigated,
        !variant.tsx,
        variant.version,
        variant.base,
        Reverse(name),
    )
}
