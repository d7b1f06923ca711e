//! The Lease of the placement controller: while it is renewed, the webhook gates pods.
//!
//! A renewal promises that gated pods are released. It is therefore an entry of the work queue that releases them, so
//! that workers which make no progress stop renewing as well, and it is only written while the API server would accept
//! the release of a pod.

use std::time::Duration;

use ::placement::{LEASE, LeaseTiming};
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::{Error, Key, Next, Writer};
use serde_json::json;
use tracing::warn;

use super::COMPONENT;

/// How long a renewal may take: it must not occupy a worker while the API server does not answer.
const RENEW_TIMEOUT: Duration = Duration::from_secs(5);

/// The Lease of this controller.
pub(super) struct ControllerLease {
    client: Client,
    namespace: String,
    timing: LeaseTiming,
    /// Why the last renewal failed.
    error: Mutex<Option<String>>,
}

impl ControllerLease {
    pub(super) fn new(client: Client, namespace: &str, timing: LeaseTiming) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            timing,
            error: Mutex::default(),
        }
    }

    /// Renews the Lease, and returns when to do so again. It is not released at the end: the next leader, or else the
    /// webhook, takes over the pods that were gated in the meantime.
    pub(super) async fn renew(&self) -> Next {
        let renewed = tokio::time::timeout(RENEW_TIMEOUT, self.write()).await;
        let error = match renewed {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer in {RENEW_TIMEOUT:?}")),
        };
        // Once for each error: it is retried every few seconds.
        let before = std::mem::replace(&mut *self.error.lock(), error.clone());
        if let Some(error) = error.filter(|error| before.as_ref() != Some(error)) {
            let lease = Key::new(&self.namespace, LEASE);
            warn!(%lease, error, "cannot renew the Lease of the placement controller; the webhook will gate no pods");
        }
        // Not the backoff of the queue, which grows to minutes: the Lease would stay stale for long after the cause is
        // gone.
        Next::After(self.timing.renew)
    }

    async fn write(&self) -> Result<(), Error> {
        if !self.may_release_pods().await? {
            return Err(Error::Invalid(
                "RBAC forbids the operator to patch pods, so that it could not release them from the scheduling gate"
                    .to_owned(),
            ));
        }
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": LEASE, "namespace": self.namespace },
            "spec": {
                "holderIdentity": COMPONENT,
                // Informs people; the webhook measures by its own settings. Whole seconds, at least one.
                "leaseDurationSeconds": self.timing.duration.as_secs().max(1),
                // Only has to differ from the previous one.
                "renewTime": MicroTime(Timestamp::now()),
            },
        });
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let key = Key::new(&self.namespace, LEASE);
        Writer::new(api, COMPONENT).apply(&key, &lease).await?;
        Ok(())
    }

    async fn may_release_pods(&self) -> Result<bool, Error> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some("patch".to_owned()),
                    version: Some("v1".to_owned()),
                    resource: Some("pods".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = Api::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await
            .map_err(Error::api("checking the permission to patch pods"))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
