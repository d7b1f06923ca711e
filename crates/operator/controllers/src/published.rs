//! The Lease that names the running controllers, so that commands and the console can tell which of them will act on a
//! change.

use std::time::Duration;

use api::published::{LEASE, PublishedOperator, RENEW_INTERVAL};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use runtime::{COMPONENT, Error, Key, Manager, Writer};
use serde_json::json;
use tracing::{debug, warn};

use crate::Options;

/// How long a write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes the controllers while this process leads. A failure is logged once and retried: it does not concern the
/// controllers.
pub(crate) async fn publish(manager: &Manager, options: &Options) {
    let operator = PublishedOperator {
        namespace: options.namespace.clone(),
        version: options.version.clone(),
        controllers: options.jobs.iter().map(ToString::to_string).collect(),
        renewed: None,
    };
    let api: Api<Lease> = Api::namespaced(manager.client(), &options.namespace);
    let writer = Writer::new(api, COMPONENT);
    let mut failed = false;
    // Before the controllers count as started: a command that is run right afterwards should find them.
    if !manager.fence().is_elected() {
        failed = renew(&writer, &operator, failed).await;
    }
    let fence = manager.fence().clone();
    manager.spawn(async move {
        if !fence.is_elected() {
            tokio::time::sleep(RENEW_INTERVAL.unsigned_abs()).await;
        }
        loop {
            fence.wait_for_leadership().await;
            failed = renew(&writer, &operator, failed).await;
            tokio::time::sleep(RENEW_INTERVAL.unsigned_abs()).await;
        }
    });
}

/// Renews the Lease; returns whether that failed, as it did `before`.
async fn renew(writer: &Writer<Lease>, operator: &PublishedOperator, before: bool) -> bool {
    let Err(error) = write(writer, operator).await else {
        return false;
    };
    let namespace = &operator.namespace;
    if before {
        debug!(lease = LEASE, namespace, %error, "cannot publish the running controllers");
    } else {
        warn!(lease = LEASE, namespace, %error, "cannot publish the running controllers; commands cannot tell that they run");
    }
    true
}

async fn write(writer: &Writer<Lease>, operator: &PublishedOperator) -> Result<(), Error> {
    let key = Key::new(&operator.namespace, LEASE);
    let lease = json!(operator.lease(Timestamp::now()));
    match tokio::time::timeout(WRITE_TIMEOUT, writer.apply(&key, &lease)).await {
        Ok(written) => written.map(drop),
        Err(_) => Err(Error::Late(format!("no answer in {WRITE_TIMEOUT:?}"))),
    }
}
