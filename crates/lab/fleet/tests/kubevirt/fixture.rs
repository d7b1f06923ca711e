//! A cluster with nodes, a scheduler, kubelets and KubeVirt.

use std::time::Duration;

use anyhow::Context as _;
use fleet::operators::{Installed, kubevirt, names};
use fleet::{Fleet, Options};
use k8s_openapi::api::core::v1::{Event, Node, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
/// Guests boot in 20 ms, and unschedulable targets time out after a few seconds.
const SPEED: f64 = 100.0;

pub(crate) struct Fixture {
    cluster: TestCluster,
    _manager: Manager,
    namespace: String,
}

impl Fixture {
    pub(crate) async fn start(fleet: &str) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let namespace = cluster.namespace("machines").await?;
        // Without controllers the test has to create the service account that pods need.
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), &namespace);
        if let Err(error) = accounts.create(&PostParams::default(), &account).await {
            let there = matches!(&error, kube::Error::Api(status) if status.code == 409);
            anyhow::ensure!(there, error);
        }
        let manager = Manager::new(cluster.client());
        let options = Options {
            fleet: Some(Fleet::parse(fleet)?),
            speed: SPEED,
            operators: Some(Installed {
                virtual_machines: true,
                ..Installed::default()
            }),
            ..Options::new(cluster.client())
        };
        fleet::start(&manager, options).await?;
        let fixture = Self {
            cluster,
            _manager: manager,
            namespace,
        };
        fixture.untaint().await?;
        Ok(fixture)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client())
    }

    pub(crate) fn all(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.cluster.client(), &self.namespace, &kubevirt(kind))
    }

    /// Removes the not-ready taint that the API server adds to new nodes: no node lifecycle
    /// controller runs here.
    async fn untaint(&self) -> anyhow::Result<()> {
        for node in self.nodes().list(&ListParams::default()).await? {
            let name = node.metadata.name.clone().unwrap_or_default();
            let patch = Patch::Merge(json!({ "spec": { "taints": null } }));
            self.nodes()
                .patch(&name, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn create(
        &self,
        kind: &str,
        name: &str,
        spec: Value,
    ) -> anyhow::Result<Value> {
        let resource = kubevirt(kind);
        let object = serde_json::from_value(json!({
            "apiVersion": resource.api_version,
            "kind": kind,
            "metadata": { "name": name },
            "spec": spec,
        }))?;
        let made = self
            .all(kind)
            .create(&PostParams::default(), &object)
            .await?;
        Ok(json!(made))
    }

    /// Creates a virtual machine.
    pub(crate) async fn machine(
        &self,
        name: &str,
        strategy: &str,
        spec: Value,
    ) -> anyhow::Result<()> {
        let spec = json!({ "runStrategy": strategy, "template": { "spec": spec } });
        self.create("VirtualMachine", name, spec).await.map(drop)
    }

    /// Creates a virtual machine whose instances have these annotations.
    pub(crate) async fn annotated(
        &self,
        name: &str,
        strategy: &str,
        annotations: Value,
    ) -> anyhow::Result<()> {
        let template =
            json!({ "metadata": { "annotations": annotations }, "spec": cpu("host-model") });
        let spec = json!({ "runStrategy": strategy, "template": template });
        self.create("VirtualMachine", name, spec).await.map(drop)
    }

    /// Patches a KubeVirt object.
    pub(crate) async fn patch(
        &self,
        kind: &str,
        name: &str,
        patch: Value,
    ) -> anyhow::Result<Value> {
        let all = self.all(kind);
        let patch = Patch::Merge(patch);
        let patched = all.patch(name, &PatchParams::default(), &patch).await?;
        Ok(json!(patched))
    }

    /// Creates a migration of an instance.
    pub(crate) async fn migrate(
        &self,
        instance: &str,
        name: &str,
        more: Value,
    ) -> anyhow::Result<()> {
        let mut spec = json!({ "vmiName": instance });
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        let kind = "VirtualMachineInstanceMigration";
        self.create(kind, name, spec).await.map(drop)
    }

    /// Waits until a migration is final, and returns it.
    pub(crate) async fn until_over(&self, name: &str) -> anyhow::Result<Value> {
        let kind = "VirtualMachineInstanceMigration";
        self.until_of(kind, name, "is over", |it| {
            matches!(phase(it), "Succeeded" | "Failed")
        })
        .await
    }

    /// Patches the spec of a virtual machine.
    pub(crate) async fn set(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        self.patch("VirtualMachine", name, json!({ "spec": spec }))
            .await
            .map(drop)
    }

    /// Patches the configuration of KubeVirt.
    pub(crate) async fn configure(&self, configuration: Value) -> anyhow::Result<()> {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.cluster.client(),
            names::KUBEVIRT_NAMESPACE,
            &kubevirt("KubeVirt"),
        );
        let patch = Patch::Merge(json!({ "spec": { "configuration": configuration } }));
        api.patch(names::KUBEVIRT, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    pub(crate) async fn label(&self, node: &str, labels: Value) -> anyhow::Result<()> {
        self.patch_node(node, json!({ "metadata": { "labels": labels } }))
            .await
    }

    pub(crate) async fn annotate(&self, node: &str, annotations: Value) -> anyhow::Result<()> {
        self.patch_node(node, json!({ "metadata": { "annotations": annotations } }))
            .await
    }

    pub(crate) async fn patch_node(&self, node: &str, patch: Value) -> anyhow::Result<()> {
        self.nodes()
            .patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub(crate) async fn instance(&self, name: &str) -> anyhow::Result<Value> {
        Ok(json!(self.all("VirtualMachineInstance").get(name).await?))
    }

    /// Waits until a KubeVirt object satisfies the condition.
    pub(crate) async fn until_of(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let api = self.all(kind);
        let found = wait_until(&format!("{kind} {name} {what}"), WAIT_TIMEOUT, async || {
            let found = json!(api.get_opt(name).await?);
            Ok(holds(&found).then_some(found))
        })
        .await;
        let last = json!(api.get_opt(name).await?);
        found.with_context(|| format!("it is {last}"))
    }

    /// Waits until an instance satisfies the condition.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        self.until_of("VirtualMachineInstance", name, what, holds)
            .await
    }

    /// Waits until a virtual machine has this printable status.
    pub(crate) async fn until_machine(&self, name: &str, word: &str) -> anyhow::Result<Value> {
        self.until_of("VirtualMachine", name, &format!("is {word}"), |it| {
            it["status"]["printableStatus"] == word
        })
        .await
    }

    /// Waits until the instance is deleted.
    pub(crate) async fn until_gone(&self, name: &str) -> anyhow::Result<()> {
        self.until(name, "is gone", Value::is_null).await.map(drop)
    }

    /// Waits for an event with this reason and text.
    pub(crate) async fn until_event(&self, reason: &str, part: &str) -> anyhow::Result<Event> {
        let api: Api<Event> = Api::all(self.cluster.client());
        wait_until(
            &format!("event {reason} {part}"),
            WAIT_TIMEOUT,
            async || {
                let all = api.list(&ListParams::default()).await?;
                Ok(all.items.into_iter().find(|event| {
                    let message = event.message.as_deref().unwrap_or_default();
                    event.reason.as_deref() == Some(reason) && message.contains(part)
                }))
            },
        )
        .await
    }

    /// The launcher pods of an instance.
    pub(crate) async fn launchers(&self, name: &str) -> anyhow::Result<Vec<Value>> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client(), &self.namespace);
        let which = format!("kubevirt.io=virt-launcher,vm.kubevirt.io/name={name}");
        let pods = api.list(&ListParams::default().labels(&which)).await?;
        Ok(pods.items.iter().map(|pod| json!(pod)).collect())
    }

    pub(crate) async fn node_names(&self) -> anyhow::Result<Vec<String>> {
        let nodes = self.nodes().list(&ListParams::default()).await?;
        let names = nodes
            .items
            .into_iter()
            .filter_map(|node| node.metadata.name);
        Ok(names.collect())
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) -> anyhow::Result<()> {
        self.all(kind)
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

/// The spec of an instance with this CPU model.
pub(crate) fn cpu(model: &str) -> Value {
    json!({ "domain": { "cpu": { "model": model }, "memory": { "guest": "128Mi" } } })
}

/// The phases an object has been in.
pub(crate) fn phases(object: &Value) -> Vec<&str> {
    let all = object["status"]["phaseTransitionTimestamps"].as_array();
    let all = all.into_iter().flatten();
    all.filter_map(|it| it["phase"].as_str()).collect()
}

pub(crate) fn phase(object: &Value) -> &str {
    object["status"]["phase"].as_str().unwrap_or_default()
}
