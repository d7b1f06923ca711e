//! The options of each profile: a union of which only the profile's own member may be set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The options of all profiles; only the member of the selected profile may be set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileOptions {
    /// For `load-aware-rebalancing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_aware: Option<LoadAware>,
    /// For `virt-higher-density`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virt_higher_density: Option<VirtHigherDensity>,
    /// For `node-health-remediation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_health: Option<NodeHealth>,
    /// For the profile of a PlatformProfile, which defines what they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Map<String, Value>>,
}

/// Options of `load-aware-rebalancing`. Absent fields have the CRD's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadAware {
    /// The interval of descheduler runs in seconds (60).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descheduling_interval_seconds: Option<i32>,
    /// Whether VMs are evicted or evictions only simulated (`Automatic`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether nodes get the kernel argument `psi=1` (true).
    #[serde(
        default,
        rename = "enablePSIMetrics",
        skip_serializing_if = "Option::is_none"
    )]
    pub enable_psi_metrics: Option<bool>,
    /// How far a node may deviate from the average before it counts as over- or underutilized
    /// (`AsymmetricLow`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_deviation_thresholds: Option<DeviationThresholds>,
    /// Concurrent evictions in the cluster; derived from the HyperConverged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_limit_total: Option<i32>,
    /// Concurrent evictions from one node; derived from the HyperConverged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_limit_node: Option<i32>,
}

/// Whether the descheduler evicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// VMs are evicted.
    Automatic,
    /// Evictions are only simulated.
    Predictive,
}

impl Mode {
    /// The value in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Automatic => "Automatic",
            Self::Predictive => "Predictive",
        }
    }
}

/// How far a node may deviate from the average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the descheduler's own")]
pub enum DeviationThresholds {
    Low,
    Medium,
    High,
    AsymmetricLow,
    AsymmetricMedium,
    AsymmetricHigh,
}

impl DeviationThresholds {
    /// The value in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "Low",
            Self::Medium => "Medium",
            Self::High => "High",
            Self::AsymmetricLow => "AsymmetricLow",
            Self::AsymmetricMedium => "AsymmetricMedium",
            Self::AsymmetricHigh => "AsymmetricHigh",
        }
    }
}

/// Options of `virt-higher-density`. Absent fields have the CRD's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtHigherDensity {
    /// Whether kubelets may use swap (true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_swap: Option<bool>,
    /// Kernel samepage merging (on, on all nodes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ksm_configuration: Option<KsmConfiguration>,
    /// Guest memory as a percentage of the pod's memory request (150).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_to_request_ratio: Option<i32>,
}

/// Kernel samepage merging.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KsmConfiguration {
    /// Whether it is enabled (true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Selects the nodes; an empty selector selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_label_selector: Option<LabelSelector>,
}

/// Options of `node-health-remediation`. Absent fields have the CRD's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeHealth {
    /// The minimum of healthy nodes for remediation to proceed: a number, or a percentage (`51%`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_healthy: Option<String>,
    /// How long a node may be unhealthy before it is remediated (300).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy_seconds: Option<i32>,
    /// The remediation template by name (`fenceagentsremediationtemplate-default`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_template: Option<String>,
    /// The kind of the remediation template (`FenceAgentsRemediationTemplate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_kind: Option<String>,
    /// The namespace of the remediation template (`openshift-workload-availability`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_namespace: Option<String>,
}
