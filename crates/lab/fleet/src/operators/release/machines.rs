//! The machine-config operator's part of a release: the operating system of all nodes, and a daemon
//! on each of them.

use std::sync::Arc;

use api::openshift::MachineConfigPool as Pools;
use api::openshift::annotations::RELEASE_VERSION;
use clusteroperator_reporter::{Rollout, Versions};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use runtime::{Cache, Error, Key, Writer};
use serde_json::{Value, json};

use super::catalog::{DAEMON, OperatorInfo};
use super::offer::limits;
use crate::names::{ARCH, OS};
use crate::operators::{MachineConfig, MachineConfigPool};

/// Field manager of the daemon.
const MANAGER: &str = "machine-config-operator";

pub(super) struct Machines {
    pub(super) client: Client,
    pub(super) daemons: Cache<DaemonSet>,
    pub(super) pools: Cache<MachineConfigPool>,
    pub(super) configs: Cache<MachineConfig>,
    pub(super) pods: Cache<Pod>,
}

/// Update progress of nodes.
pub(super) enum Progress {
    /// All required nodes run the release.
    Done,
    /// Nodes are being updated.
    Underway(String),
    /// The update is stuck.
    UnrunnablePod(String),
}

impl Machines {
    /// Applies configuration and daemon, and returns the progress of nodes.
    pub(super) async fn advance(
        &self,
        about: &OperatorInfo,
        operator: &Deployment,
        versions: &Versions,
        image: &str,
    ) -> Result<Progress, Error> {
        let release = versions
            .get(clusteroperator_reporter::OPERATOR)
            .unwrap_or_default();
        for role in ["master", "worker"] {
            self.set_os_image(&format!("00-{role}"), image, release)
                .await?;
        }
        let daemons = self.run(about, operator).await?;
        let mut pods = self.pods.in_namespace(about.namespace);
        pods.retain(|it| it.labels().get("name").is_some_and(|it| it == DAEMON));
        if let Some(why) = Rollout::of_daemon_set(&daemons, &pods).why() {
            return Ok(Progress::Underway(format!("daemons: {why}")));
        }
        // Last, as in the sync functions of the machine-config operator: nodes are updated by the
        // daemon of the new release.
        Ok(self.required(image))
    }

    /// Sets the operating system image of the nodes of a role.
    async fn set_os_image(&self, name: &str, image: &str, release: &str) -> Result<(), Error> {
        let Some(config) = self.configs.get("", name) else {
            return Ok(());
        };
        let annotated = config.annotations().get(RELEASE_VERSION);
        let is_annotated = annotated.is_some_and(|it| it == release);
        if config.spec.os_image_url.as_deref() == Some(image) && is_annotated {
            return Ok(());
        }
        let patch = json!({
            "metadata": { "annotations": { RELEASE_VERSION: release } },
            "spec": { "osImageURL": image },
        });
        let writer = Writer::<MachineConfig>::cluster(self.client.clone()).shown_by(&self.configs);
        let written = writer.merge(&Key::new("", name), &patch).await;
        written.map(drop)
    }

    /// Applies the daemon of this release on all nodes its image supports.
    async fn run(
        &self,
        about: &OperatorInfo,
        operator: &Deployment,
    ) -> Result<Arc<DaemonSet>, Error> {
        let image = operator.spec.as_ref().and_then(|it| {
            let spec = it.template.spec.as_ref()?;
            spec.containers.first()?.image.clone()
        });
        let image = image.unwrap_or_default();
        let there = self.daemons.get(about.namespace, DAEMON);
        if let Some(there) = &there
            && image_of(there) == Some(&image)
        {
            return Ok(Arc::clone(there));
        }
        let wanted = daemon(about, &image, limits(about.image, &image)?);
        let writer = Writer::namespaced(self.client.clone()).shown_by(&self.daemons);
        let key = Key::new(about.namespace, DAEMON);
        let written = writer.managed_by(MANAGER).apply(&key, &wanted).await?;
        Ok(Arc::new(written))
    }

    /// Whether the required pools run the operating system, and none is degraded.
    fn required(&self, image: &str) -> Progress {
        for pool in self.pools.list() {
            let name = pool.name_any();
            let holds = |kind: &str| {
                let status = pool.status.as_ref();
                let mut conditions = status.into_iter().flat_map(|it| &it.conditions);
                conditions.any(|it| it.type_ == kind && it.status == "True")
            };
            if holds("Degraded") {
                return Progress::UnrunnablePod(format!("MachineConfigPool {name} is degraded"));
            }
            if !pool.labels().contains_key(Pools::REQUIRED) {
                continue;
            }
            let target = pool.spec.configuration.name.as_deref().unwrap_or_default();
            let rendered = self.configs.get("", target);
            let aimed = rendered.and_then(|it| it.spec.os_image_url.clone());
            let status = pool.status.clone().unwrap_or_default();
            let arrived = status.configuration.name.as_deref() == Some(target);
            if aimed.as_deref() == Some(image) && arrived && holds("Updated") {
                continue;
            }
            // A paused pool does not arrive by waiting, so that progress would hide the cause.
            if pool.spec.paused {
                return Progress::UnrunnablePod(format!(
                    "required MachineConfigPool {name} is paused and cannot sync until it is unpaused"
                ));
            }
            return Progress::Underway(format!(
                "{} (ready {}) out of {} nodes of MachineConfigPool {name} are updated",
                status.updated_machine_count, status.ready_machine_count, status.machine_count
            ));
        }
        Progress::Done
    }
}

fn image_of(daemons: &DaemonSet) -> Option<&String> {
    let spec = daemons.spec.as_ref()?.template.spec.as_ref()?;
    spec.containers.first()?.image.as_ref()
}

/// The daemon. A single-architecture image is restricted to nodes of its architecture: elsewhere it
/// would not run, which is why a cluster migrates to a multi-architecture release.
fn daemon(about: &OperatorInfo, image: &str, limits: Option<&[&str]>) -> Value {
    let mut expressions = vec![json!({ "key": OS, "operator": "In", "values": ["linux"] })];
    if let Some(architectures) = limits {
        expressions.push(json!({ "key": ARCH, "operator": "In", "values": architectures }));
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": DAEMON, "namespace": about.namespace },
        "spec": {
            "selector": { "matchLabels": { "name": DAEMON } },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "10%" } },
            "template": {
                "metadata": { "labels": { "name": DAEMON } },
                "spec": {
                    "affinity": { "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{ "matchExpressions": expressions }],
                        },
                    } },
                    "tolerations": [{ "operator": "Exists" }],
                    "containers": [{
                        "name": DAEMON,
                        "image": image,
                        "resources": { "requests": { "cpu": "10m", "memory": "50Mi" } },
                    }],
                },
            },
        },
    })
}
