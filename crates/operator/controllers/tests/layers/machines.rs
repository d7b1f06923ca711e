//! Virtual machines get the architecture of their image.

use anyhow::Context as _;
use api::cdi::labels;
use controllers::Job;
use fleet::operators::virtual_machine;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use testkit::wait_until;

use crate::stage::{HOME, Stage, WAIT_TIMEOUT, claim};

/// A virtual machine in `default` that clones DataSources and uses volumes.
fn machine(name: &str, own: Option<&str>, sources: &[&str]) -> Value {
    let templates: Vec<Value> = sources
        .iter()
        .map(|source| {
            json!({
                "metadata": { "name": format!("{name}-{source}") },
                "spec": { "sourceRef": { "kind": "DataSource", "namespace": HOME, "name": source } },
            })
        })
        .collect();
    let mut machine = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "runStrategy": "Halted",
            "dataVolumeTemplates": templates,
            "template": { "spec": { "volumes": [] } },
        },
    });
    if let Some(own) = own {
        machine["spec"]["template"]["spec"]["architecture"] = json!(own);
    }
    machine
}

struct Machines<'a> {
    stage: &'a Stage,
    api: Api<DynamicObject>,
}

impl<'a> Machines<'a> {
    fn of(stage: &'a Stage) -> Self {
        let api = Api::namespaced_with(stage.cluster.client(), "default", &virtual_machine());
        Self { stage, api }
    }

    async fn make(&self, machine: Value) -> anyhow::Result<()> {
        let machine = serde_json::from_value(machine)?;
        self.api.create(&PostParams::default(), &machine).await?;
        Ok(())
    }

    async fn becomes(&self, name: &str, architecture: &str) -> anyhow::Result<()> {
        wait_until(
            &format!("{name} is for {architecture}"),
            WAIT_TIMEOUT,
            async || {
                let found = self.api.get(name).await?;
                let actual = found.data.pointer("/spec/template/spec/architecture");
                Ok((actual == Some(&json!(architecture))).then_some(()))
            },
        )
        .await
    }

    /// Waits for an event about a virtual machine.
    async fn wait_for_event(&self, name: &str, reason: &str) -> anyhow::Result<String> {
        let events: Api<Event> = Api::namespaced(self.stage.cluster.client(), "default");
        wait_until(
            &format!("event {reason} of {name}"),
            WAIT_TIMEOUT,
            async || {
                let all = events.list(&ListParams::default()).await?;
                let mut all = all.items.into_iter();
                let found = all.find(|it| {
                    it.involved_object.name.as_deref() == Some(name)
                        && it.reason.as_deref() == Some(reason)
                });
                Ok(found.map(|it| it.message.unwrap_or_default()))
            },
        )
        .await
    }
}

/// A DataSource with an architecture, or one that points to another.
async fn source(stage: &Stage, name: &str, own: Option<&str>, to: &str) -> anyhow::Result<()> {
    let mut object = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": { "name": name, "namespace": HOME, "labels": {} },
        "spec": { "source": { "dataSource": { "namespace": HOME, "name": to } } },
    });
    if let Some(own) = own {
        object["metadata"]["labels"][labels::ARCHITECTURE] = json!(own);
        object["spec"]["source"] = json!({ "pvc": { "namespace": HOME, "name": to } });
    }
    let object = serde_json::from_value(object)?;
    stage
        .sources()
        .create(&PostParams::default(), &object)
        .await
        .with_context(|| format!("making DataSource {name}"))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_gets_architecture_of_its_image() -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "arm64"], &[Job::ImagesVm]).await?;
    source(&stage, "fedora-arm64", Some("arm64"), "disk").await?;
    source(&stage, "fedora-amd64", Some("amd64"), "disk").await?;
    source(&stage, "fedora", None, "fedora-arm64").await?;
    let machines = Machines::of(&stage);

    machines
        .make(machine("direct", None, &["fedora-arm64"]))
        .await?;
    machines.becomes("direct", "arm64").await?;
    machines.make(machine("pointed", None, &["fedora"])).await?;
    machines.becomes("pointed", "arm64").await?;
    let message = machines
        .wait_for_event("pointed", "ArchitectureSet")
        .await?;
    assert_eq!(
        message,
        format!("set the architecture to arm64, from DataSource {HOME}/fedora")
    );
    machines.make(machine("nothing", None, &[])).await?;
    machines.becomes("nothing", "amd64").await?;

    // An explicit architecture stays, with a warning.
    machines
        .make(machine("chosen", Some("amd64"), &["fedora"]))
        .await?;
    let message = machines
        .wait_for_event("chosen", "ArchitectureMismatch")
        .await?;
    assert_eq!(
        message,
        format!(
            "the VM is for amd64, but DataSource {HOME}/fedora is for arm64; it will not boot from it"
        )
    );
    machines.becomes("chosen", "amd64").await?;

    // A virtual machine from a volume that the user created.
    let mut from_volume = machine("volume", None, &[]);
    from_volume["metadata"]["namespace"] = json!("default");
    from_volume["spec"]["template"]["spec"]["volumes"] =
        json!([{ "name": "root", "persistentVolumeClaim": { "claimName": "arm64-disk" } }]);
    let mut volume = claim("arm64-disk", &json!({ labels::ARCHITECTURE: "arm64" }))?;
    volume.metadata.namespace = Some("default".to_owned());
    Api::namespaced(stage.cluster.client(), "default")
        .create(&PostParams::default(), &volume)
        .await?;
    machines.make(from_volume).await?;
    machines.becomes("volume", "arm64").await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_waits_for_its_image() -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "arm64"], &[Job::ImagesVm]).await?;
    let machines = Machines::of(&stage);
    machines.make(machine("early", None, &["later"])).await?;
    machines
        .wait_for_event("early", "DataSourceNotFound")
        .await?;
    source(&stage, "later", Some("arm64"), "disk").await?;
    machines.becomes("early", "arm64").await?;
    stage.end().await;
    Ok(())
}
