//! Prometheus alerts about golden images, under the names of upstream.
//!
//! Every alert has a runbook: `docs/runbooks/<alert>.md`.

#[cfg(test)]
mod tests;

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// The label of upstream's own alerts about images: running workloads are not affected.
const NO_HEALTH_IMPACT: &[(&str, &str)] = &[("operator_health_impact", "none")];

/// All alerts.
///
/// Unlike upstream's, they wait before they fire: a node that restarts needs no action.
pub const ALERTS: [Alert; 4] = [
    Alert {
        name: "HCOGoldenImageWithNoSupportedArchitecture",
        expression: "kubevirt_hco_dataimportcrontemplate_with_supported_architectures == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: NO_HEALTH_IMPACT,
        summary: "No node can run the golden image {{ $labels.managed_data_source_name }}.",
        description: "DataImportCronTemplate {{ $labels.data_import_cron_name }} lists no architecture of any workload node, so it is not deployed. See `status.dataImportCronTemplates` of the HyperConverged for its architectures.",
    },
    Alert {
        name: "HCOGoldenImageWithNoArchitectureAnnotation",
        expression: "kubevirt_hco_dataimportcrontemplate_with_architecture_annotation == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: NO_HEALTH_IMPACT,
        summary: "The golden image {{ $labels.managed_data_source_name }} does not declare its architectures.",
        description: "DataImportCronTemplate {{ $labels.data_import_cron_name }} has no annotation ssp.kubevirt.io/dict.architectures. It is imported once, for an arbitrary architecture.",
    },
    Alert {
        name: "HCOMultiArchGoldenImagesDisabled",
        expression: "kubevirt_hco_multi_arch_boot_images_enabled == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: NO_HEALTH_IMPACT,
        summary: "Nodes have several architectures, golden images have one.",
        description: "The nodes that run virtual machines have more than one architecture, but enableMultiArchBootImageImport is off. Virtual machines may start from images of another architecture.",
    },
    Alert {
        name: "CDIDataImportCronOutdated",
        expression: "sum by (namespace, cron_name) (kubevirt_cdi_dataimportcron_outdated{pending=\"false\"}) > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: NO_HEALTH_IMPACT,
        summary: "The image of {{ $labels.namespace }}/{{ $labels.cron_name }} is not the newest.",
        description: "DataImportCron {{ $labels.namespace }}/{{ $labels.cron_name }} has not imported the newest version for 15 minutes. See its condition UpToDate for the reason and the time of the next try.",
    },
];

/// All alerts as a PrometheusRule. They have the names of upstream's alerts, so do not install them
/// where the upstream operators run.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley-golden-images", namespace, &ALERTS)
}
