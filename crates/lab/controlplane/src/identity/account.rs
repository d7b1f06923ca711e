//! Maintains the service account `default` of every namespace.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::ObjectMeta;
use runtime::{Cache, Error, Key, Next, Reconcile, Writer};

use super::{is_active, unless_terminating};

/// The service account of pods that name none.
const NAME: &str = "default";

pub(super) struct Accounts {
    pub(super) writer: Writer<ServiceAccount>,
    pub(super) namespaces: Cache<Namespace>,
    pub(super) known: Cache<ServiceAccount>,
}

impl Reconcile for Accounts {
    fn name(&self) -> &'static str {
        "service-account"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let active = self.namespaces.find(key).is_some_and(|one| is_active(&one));
        if !active || self.known.get(&key.name, NAME).is_some() {
            return Ok(Next::Wait);
        }
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(key.name.clone()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        unless_terminating(self.writer.create(&account).await)
    }
}
