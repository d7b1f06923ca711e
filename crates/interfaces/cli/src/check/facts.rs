//! What there is in a cluster, as far as it could be seen.

use std::collections::{BTreeMap, BTreeSet};

use controllers::Job;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use serde_json::Value;

/// What was seen, or why it could not be.
pub(super) type Seen<T> = Result<T, String>;

/// What there is.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) now: Timestamp,
    /// Whether this is before an installation.
    pub(super) pre: bool,
    pub(super) namespace: String,
    /// What runs, or is to run.
    pub(super) jobs: BTreeSet<Job>,
    pub(super) version: Version,
    /// What whoever asks may not do, of what it takes to install.
    pub(super) cannot_install: Seen<Vec<String>>,
    /// Whether whoever asks may grant rights that they do not have.
    pub(super) may_escalate: Seen<bool>,
    /// Whether the namespace is there.
    pub(super) namespace_exists: Seen<bool>,
    /// Kinds that are defined, as `plural.group`.
    pub(super) kinds: Seen<BTreeSet<String>>,
    /// The definitions of our kinds, as the cluster has them.
    pub(super) definitions: BTreeMap<String, Seen<Option<Value>>>,
    pub(super) operator: Seen<Option<Deployment>>,
    pub(super) webhook: Seen<Option<Deployment>>,
    pub(super) lease: Seen<Option<LeaseSpec>>,
    /// Registrations that there should be, by name.
    pub(super) registrations: BTreeMap<String, Seen<Option<MutatingWebhookConfiguration>>>,
    /// Endpoints that are ready, of the Services that registrations name (`namespace/name`).
    pub(super) endpoints: BTreeMap<String, Seen<usize>>,
    pub(super) accounts: Vec<Account>,
    pub(super) policies: Vec<Seen<Policy>>,
    /// Whether Prometheus is told where our metrics are.
    pub(super) monitored: Seen<bool>,
}

/// Of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) text: String,
    /// Major and minor, if it can be read.
    pub(super) number: Option<(u32, u32)>,
}

/// Rights of a service account.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) name: &'static str,
    /// What it may not do and has to.
    pub(super) missing: Seen<Vec<String>>,
    /// Bindings that give it what it need not have.
    pub(super) surplus: Seen<Vec<String>>,
}

/// A policy of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// `kind/name`.
    pub(super) name: String,
    /// Why it is not in force, if it makes no sense.
    pub(super) invalid: Option<String>,
}
