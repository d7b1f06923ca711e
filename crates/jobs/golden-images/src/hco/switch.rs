//! The switch for multi-architecture images.
//!
//! It has been a proposed feature gate, a feature gate and a field. The field takes precedence over
//! the gate, and the current name over the proposed one.

use std::fmt;

use api::hco::{GateName, Images};

/// What sets the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchSource {
    /// `spec.workloadSources.enableMultiArchBootImageImport`.
    Field,
    /// The field under the proposed name.
    ProposedField,
    /// A feature gate.
    Gate(GateName),
    /// Nothing: it is off.
    Unset,
}

impl fmt::Display for SwitchSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field => f.write_str("field enableMultiArchBootImageImport"),
            Self::ProposedField => f.write_str("field enableMultiArchCommonBootImageImport"),
            Self::Gate(name) => write!(f, "feature gate {}", name.as_str()),
            Self::Unset => f.write_str("default"),
        }
    }
}

/// The switch for multi-architecture images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Whether it is requested.
    pub requested: bool,
    /// What requests it.
    pub source: SwitchSource,
    /// Whether the cluster has a single node, where the switch has no effect.
    pub single_node: bool,
}

impl Switch {
    pub(super) fn decide(images: &Images, single_node: bool) -> Self {
        let (requested, source) = Self::read(images);
        Self {
            requested,
            source,
            single_node,
        }
    }

    /// Reads the switch of a HyperConverged, and what sets it.
    pub fn read(images: &Images) -> (bool, SwitchSource) {
        if let Some(on) = images.field {
            return (on, SwitchSource::Field);
        }
        if let Some(on) = images.proposed_field {
            return (on, SwitchSource::ProposedField);
        }
        for name in [GateName::Current, GateName::Proposed] {
            if let Some(gate) = images.gates.iter().find(|gate| gate.name == name) {
                return (gate.on, SwitchSource::Gate(name));
            }
        }
        (false, SwitchSource::Unset)
    }

    /// Whether multi-architecture images are deployed.
    pub fn is_on(&self) -> bool {
        // The enhancement proposal excludes single nodes, upstream's `IsMultiArchEnabled` does not:
        // there, suffixed names would appear for an architecture that cannot change.
        self.requested && !self.single_node
    }
}
