//! Maintains the service account `default` of every namespace.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use runtime::{Cache, Error, Key, Next, Reconcile};

use super::{is_active, unless_terminating};

/// The service account of pods that name none.
const NAME: &str = "default";

pub(super) struct Accounts {
    pub(super) client: Client,
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
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &key.name);
        let created = api.create(&PostParams::default(), &account).await;
        let created = unless_terminating(created)
            .map_err(Error::api(format!("create service account {key}/{NAME}")))?;
        if let Some(created) = created {
            self.known.saw(&created).await;
        }
        Ok(Next::Wait)
    }
}
