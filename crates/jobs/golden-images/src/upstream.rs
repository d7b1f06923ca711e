//! Whether the upstream operator of a layer runs.
//!
//! While it does, the layer writes none of its objects: two operators would correct each other's
//! objects for ever. A CRD alone is no sign of it, because CRDs stay when an operator is removed.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use api::cdi::Named;
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;

use crate::action::name_of;

/// How to find an upstream operator, in any namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamOperator {
    /// Its name in messages.
    pub title: &'static str,
    /// The layer that it is instead of.
    pub layer: &'static str,
    /// The name of its Deployment.
    pub deployment: &'static str,
    /// The name of the Lease that its replicas elect a leader with.
    pub lease: &'static str,
}

/// The SSP operator (`main.go` and the manifests of kubevirt/ssp-operator).
pub const SSP: UpstreamOperator = UpstreamOperator {
    title: "the SSP operator",
    layer: "images-ssp",
    deployment: "ssp-operator",
    lease: "734f7229.kubevirt.io",
};

/// The HyperConverged cluster operator (`cmd/hyperconverged-cluster-operator` of
/// kubevirt/hyperconverged-cluster-operator).
pub const HCO: UpstreamOperator = UpstreamOperator {
    title: "the HyperConverged cluster operator",
    layer: "images-hco",
    deployment: "hco-operator",
    lease: "hyperconverged-cluster-operator-lock",
};

/// An upstream operator that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningOperator {
    operator: UpstreamOperator,
    /// The Deployment that wants replicas.
    deployment: Option<Named>,
    /// The Lease that is held, and when it expires.
    lease: Option<(Named, Timestamp)>,
}

impl RunningOperator {
    /// When this ends unless the operator renews its Lease; `None` if only a change ends it.
    pub fn until(&self) -> Option<Timestamp> {
        let (_, until) = self.lease.as_ref()?;
        self.deployment.is_none().then_some(*until)
    }
}

impl fmt::Display for RunningOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = self.operator.layer;
        write!(f, "{} runs (", self.operator.title)?;
        if let Some(Named { namespace, name }) = &self.deployment {
            write!(f, "Deployment {namespace}/{name}")?;
        }
        if let (None, Some((Named { namespace, name }, _))) = (&self.deployment, &self.lease) {
            write!(f, "Lease {namespace}/{name}")?;
        }
        write!(f, "), so {layer} writes nothing; ")?;
        match &self.deployment {
            Some(Named { namespace, name }) => write!(
                f,
                "scale Deployment {namespace}/{name} to 0 to let {layer} take over"
            ),
            None => write!(f, "stop the operator to let {layer} take over"),
        }
    }
}

/// Whether an operator runs: its Deployment wants replicas, or its Lease is held.
///
/// A Deployment without an available replica counts too: its pods may start at any time, and an operator that fails at
/// start may succeed at the next one. The Lease also finds an operator that runs elsewhere, or under another name.
pub fn running(
    operator: &UpstreamOperator,
    deployments: &[Arc<Deployment>],
    leases: &[Arc<Lease>],
    now: Timestamp,
) -> Option<RunningOperator> {
    let mut deployments = deployments.iter();
    let deployment = deployments
        .find(|it| it.metadata.name.as_deref() == Some(operator.deployment) && wants_replicas(it))
        .map(|it| name_of(&it.metadata));
    let held = |it: &Arc<Lease>| {
        let until = expiry(it).filter(|until| *until > now)?;
        let named = it.metadata.name.as_deref() == Some(operator.lease);
        named.then(|| (name_of(&it.metadata), until))
    };
    let lease = leases.iter().find_map(held);
    (deployment.is_some() || lease.is_some()).then_some(RunningOperator {
        operator: *operator,
        deployment,
        lease,
    })
}

/// Whether a Deployment has or will have pods.
pub fn wants_replicas(deployment: &Deployment) -> bool {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    // The API server sets 1 if the field is absent.
    deployment.metadata.deletion_timestamp.is_none() && replicas.is_none_or(|replicas| replicas > 0)
}

/// When a Lease expires unless its holder renews it; `None` for one that is not held.
///
/// The time of renewal is by the holder's clock. A clock that is slow by more than the duration makes the operator
/// seem stopped; then its Deployment still counts.
pub fn expiry(lease: &Lease) -> Option<Timestamp> {
    let spec = lease.spec.as_ref()?;
    spec.holder_identity
        .as_ref()
        .filter(|name| !name.is_empty())?;
    let seconds = spec.lease_duration_seconds?;
    let renewed = &spec.renew_time.as_ref()?.0;
    renewed.checked_add(i64::from(seconds).seconds()).ok()
}
