//! The simulated machine-config operator. Not compared with the original: the Go module registry does not serve
//! github.com/openshift/machine-config-operator.
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
use kube::Client;
use runtime::{Cache, Change, Error, Key, Manager, Queue, Writer};
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
    nodes: Cache<Node>,
    node_writer: Writer<Node>,
    pools: Cache<MachineConfigPool>,
    configs: Cache<MachineConfig>,
}

impl Context {
    /// Patches a node; the cache has the change when this returns.
    async fn patch_node(&self, name: &str, patch: Value) -> Result<(), Error> {
        let written = self.node_writer.merge(&Key::new("", name), &patch).await;
        written.map(drop)
    }

    /// Whether this configuration enables PSI in the kernel.
    fn has_psi(&self, config: &str) -> bool {
        let config = self.configs.get("", config);
        config.is_some_and(|config| render::has_psi(&config))
    }
}

/// Starts the operator. Its CRDs have to be established.
pub(super) async fn start(manager: &Manager, client: Client, speed: f64) {
    let nodes = manager.cache();
    let context = Context {
        node_writer: Writer::cluster(client.clone()).shown_by(&nodes),
        nodes,
        pools: manager.cache(),
        configs: manager.cache(),
    };
    tokio::join!(
        context.nodes.synced(),
        context.pools.synced(),
        context.configs.synced(),
    );
    let (pools, machines) = (Queue::new(), Queue::new());
    pools.enqueue_mapped(&context.pools, |_| Some(AllPools));
    pools.enqueue_mapped(&context.configs, |_| Some(AllPools));
    pools.enqueue_mapped(&context.nodes, |change| matters(change).then_some(AllPools));
    machines.enqueue_mapped(&context.nodes, |change| {
        let node = change.new.as_ref().filter(|_| matters(change));
        node.map(|node| Key::of(&node.metadata))
    });
    let events = manager.events("machineconfigcontroller-nodecontroller");
    let controller = pools::PoolController {
        pools: Writer::cluster(client.clone()).shown_by(&context.pools),
        configs: Writer::cluster(client.clone()).shown_by(&context.configs),
        context: context.clone(),
        events,
    };
    manager.start(controller, &pools, 1);
    let pace = Pace::new(speed);
    manager.start(daemon::Daemon { context, pace }, &machines, WORKERS);
    disruption::start(manager, client).await;
}

/// Whether a change of a node affects its configuration. Most changes are heartbeats.
fn matters(change: &Change<Node>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return true;
    };
    old.metadata.labels != new.metadata.labels || Machine::of(old) != Machine::of(new)
}
