//! The story of the descheduler operator: a configuration is refused, accepted, edited, and loses what it needs.
//!
//! Played beside the genuine operator (`tests/beside_descheduler.rs`) and its stand-in (`tests/recordings.rs` here).

use std::time::Duration;

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PostParams};
use serde_json::{Value, json};
use testkit::recording::{Recorder, Subject};
use testkit::{by, until};

/// What the genuine operator wrote.
pub(crate) const RECORDING: &str = "descheduler/operator.json";
pub(crate) const NAMESPACE: &str = "openshift-kube-descheduler-operator";
/// Namespace of the route that the operator finds Prometheus by.
const MONITORING: &str = "openshift-monitoring";
/// Field manager of all writes of the story.
pub(crate) const MANAGER: &str = "administrator";
/// On the pod template of a Deployment: the generation that the operator made it from.
const GENERATION: &str = "kubedeschedulers.operator.openshift.io/cluster";
const DEGRADED: &str = "TargetConfigControllerDegraded";
/// The operator retries with a backoff.
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
const PROFILE: &str = "KubeVirtRelieveAndMigrate";

/// Where the story is played: a cluster with the CRDs of the operator, [`Story::prepare`]d before the operator started.
pub(crate) trait Stage {
    /// Whether the operator finds PSI metrics on the nodes.
    async fn set_psi(&mut self, enabled: bool) -> anyhow::Result<()>;
}

/// What is recorded. Of most objects only that they are there: their content is the business of the descheduler.
pub(crate) fn subject() -> Subject {
    let kinds = [
        ("operator.openshift.io/v1", "KubeDescheduler"),
        ("apps/v1", "Deployment"),
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
        ),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicyBinding",
        ),
        ("monitoring.coreos.com/v1", "PrometheusRule"),
        ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ];
    let template = format!(
        "/spec/template/metadata/annotations/{}",
        GENERATION.replace('/', "~1")
    );
    let mut subject = Subject::new(kinds.map(|(version, kind)| resource(version, kind)))
        .played_by(&[MANAGER])
        .only(
            "Deployment",
            &["/metadata/ownerReferences", "/spec/replicas", &template],
        )
        // How often a Deployment was updated depends on the versions of the objects that it names.
        .hiding("lastGeneration");
    for (_, kind) in kinds.into_iter().skip(2) {
        subject = subject.only(kind, &[]);
    }
    subject
}

pub(crate) struct Story {
    client: kube::Client,
    recorder: Recorder,
}

impl Story {
    /// Creates what the operator needs of the cluster, except for Prometheus.
    pub(crate) async fn prepare(client: kube::Client) -> anyhow::Result<Self> {
        let recorder = Recorder::start(client.clone(), subject());
        let story = Self { client, recorder };
        let labels = json!({ "openshift.io/cluster-monitoring": "true" });
        for (name, labels) in [(NAMESPACE, labels), (MONITORING, json!({}))] {
            let namespace = json!({ "metadata": { "name": name, "labels": labels } });
            story.apply("v1", "Namespace", None, namespace).await?;
        }
        let node = json!({ "metadata": { "name": "worker-1", "labels": {
            "kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": "" } } });
        story.apply("v1", "Node", None, node).await?;
        story.set_kubevirt(true).await?;
        Ok(story)
    }

    /// Plays the story.
    pub(crate) async fn play(self, stage: &mut impl Stage) -> anyhow::Result<Recorder> {
        stage.set_psi(true).await?;
        let spec = json!({
            "managementState": "Managed", "mode": "Automatic",
            "deschedulingIntervalSeconds": 3600, "profiles": [PROFILE],
        });
        self.configure(spec.clone()).await?;
        self.degraded("prometheus").await?;
        let deschedulers = self.deschedulers();
        // By another of its controllers.
        until(
            &deschedulers,
            "cluster",
            "is observed",
            WAIT_TIMEOUT,
            |live| !live.data["spec"]["observedConfig"].is_null(),
        )
        .await?;
        self.recorder.step("refused without Prometheus").await?;

        self.set_prometheus(true).await?;
        self.taken_up().await?;
        self.recorder.step("accepted").await?;

        self.edit(json!({ "deschedulingIntervalSeconds": 180 }))
            .await?;
        self.taken_up().await?;
        self.recorder.step("edited").await?;

        self.edit(json!({ "managementState": "Unmanaged", "deschedulingIntervalSeconds": 240 }))
            .await?;
        self.taken_up().await?;
        self.recorder.step("unmanaged").await?;

        self.edit(json!({ "managementState": "Managed", "deschedulingIntervalSeconds": null }))
            .await?;
        self.recorder.step("without an interval").await?;

        self.edit(json!({ "deschedulingIntervalSeconds": 60 }))
            .await?;
        self.taken_up().await?;
        self.recorder.step("with an interval again").await?;

        self.set_prometheus(false).await?;
        self.degraded("prometheus").await?;
        self.recorder.step("Prometheus is gone").await?;

        self.set_prometheus(true).await?;
        self.taken_up().await?;
        self.recorder.step("Prometheus is back").await?;

        self.set_kubevirt(false).await?;
        self.degraded("KubeVirt is properly deployed").await?;
        self.recorder.step("KubeVirt is gone").await?;

        self.set_kubevirt(true).await?;
        self.taken_up().await?;
        self.recorder.step("KubeVirt is back").await?;

        stage.set_psi(false).await?;
        self.degraded("PSI").await?;
        self.recorder.step("PSI is disabled").await?;

        stage.set_psi(true).await?;
        self.taken_up().await?;
        self.recorder.step("PSI is enabled again").await?;

        self.edit(json!({ "profiles": ["LongLifecycle"] })).await?;
        self.taken_up().await?;
        self.recorder.step("profile without VMs").await?;

        let deschedulers = self.deschedulers();
        deschedulers
            .delete("cluster", &DeleteParams::default())
            .await?;
        self.recorder.step("deleted").await?;
        Ok(self.recorder)
    }

    fn objects(&self, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = resource(version, kind);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn deschedulers(&self) -> Api<DynamicObject> {
        self.objects(
            "operator.openshift.io/v1",
            "KubeDescheduler",
            Some(NAMESPACE),
        )
    }

    /// Creates or changes an object.
    async fn apply(
        &self,
        version: &str,
        kind: &str,
        namespace: Option<&str>,
        mut object: Value,
    ) -> anyhow::Result<()> {
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let api = self.objects(version, kind, namespace);
        api.patch(&name, &by(MANAGER).force(), &Patch::Apply(&object))
            .await?;
        Ok(())
    }

    async fn configure(&self, spec: Value) -> anyhow::Result<()> {
        let object = serde_json::from_value(json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
            "metadata": { "name": "cluster", "namespace": NAMESPACE }, "spec": spec,
        }))?;
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let deschedulers = self.deschedulers();
        deschedulers.create(&params, &object).await?;
        Ok(())
    }

    async fn edit(&self, spec: Value) -> anyhow::Result<()> {
        let deschedulers = self.deschedulers();
        let patch = Patch::Merge(json!({ "spec": spec }));
        deschedulers.patch("cluster", &by(MANAGER), &patch).await?;
        Ok(())
    }

    /// Publishes Prometheus, or withdraws it.
    async fn set_prometheus(&self, is_there: bool) -> anyhow::Result<()> {
        let (version, kind, name) = ("route.openshift.io/v1", "Route", "prometheus-k8s");
        let routes = self.objects(version, kind, Some(MONITORING));
        if !is_there {
            routes.delete(name, &DeleteParams::default()).await?;
            return Ok(());
        }
        let route = json!({ "metadata": { "name": name },
            "spec": { "to": { "kind": "Service", "name": name } } });
        self.apply(version, kind, Some(MONITORING), route).await?;
        let status = json!({ "status": { "ingress": [{ "host": "prometheus.example" }] } });
        routes
            .patch_status(name, &by(MANAGER), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// Labels the node as KubeVirt does.
    async fn set_kubevirt(&self, is_there: bool) -> anyhow::Result<()> {
        let label = is_there.then_some("true");
        let patch = json!({ "metadata": { "labels": { "kubevirt.io/schedulable": label } } });
        let nodes = self.objects("v1", "Node", None);
        nodes
            .patch("worker-1", &by(MANAGER), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Waits until the operator refuses its configuration for a reason that contains a text.
    async fn degraded(&self, text: &str) -> anyhow::Result<()> {
        let deschedulers = self.deschedulers();
        until(&deschedulers, "cluster", text, WAIT_TIMEOUT, |live| {
            condition(live).is_some_and(|it| {
                let reason = it["reason"].as_str().unwrap_or_default();
                it["status"] == "True" && reason.contains(text)
            })
        })
        .await?;
        Ok(())
    }

    /// Waits until the operator runs the descheduler with the current generation of its configuration.
    async fn taken_up(&self) -> anyhow::Result<()> {
        let deschedulers = self.deschedulers();
        let live = until(
            &deschedulers,
            "cluster",
            "is not degraded",
            WAIT_TIMEOUT,
            |live| condition(live).is_some_and(|it| it["status"] == "False"),
        )
        .await?;
        let generation = live.metadata.generation.unwrap_or_default();
        let deployments = self.objects("apps/v1", "Deployment", Some(NAMESPACE));
        let what = format!("is made from generation {generation}");
        until(
            &deployments,
            "descheduler",
            &what,
            WAIT_TIMEOUT,
            |deployment| {
                let spec = &deployment.data["spec"];
                let written = spec["template"]["metadata"]["annotations"][GENERATION].as_str();
                let written = written.and_then(|it| it.parse().ok());
                written.is_some_and(|written: i64| written >= generation) && spec["replicas"] == 1
            },
        )
        .await?;
        Ok(())
    }
}

fn condition(live: &DynamicObject) -> Option<&Value> {
    let conditions = live.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == DEGRADED)
}

fn resource(version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}
