//! A cluster with nodes that are not alike, a registry, and Medley.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use controllers::Job;
use fleet::registry::APP_TAG;
use fleet::{Fleet, Options};
use k8s_openapi::api::core::v1::{Event, Node, Pod, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

use crate::ours::{NAMESPACE, Ours};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// Containers start in no time, and images are pulled again soon.
const FAST: f64 = 100.0;

/// Two builds of Windows, as the demo taints them, and two architectures of Linux.
pub(crate) const MIXED: &str = "
pools:
  - {name: amd, arch: amd64}
  - {name: arm, arch: arm64}
  - name: win2019
    arch: amd64
    os: windows
    windowsBuild: 10.0.17763
    taints: [{key: node.kubernetes.io/os, value: windows, effect: NoSchedule}]
  - name: win2022
    arch: amd64
    os: windows
    windowsBuild: 10.0.20348
    taints: [{key: node.kubernetes.io/os, value: windows, effect: NoSchedule}]
";

/// A cluster.
pub(crate) struct Stage {
    pub(crate) cluster: TestCluster,
    namespace: String,
    others: Manager,
    ours: Ours,
    registry: SocketAddr,
}

impl Stage {
    /// The mixed fleet, and our controller at work.
    pub(crate) async fn mixed() -> anyhow::Result<Self> {
        Self::new(MIXED).await
    }

    /// A fleet, and our controller at work.
    pub(crate) async fn new(fleet: &str) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let namespace = cluster.namespace("windows").await?;
        // On a cluster without controllers nobody makes it, and pods need it.
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
        if let Err(error) = accounts.create(&PostParams::default(), &account).await {
            let there = matches!(&error, kube::Error::Api(status) if status.code == 409);
            anyhow::ensure!(there, error);
        }
        controllers::install(&client, NAMESPACE).await?;
        let others = Manager::new(client.clone());
        let options = Options {
            fleet: Some(Fleet::parse(fleet)?),
            speed: FAST,
            registry: true,
            ..Options::new(client)
        };
        let started = fleet::start(&others, options).await?;
        let stage = Self {
            cluster,
            namespace,
            others,
            ours: Ours::default(),
            registry: started.registry.context("a registry")?,
        };
        stage.settle().await?;
        stage.work().await?;
        Ok(stage)
    }

    /// Takes away the taint the server gives new nodes, because no controller here would.
    async fn settle(&self) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        for node in nodes.list(&ListParams::default()).await? {
            let taints = node
                .spec
                .iter()
                .flat_map(|spec| spec.taints.iter().flatten());
            let own: Vec<_> = taints
                .filter(|taint| taint.key != "node.kubernetes.io/not-ready")
                .collect();
            let patch = Patch::Merge(json!({ "spec": { "taints": own } }));
            nodes
                .patch(&node.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    /// Has our controller work; the one before is stopped.
    pub(crate) async fn work(&self) -> anyhow::Result<()> {
        let jobs = [Job::RuntimeClasses];
        self.ours.work(&self.cluster, &jobs, None).await
    }

    /// Stops everything.
    pub(crate) async fn end(&self) {
        self.ours.stop().await;
        self.others.stop().await;
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
    }

    pub(crate) fn metrics(&self) -> String {
        self.ours.metrics()
    }

    /// An image of the registry.
    pub(crate) fn image(&self, name: &str) -> String {
        format!("{}/apps/{name}:{APP_TAG}", self.registry)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), &self.namespace)
    }

    pub(crate) fn classes(&self) -> Api<RuntimeClass> {
        Api::all(self.client())
    }

    /// Makes a pod with one container.
    pub(crate) async fn run(
        &self,
        name: &str,
        image: &str,
        mut spec: Value,
    ) -> anyhow::Result<Pod> {
        spec["containers"] = json!([{ "name": "app", "image": self.image(image) }]);
        self.make(json!({ "metadata": { "name": name }, "spec": spec }))
            .await
    }

    /// Makes a pod.
    pub(crate) async fn make(&self, pod: Value) -> anyhow::Result<Pod> {
        let pod = serde_json::from_value(pod)?;
        Ok(self.pods().create(&PostParams::default(), &pod).await?)
    }

    /// Waits until a pod is as told, and shows it.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        wait_until(&format!("pod {name}: {what}"), PATIENCE, async || {
            let pod = json!(self.pods().get(name).await?);
            Ok(holds(&pod).then_some(pod))
        })
        .await
    }

    /// Waits until a pod runs, and says where.
    pub(crate) async fn runs_on(&self, name: &str) -> anyhow::Result<String> {
        let pod = self
            .until(name, "it runs", |pod| pod["status"]["phase"] == "Running")
            .await?;
        let node = pod["spec"]["nodeName"].as_str();
        Ok(node.unwrap_or_default().to_owned())
    }

    /// Takes a pod away at once.
    pub(crate) async fn remove(&self, name: &str) -> anyhow::Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.pods().delete(name, &now).await?;
        Ok(())
    }

    /// Takes a node away.
    pub(crate) async fn remove_node(&self, name: &str) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        nodes.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until there are just these classes.
    pub(crate) async fn has_classes(&self, wanted: &[&str]) -> anyhow::Result<()> {
        let wanted: BTreeSet<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        wait_until(&format!("classes are {wanted:?}"), PATIENCE, async || {
            let classes = self.classes().list(&ListParams::default()).await?;
            let names: BTreeSet<String> = classes.iter().map(ResourceExt::name_any).collect();
            Ok((names == wanted).then_some(()))
        })
        .await
    }

    /// Waits until there is an event about something with this reason, and shows its message.
    pub(crate) async fn told(&self, about: &str, reason: &str) -> anyhow::Result<String> {
        self.event(about, reason, |_| true).await
    }

    /// Waits until this is told in these words, whatever was told before.
    pub(crate) async fn told_that(
        &self,
        about: &str,
        reason: &str,
        words: &str,
    ) -> anyhow::Result<()> {
        let said = self.event(about, reason, |message| message == words);
        said.await.map(drop)
    }

    async fn event(
        &self,
        about: &str,
        reason: &str,
        is_meant: impl Fn(&str) -> bool,
    ) -> anyhow::Result<String> {
        let events: Api<Event> = Api::all(self.client());
        wait_until(&format!("{about} is told {reason}"), PATIENCE, async || {
            let all = events.list(&ListParams::default()).await?;
            let found = all.into_iter().filter(|event| {
                event.involved_object.name.as_deref() == Some(about)
                    && event.reason.as_deref() == Some(reason)
            });
            let mut messages = found.map(|event| event.message.unwrap_or_default());
            Ok(messages.find(|message| is_meant(message)))
        })
        .await
    }
}

/// What the first container of a pod waits for, or how it ended last.
pub(crate) fn waits_for(pod: &Value) -> &str {
    let reason = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    reason.as_str().unwrap_or_default()
}
