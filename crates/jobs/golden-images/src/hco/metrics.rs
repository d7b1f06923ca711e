//! Metrics about templates, under the names of upstream.
//!
//! A decision returns all samples, and the caller replaces the previous ones, so that no series
//! outlives its template; upstream never deletes stale series.

use super::filter::Filtered;
use super::{HcoInputs, Switch};

/// Whether a template with the annotation lists an architecture that the cluster has.
pub const SUPPORTED: &str = "kubevirt_hco_dataimportcrontemplate_with_supported_architectures";
/// Whether a template has the architectures annotation.
pub const ANNOTATED: &str = "kubevirt_hco_dataimportcrontemplate_with_architecture_annotation";
/// Whether multi-architecture images are enabled, in a cluster with several architectures.
pub const ENABLED: &str = "kubevirt_hco_multi_arch_boot_images_enabled";

/// The labels of the first two: the DataImportCron, and the DataSource that it manages.
pub const LABELS: [&str; 2] = ["data_import_cron_name", "managed_data_source_name"];

/// A sample of a gauge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The name of the metric.
    pub name: &'static str,
    /// Its labels.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: u64,
}

pub(super) fn samples(facts: &HcoInputs<'_>, switch: Switch, images: &[Filtered]) -> Vec<Sample> {
    let mut samples = Vec::new();
    // Absent and not 0 otherwise: the alert HCOMultiArchGoldenImagesDisabled fires for 0, and with
    // one architecture there is nothing to enable.
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
        // Lower case as in upstream, so that existing dashboards and silences match.
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
