//! A cluster with KubeVirt's virt-api and virt-controller, a scheduler, and Medley's CPU models; and the steps of a
//! virtual machine's life.

use anyhow::Context as _;
use futures::TryStreamExt as _;
use http::Request;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{Process, by, free_port, until, wait_until};

use crate::fixture::{GenuineCluster, WAIT_TIMEOUT};
use crate::install::{
    API_ACCOUNT, CONTROLLER_ACCOUNT, Certificates, HANDLER_ACCOUNT, install, serving, user,
};
use crate::roles::{self, Kubelets, NODES, objects, update_instance};

pub(crate) const NAMESPACE: &str = "machines";
const JOB: &str = "cpu-models";
const INSTANCE: &str = "VirtualMachineInstance";
/// The registration of Medley's webhook.
const REGISTRATION: &str = "medley-cpu-models";

/// The programs are dropped before the cluster.
pub(crate) struct Story {
    _kubelets: Kubelets,
    webhook: Option<Process>,
    medley: Option<Process>,
    scheduler: Option<Process>,
    controller: Process,
    api: Process,
    pub(crate) beside: GenuineCluster,
}

impl Story {
    /// KubeVirt runs, without nodes, a scheduler and Medley.
    pub(crate) async fn without_nodes() -> anyhow::Result<Self> {
        let beside = GenuineCluster::controlled().await?;
        install(&beside).await?;
        beside
            .apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }))
            .await?;
        let kubelets = Kubelets::start(&beside.cluster.client(), NAMESPACE);
        let certificates = Certificates::generate()?;
        let port = free_port()?;
        let api = run(&beside, &certificates, Program::Api, port)?;
        certificates.register(&beside, port).await?;
        let controller = run(&beside, &certificates, Program::Controller, free_port()?)?;
        let story = Self {
            _kubelets: kubelets,
            webhook: None,
            medley: None,
            scheduler: None,
            controller,
            api,
            beside,
        };
        let services = story
            .beside
            .objects("apiregistration.k8s.io/v1", "APIService", None);
        let name = "v1.subresources.kubevirt.io";
        until(&services, name, "is available", WAIT_TIMEOUT, |service| {
            let conditions = service.data["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["type"] == "Available" && it["status"] == "True")
        })
        .await
        .with_context(|| story.logs())?;
        Ok(story)
    }

    /// KubeVirt runs, and nothing of Medley.
    pub(crate) async fn without_medley() -> anyhow::Result<Self> {
        let mut story = Self::without_nodes().await?;
        for hardware in &NODES {
            roles::create_node(&story.beside.cluster.client(), hardware).await?;
        }
        let scheduler = story
            .beside
            .run_peer("kube-scheduler", |command, kubeconfig| {
                command
                    .arg("--kubeconfig")
                    .arg(kubeconfig)
                    .args(["--leader-elect=false", "--secure-port=0"]);
            })?;
        story.scheduler = Some(scheduler);
        Ok(story)
    }

    /// KubeVirt and Medley run.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut story = Self::without_medley().await?;
        story.medley_runs().await?;
        Ok(story)
    }

    /// Starts Medley, where it does not run.
    pub(crate) async fn medley_runs(&mut self) -> anyhow::Result<()> {
        if self.medley.is_none() {
            self.medley = Some(self.beside.run_medley(JOB).await?);
        }
        self.webhook_runs().await
    }

    pub(crate) async fn webhook_runs(&mut self) -> anyhow::Result<()> {
        self.webhook = None;
        self.webhook = Some(self.beside.run_webhook(JOB).await?);
        Ok(())
    }

    /// Kills the webhook; it stays registered.
    pub(crate) fn kill_webhook(&mut self) {
        self.webhook = None;
    }

    /// Kills the webhook and removes its registration.
    pub(crate) async fn unregister(&mut self) -> anyhow::Result<()> {
        self.webhook = None;
        let registrations = self.beside.objects(
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            None,
        );
        registrations
            .delete(REGISTRATION, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Adds the logs to an error.
    pub(crate) fn explain<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        result.with_context(|| self.logs())
    }

    /// The ends of all logs, for the message of a failed wait.
    fn logs(&self) -> String {
        let programs = [
            ("virt-api", Some(&self.api)),
            ("virt-controller", Some(&self.controller)),
            ("kube-scheduler", self.scheduler.as_ref()),
            ("medley run", self.medley.as_ref()),
            ("medley webhook", self.webhook.as_ref()),
        ];
        let mut all = String::new();
        for (name, program) in programs {
            let output = program.map(Process::output).unwrap_or_default();
            let lines: Vec<&str> = output.lines().rev().take(30).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            all.extend([name, ":\n", &lines.join("\n"), "\n"]);
        }
        all
    }

    fn of_kubevirt(&self, kind: &str) -> Api<DynamicObject> {
        self.beside.objects("kubevirt.io/v1", kind, Some(NAMESPACE))
    }

    pub(crate) fn machines(&self) -> Api<DynamicObject> {
        self.of_kubevirt("VirtualMachine")
    }

    pub(crate) fn instances(&self) -> Api<DynamicObject> {
        self.of_kubevirt(INSTANCE)
    }

    pub(crate) fn migrations(&self) -> Api<DynamicObject> {
        self.of_kubevirt("VirtualMachineInstanceMigration")
    }

    pub(crate) fn pods(&self) -> Api<DynamicObject> {
        self.beside.objects("v1", "Pod", Some(NAMESPACE))
    }

    /// Creates a VirtualMachine that runs, with these fields in the spec of its template; returns the warnings of the
    /// API server.
    pub(crate) async fn create(&self, name: &str, spec: Value) -> anyhow::Result<Vec<String>> {
        let mut machine = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "runStrategy": "Always", "template": { "spec": {
                "terminationGracePeriodSeconds": 0,
                "domain": {
                    "devices": {},
                    "cpu": { "model": "best-match-model", "sockets": 1 },
                    "resources": { "requests": { "memory": "128Mi" } },
                },
            } } },
        });
        let template = &mut machine["spec"]["template"]["spec"];
        for (field, value) in spec.as_object().into_iter().flatten() {
            template[field] = value.clone();
        }
        let path = format!("/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachines");
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(machine.to_string().into_bytes())?;
        let response = self.beside.cluster.request(request).await?;
        anyhow::ensure!(
            response.status().is_success(),
            "creating {name}: {}",
            String::from_utf8_lossy(response.body())
        );
        let warnings = response.headers().get_all("warning").iter();
        Ok(warnings
            .map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned())
            .collect())
    }

    /// The instance of a virtual machine, in this phase.
    pub(crate) async fn phase(&self, name: &str, phase: &str) -> anyhow::Result<DynamicObject> {
        self.instance(name, phase, |instance| {
            instance.data["status"]["phase"] == phase
        })
        .await
    }

    pub(crate) async fn instance(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&DynamicObject) -> bool,
    ) -> anyhow::Result<DynamicObject> {
        until(&self.instances(), name, what, WAIT_TIMEOUT, holds)
            .await
            .with_context(|| self.logs())
    }

    /// The launcher pod of the instance that has this name now, of a migration or the first one; on its node.
    pub(crate) async fn launcher(
        &self,
        name: &str,
        migration: Option<&DynamicObject>,
    ) -> anyhow::Result<DynamicObject> {
        self.pod(name, migration, "is scheduled", |pod| {
            pod.data["spec"]["nodeName"].is_string()
        })
        .await
    }

    /// The same, in a state.
    pub(crate) async fn pod(
        &self,
        name: &str,
        migration: Option<&DynamicObject>,
        what: &str,
        holds: impl Fn(&DynamicObject) -> bool,
    ) -> anyhow::Result<DynamicObject> {
        let job = migration.and_then(kube::ResourceExt::uid);
        let what = format!("a launcher of {name} {what}");
        wait_until(&what, WAIT_TIMEOUT, async || {
            let Some(instance) = self.instances().get_opt(name).await? else {
                return Ok(None);
            };
            let uid = instance.uid().unwrap_or_default();
            let params = ListParams::default().labels(&format!("kubevirt.io/created-by={uid}"));
            let pods = self.pods().list(&params).await?;
            Ok(pods.into_iter().find(|pod| {
                let of = pod.labels().get("kubevirt.io/migrationJobUID");
                of == job.as_ref() && pod.metadata.deletion_timestamp.is_none() && holds(pod)
            }))
        })
        .await
        .with_context(|| self.logs())
    }

    /// The containers of a scheduled pod start.
    pub(crate) async fn run_pod(&self, pod: &DynamicObject) -> anyhow::Result<()> {
        roles::run_pod(&self.pods(), pod).await
    }

    /// A client of virt-handler's account.
    pub(crate) fn handler(&self) -> anyhow::Result<Client> {
        let groups = ["system:authenticated"];
        self.beside
            .cluster
            .client_as(&user(HANDLER_ACCOUNT), &groups)
    }

    /// virt-handler updates an instance.
    pub(crate) async fn handle(
        &self,
        name: &str,
        change: impl Fn(&mut DynamicObject),
    ) -> anyhow::Result<DynamicObject> {
        let instances = objects(
            &self.handler()?,
            "kubevirt.io/v1",
            INSTANCE,
            Some(NAMESPACE),
        );
        update_instance(&instances, name, change).await
    }

    /// The guest of an instance starts: its launcher runs, virt-controller hands it over, and virt-handler starts it.
    /// Returns the instance as it was handed over.
    pub(crate) async fn run_guest(&self, name: &str) -> anyhow::Result<DynamicObject> {
        let launcher = self.launcher(name, None).await?;
        self.run_pod(&launcher).await?;
        let handed_over = self.phase(name, "Scheduled").await?;
        self.handle(name, roles::start_guest).await?;
        until(&self.machines(), name, "runs", WAIT_TIMEOUT, |machine| {
            machine.data["status"]["ready"] == true
        })
        .await
        .with_context(|| self.logs())?;
        Ok(handed_over)
    }

    /// Starts a migration as `virtctl migrate` does, through the aggregated API; returns it.
    pub(crate) async fn migrate(&self, name: &str) -> anyhow::Result<DynamicObject> {
        let path = format!(
            "/apis/subresources.kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachines/{name}/migrate"
        );
        let request = Request::put(path).header("content-type", "application/json");
        let request = request.body(b"{}".to_vec())?;
        let response = self.beside.cluster.request(request).await?;
        anyhow::ensure!(
            response.status().is_success(),
            "migrating {name}: {} {}",
            response.status(),
            String::from_utf8_lossy(response.body())
        );
        let migrations = self.migrations();
        let all = migrations.list(&ListParams::default()).await?;
        let mut all = all.into_iter();
        all.find(|it| it.data["spec"]["vmiName"] == name && is_open(it))
            .with_context(|| format!("no migration of {name}"))
    }

    /// A migration, in this phase.
    pub(crate) async fn migration(
        &self,
        migration: &DynamicObject,
        phase: &str,
    ) -> anyhow::Result<DynamicObject> {
        let name = migration.name_any();
        until(&self.migrations(), &name, phase, WAIT_TIMEOUT, |found| {
            found.data["status"]["phase"] == phase
        })
        .await
        .with_context(|| self.logs())
    }

    /// The guest moves to its scheduled target, until virt-controller reports success.
    pub(crate) async fn move_guest(
        &self,
        name: &str,
        migration: &DynamicObject,
        target: &DynamicObject,
    ) -> anyhow::Result<()> {
        self.run_pod(target).await?;
        self.instance(name, "has a target", |instance| {
            instance.data["status"]["migrationState"]["targetPod"] == target.name_any()
        })
        .await?;
        self.migration(migration, "PreparingTarget").await?;
        self.handle(name, roles::prepare_target).await?;
        self.migration(migration, "TargetReady").await?;
        self.handle(name, roles::send_guest).await?;
        self.migration(migration, "Running").await?;
        self.handle(name, roles::receive_guest).await?;
        self.handle(name, roles::finish_migration).await?;
        self.handle(name, roles::clean_up_migration).await?;
        self.migration(migration, "Succeeded").await?;
        Ok(())
    }

    /// virt-controller has logged this.
    pub(crate) async fn controller_logs(&self, text: &str) -> anyhow::Result<()> {
        let what = format!("virt-controller logs {text}");
        wait_until(&what, WAIT_TIMEOUT, async || {
            Ok(self.controller.output().contains(text).then_some(()))
        })
        .await
        .with_context(|| self.logs())
    }

    /// An event about an object of this name.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> anyhow::Result<DynamicObject> {
        let events = self.beside.objects("v1", "Event", Some(NAMESPACE));
        let params = ListParams::default().fields(&format!("involvedObject.name={name}"));
        wait_until(
            &format!("event {reason} of {name}"),
            WAIT_TIMEOUT,
            async || {
                let all = events.list(&params).await?;
                Ok(all.into_iter().find(|event| event.data["reason"] == reason))
            },
        )
        .await
        .with_context(|| self.logs())
    }

    /// Every version of an object since it was created.
    pub(crate) async fn history(
        &self,
        api: &Api<DynamicObject>,
        created: &DynamicObject,
    ) -> anyhow::Result<Vec<DynamicObject>> {
        let version = created.resource_version().context("a resourceVersion")?;
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", created.name_any()))
            .timeout(1);
        let events = api.watch(&params, &version).await?;
        let events: Vec<WatchEvent<DynamicObject>> = events.try_collect().await?;
        let versions = events.into_iter().filter_map(|event| match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Some(object),
            _ => None,
        });
        Ok([created.clone()].into_iter().chain(versions).collect())
    }

    /// A user who may do everything changes an instance.
    pub(crate) async fn patch_as_user(
        &self,
        name: &str,
        patch: Value,
    ) -> kube::Result<DynamicObject> {
        self.instances()
            .patch(name, &by("user"), &Patch::Merge(patch))
            .await
    }
}

fn is_open(migration: &DynamicObject) -> bool {
    let phase = migration.data["status"]["phase"].as_str();
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// A program of KubeVirt.
#[derive(Debug, Clone, Copy)]
enum Program {
    Api,
    Controller,
}

fn run(
    beside: &GenuineCluster,
    certificates: &Certificates,
    program: Program,
    port: u16,
) -> anyhow::Result<Process> {
    let (name, account, arguments) = match program {
        Program::Api => ("virt-api", API_ACCOUNT, ["tls-cert-file", "tls-key-file"]),
        Program::Controller => (
            "virt-controller",
            CONTROLLER_ACCOUNT,
            ["prom-cert-file", "prom-key-file"],
        ),
    };
    let files = certificates.write(beside, account)?;
    beside.run_peer(name, |command, _| {
        command.args(serving(&files, port, arguments[0], arguments[1]));
        match program {
            Program::Api => command
                .arg("--handler-cert-file")
                .arg(&files.certificate)
                .arg("--handler-key-file")
                .arg(&files.key),
            Program::Controller => command
                .args(["--launcher-image", "registry.example/virt-launcher:1"])
                .args(["--exporter-image", "registry.example/virt-exportserver:1"]),
        };
    })
}

/// The model that an instance has in its spec.
pub(crate) fn model(instance: &DynamicObject) -> &Value {
    &instance.data["spec"]["domain"]["cpu"]["model"]
}
