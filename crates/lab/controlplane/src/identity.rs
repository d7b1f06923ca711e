//! The default service account and the root certificate of every namespace.

mod account;
mod certificate;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::{Key, Manager, Queue};

/// Namespaces processed concurrently.
const WORKERS: usize = 5;

/// Starts both controllers.
pub async fn start(manager: &Manager, root_ca: &str) {
    let namespaces = manager.cache::<Namespace>();
    let accounts = manager.cache::<ServiceAccount>();
    let maps = manager.cache::<ConfigMap>();
    let account_queue = Queue::<Key>::new();
    let map_queue = Queue::<Key>::new();
    namespaces.on_change({
        let queues = [account_queue.clone(), map_queue.clone()];
        move |change| {
            if let Some(namespace) = change.new.as_ref().filter(|one| is_active(one)) {
                for queue in &queues {
                    queue.add(Key::of(&namespace.metadata));
                }
            }
        }
    });
    accounts.on_change({
        let queue = account_queue.clone();
        move |change| {
            if let (Some(old), None) = (&change.old, &change.new) {
                queue.add(namespace_of(&old.metadata));
            }
        }
    });
    maps.on_change({
        let queue = map_queue.clone();
        move |change| {
            if let Some(map) = change.object()
                && map.metadata.name.as_deref() == Some(certificate::NAME)
            {
                queue.add(namespace_of(&map.metadata));
            }
        }
    });
    namespaces.synced().await;
    accounts.synced().await;
    maps.synced().await;
    let accounts = account::Accounts {
        client: manager.client(),
        namespaces: namespaces.clone(),
        known: accounts,
    };
    manager.start(accounts, &account_queue, WORKERS);
    let certificates = certificate::Certificates {
        client: manager.client(),
        namespaces,
        maps,
        root_ca: Arc::from(root_ca),
    };
    manager.start(certificates, &map_queue, WORKERS);
}

/// Whether objects may be created in a namespace.
fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|s| s.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase == Some("Active")
}

fn namespace_of(meta: &ObjectMeta) -> Key {
    Key::new("", meta.namespace.clone().unwrap_or_default())
}

/// `None` if the creation failed because the namespace is terminating or gone.
fn unless_terminating<T>(written: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(status)) if status.code == 404 || is_terminating(&status) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_terminating(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}
