//! Aggregated cluster roles.

mod aggregate;

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use parking_lot::Mutex;
use runtime::{Absent as _, Cache, Error, Key, Manager, Next, Queue, Reconcile, Writer};
use serde_json::json;

/// Field manager of the rules.
const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";
/// Roles processed concurrently (kube-controller-manager's 5).
const WORKERS: usize = 5;

/// Starts the aggregation controller.
pub async fn start(manager: &Manager) {
    let roles = manager.cache::<ClusterRole>();
    let queue = Queue::<Key>::new();
    // Any role may be part of any aggregate, and aggregates are few: all are enqueued.
    let aggregates = Mutex::new(BTreeSet::new());
    queue.enqueue_mapped(&roles, move |change| {
        let mut aggregates = aggregates.lock();
        if let Some(role) = change.object() {
            let key = Key::of(&role.metadata);
            match &change.new {
                Some(role) if role.aggregation_rule.is_some() => aggregates.insert(key),
                _ => aggregates.remove(&key),
            };
        }
        aggregates.clone()
    });
    roles.synced().await;
    let api = Api::all(manager.client());
    let writer = Writer::new(api, FIELD_MANAGER).shown_by(&roles);
    manager.start(Aggregation { writer, roles }, &queue, WORKERS);
}

struct Aggregation {
    writer: Writer<ClusterRole>,
    roles: Cache<ClusterRole>,
}

impl Reconcile for Aggregation {
    fn name(&self) -> &'static str {
        "cluster-role-aggregation"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(role) = self.roles.find(key) else {
            return Ok(Next::Wait);
        };
        let wanted = aggregate::rules(&role, &self.roles.list())
            .map_err(|error| Error::Invalid(format!("aggregate cluster role {key}: {error}")))?;
        let Some(rules) = wanted else {
            return Ok(Next::Wait);
        };
        let mut patch = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": key.name },
        });
        // An apply without the field removes the rules that this manager owned, which is right when
        // no role is selected any more.
        if !rules.is_empty() {
            patch["rules"] = json!(rules);
        }
        let written = self.writer.apply(key, &patch).await;
        written.not_found_as_none()?;
        Ok(Next::Wait)
    }
}
