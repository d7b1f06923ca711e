//! The default service account and the root certificate of every namespace.

mod account;
mod certificate;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::{Error, Key, Manager, Next, Queue, Writer};

use crate::object::{name, namespace};

/// Namespaces processed concurrently.
const WORKERS: usize = 5;

/// Starts both controllers.
pub async fn start(manager: &Manager, root_ca: &str) {
    let namespaces = manager.cache::<Namespace>();
    let accounts = manager.cache::<ServiceAccount>();
    let maps = manager.cache::<ConfigMap>();
    let account_queue = Queue::<Key>::new();
    let map_queue = Queue::<Key>::new();
    for queue in [&account_queue, &map_queue] {
        queue.enqueue_mapped(&namespaces, |change| {
            let active = change.new.as_ref().filter(|one| is_active(one));
            active.map(|one| Key::of(&one.metadata))
        });
    }
    account_queue.enqueue_mapped(&accounts, |change| {
        let gone = change.old.as_ref().filter(|_| change.new.is_none());
        gone.map(|account| namespace_of(&account.metadata))
    });
    map_queue.enqueue_mapped(&maps, |change| {
        let map = change.object()?;
        (name(&map.metadata) == certificate::NAME).then(|| namespace_of(&map.metadata))
    });
    namespaces.synced().await;
    accounts.synced().await;
    maps.synced().await;
    let accounts = account::Accounts {
        writer: Writer::namespaced(manager.client()).shown_by(&accounts),
        namespaces: namespaces.clone(),
        known: accounts,
    };
    manager.start(accounts, &account_queue, WORKERS);
    let certificates = certificate::Certificates {
        writer: Writer::namespaced(manager.client()).shown_by(&maps),
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
    Key::new("", namespace(meta))
}

/// A write that failed because the namespace is terminating or gone is not repeated.
fn unless_terminating<T>(written: Result<T, Error>) -> Result<Next, Error> {
    match written {
        Err(error) if !error.is_not_found() && !error.is_namespace_terminating() => Err(error),
        _ => Ok(Next::Wait),
    }
}
