//! What a policy says of a model, and which of two models is better.

use std::cmp::Reverse;

use api::cpu::Bias;

use super::reason::RuledOut;
use crate::policy::Policy;
use crate::table::{Model, Vendor};

/// What the policy says of a model, whatever the nodes.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) model: Option<Model>,
    pub(super) ruled_out: Option<RuledOut>,
}

impl Judged {
    /// Year and generation; none for what was never sold.
    pub(crate) fn age(&self) -> Option<(i32, i32)> {
        let model = self.model.as_ref()?;
        Some((model.year?, model.generation))
    }
}

/// What makes one model better than another: the larger one is.
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

/// What a policy says of a model by its name.
pub(super) fn judge(policy: &Policy, name: &str) -> Judged {
    let model = policy.model(name);
    let ruled_out = if policy.excludes(name) {
        Some(RuledOut::Excluded)
    } else if policy.obsolete.contains(name) {
        Some(RuledOut::Obsolete)
    } else {
        match &model {
            None => Some(RuledOut::Unknown),
            Some(Model { year: None, .. }) => Some(RuledOut::Generic),
            Some(Model {
                year: Some(year), ..
            }) => (*year < policy.minimal_launch_year).then_some(RuledOut::TooOld {
                year: *year,
                minimum: policy.minimal_launch_year,
            }),
        }
    };
    Judged { model, ruled_out }
}

/// The order of choice: own vendor or nobody's before another's, then the year, the vendor's own,
/// the number of nodes, the generation, mitigations, no TSX (microcode takes it away), the higher
/// version, the base of a mainframe, the name. Names differ, so the order is total.
pub(super) fn rank<'n>(
    bias: Bias,
    vendor: &Vendor,
    model: Option<&Model>,
    supporters: u32,
    name: &'n str,
) -> Rank<'n> {
    let whose = model.and_then(|model| model.vendor.as_ref());
    let own = whose == Some(vendor);
    let variant = model.map(|model| model.variant).unwrap_or_default();
    (
        own || whose.is_none(),
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
