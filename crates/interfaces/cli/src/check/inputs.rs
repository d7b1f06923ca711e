//! State of a cluster, as far as it could be read.

use std::collections::{BTreeMap, BTreeSet};

use api::mode::Ownership;
use api::operators::RunningOperator;
use controllers::Job;
use governance::collisions::Collision;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use serde_json::Value;

use super::network::NetworkInputs;
use super::openshift::OpenShift;

/// A value read from the cluster, or why it could not be read.
pub(super) type Observed<T> = Result<T, String>;

/// Everything the checks decide on.
#[derive(Debug, Clone)]
pub(super) struct CheckInputs {
    pub(super) now: Timestamp,
    /// Whether this checks before an installation.
    pub(super) pre: bool,
    pub(super) namespace: String,
    /// Controllers that run, or are to run.
    pub(super) jobs: BTreeSet<Job>,
    pub(super) version: Version,
    /// Permissions needed to install that the current user lacks.
    pub(super) cannot_install: Observed<Vec<String>>,
    /// Whether the current user may bind roles with permissions they do not have (`escalate`).
    pub(super) may_escalate: Observed<bool>,
    /// Whether the namespace exists.
    pub(super) namespace_exists: Observed<bool>,
    /// OpenShift, if the cluster is one.
    pub(super) openshift: Observed<Option<OpenShift>>,
    /// Installed CRDs, as `plural.group`.
    pub(super) kinds: Observed<BTreeSet<String>>,
    /// Our CRDs as the cluster has them.
    pub(super) definitions: BTreeMap<String, Observed<Option<Value>>>,
    pub(super) operator: Observed<Option<Deployment>>,
    pub(super) webhook: Observed<Option<Deployment>>,
    pub(super) lease: Observed<Option<LeaseSpec>>,
    /// Expected webhook configurations, by name.
    pub(super) registrations: BTreeMap<String, Observed<Option<MutatingWebhookConfiguration>>>,
    /// Ready endpoints of the Services that webhooks reference (`namespace/name`).
    pub(super) endpoints: BTreeMap<String, Observed<usize>>,
    pub(super) accounts: Vec<Account>,
    pub(super) policies: Vec<Observed<Policy>>,
    pub(super) network: NetworkInputs,
    /// Other operators beside governance, placement and release.
    pub(super) rivals: Rivals,
    /// The modes of controllers beside genuine operators.
    pub(super) ownership: Vec<JobOwnership>,
    /// Whether the ServiceMonitor of the operator exists.
    pub(super) monitored: Observed<bool>,
}

/// Operators of other projects that write what jobs of Medley write.
#[derive(Debug, Clone)]
pub(super) struct Rivals {
    /// Who reconciles VirtPlatformConfigs.
    pub(super) governance: Observed<Ownership>,
    /// Who places pods.
    pub(super) placement: Observed<Ownership>,
    /// Who maintains the ClusterVersion.
    pub(super) release: Observed<Ownership>,
    /// Whether `spec.mode` of the ReleasePolicy is Own.
    pub(super) owns_release: bool,
    /// Other controllers that set fields of the targets of profiles.
    pub(super) collisions: Observed<Vec<Collision>>,
    /// The virt-platform-autopilot, if it runs.
    pub(super) autopilot: Observed<Option<RunningOperator>>,
}

/// Version of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) text: String,
    /// Major and minor, if they can be parsed.
    pub(super) number: Option<(u32, u32)>,
}

/// RBAC of a service account.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) name: &'static str,
    /// Permissions it needs and does not have.
    pub(super) missing: Observed<Vec<String>>,
    /// Bindings that grant it more than it needs.
    pub(super) surplus: Observed<Vec<String>>,
}

/// A controller of Medley and the genuine operator of its objects.
#[derive(Debug, Clone)]
pub(super) struct JobOwnership {
    /// The controller, or the job.
    pub(super) component: String,
    /// Whether it runs, or is to run.
    pub(super) enabled: bool,
    pub(super) state: Observed<OwnershipState>,
    /// The command that hands its objects over to Medley, if there is one.
    pub(super) take_over: Option<String>,
}

/// Who writes the objects of a controller.
#[derive(Debug, Clone)]
pub(super) struct OwnershipState {
    pub(super) ownership: Ownership,
    /// The genuine operator, if it runs.
    pub(super) running: Option<RunningOperator>,
}

/// A Medley policy object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// `kind/name`.
    pub(super) name: String,
    /// Why the policy is not in force, if it is invalid.
    pub(super) invalid: Option<String>,
}
