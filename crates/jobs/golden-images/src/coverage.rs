//! What is missing: node architectures without a disk of an image, and objects that do not follow the switch for
//! multi-architecture images. For all clusters, whichever operators manage the images.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cdi::{DataImportCron, labels};
use api::ssp::{ARCHITECTURES, GOLDEN_NAMESPACE, SSP};
use serde::Serialize;

use crate::action::label;
use crate::conditions::ConditionUpdate;
use crate::list::ArchitectureList;
use crate::names::for_architecture;
use crate::overview::Image;

/// The condition of the GoldenImagePolicy about node architectures without disks.
pub const COVERED: &str = "Covered";
/// The condition of the GoldenImagePolicy about the switch for multi-architecture images.
pub const SWITCH_FOLLOWED: &str = "SwitchFollowed";
/// How many findings a condition lists.
const MAX_LISTED: usize = 8;

/// The inputs of [`decide`].
#[derive(Debug, Clone, Copy)]
pub struct CoverageInputs<'a> {
    /// The images.
    pub images: &'a [Image],
    /// The architectures of nodes that run VMs, with the number of nodes.
    pub nodes: &'a BTreeMap<String, usize>,
    /// The switch of the HyperConverged; `None` without a HyperConverged.
    pub switch: Option<bool>,
    /// The SSP, if there is one.
    pub ssp: Option<&'a SSP>,
    /// The DataImportCrons.
    pub crons: &'a [DataImportCron],
}

/// What is missing in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Images without a disk for an architecture of nodes.
    pub gaps: Vec<Gap>,
    /// Objects that do not follow the switch.
    pub drift: Vec<Drift>,
}

/// An image without a disk for an architecture of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The namespace of the image.
    pub namespace: String,
    /// The image.
    pub image: String,
    /// The architecture.
    pub architecture: String,
    /// How many nodes have it.
    pub nodes: usize,
    /// Whether the image is imported once, without an architecture, and the disk may be for any.
    pub unknown: bool,
}

/// An object that does not follow the switch for multi-architecture images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "reason")]
pub enum Drift {
    /// The SSP has another value than the HyperConverged.
    #[error(
        "the HyperConverged has multi-architecture images {}, the SSP {}: the operator of the HyperConverged has not updated it",
        word(*hyperconverged), word(*ssp)
    )]
    Ssp {
        /// The switch of the HyperConverged.
        hyperconverged: bool,
        /// The switch of the SSP.
        ssp: bool,
    },
    /// Multi-architecture images are on, but a DataImportCron of an architecture is missing.
    #[error(
        "multi-architecture images are on, but template {template} has no DataImportCron {namespace}/{cron} for {architecture}"
    )]
    Missing {
        /// The template of the SSP.
        template: String,
        /// The namespace of the DataImportCron.
        namespace: String,
        /// The DataImportCron.
        cron: String,
        /// The architecture.
        architecture: String,
    },
    /// Multi-architecture images are off, but a DataImportCron of an architecture is there.
    #[error(
        "multi-architecture images are off, but DataImportCron {namespace}/{cron} for {architecture} is there"
    )]
    Surplus {
        /// The namespace of the DataImportCron.
        namespace: String,
        /// The DataImportCron.
        cron: String,
        /// The architecture.
        architecture: String,
    },
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            namespace,
            image,
            architecture,
            nodes,
            unknown,
        } = self;
        let s = if *nodes == 1 { "" } else { "s" };
        let why = if *unknown {
            "; it is imported once, for one architecture"
        } else {
            ""
        };
        write!(
            f,
            "image {namespace}/{image} has no disk for {architecture} ({nodes} node{s}){why}"
        )
    }
}

/// Compares images, nodes and the switch.
pub fn decide(inputs: &CoverageInputs<'_>) -> Coverage {
    Coverage {
        gaps: gaps(inputs),
        drift: drift(inputs),
    }
}

fn gaps(inputs: &CoverageInputs<'_>) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for image in inputs.images {
        let unknown = image
            .architectures
            .iter()
            .any(|it| it.architecture.is_empty());
        // With nodes of one architecture, an image without a declared one is for these nodes.
        if unknown && inputs.nodes.len() < 2 {
            continue;
        }
        for (architecture, nodes) in inputs.nodes {
            let mut variants = image.architectures.iter();
            if !variants.any(|it| it.architecture == *architecture) {
                gaps.push(Gap {
                    namespace: image.namespace.clone(),
                    image: image.name.clone(),
                    architecture: architecture.clone(),
                    nodes: *nodes,
                    unknown,
                });
            }
        }
    }
    gaps
}

fn drift(inputs: &CoverageInputs<'_>) -> Vec<Drift> {
    let Some(ssp) = inputs.ssp else {
        return Vec::new();
    };
    let on = ssp.spec.enable_multiple_architectures == Some(true);
    let mut drift = Vec::new();
    if let Some(switch) = inputs.switch
        && switch != on
    {
        drift.push(Drift::Ssp {
            hyperconverged: switch,
            ssp: on,
        });
    }
    let find = |namespace: &str, name: &str| {
        inputs.crons.iter().find(|it| {
            it.metadata.namespace.as_deref() == Some(namespace)
                && it.metadata.name.as_deref() == Some(name)
        })
    };
    for template in &ssp.spec.common_templates.data_import_cron_templates {
        let namespace = template.metadata.namespace.as_deref();
        let namespace = namespace.unwrap_or(GOLDEN_NAMESPACE);
        let listed = template.annotation(ARCHITECTURES).unwrap_or_default();
        for architecture in ArchitectureList::parse(listed).known {
            let cron = for_architecture(template.name(), &architecture);
            let found = find(namespace, &cron);
            let has_nodes = inputs.nodes.contains_key(&architecture);
            // The SSP operator creates no DataImportCron for a DataSource that a user filled.
            let managed = template.spec.as_ref().map(|it| &it.managed_data_source);
            let source = managed.map(|it| for_architecture(it, &architecture));
            let mut variants = inputs.images.iter().flat_map(|it| &it.architectures);
            let by_user = variants.any(|it| Some(&it.data_source) == source.as_ref());
            if on && has_nodes && found.is_none() && !by_user {
                drift.push(Drift::Missing {
                    template: template.name().to_owned(),
                    namespace: namespace.to_owned(),
                    cron,
                    architecture,
                });
            }
        }
        // The annotation is not in the SSP while the switch is off, so the names are those of all architectures.
        if !on {
            let own = crate::list::KNOWN.iter().filter_map(|architecture| {
                let cron = for_architecture(template.name(), architecture);
                let found = find(namespace, &cron)?;
                (label(&found.metadata, labels::ARCHITECTURE) == Some(architecture)).then(|| {
                    Drift::Surplus {
                        namespace: namespace.to_owned(),
                        cron,
                        architecture: (*architecture).to_owned(),
                    }
                })
            });
            drift.extend(own);
        }
    }
    drift
}

impl Coverage {
    /// The conditions of the GoldenImagePolicy.
    pub fn conditions(&self) -> [ConditionUpdate; 2] {
        let covered = if self.gaps.is_empty() {
            let message = "every image has a disk for every architecture of nodes";
            ConditionUpdate::new(COVERED, true, COVERED, message)
        } else {
            ConditionUpdate::new(COVERED, false, "ArchitecturesMissing", listed(&self.gaps))
        };
        let followed = if self.drift.is_empty() {
            let message = "SSP and DataImportCrons follow the switch for multi-architecture images";
            ConditionUpdate::new(SWITCH_FOLLOWED, true, SWITCH_FOLLOWED, message)
        } else {
            ConditionUpdate::new(SWITCH_FOLLOWED, false, "SwitchDrift", listed(&self.drift))
        };
        [covered, followed]
    }
}

fn listed(findings: &[impl ToString]) -> String {
    let mut texts: Vec<String> = findings
        .iter()
        .take(MAX_LISTED)
        .map(ToString::to_string)
        .collect();
    if findings.len() > MAX_LISTED {
        texts.push(format!("and {} more", findings.len() - MAX_LISTED));
    }
    texts.join("; ")
}
