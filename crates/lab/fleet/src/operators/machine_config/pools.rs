//! Pool controller: renders configurations, selects the next nodes, reports status.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::openshift::annotations::RELEASE_VERSION;
use futures::{TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Resource as _;
use kube::api::ObjectMeta;
use runtime::{Error, Events, Key, Next, Reconcile, Writer};
use serde_json::json;

use super::machine::{DONE, Machine};
use super::members::Pools;
use super::render::{Rendered, is_as_good, render};
use super::rollout::rollout;
use super::status::status;
use super::{Context, WORKERS};
use crate::names::{SIMULATED, name_of};
use crate::operators::names::{CURRENT_CONFIG, DESIRED_CONFIG, PSI, REASON, STATE};
use crate::operators::report::now;
use crate::operators::{MachineConfig, MachineConfigPool, PoolConfiguration};

/// The single reconcile key: pools compete for nodes, so all are reconciled at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct AllPools;

impl fmt::Display for AllPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all pools")
    }
}

pub(super) struct PoolController {
    pub(super) context: Context,
    pub(super) pools: Writer<MachineConfigPool>,
    pub(super) configs: Writer<MachineConfig>,
    pub(super) events: Events,
}

impl Reconcile<AllPools> for PoolController {
    fn name(&self) -> &'static str {
        "machine-config-pools"
    }

    async fn reconcile(&self, AllPools: &AllPools) -> Result<Next, Error> {
        let mut outcome = Ok(Next::Wait);
        for pool in self.context.pools.list() {
            // An error in one pool does not stop the others.
            if pool.metadata.deletion_timestamp.is_none()
                && let Err(error) = self.reconcile_pool(pool).await
            {
                outcome = Err(error);
            }
        }
        outcome
    }
}

impl PoolController {
    async fn reconcile_pool(&self, pool: Arc<MachineConfigPool>) -> Result<(), Error> {
        let rendered = render(&pool, &self.context.configs.list());
        let pool = match &rendered {
            Ok(rendered) => self.set_target(&pool, rendered).await?,
            Err(_) => pool,
        };
        // Also when rendering fails: nodes finish the rollout of the last good configuration.
        self.advance(&pool).await?;
        let outcome = rendered.as_ref().map(drop).map_err(String::as_str);
        self.report(&pool, outcome).await
    }

    /// Creates the rendered configuration and makes it the target of the pool.
    async fn set_target(
        &self,
        pool: &Arc<MachineConfigPool>,
        rendered: &Rendered,
    ) -> Result<Arc<MachineConfigPool>, Error> {
        let aimed = &pool.spec.configuration;
        let there = aimed.name.as_deref();
        let there = there.and_then(|name| self.context.configs.get("", name));
        if there.is_some_and(|there| is_as_good(&there, &aimed.source, rendered)) {
            return Ok(Arc::clone(pool));
        }
        // The rendered configuration exists before the pool points to it; a daemon that finds only
        // the name could not apply it.
        if self.context.configs.get("", &rendered.name).is_none() {
            self.keep(pool, rendered).await?;
        }
        let target = PoolConfiguration {
            name: Some(rendered.name.clone()),
            source: rendered.source.clone(),
        };
        if pool.spec.configuration == target {
            return Ok(Arc::clone(pool));
        }
        let patch = json!({
            "metadata": { "uid": pool.metadata.uid },
            "spec": { "configuration": target },
        });
        let key = Key::of(&pool.metadata);
        Ok(Arc::new(self.pools.merge(&key, &patch).await?))
    }

    async fn keep(&self, pool: &MachineConfigPool, rendered: &Rendered) -> Result<(), Error> {
        let mut config = MachineConfig::new(&rendered.name, rendered.spec.clone());
        let mut annotations = BTreeMap::from([(SIMULATED.to_owned(), "true".to_owned())]);
        if let Some(release) = &rendered.release {
            annotations.insert(RELEASE_VERSION.to_owned(), release.clone());
        }
        config.metadata = ObjectMeta {
            name: Some(rendered.name.clone()),
            annotations: Some(annotations),
            owner_references: pool.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        // If it exists, the cache was stale.
        if self.configs.create_if_absent(&config).await?.is_some() {
            let text = format!("{} successfully generated", rendered.name);
            self.events.normal(pool, "RenderedConfigGenerated", text);
        }
        Ok(())
    }

    /// The nodes of a pool, by name.
    fn nodes(&self, pool: &MachineConfigPool) -> Vec<Arc<Node>> {
        let pools = Pools::new(&self.context.pools.list());
        let mut nodes = self.context.nodes.list();
        nodes.retain(|node| pools.of(node) == pool.metadata.name.as_deref());
        nodes
    }

    /// Gives new nodes their first configuration, and the target to as many others as may be
    /// unavailable.
    async fn advance(&self, pool: &MachineConfigPool) -> Result<(), Error> {
        let nodes = self.nodes(pool);
        let machines: Vec<Machine<'_>> = nodes.iter().map(|node| Machine::of(node)).collect();
        let plan = rollout(pool, &machines);
        let first = json!({ "metadata": { "annotations": {
            CURRENT_CONFIG: plan.first,
            DESIRED_CONFIG: plan.first,
            STATE: DONE,
            REASON: "",
            PSI: self.context.has_psi(plan.first).then_some("true"),
        } } });
        stream::iter(plan.new.iter().map(Ok))
            .try_for_each_concurrent(WORKERS, |name| self.context.patch_node(name, first.clone()))
            .await?;
        for name in plan.next {
            let target = pool.spec.configuration.name.as_deref().unwrap_or_default();
            let patch = json!({ "metadata": { "annotations": { DESIRED_CONFIG: target } } });
            self.context.patch_node(name, patch).await?;
            let text = format!("Targeted node {name} to MachineConfig: {target}");
            self.events.normal(pool, "SetDesiredConfig", text);
        }
        Ok(())
    }

    async fn report(
        &self,
        pool: &MachineConfigPool,
        rendered: Result<(), &str>,
    ) -> Result<(), Error> {
        let nodes = self.nodes(pool);
        let machines: Vec<Machine<'_>> = nodes.iter().map(|node| Machine::of(node)).collect();
        let wanted = status(pool, &machines, rendered, &now());
        let old = pool.status.as_ref();
        if old == Some(&wanted) {
            return Ok(());
        }
        let name = name_of(&pool.metadata);
        let status = json!(wanted);
        self.pools
            .set_status_fields(&pool.metadata, &status)
            .await?;
        let before = old.and_then(|old| old.configuration.name.as_ref());
        if let Some(after) = &wanted.configuration.name
            && before != Some(after)
        {
            let text = format!("Pool {name} has completed update to MachineConfig {after}");
            self.events.normal(pool, "Completed", text);
        }
        Ok(())
    }
}
