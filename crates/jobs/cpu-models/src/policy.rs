//! What a CpuModelPolicy means: numbers instead of texts, and defaults where it says nothing.

mod obsolete;
#[cfg(test)]
mod tests;
mod threshold;

use std::collections::{BTreeMap, BTreeSet};

use api::cpu::{Bias, CpuModelPolicySpec, ForeignVendors, ModelOverride, NodeScope, Support};

pub use obsolete::{BUILT_IN_OBSOLETE, Obsolete};
pub use threshold::{Limit, Needed, Share, Threshold};

use crate::table::{self, Model, Variant, Vendor};

/// The oldest launch year, unless it is said otherwise. A model of this very year will do.
pub const MINIMAL_LAUNCH_YEAR: i32 = 2007;

/// How models are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The oldest launch year that a model may have.
    pub minimal_launch_year: i32,
    /// How many nodes have to support a model.
    pub threshold: Threshold,
    /// Which nodes count.
    pub scope: NodeScope,
    /// What counts more: a new model or many nodes.
    pub bias: Bias,
    /// What is done with models of another vendor.
    pub foreign: ForeignVendors,
    /// The models that KubeVirt is told are obsolete.
    pub obsolete: Obsolete,
    overrides: BTreeMap<String, ModelOverride>,
    excluded: BTreeSet<String>,
}

/// Something in a policy that makes no sense, and what is done instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    /// A year is none.
    #[error("{field}: {value} is no launch year; 1970 to 2200 is accepted; it is ignored")]
    Year {
        /// Where.
        field: String,
        /// What is there.
        value: i32,
    },
    /// A share is none.
    #[error(
        "spec.threshold.support: {value:?} is neither a number of nodes nor a share; 1 and more, or 1% to 100%, are accepted; a third is used"
    )]
    Support {
        /// What is there.
        value: String,
    },
    /// A limit is none.
    #[error("{field}: {value} is no number of nodes; 1 and more is accepted; it is ignored")]
    Limit {
        /// Where.
        field: &'static str,
        /// What is there.
        value: i32,
    },
    /// The limits cross.
    #[error(
        "spec.threshold: minimum {minimum} is more than maximum {maximum}; the maximum is ignored"
    )]
    Limits {
        /// The lower one.
        minimum: u32,
        /// The upper one.
        maximum: u32,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self::read(&CpuModelPolicySpec::default()).0
    }
}

impl Policy {
    /// What a policy means, and what in it makes no sense.
    pub fn read(spec: &CpuModelPolicySpec) -> (Self, Vec<Complaint>) {
        let mut wrong = Vec::new();
        let minimal_launch_year = year(
            "spec.minimalLaunchYear",
            spec.minimal_launch_year,
            &mut wrong,
        );
        let overrides = spec.models.iter().enumerate().map(|(index, model)| {
            let field = format!("spec.models[{index}].launchYear");
            let launch_year = year(&field, model.launch_year, &mut wrong);
            let model = ModelOverride {
                launch_year,
                ..model.clone()
            };
            (model.name.clone(), model)
        });
        let overrides = overrides.collect();
        let policy = Self {
            minimal_launch_year: minimal_launch_year.unwrap_or(MINIMAL_LAUNCH_YEAR),
            threshold: threshold(&spec.threshold, &mut wrong),
            scope: spec.nodes,
            bias: spec.bias,
            foreign: spec.foreign_vendors,
            obsolete: Obsolete::BuiltIn,
            overrides,
            excluded: spec.excluded_models.iter().cloned().collect(),
        };
        (policy, wrong)
    }

    /// The same with the obsolete models of a KubeVirt.
    #[must_use]
    pub fn with_obsolete(self, obsolete: Obsolete) -> Self {
        Self { obsolete, ..self }
    }

    /// What is known of a model. What the policy says of a family holds for all of its variants,
    /// unless it says something of the variant itself.
    pub fn model(&self, name: &str) -> Option<Model> {
        let known = table::lookup(name);
        let said = table::readings(name).find_map(|(part, _)| self.overrides.get(part));
        let Some(said) = said else { return known };
        let known = known.unwrap_or_else(|| Model {
            family: said.name.clone(),
            vendor: None,
            year: None,
            generation: 0,
            variant: Variant::default(),
        });
        Some(Model {
            vendor: said.vendor.as_deref().map(Vendor::new).or(known.vendor),
            year: said.launch_year.or(known.year),
            generation: said.generation.unwrap_or(known.generation),
            ..known
        })
    }

    /// Whether a model is never chosen because the policy says so.
    pub fn excludes(&self, name: &str) -> bool {
        self.excluded.contains(name)
    }
}

fn year(field: &str, given: Option<i32>, wrong: &mut Vec<Complaint>) -> Option<i32> {
    let value = given?;
    if (1970..=2200).contains(&value) {
        return Some(value);
    }
    wrong.push(Complaint::Year {
        field: field.to_owned(),
        value,
    });
    None
}

fn threshold(given: &api::cpu::Threshold, wrong: &mut Vec<Complaint>) -> Threshold {
    let share = given.support.as_ref().and_then(|support| {
        let share = match support {
            Support::Nodes(nodes) => u32::try_from(*nodes)
                .ok()
                .filter(|nodes| *nodes > 0)
                .map(Share::Nodes),
            Support::Share(text) => percent(text).map(Share::Percent),
        };
        if share.is_none() {
            let value = match support {
                Support::Nodes(nodes) => nodes.to_string(),
                Support::Share(text) => text.clone(),
            };
            wrong.push(Complaint::Support { value });
        }
        share
    });
    let mut limit = |field: &'static str, given: Option<i32>| {
        let value = given?;
        let read = u32::try_from(value).ok().filter(|limit| *limit > 0);
        if read.is_none() {
            wrong.push(Complaint::Limit { field, value });
        }
        read
    };
    let minimum = limit("spec.threshold.minimum", given.minimum);
    let mut maximum = limit("spec.threshold.maximum", given.maximum);
    let share = share.unwrap_or(Share::Third);
    let least = minimum.unwrap_or(threshold::MINIMUM);
    if let Some(most) = maximum.filter(|most| *most < least) {
        // A maximum of 1 alone is meant: the default minimum gives way to it.
        if minimum.is_none() {
            return Threshold {
                share,
                minimum: most,
                maximum: Some(most),
            };
        }
        wrong.push(Complaint::Limits {
            minimum: least,
            maximum: most,
        });
        maximum = None;
    }
    let maximum =
        maximum.or_else(|| (share == Share::Third).then(|| threshold::MAXIMUM.max(least)));
    Threshold {
        share,
        minimum: least,
        maximum,
    }
}

/// `1%` to `100%`.
fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let percent = digits.parse().ok().filter(|_| plain)?;
    (1..=100).contains(&percent).then_some(percent)
}
