//! What the machine-config operator does with a release: the operating system of all machines, and a
//! daemon on each of them.

use std::sync::Arc;

use api::openshift::MachineConfigPool as Pools;
use api::openshift::annotations::RELEASE_VERSION;
use clusteroperator_reporter::{Rollout, Versions};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use runtime::{Cache, Error};
use serde_json::{Value, json};

use super::catalog::{About, DAEMON};
use super::offer::limits;
use crate::names::{ARCH, OS};
use crate::operators::{MachineConfig, MachineConfigPool};

/// Who applies the daemon.
const MANAGER: &str = "machine-config-operator";

pub(super) struct Machines {
    pub(super) client: Client,
    pub(super) daemons: Cache<DaemonSet>,
    pub(super) pools: Cache<MachineConfigPool>,
    pub(super) configs: Cache<MachineConfig>,
    pub(super) pods: Cache<Pod>,
}

/// How far machines are.
pub(super) enum Progress {
    /// All that count run what they should.
    Done,
    /// They are on their way.
    Underway(String),
    /// They do not get on.
    Wrong(String),
}

impl Machines {
    /// Brings machines on their way, and says how far they are.
    pub(super) async fn advance(
        &self,
        about: &About,
        operator: &Deployment,
        versions: &Versions,
        image: &str,
    ) -> Result<Progress, Error> {
        let release = versions
            .get(clusteroperator_reporter::OPERATOR)
            .unwrap_or_default();
        for role in ["master", "worker"] {
            self.aim(&format!("00-{role}"), image, release).await?;
        }
        let daemons = self.run(about, operator).await?;
        let mut pods = self.pods.in_namespace(about.namespace);
        pods.retain(|it| it.labels().get("name").is_some_and(|it| it == DAEMON));
        if let Some(why) = Rollout::of_daemon_set(&daemons, &pods).why() {
            return Ok(Progress::Underway(format!("daemons: {why}")));
        }
        Ok(self.required(image))
    }

    /// Has machines of a role run an operating system.
    async fn aim(&self, name: &str, image: &str, release: &str) -> Result<(), Error> {
        let Some(config) = self.configs.get("", name) else {
            return Ok(());
        };
        let told = config.annotations().get(RELEASE_VERSION);
        let is_told = told.is_some_and(|it| it == release);
        if config.spec.os_image_url.as_deref() == Some(image) && is_told {
            return Ok(());
        }
        let patch = json!({
            "metadata": { "annotations": { RELEASE_VERSION: release } },
            "spec": { "osImageURL": image },
        });
        let api: Api<MachineConfig> = Api::all(self.client.clone());
        let written = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(Error::api(format!("patch machine config {name}")))?;
        self.configs.saw(&written).await;
        Ok(())
    }

    /// Has the daemon of this release run on all machines that its image is for.
    async fn run(&self, about: &About, operator: &Deployment) -> Result<Arc<DaemonSet>, Error> {
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
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), about.namespace);
        let params = PatchParams::apply(MANAGER).force();
        let written = api
            .patch(DAEMON, &params, &Patch::Apply(&wanted))
            .await
            .map_err(Error::api(format!(
                "apply DaemonSet {}/{DAEMON}",
                about.namespace
            )))?;
        self.daemons.saw(&written).await;
        Ok(Arc::new(written))
    }

    /// Whether the pools that updates wait for run the operating system, and none is in trouble.
    fn required(&self, image: &str) -> Progress {
        for pool in self.pools.list() {
            let name = pool.name_any();
            let holds = |kind: &str| {
                let status = pool.status.as_ref();
                let mut conditions = status.into_iter().flat_map(|it| &it.conditions);
                conditions.any(|it| it.type_ == kind && it.status == "True")
            };
            if holds("Degraded") {
                return Progress::Wrong(format!("MachineConfigPool {name} is degraded"));
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
            if pool.spec.paused {
                return Progress::Wrong(format!(
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

/// The daemon. A program for one architecture is put onto no other: it would not run there, which is what
/// the migration is for.
fn daemon(about: &About, image: &str, limits: Option<&[&str]>) -> Value {
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
