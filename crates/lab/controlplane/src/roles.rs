//! Aggregated cluster roles.

mod aggregate;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use parking_lot::Mutex;
use runtime::{Absent, Cache, Change, Error, Key, Manager, Next, Queue, Reconcile};
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
    let aggregates = Arc::new(Mutex::new(BTreeSet::new()));
    roles.on_change({
        let queue = queue.clone();
        move |change: &Change<ClusterRole>| {
            let mut aggregates = aggregates.lock();
            if let Some(role) = change.object() {
                let key = Key::of(&role.metadata);
                match &change.new {
                    Some(role) if role.aggregation_rule.is_some() => aggregates.insert(key),
                    _ => aggregates.remove(&key),
                };
            }
            for key in aggregates.iter() {
                queue.add(key.clone());
            }
        }
    });
    roles.synced().await;
    let controller = Aggregation {
        api: Api::all(manager.client()),
        roles,
    };
    manager.start(controller, &queue, WORKERS);
}

struct Aggregation {
    api: Api<ClusterRole>,
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
        if !rules.is_empty() {
            patch["rules"] = json!(rules);
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = self
            .api
            .patch(&key.name, &params, &Patch::Apply(&patch))
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("apply cluster role {key}")))?;
        if let Some(written) = written {
            self.roles.saw(&written).await;
        }
        Ok(Next::Wait)
    }
}
