//! What somebody should be told about golden images, under the names of upstream.
//!
//! Every alert has a page that says what it means and what to do: `docs/runbooks/<alert>.md`.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

/// Where the pages of the alerts are.
const RUNBOOKS: &str = "https://github.com/medley-dev/medley/blob/main/docs/runbooks";

/// Something that somebody should be told about. All of them are warnings: nothing that runs is
/// harmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// What it is called.
    pub name: &'static str,
    /// When it is so, in PromQL.
    pub expression: &'static str,
    /// For how long it has to be so.
    pub lasting: &'static str,
    /// What is the matter, in a line.
    pub summary: &'static str,
    /// What is the matter, and where to look first.
    pub description: &'static str,
}

/// All alerts.
///
/// Unlike upstream they wait before they tell: a node that restarts is no news.
pub const ALERTS: [Alert; 4] = [
    Alert {
        name: "HCOGoldenImageWithNoSupportedArchitecture",
        expression: "kubevirt_hco_dataimportcrontemplate_with_supported_architectures == 0",
        lasting: "10m",
        summary: "No node can run the golden image {{ $labels.managed_data_source_name }}.",
        description: "DataImportCronTemplate {{ $labels.data_import_cron_name }} names no architecture that a node has, so that it is not deployed. `status.dataImportCronTemplates` of the HyperConverged says which it names.",
    },
    Alert {
        name: "HCOGoldenImageWithNoArchitectureAnnotation",
        expression: "kubevirt_hco_dataimportcrontemplate_with_architecture_annotation == 0",
        lasting: "10m",
        summary: "The golden image {{ $labels.managed_data_source_name }} does not say its architectures.",
        description: "DataImportCronTemplate {{ $labels.data_import_cron_name }} has no annotation ssp.kubevirt.io/dict.architectures. There is one import of it, for whatever architecture comes.",
    },
    Alert {
        name: "HCOMultiArchGoldenImagesDisabled",
        expression: "kubevirt_hco_multi_arch_boot_images_enabled == 0",
        lasting: "10m",
        summary: "Nodes have several architectures, golden images have one.",
        description: "The nodes that run virtual machines have more than one architecture, but enableMultiArchBootImageImport is off. Virtual machines may start from images of another architecture.",
    },
    Alert {
        name: "CDIDataImportCronOutdated",
        expression: "sum by (namespace, cron_name) (kubevirt_cdi_dataimportcron_outdated{pending=\"false\"}) > 0",
        lasting: "15m",
        summary: "The image of {{ $labels.namespace }}/{{ $labels.cron_name }} is not the newest.",
        description: "DataImportCron {{ $labels.namespace }}/{{ $labels.cron_name }} has not imported the newest version for 15 minutes. Its condition UpToDate says why, and when it is tried again.",
    },
];

impl Alert {
    /// Where it is written what to do.
    pub fn runbook_url(&self) -> String {
        format!("{RUNBOOKS}/{}.md", self.name)
    }

    /// As Prometheus takes it.
    pub fn rule(&self) -> Value {
        json!({
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": { "severity": "warning", "operator_health_impact": "none" },
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": self.runbook_url(),
            },
        })
    }
}

/// All alerts, as the operator of Prometheus takes them. They have the names of upstream: where its
/// operators run, they bring their own.
pub fn prometheus_rule(namespace: &str) -> Value {
    let rules: Vec<_> = ALERTS.iter().map(Alert::rule).collect();
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "medley-golden-images",
            "namespace": namespace,
            "labels": { "app.kubernetes.io/part-of": "medley" },
        },
        "spec": { "groups": [{ "name": "medley-golden-images", "rules": rules }] },
    })
}
