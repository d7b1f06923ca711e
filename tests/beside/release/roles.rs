//! The parts of a cluster that neither the cluster-version operator nor Medley plays: the installer, the kubelets, and the
//! operators of the release.

use std::time::Duration;

use anyhow::Context as _;
use api::openshift::{CLUSTER_VERSION, ClusterOperator, ClusterVersion, Condition, payloads};
use clusteroperator_reporter::{Reporter, Rollout, State, Versions};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{ListParams, Patch, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use testkit::{by, until, wait_until};

use crate::payload::{CLUSTER_VERSION_OPERATOR, OPERATORS, Operator, Release};

/// Upper bound of every wait. The cluster-version operator looks at a ClusterOperator every 13 s.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// Field manager of the installer.
pub(crate) const INSTALLER: &str = "installer";
/// A version 4 UUID, as the operator requires.
const CLUSTER_ID: &str = "00000000-0000-4000-8000-000000000001";

pub(crate) struct Roles {
    client: Client,
}

impl Roles {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(crate) fn versions(&self) -> Api<ClusterVersion> {
        Api::all(self.client.clone())
    }

    pub(crate) fn operators(&self) -> Api<ClusterOperator> {
        Api::all(self.client.clone())
    }

    pub(crate) fn deployments(&self, operator: Operator) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), operator.namespace)
    }

    pub(crate) fn pods(&self, operator: Operator) -> Api<Pod> {
        Api::namespaced(self.client.clone(), operator.namespace)
    }

    /// What the installer creates: the namespace of the operator, releases for Medley to read, and the ClusterVersion.
    pub(crate) async fn install(&self, releases: &[&Release]) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace =
            serde_json::from_value(json!({ "metadata": { "name": payloads::NAMESPACE } }))?;
        let params = PostParams {
            field_manager: Some(INSTALLER.to_owned()),
            ..PostParams::default()
        };
        match namespaces.create(&params, &namespace).await {
            Ok(_) => {}
            // The stand-in may have created it.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error).context("creating the namespace of the operator"),
        }
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), payloads::NAMESPACE);
        for release in releases {
            maps.create(&params, &release.config_map()?).await?;
        }
        let version = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": { "name": CLUSTER_VERSION },
            "spec": { "clusterID": CLUSTER_ID, "channel": "" },
        });
        let version = serde_json::from_value(version)?;
        self.versions().create(&params, &version).await?;
        Ok(())
    }

    /// Waits for a state of the ClusterVersion.
    pub(crate) async fn version(
        &self,
        what: &str,
        holds: impl Fn(&ClusterVersion) -> bool,
    ) -> anyhow::Result<ClusterVersion> {
        until(&self.versions(), CLUSTER_VERSION, what, WAIT_TIMEOUT, holds).await
    }

    /// Waits until the ClusterVersion reports that a release is complete.
    pub(crate) async fn completed(&self, release: &Release) -> anyhow::Result<ClusterVersion> {
        let what = format!("has completed {}", release.image);
        self.version(&what, |version| claims(version, release))
            .await
    }

    /// Waits until the Deployment of an operator is that of a release.
    pub(crate) async fn deployed(
        &self,
        operator: Operator,
        release: &Release,
    ) -> anyhow::Result<()> {
        let image = release.component(operator);
        until_runs(&self.deployments(operator), operator.image, &image).await
    }

    /// Waits until the Deployment of the cluster-version operator is that of a release.
    pub(crate) async fn own_deployment(&self, release: &Release) -> anyhow::Result<()> {
        let deployments = Api::namespaced(self.client.clone(), payloads::NAMESPACE);
        until_runs(&deployments, CLUSTER_VERSION_OPERATOR, &release.image).await
    }

    /// Plays the kubelet until the Deployment of an operator is rolled out: pods become ready.
    pub(crate) async fn run_pods(&self, operator: Operator) -> anyhow::Result<()> {
        let what = format!("{} is rolled out", operator.image);
        let ready = json!({ "status": { "phase": "Running", "conditions": [
            { "type": "Ready", "status": "True" },
        ] } });
        let (api, kubelet) = (self.pods(operator), by("kubelet"));
        wait_until(&what, WAIT_TIMEOUT, async || {
            let (rollout, pods) = self.rollout(operator).await?;
            for pod in pods.iter().filter(|pod| !is_ready(pod)) {
                let patched = api
                    .patch_status(&pod.name_any(), &kubelet, &Patch::Strategic(&ready))
                    .await;
                // The ReplicaSet may have been scaled down meanwhile.
                if let Err(error) = patched
                    && !matches!(&error, kube::Error::Api(status) if status.code == 404)
                {
                    return Err(error).context("reporting the status of a pod");
                }
            }
            Ok(rollout.is_done().then_some(()))
        })
        .await
    }

    async fn rollout(&self, operator: Operator) -> anyhow::Result<(Rollout, Vec<Pod>)> {
        let deployment = self.deployments(operator).get(operator.image).await?;
        let labels = ListParams::default().labels(&format!("name={}", operator.image));
        let pods = self.pods(operator).list(&labels).await?.items;
        Ok((Rollout::of_deployment(&deployment, &pods), pods))
    }

    /// Reports what an operator really runs, in one update, as Medley's reporter does.
    pub(crate) async fn report(&self, operator: Operator) -> anyhow::Result<()> {
        let (rollout, _) = self.rollout(operator).await?;
        self.report_as(operator, &rollout).await
    }

    /// Reports conditions, and no versions.
    pub(crate) async fn come_up_silently(&self, operator: Operator) -> anyhow::Result<()> {
        let condition = |kind: &str, status: &str| {
            json!({ "type": kind, "status": status, "reason": "AsExpected",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let status = json!({ "status": { "conditions": [
            condition("Available", "True"), condition("Progressing", "False"), condition("Degraded", "False"),
        ] } });
        let manager = by(operator.image);
        self.operators()
            .patch_status(operator.name, &manager, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// Reports the versions in the Deployment of an operator, whatever runs.
    pub(crate) async fn lie(&self, operator: Operator) -> anyhow::Result<()> {
        self.report_as(operator, &Rollout::Done).await
    }

    async fn report_as(&self, operator: Operator, rollout: &Rollout) -> anyhow::Result<()> {
        let deployment = self.deployments(operator).get(operator.image).await?;
        let variable = |name: &str| {
            let spec = deployment.spec.as_ref()?.template.spec.as_ref()?;
            let variables = spec.containers.first()?.env.as_ref()?;
            variables.iter().find(|it| it.name == name)?.value.clone()
        };
        let versions = Versions::read(variable, &[])?;
        let reporter = Reporter::new(self.client.clone(), operator.name);
        let state = State::of(rollout, &versions);
        reporter.report(&versions, &state).await?;
        Ok(())
    }

    /// All operators come up with the first release.
    pub(crate) async fn operators_come_up(&self, release: &Release) -> anyhow::Result<()> {
        for operator in OPERATORS {
            self.deployed(operator, release).await?;
        }
        for operator in OPERATORS {
            self.run_pods(operator).await?;
            self.report(operator).await?;
        }
        Ok(())
    }
}

async fn until_runs(deployments: &Api<Deployment>, name: &str, image: &str) -> anyhow::Result<()> {
    let what = format!("runs {image}");
    until(deployments, name, &what, WAIT_TIMEOUT, |deployment| {
        let spec = deployment.spec.as_ref();
        let spec = spec.and_then(|it| it.template.spec.as_ref());
        let containers = spec.map_or(&[][..], |it| it.containers.as_slice());
        containers
            .iter()
            .any(|it| it.image.as_deref() == Some(image))
    })
    .await
    .map(drop)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// Whether the ClusterVersion reports that a release is complete.
pub(crate) fn claims(version: &ClusterVersion, release: &Release) -> bool {
    let newest = version.history().first();
    newest.is_some_and(|it| it.is_completed() && it.image == release.image)
        && version
            .condition("Progressing")
            .is_some_and(Condition::is_false)
}

/// A condition as text: status, reason, message.
pub(crate) fn condition(version: &ClusterVersion, kind: &str) -> String {
    version.condition(kind).map_or_else(String::new, |it| {
        format!("{} {}: {}", it.status, it.reason, it.message)
    })
}
