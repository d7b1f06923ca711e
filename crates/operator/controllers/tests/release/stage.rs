//! A cluster with a ClusterVersion, and Medley.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use api::openshift::payloads;
use controllers::images::cdi::Imports;
use controllers::{ACCOUNT, Job};
use governance::{Registry, roles};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use platform::{AddressPolicy, AddressRange};
use runtime::{Manager, wait_until_served};
use serde_json::{Value, json};
use testkit::{Forbidden, TestCluster, by, wait_until};

/// Upper bound of every wait.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// Namespace of the operator.
const NAMESPACE: &str = "medley-system";
/// Field manager of the ClusterVersion where Medley does not own it.
pub(crate) const CVO: &str = "cluster-version-operator";
/// Version of all releases in these tests.
pub(crate) const VERSION: &str = "4.18.0";

/// A cluster.
pub(crate) struct Stage {
    cluster: TestCluster,
    ours: Mutex<Option<Manager>>,
    forbidden: Forbidden,
    /// Folders that the administrator allows.
    pub(crate) folders: Mutex<Vec<PathBuf>>,
    /// Registries on loopback that the administrator allows.
    pub(crate) allowed: Mutex<Vec<SocketAddr>>,
}

/// An image whose digest repeats one letter.
pub(crate) fn pull(letter: char) -> String {
    format!("quay.io/art@sha256:{}", letter.to_string().repeat(64))
}

/// The image of a release.
pub(crate) fn release(word: &str) -> String {
    format!("quay.io/release:{VERSION}-{word}")
}

/// Manifests of a release of these operators, of which all but `dns` report their images.
pub(crate) fn files(letter: char, multi: bool, operators: &[&str]) -> BTreeMap<String, String> {
    let mut metadata = json!({ "kind": "cincinnati-metadata-v0", "version": VERSION });
    if multi {
        metadata["metadata"] = json!({ "release.openshift.io/architecture": "multi" });
    }
    let stream = json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": { "name": VERSION },
        "spec": { "tags": [{ "name": "all", "from": { "kind": "DockerImage", "name": pull(letter) } }] },
    });
    let mut files = BTreeMap::from([
        ("release-metadata".to_owned(), metadata.to_string()),
        ("image-references".to_owned(), stream.to_string()),
    ]);
    for name in operators {
        let level = if *name == "machine-config" { 80 } else { 50 };
        let mut versions = vec![json!({ "name": "operator", "version": VERSION })];
        if *name != "dns" {
            versions.push(json!({ "name": "operator-image", "version": pull(letter) }));
        }
        let operator = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
            "metadata": { "name": name, "annotations": {
                "include.release.openshift.io/self-managed-high-availability": "true",
            } },
            "status": { "versions": versions },
        });
        files.insert(format!("0000_{level}_{name}_co.yaml"), operator.to_string());
    }
    files
}

/// Operators of most tests.
pub(crate) const OPERATORS: [&str; 3] = ["dns", "etcd", "machine-config"];

impl Stage {
    /// A cluster with the OpenShift CRDs, both releases, and operators at the first.
    pub(crate) async fn new() -> anyhow::Result<Self> {
        let stage = Self::bare().await?;
        stage.install_openshift().await?;
        stage.keep("single", 'a', false).await?;
        stage.keep("multi", 'b', true).await?;
        for name in OPERATORS {
            stage.operator(name, 'a').await?;
        }
        Ok(stage)
    }

    /// A cluster without the OpenShift CRDs.
    pub(crate) async fn bare() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        controllers::install(&cluster.client(), NAMESPACE).await?;
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": payloads::NAMESPACE } }))?;
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        Ok(Self {
            cluster,
            ours: Mutex::default(),
            forbidden: Forbidden::default(),
            folders: Mutex::default(),
            allowed: Mutex::default(),
        })
    }

    pub(crate) async fn install_openshift(&self) -> anyhow::Result<()> {
        let client = self.client();
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in testkit::openshift_crds() {
            let definition = serde_json::from_value(definition)?;
            let made = api.create(&PostParams::default(), &definition).await?;
            wait_until_served(&client, &made.name_any()).await?;
        }
        Ok(())
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Starts our controller with the RBAC for observing, after stopping the previous one.
    pub(crate) async fn work(&self) -> anyhow::Result<()> {
        let rules = release_migration::roles::operator_rules();
        self.start(&rules).await
    }

    /// Starts our controller with the additional RBAC for owning the ClusterVersion.
    pub(crate) async fn own(&self) -> anyhow::Result<()> {
        controllers::install_release_owner(&self.client(), NAMESPACE).await?;
        let mut rules = release_migration::roles::operator_rules();
        rules.extend(release_migration::roles::owner_rules());
        self.start(&rules).await
    }

    async fn start(&self, rules: &[k8s_openapi::api::rbac::v1::PolicyRule]) -> anyhow::Result<()> {
        self.rest().await;
        let jobs = BTreeSet::from([Job::Release]);
        let registry = Registry::new(Vec::new());
        controllers::grant(&self.client(), NAMESPACE, &registry, &jobs).await?;
        let at_home = roles::operator_namespace_rules();
        let client = self
            .forbidden
            .client(&self.cluster, (NAMESPACE, ACCOUNT), rules, &at_home)
            .await?;
        self.run(client).await
    }

    /// Grants the operator a ConfigMap outside of the namespaces of its own Roles.
    pub(crate) async fn grant_config_map(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let role = json!({
            "metadata": { "name": ACCOUNT },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name],
                "verbs": ["get", "list", "watch"] }],
        });
        let binding = json!({
            "metadata": { "name": ACCOUNT },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT },
            "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE }],
        });
        let roles: Api<Role> = Api::namespaced(self.client(), namespace);
        let bindings: Api<RoleBinding> = Api::namespaced(self.client(), namespace);
        let made = PostParams::default();
        roles.create(&made, &serde_json::from_value(role)?).await?;
        bindings
            .create(&made, &serde_json::from_value(binding)?)
            .await?;
        Ok(())
    }

    /// Starts our controller where forbidden requests are expected.
    pub(crate) async fn work_without_rights(&self) -> anyhow::Result<()> {
        let groups = ["system:serviceaccounts", "system:authenticated"];
        let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
        let client = self.cluster.client_as(&user, &groups)?;
        self.rest().await;
        self.run(client).await
    }

    /// Registry access as set by the flags of `medley run`.
    fn registries(&self) -> controllers::Registries {
        let allowed = self.allowed.lock().clone();
        let ranges = allowed.iter().copied().map(AddressRange::from);
        let addresses = AddressPolicy::allowing(ranges);
        // Without an authority, TLS could not be set up and no address would be tried.
        let settings = oci::Settings::for_service(oci::Roots::of_system(), addresses);
        let hosts = allowed.iter().map(ToString::to_string);
        let routes = hosts.fold(oci::Routes::direct(), oci::Routes::with_plain);
        let client = oci::Client::new(settings, routes);
        controllers::Registries::new(client, oci::Keyring::anonymous())
    }

    async fn run(&self, client: Client) -> anyhow::Result<()> {
        let manager = Manager::new(client);
        *self.ours.lock() = Some(manager.clone());
        let options = controllers::Options {
            jobs: BTreeSet::from([Job::Release]),
            namespace: NAMESPACE.to_owned(),
            profiles: Vec::new(),
            version: "v9".to_owned(),
            imports: Imports::Pods {
                image: "nobody imports".to_owned(),
            },
            registries: self.registries(),
            addresses: AddressPolicy::default(),
            audit_entries: controllers::governance::AUDIT_ENTRIES,
            payload_folders: self.folders.lock().clone(),
        };
        controllers::start(&manager, &options).await?;
        Ok(())
    }

    /// Stops our controller.
    pub(crate) async fn rest(&self) {
        let running = self.ours.lock().take();
        if let Some(running) = running {
            running.stop().await;
        }
    }

    /// Metrics of our controller.
    pub(crate) fn metrics(&self) -> String {
        let ours = self.ours.lock();
        let ours = ours.as_ref();
        ours.map(|it| it.metrics().render()).unwrap_or_default()
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "MachineConfigPool" => ("machineconfiguration.openshift.io", "v1"),
            "ReleasePolicy" => ("medley.dev", "v1alpha1"),
            _ => ("config.openshift.io", "v1"),
        };
        let kind = GroupVersionKind::gvk(group, version, kind);
        Api::all_with(self.client(), &ApiResource::from_gvk(&kind))
    }

    /// Stores a release in the cluster.
    pub(crate) async fn keep(&self, word: &str, letter: char, multi: bool) -> anyhow::Result<()> {
        self.keep_files(word, &files(letter, multi, &OPERATORS))
            .await
    }

    pub(crate) async fn keep_files(
        &self,
        word: &str,
        files: &BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), payloads::NAMESPACE);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("release-{word}"),
                "labels": { payloads::LABEL: payloads::LABELLED },
                "annotations": { payloads::IMAGE: release(word) },
            },
            "data": files,
        });
        let name = format!("release-{word}");
        let params = PatchParams::apply("test").force();
        maps.patch(&name, &params, &Patch::Apply(map)).await?;
        Ok(())
    }

    /// Creates an object, and writes its status as this field manager.
    pub(crate) async fn put(&self, kind: &str, mut object: Value, who: &str) -> anyhow::Result<()> {
        let api = self.api(kind);
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let group = if kind == "MachineConfigPool" {
            "machineconfiguration.openshift.io/v1"
        } else {
            "config.openshift.io/v1"
        };
        object["apiVersion"] = json!(group);
        object["kind"] = json!(kind);
        let status = object["status"].take();
        if api.get_opt(&name).await?.is_none() {
            let new = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &new).await?;
        }
        if !status.is_null() {
            let patch = Patch::Merge(json!({ "status": status }));
            api.patch_status(&name, &by(who), &patch).await?;
        }
        Ok(())
    }

    /// Reports version and image of an operator.
    pub(crate) async fn operator(&self, name: &str, letter: char) -> anyhow::Result<()> {
        let mut versions = vec![json!({ "name": "operator", "version": VERSION })];
        if name != "dns" {
            versions.push(json!({ "name": "operator-image", "version": pull(letter) }));
        }
        let since = "2026-01-02T12:00:00Z";
        let object = json!({
            "metadata": { "name": name },
            "spec": {},
            "status": {
                "versions": versions,
                "conditions": [
                    { "type": "Available", "status": "True", "lastTransitionTime": since },
                    { "type": "Degraded", "status": "False", "lastTransitionTime": since },
                ],
            },
        });
        self.put("ClusterOperator", object, name).await
    }

    /// A pool of three machines, some of them updated.
    pub(crate) async fn pool(&self, name: &str, updated: i32) -> anyhow::Result<()> {
        let runs = if updated == 3 {
            "rendered-b"
        } else {
            "rendered-a"
        };
        let object = json!({
            "metadata": { "name": name },
            "spec": { "configuration": { "name": "rendered-b" } },
            "status": {
                "configuration": { "name": runs },
                "machineCount": 3, "updatedMachineCount": updated, "readyMachineCount": updated,
            },
        });
        self.put("MachineConfigPool", object, "machine-config")
            .await
    }

    /// A ClusterVersion without status.
    pub(crate) async fn version(&self) -> anyhow::Result<()> {
        let object = json!({
            "metadata": { "name": "version" },
            "spec": {
                "clusterID": "b54b0d5e-6b8a-4b0c-9b3e-0f6a5d1c2e3f", "channel": "stable-4.18",
                "desiredUpdate": { "version": VERSION, "image": release("single") },
            },
        });
        self.put("ClusterVersion", object, CVO).await
    }

    /// The status that the cluster version operator writes during and after an update to a release.
    pub(crate) async fn cvo(&self, word: &str, completed: bool) -> anyhow::Result<()> {
        let entry = |word: &str, completed: bool| {
            let state = if completed { "Completed" } else { "Partial" };
            let end = completed.then_some("2026-01-02T12:30:00Z");
            json!({
                "state": state, "startedTime": "2026-01-02T12:00:00Z", "completionTime": end,
                "version": VERSION, "image": release(word), "verified": true,
            })
        };
        let mut history = vec![entry(word, completed)];
        if word != "single" {
            history.push(entry("single", true));
        }
        let progressing = if completed { "False" } else { "True" };
        let object = json!({
            "metadata": { "name": "version" },
            "spec": { "clusterID": "b54b0d5e-6b8a-4b0c-9b3e-0f6a5d1c2e3f" },
            "status": {
                "desired": { "version": VERSION, "image": release(word) },
                "history": history, "observedGeneration": 1, "versionHash": "x=",
                "availableUpdates": null,
                "conditions": [{
                    "type": "Progressing", "status": progressing,
                    "lastTransitionTime": "2026-01-02T12:00:00Z", "message": "as it says",
                }],
            },
        });
        self.put("ClusterVersion", object, CVO).await
    }

    /// Sets `spec.desiredUpdate`.
    pub(crate) async fn ask(&self, update: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "desiredUpdate": update } }));
        let api = self.api("ClusterVersion");
        api.patch("version", &by("kubectl"), &patch).await?;
        Ok(())
    }

    /// Creates or replaces the ReleasePolicy.
    pub(crate) async fn policy(&self, spec: Value) -> anyhow::Result<()> {
        let object = json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": "ReleasePolicy",
            "metadata": { "name": "default" }, "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        let api = self.api("ReleasePolicy");
        api.patch("default", &params, &Patch::Apply(object)).await?;
        Ok(())
    }

    /// Waits until an object fulfils the condition.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let api = self.api(kind);
        let last = Mutex::new(Value::Null);
        let found = wait_until(&format!("{kind} {name} {what}"), WAIT_TIMEOUT, async || {
            let found = json!(api.get_opt(name).await?);
            *last.lock() = found.clone();
            Ok(holds(&found).then_some(found))
        })
        .await;
        found.with_context(|| format!("it is {:#}", last.lock()))
    }

    /// Waits until a condition of the policy is `status reason`; returns the status of the policy.
    pub(crate) async fn verdict(&self, kind: &str, expected: &str) -> anyhow::Result<Value> {
        let what = format!("says {kind}={expected}");
        let found = self
            .until("ReleasePolicy", "default", &what, |it| {
                condition_text(it, kind).starts_with(expected)
            })
            .await?;
        Ok(found["status"].clone())
    }

    /// Waits until the policy reports this about the payload; returns the whole message.
    pub(crate) async fn payload_says(&self, text: &str) -> anyhow::Result<String> {
        let what = format!("says {text:?}");
        let found = self
            .until("ReleasePolicy", "default", &what, |it| {
                condition_text(it, "PayloadReady").contains(text)
            })
            .await?;
        Ok(condition_text(&found, "PayloadReady"))
    }

    /// Waits until a condition of the ClusterVersion is `status reason: message`; returns its status.
    pub(crate) async fn claims(&self, kind: &str, expected: &str) -> anyhow::Result<Value> {
        let what = format!("says {kind}={expected}");
        let found = self
            .until("ClusterVersion", "version", &what, |it| {
                condition_text(it, kind) == expected
            })
            .await?;
        Ok(found["status"].clone())
    }

    /// Waits for an event about the policy.
    pub(crate) async fn wait_for_event(&self, reason: &str) -> anyhow::Result<Event> {
        let events: Api<Event> = Api::all(self.client());
        wait_until(&format!("event {reason}"), WAIT_TIMEOUT, async || {
            let all = events.list(&ListParams::default()).await?.items;
            let mut all = all.into_iter();
            Ok(all.find(|it| {
                it.reason.as_deref() == Some(reason)
                    && it.involved_object.kind.as_deref() == Some("ReleasePolicy")
            }))
        })
        .await
    }
}

/// `status reason: message` of a condition.
pub(crate) fn condition_text(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|it| it["type"] == kind);
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    found.map_or_else(String::new, |it| {
        format!(
            "{} {}: {}",
            text(&it["status"]),
            text(&it["reason"]),
            text(&it["message"])
        )
    })
}
