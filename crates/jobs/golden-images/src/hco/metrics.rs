//! What is measured about templates, under the names of upstream.
//!
//! A decision has all samples. Who shows them replaces what was shown before, so that nothing
//! outlives its template.

use super::filter::Filtered;
use super::{Facts, Switch};

/// Whether a template that names architectures names one that the cluster has.
pub const SUPPORTED: &str = "kubevirt_hco_dataimportcrontemplate_with_supported_architectures";
/// Whether a template names architectures.
pub const ANNOTATED: &str = "kubevirt_hco_dataimportcrontemplate_with_architecture_annotation";
/// Whether there are images for every architecture, in a cluster that has several.
pub const ENABLED: &str = "kubevirt_hco_multi_arch_boot_images_enabled";

/// What the first two are told apart by: the cron, and the data source it looks after.
pub const LABELS: [&str; 2] = ["data_import_cron_name", "managed_data_source_name"];

/// A number that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// What it is called.
    pub name: &'static str,
    /// What it is about.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: u64,
}

pub(super) fn samples(facts: &Facts<'_>, switch: Switch, images: &[Filtered]) -> Vec<Sample> {
    let mut samples = Vec::new();
    if facts.architectures.workload.len() > 1 && !images.is_empty() {
        samples.push(Sample {
            name: ENABLED,
            labels: Vec::new(),
            value: u64::from(switch.is_on()),
        });
    }
    if !switch.is_on() {
        return samples;
    }
    for image in images {
        let template = &image.reported;
        let cron = template.metadata.name.as_deref().unwrap_or_default();
        let spec = template.spec.as_ref();
        let source = spec.map_or("", |spec| spec.managed_data_source.as_str());
        let values = [cron, source].map(str::to_lowercase);
        let labels: Vec<_> = LABELS.into_iter().zip(values).collect();
        if image.annotated {
            samples.push(Sample {
                name: SUPPORTED,
                labels: labels.clone(),
                value: u64::from(image.deployed.is_some()),
            });
        }
        samples.push(Sample {
            name: ANNOTATED,
            labels,
            value: u64::from(image.annotated),
        });
    }
    samples
}
