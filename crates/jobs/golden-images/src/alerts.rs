//! What somebody should be told about golden images, under the names of upstream.
//!
//! Every alert has a page that says what it means and what to do: `docs/runbooks/<alert>.md`.

#[cfg(test)]
mod tests;

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// What upstream says of its own alerts about images: nothing that runs is harmed.
const HARMLESS: &[(&str, &str)] = &[("operator_health_impact", "none")];

/// All alerts.
///
/// Unlike upstream they wait before they tell: a node that restarts is no news.
pub const ALERTS: [Alert; 4] = [
    Alert {
        name: "HCOGoldenImageWithNoSupportedArchitecture",
        expression: "kubevirt_hco_dataimportcrontemplate_with_supported_architectures == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: HARMLESS,
        summary: "No node can run the golden image {{ $labels.managed_data_source_name }}.",
        description: "DataImportCronTemplate {{ $labels.data_import_cron_name }} names no architecture that a node has, so that it is not deployed. `status.dataImportCronTemplates` of the HyperConverged says which it names.",
    },
    Alert {
        name: "HCOGoldenImageWithNoArchitectureAnnotation",
        expression: "kubevirt_hco_dataimportcrontemplate_with_architecture_annotation == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: HARMLESS,
        summary: "The golden image {{ $labels.managed_data_source_name }} does not say its architectures.",
        description: "DataImportCronTemplate {{ $labels.data_import_cron_name }} has no annotation ssp.kubevirt.io/dict.architectures. There is one import of it, for whatever architecture comes.",
    },
    Alert {
        name: "HCOMultiArchGoldenImagesDisabled",
        expression: "kubevirt_hco_multi_arch_boot_images_enabled == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: HARMLESS,
        summary: "Nodes have several architectures, golden images have one.",
        description: "The nodes that run virtual machines have more than one architecture, but enableMultiArchBootImageImport is off. Virtual machines may start from images of another architecture.",
    },
    Alert {
        name: "CDIDataImportCronOutdated",
        expression: "sum by (namespace, cron_name) (kubevirt_cdi_dataimportcron_outdated{pending=\"false\"}) > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: HARMLESS,
        summary: "The image of {{ $labels.namespace }}/{{ $labels.cron_name }} is not the newest.",
        description: "DataImportCron {{ $labels.namespace }}/{{ $labels.cron_name }} has not imported the newest version for 15 minutes. Its condition UpToDate says why, and when it is tried again.",
    },
];

/// All alerts, as the operator of Prometheus takes them. They have the names of upstream: where its
/// operators run, they bring their own.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley-golden-images", namespace, &ALERTS)
}
