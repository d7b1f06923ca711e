//! Genuine operators of other projects: how one is found, whether it runs, and what restores it when it is scaled down.
//!
//! Two operators that write the same objects correct each other for ever, so a controller of Medley writes nothing while the
//! genuine operator runs. A CRD alone is no sign of it, because CRDs stay when an operator is removed: an operator runs while
//! its Deployment wants replicas, or while its Lease is held.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cdi::Named;
use crate::rbac::{READ, only, rule};

/// How to find a genuine operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenuineOperator {
    /// Its name in messages, with an article: `the SSP operator`.
    pub title: &'static str,
    /// The name of its Deployment.
    pub deployment: &'static str,
    /// The name of the Lease that its replicas elect a leader with.
    pub lease: Option<&'static str>,
    /// The namespaces it is installed in; empty for any. For names that others use as well, such as the Lease `version`.
    pub namespaces: &'static [&'static str],
}

impl GenuineOperator {
    /// Permission to watch its Deployment and its Lease.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let deployment = only(self.deployment, rule("apps", &["deployments"], &READ));
        let lease = self
            .lease
            .map(|lease| only(lease, rule("coordination.k8s.io", &["leases"], &READ)));
        [deployment].into_iter().chain(lease).collect()
    }

    fn is_at(&self, meta: &ObjectMeta, name: &str) -> bool {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        meta.name.as_deref() == Some(name)
            && (self.namespaces.is_empty() || self.namespaces.contains(&namespace))
    }

    /// Its Deployment, whether it wants replicas or not.
    pub fn deployment<'a>(&self, deployments: &'a [Arc<Deployment>]) -> Option<&'a Deployment> {
        let own = |it: &&Arc<Deployment>| self.is_at(&it.metadata, self.deployment);
        // One that wants replicas first, should there be two.
        let mut found: Vec<&Deployment> = deployments.iter().filter(own).map(|it| &**it).collect();
        found.sort_by_key(|it| !wants_replicas(it));
        found.into_iter().next()
    }
}

/// A genuine operator that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningOperator {
    /// Which one.
    pub operator: GenuineOperator,
    /// The Deployment that wants replicas.
    pub deployment: Option<Named>,
    /// The controller that restores that Deployment when it is scaled down.
    pub restorer: Option<Restorer>,
    /// The Lease that is held, and when it expires.
    pub lease: Option<(Named, Timestamp)>,
}

impl RunningOperator {
    /// When this ends unless the operator renews its Lease; `None` if only a change of the Deployment ends it.
    pub fn until(&self) -> Option<Timestamp> {
        let (_, until) = self.lease.as_ref()?;
        self.deployment.is_none().then_some(*until)
    }

    /// The object it was found by: `Deployment NAMESPACE/NAME`, or else `Lease NAMESPACE/NAME`.
    pub fn found_by(&self) -> String {
        match (&self.deployment, &self.lease) {
            (Some(Named { namespace, name }), _) => format!("Deployment {namespace}/{name}"),
            (None, Some((Named { namespace, name }, _))) => format!("Lease {namespace}/{name}"),
            (None, None) => String::new(),
        }
    }

    /// That it runs, what `component` therefore does not do, and what has to change.
    pub fn message(&self, component: &str) -> String {
        format!(
            "{self}, so {component} writes nothing; {}",
            self.next_step(component)
        )
    }

    /// What has to change so that `component` takes over.
    pub fn next_step(&self, component: &str) -> String {
        match (&self.deployment, &self.restorer) {
            (Some(Named { namespace, name }), None) => {
                format!("scale Deployment {namespace}/{name} to 0 to let {component} take over")
            }
            (Some(Named { namespace, name }), Some(restorer)) => format!(
                "scale Deployment {namespace}/{name} to 0 to let {component} take over, after what restores it: {restorer}"
            ),
            (None, _) => format!("stop the operator to let {component} take over"),
        }
    }
}

/// That it runs, and how it was found.
impl fmt::Display for RunningOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs ({})", self.operator.title, self.found_by())
    }
}

/// Whether an operator runs: its Deployment wants replicas, or its Lease is held.
///
/// A Deployment without an available replica counts too: its pods may start at any time, and an operator that fails at
/// start may succeed at the next one. The Lease also finds an operator that runs elsewhere, or under another name.
pub fn running(
    operator: &GenuineOperator,
    deployments: &[Arc<Deployment>],
    leases: &[Arc<Lease>],
    now: Timestamp,
) -> Option<RunningOperator> {
    let deployment = operator
        .deployment(deployments)
        .filter(|it| wants_replicas(it));
    let held = |it: &Arc<Lease>| {
        let until = expiry(it).filter(|until| *until > now)?;
        let named = operator.is_at(&it.metadata, operator.lease?);
        named.then(|| (name_of(&it.metadata), until))
    };
    let lease = leases.iter().find_map(held);
    (deployment.is_some() || lease.is_some()).then(|| RunningOperator {
        operator: *operator,
        deployment: deployment.map(|it| name_of(&it.metadata)),
        restorer: deployment.and_then(|it| restorer(&it.metadata)),
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

/// What restores a Deployment that is scaled down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restorer {
    /// The Operator Lifecycle Manager, from this ClusterServiceVersion.
    Olm {
        /// The ClusterServiceVersion.
        version: String,
    },
    /// OpenShift's Cluster Version Operator, from the release payload.
    ClusterVersion,
    /// The controller of the owner reference.
    Owner {
        /// The kind of the owner.
        kind: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Restorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Olm { version } => write!(
                f,
                "the Operator Lifecycle Manager, from ClusterServiceVersion {version}"
            ),
            Self::ClusterVersion => f.write_str("the Cluster Version Operator"),
            Self::Owner { kind, name } => write!(f, "the operator of {kind} {name}"),
        }
    }
}

/// The label of objects that the Operator Lifecycle Manager creates for an owner.
const OLM_OWNER: &str = "olm.owner";

/// The controller that restores an object, according to its owner reference and labels.
pub fn restorer(meta: &ObjectMeta) -> Option<Restorer> {
    let owners = meta.owner_references.iter().flatten();
    let mut owners: Vec<_> = owners.collect();
    owners.sort_by_key(|owner| owner.controller != Some(true));
    if let Some(owner) = owners.first() {
        return Some(match owner.kind.as_str() {
            "ClusterServiceVersion" => Restorer::Olm {
                version: owner.name.clone(),
            },
            "ClusterVersion" => Restorer::ClusterVersion,
            kind => Restorer::Owner {
                kind: kind.to_owned(),
                name: owner.name.clone(),
            },
        });
    }
    let version = meta.labels.as_ref()?.get(OLM_OWNER)?;
    Some(Restorer::Olm {
        version: version.clone(),
    })
}

fn name_of(meta: &ObjectMeta) -> Named {
    Named {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}
