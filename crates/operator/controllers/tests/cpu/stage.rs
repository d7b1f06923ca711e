//! A heterogeneous cluster with a stock KubeVirt, and Medley.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::cpu::CpuModelPolicy;
use api::kubevirt::{
    KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration, labels,
};
use controllers::Job;
use cpu_models::names::BEST_MATCH_MODEL;
use fleet::operators::{Installed, names};
use fleet::{Fleet, Options};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Event, Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use runtime::Manager;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{Forbidden, TestCluster, wait_until};
use tokio::task::JoinSet;
use webhook::{WebhookServer, Webhooks};

use crate::ours::{NAMESPACE, Ours};

/// Upper bound of every wait.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// Speed of the simulation: guests start at once.
const SIMULATION_SPEED: f64 = 100.0;
/// CRDs and controllers of a stock KubeVirt.
pub(crate) const KUBEVIRT: Installed = Installed {
    descheduler: None,
    machine_config: false,
    hyperconverged: None,
    node_health: false,
    cdi: false,
    ssp: false,
    templates: false,
    virtual_machines: true,
    release: false,
    monitoring: false,
};
/// Node label: the pool of a node.
pub(crate) const POOL: &str = "pool";
/// Service account of the webhook.
const CHECK: &str = "medley-webhook";

/// A cluster.
pub(crate) struct Stage {
    pub(crate) cluster: TestCluster,
    pub(crate) namespace: String,
    others: Manager,
    ours: Ours,
    check: Mutex<Option<WebhookServer>>,
    forbidden: Forbidden,
    seen: Arc<Mutex<Seen>>,
    watcher: Mutex<JoinSet<()>>,
}

/// Observations of every state of every instance.
#[derive(Default)]
struct Seen {
    states: usize,
    /// Errors of the watch.
    troubles: Vec<String>,
    wrong: Vec<String>,
    /// Models of each instance after it was handed over.
    models: BTreeMap<String, BTreeSet<String>>,
}

impl Stage {
    /// A fleet, the webhook and the controller.
    pub(crate) async fn new(fleet: &str) -> anyhow::Result<Arc<Self>> {
        let stage = Self::without_webhook(fleet).await?;
        stage.start_webhook().await?;
        Ok(stage)
    }

    /// Like [`Self::new`], without the webhook.
    pub(crate) async fn without_webhook(fleet: &str) -> anyhow::Result<Arc<Self>> {
        let stage = Self::bare().await?;
        let options = Options {
            fleet: Some(Fleet::parse(fleet)?),
            speed: SIMULATION_SPEED,
            operators: Some(KUBEVIRT),
            ..Options::new(stage.client())
        };
        fleet::start(&stage.others, options).await?;
        let watching = watch(Api::all(stage.client()), Arc::clone(&stage.seen));
        stage.watcher.lock().spawn(watching);
        stage.settle().await?;
        stage.labelled().await?;
        stage.work().await?;
        Ok(stage)
    }

    /// A cluster without KubeVirt and without controllers.
    pub(crate) async fn bare() -> anyhow::Result<Arc<Self>> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let namespace = cluster.namespace("machines").await?;
        // The test server runs no controller that creates it, and pods need it.
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
        if let Err(error) = accounts.create(&PostParams::default(), &account).await {
            let there = matches!(&error, kube::Error::Api(status) if status.code == 409);
            anyhow::ensure!(there, error);
        }
        controllers::install(&client, NAMESPACE).await?;
        let others = Manager::new(client.clone());
        Ok(Arc::new(Self {
            cluster,
            namespace,
            others,
            ours: Ours::default(),
            check: Mutex::default(),
            forbidden: Forbidden::default(),
            seen: Arc::default(),
            watcher: Mutex::default(),
        }))
    }

    /// Starts our controller with the RBAC that is shipped, after stopping the previous one.
    pub(crate) async fn work(&self) -> anyhow::Result<()> {
        let jobs = [Job::CpuModels];
        self.ours.work(&self.cluster, &jobs, None).await
    }

    /// Stops our controller.
    pub(crate) async fn rest(&self) {
        self.ours.stop().await;
    }

    /// Starts the webhook with the RBAC that is shipped, and waits until the API server calls it.
    pub(crate) async fn start_webhook(&self) -> anyhow::Result<()> {
        let mut rules = governance::roles::webhook_rules();
        rules.extend(cpu_models::roles::webhook_rules());
        let admin = self.cluster.client();
        let role = api::rbac::cluster_role(CHECK, rules.clone());
        apply::<ClusterRole>(&Api::all(admin.clone()), json!(role)).await?;
        let binding = json!({
            "metadata": { "name": CHECK },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CHECK },
            "subjects": [{ "kind": "ServiceAccount", "name": CHECK, "namespace": NAMESPACE }],
        });
        apply::<ClusterRoleBinding>(&Api::all(admin), binding).await?;
        let account = (NAMESPACE, CHECK);
        let client = self
            .forbidden
            .client(&self.cluster, account, &rules, &[])
            .await?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let checks = Webhooks {
            cpu_models: true,
            ..Webhooks::default()
        };
        let running = webhook::start(client, any, &checks).await?;
        *self.check.lock() = Some(running);
        // A real API server notices new registrations a moment later.
        wait_until("the API server asks", WAIT_TIMEOUT, async || {
            let probe = json!({
                "metadata": { "name": "probe", "labels": { labels::APP: "virt-launcher" } },
                "spec": {
                    "containers": [{ "name": "a", "image": "a" }],
                    "nodeSelector": { cpu_models::launcher::best_match_label(): "true" },
                },
            });
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let (pods, probe) = (self.all::<Pod>(), serde_json::from_value(probe)?);
            // Fails while the API server still uses the registration of a previous webhook.
            let made = pods.create(&dry_run, &probe).await.ok();
            let selector = made.map(|pod| pod.spec.unwrap_or_default().node_selector);
            let settled = selector.is_some_and(|it| it.unwrap_or_default().is_empty());
            Ok(settled.then_some(()))
        })
        .await
    }

    /// Stops the webhook. The registration stays.
    pub(crate) async fn stop_webhook(&self) {
        let running = self.check.lock().take();
        if let Some(running) = running {
            running.stop().await;
        }
    }

    /// Ends the test: no request was forbidden, and no instance was seen without its model.
    pub(crate) async fn end(&self) {
        self.rest().await;
        self.others.stop().await;
        self.stop_webhook().await;
        let instances: Api<VirtualMachineInstance> = Api::all(self.client());
        let instances = instances.list(&ListParams::default()).await;
        let any = instances.is_ok_and(|list| !list.items.is_empty());
        let seen = self.seen.lock();
        assert!(
            seen.states > 0 || !any,
            "nobody watched: {:?}",
            seen.troubles
        );
        assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
        for (instance, models) in &seen.models {
            assert_eq!(models.len(), 1, "{instance} had {models:?}");
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Metrics of our controller.
    pub(crate) fn metrics(&self) -> String {
        self.ours.metrics()
    }

    pub(crate) fn all<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client())
    }

    /// Removes the taint of new nodes, which no controller here would remove, and sets their pool label.
    async fn settle(&self) -> anyhow::Result<()> {
        for node in self.nodes().list(&ListParams::default()).await? {
            let name = node.name_any();
            let pool = name.rsplit_once('-').map(|(pool, _)| pool);
            let patch =
                json!({ "metadata": { "labels": { POOL: pool } }, "spec": { "taints": null } });
            self.patch_node(&name, patch).await?;
        }
        Ok(())
    }

    /// Waits until every node has its CPU vendor label.
    async fn labelled(&self) -> anyhow::Result<()> {
        wait_until("labels of all nodes", WAIT_TIMEOUT, async || {
            let nodes = self.nodes().list(&ListParams::default()).await?;
            let has = |node: &Node| {
                let mut keys = node.labels().keys();
                let arm = node.labels().get("kubernetes.io/arch").map(String::as_str);
                arm == Some("arm64") || keys.any(|key| key.starts_with("cpu-vendor."))
            };
            Ok(nodes.iter().all(has).then_some(()))
        })
        .await
    }

    pub(crate) async fn patch_node(&self, node: &str, patch: Value) -> anyhow::Result<()> {
        let params = PatchParams::default();
        self.nodes()
            .patch(node, &params, &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Cordons or uncordons nodes.
    pub(crate) async fn cordon(&self, nodes: &[&str], on: bool) -> anyhow::Result<()> {
        for node in nodes {
            let patch = json!({ "spec": { "unschedulable": on } });
            self.patch_node(node, patch).await?;
        }
        Ok(())
    }

    /// Creates a virtual machine with this CPU that always runs and prefers a pool.
    pub(crate) async fn machine(&self, name: &str, cpu: Value, pool: &str) -> anyhow::Result<()> {
        let machine = serde_json::from_value(machine(name, &cpu, pool))?;
        let machines = self.all::<VirtualMachine>();
        machines.create(&PostParams::default(), &machine).await?;
        Ok(())
    }

    /// Patches the KubeVirt configuration.
    pub(crate) async fn configure(&self, configuration: Value) -> anyhow::Result<()> {
        let api: Api<KubeVirt> = Api::namespaced(self.client(), names::KUBEVIRT_NAMESPACE);
        let patch = json!({ "spec": { "configuration": configuration } });
        let params = PatchParams::default();
        api.patch(names::KUBEVIRT, &params, &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Creates or replaces the CpuModelPolicy.
    pub(crate) async fn policy(&self, spec: Value) -> anyhow::Result<()> {
        let policy = json!({ "metadata": { "name": "default" }, "spec": spec });
        apply::<CpuModelPolicy>(&Api::all(self.client()), policy).await
    }

    /// Waits until the status of the policy fulfils the condition.
    pub(crate) async fn status(
        &self,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let api: Api<CpuModelPolicy> = Api::all(self.client());
        let last = Mutex::new(Value::Null);
        let found = wait_until(
            &format!("the policy says {what}"),
            WAIT_TIMEOUT,
            async || {
                let found = api.get_opt("default").await?;
                let status = json!(found.and_then(|found| found.status));
                *last.lock() = status.clone();
                Ok(holds(&status).then_some(status))
            },
        )
        .await;
        found.with_context(|| format!("it says {:#}", last.lock()))
    }

    /// Waits until an instance fulfils the condition.
    pub(crate) async fn instance(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&VirtualMachineInstance) -> bool,
    ) -> anyhow::Result<VirtualMachineInstance> {
        let api = self.all::<VirtualMachineInstance>();
        let last = Mutex::new(Value::Null);
        let found = wait_until(
            &format!("instance {name} {what}"),
            WAIT_TIMEOUT,
            async || {
                let found = api.get_opt(name).await?;
                *last.lock() = json!(found);
                Ok(found.filter(|found| holds(found)))
            },
        )
        .await;
        found.with_context(|| format!("it is {:#}", last.lock()))
    }

    /// Waits until an instance runs.
    pub(crate) async fn runs(&self, name: &str) -> anyhow::Result<VirtualMachineInstance> {
        self.instance(name, "runs", |it| it.phase() == "Running")
            .await
    }

    /// Migrates an instance, and waits until it runs on another node.
    pub(crate) async fn migrate(&self, name: &str) -> anyhow::Result<VirtualMachineInstance> {
        let before = self.runs(name).await?;
        let from = before.node_name().unwrap_or_default().to_owned();
        let migration = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
            "metadata": { "generateName": format!("{name}-") }, "spec": { "vmiName": name },
        }))?;
        let api = self.all::<VirtualMachineInstanceMigration>();
        let made = api
            .create(&PostParams::default(), &migration)
            .await?
            .name_any();
        let phase = Mutex::new(String::new());
        let ended = wait_until(&format!("migration of {name}"), WAIT_TIMEOUT, async || {
            let now = api.get(&made).await?.phase().to_owned();
            phase.lock().clone_from(&now);
            Ok(["Succeeded", "Failed"].contains(&&*now).then_some(now))
        })
        .await
        .with_context(|| format!("it is {}", phase.lock()))?;
        anyhow::ensure!(ended == "Succeeded", "the migration of {name} {ended}");
        self.instance(name, "is elsewhere", |it| {
            it.phase() == "Running" && it.node_name().is_some_and(|node| node != from)
        })
        .await
    }

    /// The pod of an instance on its node.
    pub(crate) async fn pod(&self, instance: &VirtualMachineInstance) -> anyhow::Result<Pod> {
        let uid = instance.uid().unwrap_or_default();
        let which = format!("{}={uid}", labels::CREATED_BY);
        let params = ListParams::default().labels(&which);
        let pods = self.all::<Pod>().list(&params).await?.items.into_iter();
        let on = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let mut here = pods.filter(|pod| on(pod).as_deref() == instance.node_name());
        here.next().context("the instance has a pod on its node")
    }

    /// Events with a reason about an object.
    pub(crate) async fn events(&self, name: &str, reason: &str) -> anyhow::Result<Vec<Event>> {
        let events = self.all::<Event>().list(&ListParams::default()).await?;
        let about = |event: &Event| {
            event.involved_object.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
        };
        Ok(events.items.into_iter().filter(about).collect())
    }

    /// Waits for an event with a reason about an object.
    pub(crate) async fn wait_for_event(&self, name: &str, reason: &str) -> anyhow::Result<Event> {
        wait_until(
            &format!("event {reason} of {name}"),
            WAIT_TIMEOUT,
            async || Ok(self.events(name, reason).await?.into_iter().next()),
        )
        .await
    }

    pub(crate) async fn delete_instance(&self, name: &str) -> anyhow::Result<()> {
        let instances = self.all::<VirtualMachineInstance>();
        instances.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// A virtual machine with this CPU that always runs and prefers a pool. A preference is not a demand: all nodes count.
pub(crate) fn machine(name: &str, cpu: &Value, pool: &str) -> Value {
    let wishes = json!([{ "weight": 100, "preference": { "matchExpressions": [
        { "key": POOL, "operator": "In", "values": [pool] },
    ] } }]);
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": name },
        "spec": { "runStrategy": "Always", "template": { "spec": {
            "architecture": "amd64",
            "domain": { "cpu": cpu, "memory": { "guest": "128Mi" } },
            "affinity": { "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": wishes,
            } },
        } } },
    })
}

/// A CPU with `best-match-model`.
pub(crate) fn best_match() -> Value {
    json!({ "model": BEST_MATCH_MODEL })
}

/// The CPU model of an instance.
pub(crate) fn model(instance: &VirtualMachineInstance) -> &str {
    instance.spec.model().unwrap_or_default()
}

/// Whether an instance runs on a node of a pool.
pub(crate) fn is_in(instance: &VirtualMachineInstance, pool: &str) -> bool {
    let node = instance.node_name().unwrap_or_default();
    node.strip_prefix(pool)
        .is_some_and(|rest| rest.starts_with('-'))
}

/// Records every state of every instance.
async fn watch(api: Api<VirtualMachineInstance>, seen: Arc<Mutex<Seen>>) {
    let events = watcher(api, watcher::Config::default()).default_backoff();
    futures::pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(it) | watcher::Event::InitApply(it)) => seen.lock().look(&it),
            Ok(_) => {}
            Err(error) => seen.lock().troubles.push(error.to_string()),
        }
    }
}

impl Seen {
    fn look(&mut self, instance: &VirtualMachineInstance) {
        self.states += 1;
        let early = ["", "Pending", "Scheduling", "Failed", "Succeeded"];
        if early.contains(&instance.phase()) {
            return;
        }
        if model(instance) == BEST_MATCH_MODEL {
            self.wrong.push(json!(instance).to_string());
        }
        let id = format!(
            "{} {}",
            instance.name_any(),
            instance.uid().unwrap_or_default()
        );
        let models = self.models.entry(id).or_default();
        models.insert(model(instance).to_owned());
    }
}

async fn apply<K>(api: &Api<K>, mut object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let params = PatchParams::apply("test").force();
    api.patch(&name, &params, &Patch::Apply(object)).await?;
    Ok(())
}
