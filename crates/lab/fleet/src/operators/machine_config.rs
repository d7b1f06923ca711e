//! The simulated machine-config operator.
//!
//! ```text
//! MachineConfigs --render--> rendered-<pool>-<hash>, the target of the pool   (pools)
//! target --rollout--> desiredConfig of as many nodes as may be unavailable    (pools)
//! desiredConfig --> cordon, reboot, currentConfig, uncordon                    (daemon)
//! nodes --status--> counts and conditions of the pool                          (pools)
//! MachineConfiguration/cluster --policy--> changes without a reboot            (disruption)
//! ```

mod daemon;
mod disruption;
mod machine;
mod members;
mod policy;
mod pools;
mod render;
mod rollout;
mod status;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use runtime::{Cache, Change, Error, Key, Manager, Queue};
use serde_json::Value;

use super::{MachineConfig, MachineConfigPool};
use crate::pace::Pace;
use machine::Machine;
use pools::AllPools;

/// Nodes reconciled concurrently.
const WORKERS: usize = 8;

/// State shared by the controllers.
#[derive(Clone)]
struct Context {
    client: Client,
    nodes: Cache<Node>,
    pools: Cache<MachineConfigPool>,
    configs: Cache<MachineConfig>,
}

impl Context {
    /// Patches a node; the cache has the change when this returns.
    async fn patch_node(&self, name: &str, patch: Value) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        let written = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(Error::api(format!("patch node {name}")))?;
        self.nodes.saw(&written).await;
        Ok(())
    }

    /// Whether this configuration enables PSI in the kernel.
    fn has_psi(&self, config: &str) -> bool {
        let config = self.configs.get("", config);
        config.is_some_and(|config| render::has_psi(&config))
    }
}

/// Starts the operator. Its CRDs have to be established.
pub(super) async fn start(manager: &Manager, client: Client, speed: f64) {
    let context = Context {
        nodes: manager.cache(),
        pools: manager.cache(),
        configs: manager.cache(),
        client: client.clone(),
    };
    tokio::join!(
        context.nodes.synced(),
        context.pools.synced(),
        context.configs.synced(),
    );
    let (pools, machines): (Queue<AllPools>, Queue<Key>) = (Queue::new(), Queue::new());
    let to = pools.clone();
    context.pools.on_change(move |_| to.add(AllPools));
    let to = pools.clone();
    context.configs.on_change(move |_| to.add(AllPools));
    let (to, to_machines) = (pools.clone(), machines.clone());
    context.nodes.on_change(move |change| {
        if !matters(change) {
            return;
        }
        to.add(AllPools);
        if let Some(node) = &change.new {
            to_machines.add(Key::of(&node.metadata));
        }
    });
    let events = manager.events("machineconfigcontroller-nodecontroller");
    manager.start(
        pools::PoolController::new(context.clone(), events),
        &pools,
        1,
    );
    manager.start(
        daemon::Daemon::new(context, Pace::new(speed)),
        &machines,
        WORKERS,
    );
    disruption::start(manager, client).await;
}

/// Whether a change of a node affects its configuration. Most changes are heartbeats.
fn matters(change: &Change<Node>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return true;
    };
    old.metadata.labels != new.metadata.labels || Machine::of(old) != Machine::of(new)
}
