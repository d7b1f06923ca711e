//! A heterogeneous cluster, and Medley.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::placement::LeaseTiming;
use api::placement::PlacementPolicy;
use controllers::{Job, Registries};
use fleet::{Fleet, Options};
use governance::Registry;
use http::{Method, Request};
use k8s_openapi::api::core::v1::{Event, Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt as _};
use oci::{Keyring, Roots, Routes};
use parking_lot::Mutex;
use platform::{AddressPolicy, AddressRange};
use runtime::Manager;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{Forbidden, TestCluster, WEBHOOK_CALLER, wait_until};
use webhook::{ClientCa, ClientVerification, PlacementSettings, WebhookServer, Webhooks};

use crate::ours::{NAMESPACE, Ours};

/// Upper bound of every wait.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// Service account of the webhook.
const CHECK: &str = "medley-webhook";
/// The durations of the controller's Lease: the webhook notices a running controller at once, and a test that stops it
/// can still have pods gated.
const LEASE: LeaseTiming = LeaseTiming {
    duration: Duration::from_secs(30),
    renew: Duration::from_millis(200),
};
/// Nodes of several platforms.
pub(crate) const FLEET: &str = "
pools:
  - {name: amd, arch: amd64, count: 2}
  - {name: arm, arch: arm64, count: 2}
  - {name: win19, arch: amd64, os: windows, windowsBuild: 10.0.17763}
  - {name: win22, arch: amd64, os: windows, windowsBuild: 10.0.20348}
";

/// A cluster.
pub(crate) struct Stage {
    pub(crate) cluster: TestCluster,
    pub(crate) namespace: String,
    others: Manager,
    ours: Ours,
    check: Mutex<Option<WebhookServer>>,
    forbidden: Forbidden,
    /// Registries without TLS.
    hosts: Vec<String>,
    lease: LeaseTiming,
}

impl Stage {
    /// Webhook and controller, with images in these registries.
    pub(crate) async fn new(hosts: &[&str]) -> anyhow::Result<Arc<Self>> {
        let stage = Self::idle(hosts).await?;
        stage.work().await?;
        stage.start_webhook().await?;
        Ok(stage)
    }

    /// Nodes only, without webhook and controller.
    pub(crate) async fn idle(hosts: &[&str]) -> anyhow::Result<Arc<Self>> {
        Self::idle_with(hosts, LEASE).await
    }

    /// The same, with other durations of the controller's Lease.
    pub(crate) async fn idle_with(hosts: &[&str], lease: LeaseTiming) -> anyhow::Result<Arc<Self>> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let namespace = cluster.namespace("shop").await?;
        let others = Manager::new(client.clone());
        controllers::install(&client, NAMESPACE).await?;
        let options = Options {
            fleet: Some(Fleet::parse(FLEET)?),
            speed: 100.0,
            // Tests count the requests to registries.
            pulls: false,
            ..Options::new(client)
        };
        fleet::start(&others, options).await?;
        controlplane::workloads::start(&others).await;
        let stage = Self {
            cluster,
            namespace,
            others,
            ours: Ours::default(),
            check: Mutex::default(),
            forbidden: Forbidden::default(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            lease,
        };
        stage.account(&stage.namespace).await?;
        // The API server taints new nodes, and no controller here removes the taint.
        for node in stage.nodes().list(&ListParams::default()).await? {
            let patch = json!({ "spec": { "taints": null } });
            let params = PatchParams::default();
            stage
                .nodes()
                .patch(&node.name_any(), &params, &Patch::Merge(patch))
                .await?;
        }
        Ok(Arc::new(stage))
    }

    /// Creates the service account that pods need; no controller does here.
    pub(crate) async fn account(&self, namespace: &str) -> anyhow::Result<()> {
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        if let Err(error) = accounts.create(&PostParams::default(), &account).await {
            let there = matches!(&error, kube::Error::Api(status) if status.code == 409);
            anyhow::ensure!(there, error);
        }
        Ok(())
    }

    /// Registry access of one process.
    fn registries(&self) -> Registries {
        let addresses = AddressPolicy::allowing(AddressRange::LOOPBACK);
        let mut settings = oci::Settings::for_service(Roots::none(), addresses);
        settings.retry.first = Duration::from_millis(20);
        let hosts = self.hosts.iter();
        let routes = hosts.fold(Routes::direct(), Routes::with_plain);
        Registries::new(oci::Client::new(settings, routes), Keyring::anonymous())
    }

    /// Starts our controller, after stopping the previous one.
    pub(crate) async fn work(&self) -> anyhow::Result<()> {
        let jobs = BTreeSet::from([Job::Placement]);
        let profiles = Registry::new(Vec::new());
        let manager = self.ours.next(&self.cluster, &jobs, &profiles).await?;
        self.run(&manager).await
    }

    async fn run(&self, manager: &Manager) -> anyhow::Result<()> {
        let registries = self.registries();
        controllers::placement::start(manager, &registries, NAMESPACE, self.lease).await?;
        Ok(())
    }

    /// Starts our controller with the permissions of this client.
    pub(crate) async fn work_as(&self, client: Client) -> anyhow::Result<()> {
        self.run(&self.ours.next_as(client).await).await
    }

    /// Ends our controller like a crash: in the middle of whatever it does.
    pub(crate) fn crash(&self) {
        self.ours.crash();
    }

    /// Starts controller and webhook with exactly the RBAC of an installation with these options. No request may be
    /// forbidden, unless the test expects it.
    pub(crate) async fn work_as_installed(
        &self,
        pull_secrets: manifests::PullSecrets,
        is_forbidden: bool,
    ) -> anyhow::Result<()> {
        let options = manifests::Options {
            namespace: NAMESPACE.to_owned(),
            // The approval webhook is always served.
            jobs: BTreeSet::from([Job::Governance, Job::Placement]),
            pull_secrets,
            ..manifests::Options::default()
        };
        for object in manifests::objects(&options)? {
            if object.part == manifests::Part::Rbac {
                self.install(object.value).await?;
            }
        }
        let mut clients = Vec::new();
        for account in [controllers::ACCOUNT, CHECK] {
            let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
            let groups = ["system:serviceaccounts", "system:authenticated"];
            clients.push(if is_forbidden {
                self.cluster.client_as(&user, &groups)?
            } else {
                let rules = match account {
                    CHECK => [
                        governance::roles::webhook_rules(),
                        placement::roles::webhook_rules(),
                    ]
                    .concat(),
                    _ => placement::roles::operator_rules(),
                };
                let at_home = match account {
                    CHECK => placement::roles::webhook_namespace_rules(),
                    _ => governance::roles::operator_namespace_rules(),
                };
                let account = (NAMESPACE, account);
                self.forbidden
                    .client(&self.cluster, account, &rules, &at_home)
                    .await?
            });
        }
        let [controller, check] = <[Client; 2]>::try_from(clients)
            .map_err(|_| anyhow::anyhow!("there are two accounts"))?;
        self.run(&self.ours.next_as(controller).await).await?;
        self.check_as(check, true).await
    }

    /// Applies an object of an installation.
    async fn install(&self, object: Value) -> anyhow::Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client(), &namespace, &resource),
            None => Api::all_with(self.client(), &resource),
        };
        let params = PatchParams::apply("tests").force();
        api.patch(&object.name_any(), &params, &Patch::Apply(&object))
            .await?;
        Ok(())
    }

    /// Stops our controller.
    pub(crate) async fn rest(&self) {
        self.ours.stop().await;
    }

    /// Metrics of our controller.
    pub(crate) fn metrics(&self) -> String {
        self.ours.metrics()
    }

    /// Starts the webhook, and waits until the API server calls it and, beside a controller, gates pods.
    pub(crate) async fn start_webhook(&self) -> anyhow::Result<()> {
        self.start_webhook_beside(self.ours.is_running()).await
    }

    /// Clients with the permissions of the operator and of the webhook, for tests that restart them often.
    pub(crate) async fn clients(&self) -> anyhow::Result<(Client, Client)> {
        self.work().await?;
        self.rest().await;
        let user = format!("system:serviceaccount:{NAMESPACE}:{}", controllers::ACCOUNT);
        let groups = ["system:serviceaccounts", "system:authenticated"];
        let operator = self.cluster.client_as(&user, &groups)?;
        Ok((operator, self.webhook_client().await?))
    }

    /// Starts the webhook; beside a controller that works, waits until it gates pods.
    pub(crate) async fn start_webhook_beside(&self, controller: bool) -> anyhow::Result<()> {
        let client = self.webhook_client().await?;
        self.check_as(client, controller).await
    }

    /// Replaces the cluster-wide rules of a role.
    pub(crate) async fn grant_cluster_wide(
        &self,
        name: &str,
        rules: &[PolicyRule],
    ) -> anyhow::Result<()> {
        let role = api::rbac::cluster_role(name, rules.to_vec());
        apply::<ClusterRole>(&Api::all(self.client()), json!(role)).await
    }

    /// A client with the RBAC that is shipped for the webhook.
    async fn webhook_client(&self) -> anyhow::Result<Client> {
        let mut rules = governance::roles::webhook_rules();
        rules.extend(placement::roles::webhook_rules());
        rules.extend(placement::roles::pull_secret_rules());
        let admin = self.client();
        let role = api::rbac::cluster_role(CHECK, rules.clone());
        apply::<ClusterRole>(&Api::all(admin.clone()), json!(role)).await?;
        let at_home = placement::roles::webhook_namespace_rules();
        let role = json!({ "metadata": { "name": CHECK }, "rules": at_home });
        apply::<Role>(&Api::namespaced(admin.clone(), NAMESPACE), role).await?;
        let binding = |kind: &str| {
            json!({
                "metadata": { "name": CHECK },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": CHECK },
                "subjects": [{ "kind": "ServiceAccount", "name": CHECK, "namespace": NAMESPACE }],
            })
        };
        apply::<ClusterRoleBinding>(&Api::all(admin.clone()), binding("ClusterRole")).await?;
        apply::<RoleBinding>(&Api::namespaced(admin, NAMESPACE), binding("Role")).await?;
        let account = (NAMESPACE, CHECK);
        self.forbidden
            .client(&self.cluster, account, &rules, &at_home)
            .await
    }

    /// Starts the webhook with the permissions of this client.
    pub(crate) async fn serve_as(&self, client: Client) -> anyhow::Result<WebhookServer> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let checks = Webhooks {
            placement: Some(PlacementSettings {
                lease: self.lease,
                ..PlacementSettings::new(self.registries(), NAMESPACE)
            }),
            ..Webhooks::default()
        };
        self.cluster.present_to_webhooks()?;
        let callers = ClientVerification {
            authority: ClientCa::Pem(self.cluster.root_ca().to_owned()),
            names: vec![WEBHOOK_CALLER.to_owned()],
            required: true,
        };
        Ok(webhook::start_verifying(client, any, &checks, callers).await?)
    }

    async fn check_as(&self, client: Client, controller: bool) -> anyhow::Result<()> {
        let running = self.serve_as(client).await?;
        if controller {
            wait_until("the controller is seen", WAIT_TIMEOUT, async || {
                Ok(running.gates_pods().then_some(()))
            })
            .await?;
        }
        *self.check.lock() = Some(running);
        // A real API server notices new registrations a moment later. An invalid name needs no registry, and the probe
        // no pull secret: the permissions of an installation may not include them.
        wait_until("the API server asks", WAIT_TIMEOUT, async || {
            let policy = json!({ "fallbackArchitecture": "arm64", "pullSecrets": { "mode": "None" },
                "podSelector": { "matchLabels": { "probe": "yes" } }, "priority": 1000 });
            self.policy("probe", policy).await?;
            let probe = json!({
                "metadata": { "name": "probe", "labels": { "probe": "yes" } },
                "spec": { "containers": [{ "name": "a", "image": "No Such Image" }] },
            });
            let asked = self.make(&probe, true).await?;
            Ok((asked.code == 201 && asked.object["spec"]["affinity"].is_object()).then_some(()))
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

    /// Ends the test.
    pub(crate) async fn end(&self) {
        self.rest().await;
        self.others.stop().await;
        self.stop_webhook().await;
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
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

    /// Creates or replaces a PlacementPolicy.
    pub(crate) async fn policy(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let policy = json!({ "metadata": { "name": name }, "spec": spec });
        apply::<PlacementPolicy>(&Api::all(self.client()), policy).await
    }

    /// Creates an object.
    pub(crate) async fn create<K>(&self, object: Value) -> anyhow::Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = serde_json::from_value(object)?;
        Ok(self.all().create(&PostParams::default(), &object).await?)
    }

    /// Creates a pod with a container of this image and additional fields of its spec.
    pub(crate) async fn pod(&self, name: &str, image: &str, more: Value) -> anyhow::Result<Pod> {
        self.create(pod(name, image, &more)).await
    }

    /// The response to creating a pod.
    pub(crate) async fn make(&self, pod: &Value, dry_run: bool) -> anyhow::Result<ApiResponse> {
        let dry_run = if dry_run { "?dryRun=All" } else { "" };
        let uri = format!("/api/v1/namespaces/{}/pods{dry_run}", self.namespace);
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header("content-type", "application/json")
            .body(pod.to_string().into_bytes())?;
        let answer = self.cluster.request(request).await?;
        let warnings = answer.headers().get_all("warning").iter();
        let warnings = warnings.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        Ok(ApiResponse {
            code: answer.status().as_u16(),
            warnings: warnings.collect(),
            object: serde_json::from_slice(answer.body())?,
        })
    }

    /// Waits until a pod fulfils the condition.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Pod) -> bool,
    ) -> anyhow::Result<Pod> {
        testkit::until(&self.all(), name, what, WAIT_TIMEOUT, holds).await
    }

    /// Waits until a pod has a node; returns it.
    pub(crate) async fn lands(&self, name: &str) -> anyhow::Result<String> {
        let pod = self
            .until(name, "has a node", |pod| node(pod).is_some())
            .await?;
        Ok(node(&pod).unwrap_or_default())
    }

    /// Waits for an event about an object; returns its message.
    pub(crate) async fn wait_for_event(&self, name: &str, reason: &str) -> anyhow::Result<String> {
        wait_until(
            &format!("event {reason} of {name}"),
            WAIT_TIMEOUT,
            async || {
                let events = self.all::<Event>().list(&ListParams::default()).await?;
                let about = |event: &Event| {
                    event.involved_object.name.as_deref() == Some(name)
                        && event.reason.as_deref() == Some(reason)
                };
                let mut events = events.items.into_iter();
                let event = events.find(about);
                Ok(event.map(|event| event.message.unwrap_or_default()))
            },
        )
        .await
    }
}

/// A response of the API server.
pub(crate) struct ApiResponse {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) object: Value,
}

impl ApiResponse {
    pub(crate) fn message(&self) -> &str {
        self.object["message"].as_str().unwrap_or_default()
    }
}

/// A pod with a container of this image and additional fields of its spec.
pub(crate) fn pod(name: &str, image: &str, more: &Value) -> Value {
    let mut spec = template(image);
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// The spec of such a pod. `imagePullPolicy` is not Always: no kubelet pulls here.
pub(crate) fn template(image: &str) -> Value {
    json!({ "containers": [{ "name": "app", "image": image, "imagePullPolicy": "IfNotPresent" }] })
}

pub(crate) fn node(pod: &Pod) -> Option<String> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
}

/// The scheduling gates of a pod.
pub(crate) fn gates(pod: &Pod) -> Vec<String> {
    let gates = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduling_gates.as_ref());
    let gates = gates.into_iter().flatten();
    gates.map(|gate| gate.name.clone()).collect()
}

/// The placement annotation of a pod.
pub(crate) fn why(pod: &Pod) -> &str {
    let why = pod.annotations().get("medley.dev/placement-reason");
    why.map(String::as_str).unwrap_or_default()
}

pub(crate) async fn apply<K>(api: &Api<K>, mut object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let params = PatchParams::apply("tests").force();
    api.patch(&name, &params, &Patch::Apply(object)).await?;
    Ok(())
}
