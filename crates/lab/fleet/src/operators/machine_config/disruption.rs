//! Maintains the status of `MachineConfiguration/cluster`.

use kube::Client;
use runtime::{Error, Key, Manager, Next, Reconcile};
use serde_json::{Value, json};

use super::policy::cluster_policies;
use crate::operators::kinds::machine_configuration;
use crate::operators::names::CLUSTER;
use crate::operators::report::{Objects, generation};

struct Disruption(Objects);

pub(super) async fn start(manager: &Manager, client: Client) {
    let (objects, queue) = Objects::start(manager, &client, machine_configuration()).await;
    manager.start(Disruption(objects), &queue, 1);
}

impl Reconcile for Disruption {
    fn name(&self) -> &'static str {
        "machine-configuration"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        if let Some(object) = self.0.cache.find(key)
            && key.name == CLUSTER
        {
            let spec = object.data.get("spec").unwrap_or(&Value::Null);
            let status = json!({
                "observedGeneration": generation(&object),
                "nodeDisruptionPolicyStatus": { "clusterPolicies": cluster_policies(spec) },
            });
            self.0.report(&object, status).await?;
        }
        Ok(Next::Wait)
    }
}
