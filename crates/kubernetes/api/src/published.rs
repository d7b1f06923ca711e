//! What a running operator publishes about itself: its version, and the controllers it runs.
//!
//! The leader writes it to a Lease that it keeps renewing. The Lease of the leader election would not do: it exists only
//! with leader election, and says which process leads, not which controllers it runs. A Deployment would not do either:
//! the operator may run outside of the cluster, and flags may come from its environment or a file.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

/// Name of the Lease, in the namespace of the operator.
pub const LEASE: &str = "medley-controllers";
/// Annotation of the Lease: the running controllers, separated by commas.
pub const CONTROLLERS: &str = "medley.dev/controllers";
/// Annotation of the Lease: the version of the operator.
pub const VERSION: &str = "medley.dev/version";
/// The interval of renewals.
pub const RENEW_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// How long after a renewal the operator counts as running. Three intervals, so that one slow write, or a standby that
/// takes over, does not make it look gone.
pub const LEASE_DURATION: SignedDuration = SignedDuration::from_secs(30);

/// A running operator, as its Lease describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedOperator {
    /// Its namespace.
    pub namespace: String,
    /// Its version, such as `v1.2.3`.
    pub version: String,
    /// Names of its controllers, as on the command line.
    pub controllers: Vec<String>,
    /// The last renewal, by the clock of the operator.
    pub renewed: Option<Timestamp>,
}

impl PublishedOperator {
    /// The Lease that publishes it.
    pub fn lease(&self, now: Timestamp) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(LEASE.to_owned()),
                namespace: Some(self.namespace.clone()),
                annotations: Some(BTreeMap::from([
                    (CONTROLLERS.to_owned(), self.controllers.join(",")),
                    (VERSION.to_owned(), self.version.clone()),
                ])),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some("medley-operator".to_owned()),
                lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
                renew_time: Some(MicroTime(now)),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Reads the Lease.
    pub fn read(lease: &Lease) -> Self {
        let metadata = &lease.metadata;
        let annotation = |name: &str| {
            let annotations = metadata.annotations.as_ref();
            annotations.and_then(|it| it.get(name)).cloned()
        };
        let controllers = annotation(CONTROLLERS).unwrap_or_default();
        let controllers = controllers.split(',').filter(|name| !name.is_empty());
        let spec = lease.spec.as_ref();
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            version: annotation(VERSION).unwrap_or_default(),
            controllers: controllers.map(str::to_owned).collect(),
            renewed: spec.and_then(|it| it.renew_time.as_ref()).map(|it| it.0),
        }
    }

    /// Whether it was renewed recently, by a clock that agrees with that of the operator. `false` proves nothing: only a
    /// reader that observes no renewal for [`LEASE_DURATION`] knows that the operator is gone.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.renewed
            .is_some_and(|renewed| now.duration_since(renewed).abs() <= LEASE_DURATION)
    }

    /// Whether it runs a controller of this name.
    pub fn runs(&self, controller: &str) -> bool {
        self.controllers.iter().any(|it| it == controller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_describes_the_operator() {
        let now: Timestamp = "2026-11-19T04:00:00Z".parse().unwrap();
        let operator = PublishedOperator {
            namespace: "medley-system".to_owned(),
            version: "v1.0.0".to_owned(),
            controllers: vec!["governance".to_owned(), "images-cdi".to_owned()],
            renewed: Some(now),
        };
        let read = PublishedOperator::read(&operator.lease(now));
        assert_eq!(read, operator);
        assert!(read.runs("images-cdi") && !read.runs("images"));
        assert_eq!(
            PublishedOperator::read(&Lease::default()).controllers,
            Vec::<String>::new()
        );
    }

    #[test]
    fn operator_is_fresh_for_the_duration_of_its_lease() {
        let now: Timestamp = "2026-11-19T04:00:00Z".parse().unwrap();
        for (age, fresh) in [
            (0, true),
            (30, true),
            (31, false),
            (-30, true),
            (-31, false),
        ] {
            let renewed = now.checked_sub(SignedDuration::from_secs(age)).unwrap();
            let operator = PublishedOperator {
                renewed: Some(renewed),
                ..PublishedOperator::read(&Lease::default())
            };
            assert_eq!(operator.is_fresh(now), fresh, "{age}");
        }
        assert!(!PublishedOperator::read(&Lease::default()).is_fresh(now));
    }
}
