//! The simulated descheduler operator: it runs the descheduler with its configuration, or reports why it does not.
//!
//! Compared with cluster-kube-descheduler-operator at commit f537ae654848: `recordings/descheduler` has what that wrote, and
//! `tests/recordings.rs` holds this to it. It sets no `observedGeneration`, does not look at `spec.managementState`, and
//! writes nothing about a configuration that it cannot read. It writes `spec.observedConfig` first, which is a generation of
//! its own. Not imitated: the policy of the descheduler, its roles and alerts, included and excluded namespaces, and conflicts
//! with the profile of the scheduler. The genuine operator looks for PSI metrics on the node that it runs on; this one, on all
//! workers.

mod deployment;
mod verdict;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use runtime::{
    Absent as _, Cache, Error, Key, Manager, Next, OptionalKindChange, OptionalKinds, Queue,
    Reconcile, Writer,
};
use serde_json::{Value, json};

use super::conditions::NewCondition;
use super::kinds::kube_descheduler;
use super::names::{CLUSTER, DESCHEDULER_NAMESPACE, MONITORING_NAMESPACE, PROMETHEUS_ROUTE};
use super::report::{Objects, terse_conditions};
use deployment::{OPERAND, SOFT_TAINTER};
use verdict::{Surroundings, Verdict, has_psi, runs_machines, verdict};

/// Whether the operator could apply its configuration.
const CONDITION: &str = "TargetConfigControllerDegraded";
/// Of other controllers of the operator, which always succeed here.
const OTHER_CONDITIONS: [&str; 2] = [
    "ConfigObservationDegraded",
    "ResourceSyncControllerDegraded",
];
/// Field manager.
const MANAGER: &str = "descheduler-operator";

struct Operator {
    deschedulers: Objects,
    deployments: Writer<Deployment>,
    nodes: Cache<Node>,
    foreign: OptionalKinds,
}

pub(super) async fn start(manager: &Manager, client: Client) {
    let deschedulers = Objects::follow(manager, &client, kube_descheduler());
    let nodes = manager.cache::<Node>();
    let queue = Queue::new();
    let only = || Key::new(DESCHEDULER_NAMESPACE, CLUSTER);
    queue.enqueue_mapped(&deschedulers.cache, move |_| Some(only()));
    queue.enqueue_mapped(&nodes, move |change| {
        let facts =
            |side: &Option<Arc<Node>>| side.as_deref().map(|it| (has_psi(it), runs_machines(it)));
        (facts(&change.old) != facts(&change.new)).then(only)
    });
    let foreign = manager.optional_kinds().clone();
    foreign.follow(&route());
    let enqueue = queue.clone();
    foreign.on_change(move |change: &OptionalKindChange<'_>| {
        if *change.kind() == route() {
            enqueue.add(only());
        }
    });
    tokio::join!(deschedulers.cache.synced(), nodes.synced());
    let api = Api::namespaced(client, DESCHEDULER_NAMESPACE);
    let operator = Operator {
        deschedulers,
        deployments: Writer::new(api, MANAGER).force(true),
        nodes,
        foreign,
    };
    manager.start(operator, &queue, 1);
}

fn route() -> GroupVersionKind {
    GroupVersionKind::gvk("route.openshift.io", "v1", "Route")
}

impl Reconcile for Operator {
    fn name(&self) -> &'static str {
        "descheduler-operator"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.deschedulers.cache.find(key) else {
            return Ok(Next::Wait);
        };
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        if spec["observedConfig"].is_null() {
            // A generation of its own, before that of the user is taken up.
            let observed = json!({ "spec": { "observedConfig": observed_config() } });
            self.deschedulers.writer.merge(key, &observed).await?;
            return Ok(Next::Wait);
        }
        match verdict(spec, &self.surroundings().await?) {
            Verdict::Unreadable => {}
            Verdict::Refused(why) => {
                self.scale_down().await?;
                // As upstream, the reason is a sentence instead of a CamelCase word.
                self.report(
                    &object,
                    NewCondition::with_reason(CONDITION, true, why, ""),
                    &[],
                )
                .await?;
            }
            Verdict::Accepted { taints } => {
                let mut written = vec![self.apply(&object, OPERAND).await?];
                if taints {
                    written.push(self.apply(&object, SOFT_TAINTER).await?);
                } else if let Some(old) =
                    self.deployments.get(&deployment_key(SOFT_TAINTER)).await?
                {
                    self.deployments.delete(&old.metadata).await?;
                }
                self.report(
                    &object,
                    NewCondition::without_reason(CONDITION, false),
                    &written,
                )
                .await?;
            }
        }
        Ok(Next::Wait)
    }
}

/// What the operator derives from the APIServer configuration: the default TLS profile.
fn observed_config() -> Value {
    json!({ "servingInfo": {
        "minTLSVersion": "VersionTLS12",
        "cipherSuites": [
            "TLS_AES_128_GCM_SHA256",
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        ],
    } })
}

fn deployment_key(name: &str) -> Key {
    Key::new(DESCHEDULER_NAMESPACE, name)
}

impl Operator {
    async fn surroundings(&self) -> Result<Surroundings, Error> {
        let routes = self.foreign.open(&route()).await?;
        let prometheus = routes.and_then(|it| it.get(MONITORING_NAMESPACE, PROMETHEUS_ROUTE));
        Ok(Surroundings {
            prometheus: prometheus.map(|route| route.data.clone()),
            nodes: self.nodes.list(),
        })
    }

    async fn apply(&self, object: &DynamicObject, name: &str) -> Result<Deployment, Error> {
        let wanted = deployment::wanted(object, name);
        self.deployments.apply(&deployment_key(name), &wanted).await
    }

    async fn scale_down(&self) -> Result<(), Error> {
        let patch = json!({ "spec": { "replicas": 0 } });
        let scaled = self
            .deployments
            .merge(&deployment_key(OPERAND), &patch)
            .await;
        scaled.not_found_as_none().map(drop)
    }

    /// Sets the condition, and the generations of the Deployments that were written.
    async fn report(
        &self,
        object: &DynamicObject,
        condition: NewCondition,
        written: &[Deployment],
    ) -> Result<(), Error> {
        let all = OTHER_CONDITIONS.map(|about| NewCondition::without_reason(about, false));
        let all = all.into_iter().chain([condition]).collect();
        let mut status = json!({
            "conditions": terse_conditions(object, all),
            // Never anything else.
            "readyReplicas": 0,
        });
        if !written.is_empty() {
            let old = object.data.pointer("/status/generations");
            status["generations"] = deployment::generations(old, written);
        }
        self.deschedulers.report(object, status).await.map(drop)
    }
}
