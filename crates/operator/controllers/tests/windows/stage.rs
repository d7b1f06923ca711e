//! A heterogeneous cluster, a registry, and Medley.

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

/// Upper bound of every wait.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// Speed of the simulation: containers start at once, and image pulls are retried soon.
const SIMULATION_SPEED: f64 = 100.0;

/// Two Windows builds, tainted as in the demo, and two Linux architectures.
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
    /// The mixed fleet, and our controller.
    pub(crate) async fn mixed() -> anyhow::Result<Self> {
        Self::new(MIXED).await
    }

    /// A fleet, and our controller.
    pub(crate) async fn new(fleet: &str) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let namespace = cluster.namespace("windows").await?;
        // The test server runs no controller that creates it, and pods need it.
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
            speed: SIMULATION_SPEED,
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

    /// Removes the taint of new nodes, which no controller here would remove.
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

    /// Starts our controller, after stopping the previous one.
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

    /// The reference of an image in the registry.
    pub(crate) fn image(&self, name: &str) -> String {
        format!("{}/apps/{name}:{APP_TAG}", self.registry)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), &self.namespace)
    }

    pub(crate) fn classes(&self) -> Api<RuntimeClass> {
        Api::all(self.client())
    }

    /// Creates a pod with one container.
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

    /// Creates a pod.
    pub(crate) async fn make(&self, pod: Value) -> anyhow::Result<Pod> {
        let pod = serde_json::from_value(pod)?;
        Ok(self.pods().create(&PostParams::default(), &pod).await?)
    }

    /// Waits until a pod fulfils the condition; returns it.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        wait_until(&format!("pod {name}: {what}"), WAIT_TIMEOUT, async || {
            let pod = json!(self.pods().get(name).await?);
            Ok(holds(&pod).then_some(pod))
        })
        .await
    }

    /// Waits until a pod runs; returns its node.
    pub(crate) async fn runs_on(&self, name: &str) -> anyhow::Result<String> {
        let pod = self
            .until(name, "it runs", |pod| pod["status"]["phase"] == "Running")
            .await?;
        let node = pod["spec"]["nodeName"].as_str();
        Ok(node.unwrap_or_default().to_owned())
    }

    /// Deletes a pod without grace period.
    pub(crate) async fn remove(&self, name: &str) -> anyhow::Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.pods().delete(name, &now).await?;
        Ok(())
    }

    /// Deletes a node.
    pub(crate) async fn remove_node(&self, name: &str) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        nodes.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until exactly these classes exist.
    pub(crate) async fn has_classes(&self, wanted: &[&str]) -> anyhow::Result<()> {
        let wanted: BTreeSet<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        wait_until(
            &format!("classes are {wanted:?}"),
            WAIT_TIMEOUT,
            async || {
                let classes = self.classes().list(&ListParams::default()).await?;
                let names: BTreeSet<String> = classes.iter().map(ResourceExt::name_any).collect();
                Ok((names == wanted).then_some(()))
            },
        )
        .await
    }

    /// Waits for an event about an object; returns its message.
    pub(crate) async fn wait_for_event(&self, about: &str, reason: &str) -> anyhow::Result<String> {
        self.event(about, reason, |_| true).await
    }

    /// Waits for an event with this message.
    pub(crate) async fn wait_for_message(
        &self,
        about: &str,
        reason: &str,
        words: &str,
    ) -> anyhow::Result<()> {
        let message = self.event(about, reason, |message| message == words);
        message.await.map(drop)
    }

    async fn event(
        &self,
        about: &str,
        reason: &str,
        is_meant: impl Fn(&str) -> bool,
    ) -> anyhow::Result<String> {
        let events: Api<Event> = Api::all(self.client());
        wait_until(
            &format!("event {reason} about {about}"),
            WAIT_TIMEOUT,
            async || {
                let all = events.list(&ListParams::default()).await?;
                let found = all.into_iter().filter(|event| {
                    event.involved_object.name.as_deref() == Some(about)
                        && event.reason.as_deref() == Some(reason)
                });
                let mut messages = found.map(|event| event.message.unwrap_or_default());
                Ok(messages.find(|message| is_meant(message)))
            },
        )
        .await
    }
}

/// The waiting reason of a pod's first container, or its last termination reason.
pub(crate) fn waiting_reason(pod: &Value) -> &str {
    let reason = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    reason.as_str().unwrap_or_default()
}
