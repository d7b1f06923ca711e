//! The switch: whether there are images for every architecture.
//!
//! It has been a proposed feature gate, a feature gate and a field. The field goes before the gate,
//! and the name of today before the proposed one.

use std::fmt;

use api::hco::{GateName, Images};

/// Who set the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// `spec.workloadSources.enableMultiArchBootImageImport`.
    Field,
    /// The field under the name that was proposed.
    ProposedField,
    /// A feature gate.
    Gate(GateName),
    /// Nobody: it is off.
    Nobody,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field => f.write_str("field enableMultiArchBootImageImport"),
            Self::ProposedField => f.write_str("field enableMultiArchCommonBootImageImport"),
            Self::Gate(name) => write!(f, "feature gate {}", name.as_str()),
            Self::Nobody => f.write_str("default"),
        }
    }
}

/// Whether there are images for every architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Whether somebody wants it.
    pub asked: bool,
    /// Who.
    pub said: Said,
    /// Whether there is one node, so that there is nothing to tell apart.
    pub single_node: bool,
}

impl Switch {
    pub(super) fn decide(images: &Images, single_node: bool) -> Self {
        let (asked, said) = Self::read(images);
        Self {
            asked,
            said,
            single_node,
        }
    }

    /// What a HyperConverged says, and where.
    pub fn read(images: &Images) -> (bool, Said) {
        if let Some(on) = images.field {
            return (on, Said::Field);
        }
        if let Some(on) = images.proposed_field {
            return (on, Said::ProposedField);
        }
        for name in [GateName::Current, GateName::Proposed] {
            if let Some(gate) = images.gates.iter().find(|gate| gate.name == name) {
                return (gate.on, Said::Gate(name));
            }
        }
        (false, Said::Nobody)
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.asked && !self.single_node
    }
}
