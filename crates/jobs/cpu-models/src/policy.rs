//! A CpuModelPolicy, parsed: values instead of strings, and defaults for missing fields.

mod obsolete;
#[cfg(test)]
mod tests;
mod threshold;

use std::collections::{BTreeMap, BTreeSet};

use api::cpu::{Bias, CpuModelPolicySpec, ForeignVendors, ModelOverride, NodeScope, Support};

pub use obsolete::{BUILT_IN_OBSOLETE, Obsolete};
pub use threshold::{Limit, Needed, Share, Threshold};

use crate::table::{self, Model, Variant, Vendor};

/// The oldest launch year unless the policy sets another, inclusive. 2007 is the constant of the
/// upstream proof of concept (kubevirt PR 9060); Penryn is the only model not obsolete that it
/// decides about.
pub const MINIMAL_LAUNCH_YEAR: i32 = 2007;

/// The rules for choosing a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The oldest launch year that a model may have, inclusive.
    pub minimal_launch_year: i32,
    /// How many nodes have to support a model.
    pub threshold: Threshold,
    /// Which nodes are eligible.
    pub scope: NodeScope,
    /// Whether a newer model or more supporting nodes win.
    pub bias: Bias,
    /// How models of another vendor are treated.
    pub foreign: ForeignVendors,
    /// The models that KubeVirt lists as obsolete.
    pub obsolete: Obsolete,
    overrides: BTreeMap<String, ModelOverride>,
    excluded: BTreeSet<String>,
}

/// An invalid field of a policy, and the value that is used instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    /// A launch year is out of range.
    #[error("{field}: {value} is not a launch year; must be between 1970 and 2200; ignored")]
    Year {
        /// The path of the field.
        field: String,
        /// Its value.
        value: i32,
    },
    /// `support` is neither a number nor a percentage.
    #[error(
        "spec.threshold.support: {value:?} is neither a number of nodes nor a share; must be at least 1, or 1% to 100%; using a third"
    )]
    Support {
        /// Its value.
        value: String,
    },
    /// A limit is not positive.
    #[error("{field}: {value} is not a number of nodes; must be at least 1; ignored")]
    Limit {
        /// The path of the field.
        field: &'static str,
        /// Its value.
        value: i32,
    },
    /// The minimum exceeds the maximum.
    #[error(
        "spec.threshold: minimum {minimum} is more than maximum {maximum}; ignoring the maximum"
    )]
    Limits {
        /// `spec.threshold.minimum`, or its default.
        minimum: u32,
        /// `spec.threshold.maximum`.
        maximum: u32,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self::read(&CpuModelPolicySpec::default()).0
    }
}

impl Policy {
    /// Parses a policy; returns its invalid fields as well.
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

    /// The same policy with KubeVirt's list of obsolete models.
    #[must_use]
    pub fn with_obsolete(self, obsolete: Obsolete) -> Self {
        Self { obsolete, ..self }
    }

    /// The properties of a model. An override for a family applies to all of its variants, unless
    /// the policy overrides the variant itself.
    pub fn model(&self, name: &str) -> Option<Model> {
        let known = table::lookup(name);
        // Longest name first, so that an override of `EPYC-Rome-v4` wins over one of `EPYC-Rome`.
        let own = table::readings(name).find_map(|(part, _)| self.overrides.get(part));
        let Some(own) = own else { return known };
        // An override alone makes a model known: new hardware does not have to wait for a release.
        let known = known.unwrap_or_else(|| Model {
            family: own.name.clone(),
            vendor: None,
            year: None,
            generation: 0,
            variant: Variant::default(),
        });
        Some(Model {
            vendor: own.vendor.as_deref().map(Vendor::new).or(known.vendor),
            year: own.launch_year.or(known.year),
            generation: own.generation.unwrap_or(known.generation),
            ..known
        })
    }

    /// Whether `spec.excludedModels` lists a model.
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
        // A maximum of 1 without a minimum is deliberate: the default minimum yields to it.
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
        // The default maximum belongs to the default share: an administrator who asks for 50% means
        // it.
        maximum.or_else(|| (share == Share::Third).then(|| threshold::MAXIMUM.max(least)));
    Threshold {
        share,
        minimum: least,
        maximum,
    }
}

/// Parses `1%` to `100%`.
fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let percent = digits.parse().ok().filter(|_| plain)?;
    (1..=100).contains(&percent).then_some(percent)
}
