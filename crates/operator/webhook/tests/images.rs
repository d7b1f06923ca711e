//! Admission of golden image objects through an API server, with the webhook's own RBAC.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::bail;
use api::cdi::{DataImportCron, DataSource, DataVolume, labels};
use api::ssp::SSP;
use fleet::operators::{
    self, HyperConvergedVersion, Installed, hyperconverged, names, virtual_machine,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};
use webhook::{Layer, WebhookServer, Webhooks};

/// Upper bound of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
const USER: &str = "system:serviceaccount:medley-system:medley-webhook";

struct Fixture {
    cluster: TestCluster,
    check: WebhookServer,
}

impl Fixture {
    /// Installs the CRDs, starts the webhook and waits until the API server calls it.
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let admin = cluster.client();
        let installed = Installed {
            hyperconverged: Some(HyperConvergedVersion::V1),
            cdi: true,
            ssp: true,
            virtual_machines: true,
            ..Installed::default()
        };
        operators::install(&admin, &installed).await?;
        let mut rules = governance::roles::webhook_rules();
        rules.extend(golden_images::roles::webhook_rules());
        let role = api::rbac::cluster_role("check", rules);
        let roles: Api<ClusterRole> = Api::all(admin.clone());
        roles.create(&PostParams::default(), &role).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
        let binding = serde_json::from_value(json!({
            "metadata": { "name": "check" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "check" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER }],
        }))?;
        bindings.create(&PostParams::default(), &binding).await?;
        let client = cluster.client_as(USER, &["system:serviceaccounts"])?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let checks = Webhooks {
            layers: Layer::ALL.to_vec(),
            ..Webhooks::default()
        };
        // A real API server notices new permissions a moment later.
        let check = wait_until("the check may register itself", WAIT_TIMEOUT, || async {
            let started = webhook::start(client.clone(), any, &checks).await;
            Ok(started.ok())
        })
        .await?;
        let fixture = Self { cluster, check };
        // The same for new registrations.
        wait_until("the API server asks", WAIT_TIMEOUT, async || {
            let wrong = cron("probe", json!({ "schedule": "whenever" }));
            let refused = fixture.dry_run::<DataImportCron>("default", wrong).await;
            Ok(refused.is_err().then_some(()))
        })
        .await?;
        Ok(fixture)
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), namespace)
    }

    async fn dry_run<K>(&self, namespace: &str, object: Value) -> Result<K, kube::Error>
    where
        K: runtime::Kind<DynamicType = ()>
            + Resource<Scope = NamespaceResourceScope>
            + serde::Serialize,
    {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        self.api(namespace).create(&params, &object).await
    }
}

/// The message of a denied request.
fn refusal<K: std::fmt::Debug>(outcome: Result<K, kube::Error>) -> anyhow::Result<String> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message.clone()),
        other => bail!("{other:?}"),
    }
}

fn cron(name: &str, changes: Value) -> Value {
    let mut spec = json!({
        "managedDataSource": "fedora", "schedule": "0 */12 * * *",
        "template": { "spec": { "source": { "registry": { "url": "docker://example.com/fedora" } } } },
    });
    if let (Some(spec), Value::Object(changes)) = (spec.as_object_mut(), changes) {
        spec.extend(changes);
    }
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
        "metadata": { "name": name }, "spec": spec,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn image_objects_are_validated() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;

    // DataImportCrons.
    let crons: Api<DataImportCron> = fixture.api("default");
    let wrong = cron(
        "wrong",
        json!({ "schedule": "whenever", "managedDataSource": "" }),
    );
    let message = refusal(fixture.dry_run::<DataImportCron>("default", wrong).await)?;
    for part in ["Illegal cron schedule", "Illegal ManagedDataSource"] {
        assert!(message.contains(part), "{message}");
    }
    let file = |more: Value| {
        let mut http = json!({ "url": "https://example.com/fedora.qcow2" });
        if let (Some(http), Value::Object(more)) = (http.as_object_mut(), more) {
            http.extend(more);
        }
        let template = json!({ "spec": { "source": { "http": http } } });
        cron("file", json!({ "template": template }))
    };
    let right = file(json!({ "extraHeaders": ["Accept: */*"] }));
    fixture.dry_run::<DataImportCron>("default", right).await?;
    let wrong = file(json!({ "checksum": "md5:0123", "extraHeaders": ["secret"] }));
    let message = refusal(fixture.dry_run::<DataImportCron>("default", wrong).await)?;
    for part in ["Illegal http source checksum", "sha256:", "extraHeaders[0]"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("secret"), "{message}");
    let right = serde_json::from_value(cron("fedora", json!({})))?;
    crons.create(&PostParams::default(), &right).await?;
    let params = PatchParams::default();
    let patch = Patch::Merge(json!({ "spec": { "schedule": "1 1 * * *" } }));
    let message = refusal(crons.patch("fedora", &params, &patch).await)?;
    assert!(
        message.contains("Cannot update DataImportCron Spec"),
        "{message}"
    );
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    crons.patch("fedora", &params, &patch).await?;

    // SSPs: only one is allowed.
    let ssp = |on: bool| {
        json!({
            "apiVersion": "ssp.kubevirt.io/v1beta3", "kind": "SSP", "metadata": { "name": "ssp" },
            "spec": { "commonTemplates": {}, "enableMultipleArchitectures": on },
        })
    };
    let message = refusal(fixture.dry_run::<SSP>("default", ssp(true)).await)?;
    assert!(
        message.contains(".spec.cluster needs to be non-nil"),
        "{message}"
    );
    let ssps: Api<SSP> = fixture.api("default");
    let first = serde_json::from_value(ssp(false))?;
    ssps.create(&PostParams::default(), &first).await?;
    let message = refusal(fixture.dry_run::<SSP>("kube-system", ssp(false)).await)?;
    assert!(
        message.contains("already exists in namespace default"),
        "{message}"
    );
    fixture.check.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hyperconverged_is_defaulted() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let kind = hyperconverged(HyperConvergedVersion::V1);
    let home = names::VIRTUALIZATION_NAMESPACE;
    let api: Api<DynamicObject> = Api::namespaced_with(fixture.cluster.client(), home, &kind);
    let change = |spec: Value| {
        let api = api.clone();
        async move {
            let patch = Patch::Merge(json!({ "spec": spec }));
            api.patch(names::HYPERCONVERGED, &PatchParams::default(), &patch)
                .await
        }
    };
    // A deprecated feature gate is converted to the field.
    let name = "enableMultiArchBootImageImport";
    let gate = |state: &str| json!({ "featureGates": [{ "name": name, "state": state }] });
    let changed = change(gate("Enabled")).await?;
    assert_eq!(changed.data["spec"]["workloadSources"][name], true);
    // The field takes precedence, and the gate is removed.
    let changed = change(json!({ "workloadSources": { name: false } })).await?;
    assert_eq!(changed.data["spec"]["workloadSources"][name], false);
    assert_eq!(changed.data["spec"]["featureGates"], json!([]));
    // Templates are completed, or denied.
    let template = json!({ "metadata": { "name": "mine" }, "spec": {
        "managedDataSource": "mine", "schedule": "",
        "template": { "spec": { "source": { "registry": { "url": "docker://example.com/mine" } } } },
    } });
    let changed =
        change(json!({ "workloadSources": { "dataImportCronTemplates": [template] } })).await?;
    let spec = &changed.data["spec"]["workloadSources"]["dataImportCronTemplates"][0]["spec"];
    assert_eq!(spec["importsToKeep"], 1);
    assert_eq!(spec["retentionPolicy"], "None");
    let twice = json!([template, template]);
    let message =
        refusal(change(json!({ "workloadSources": { "dataImportCronTemplates": twice } })).await)?;
    assert!(
        message.contains("mine dataImportCronTemplate is already defined"),
        "{message}"
    );
    fixture.check.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_gets_architecture_of_its_image() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let sources: Api<DataSource> = fixture.api("default");
    let source = |name: &str, labels: Value, to: Value| {
        serde_json::from_value::<DataSource>(json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
            "metadata": { "name": name, "labels": labels }, "spec": { "source": to },
        }))
    };
    let to = json!({ "dataSource": { "namespace": "default", "name": "fedora-arm64" } });
    let params = PostParams::default();
    sources
        .create(&params, &source("fedora", json!({}), to)?)
        .await?;
    let own = json!({ labels::ARCHITECTURE: "arm64" });
    let to = json!({ "pvc": { "namespace": "default", "name": "disk" } });
    sources
        .create(&params, &source("fedora-arm64", own, to)?)
        .await?;
    let machines: Api<DynamicObject> =
        Api::namespaced_with(fixture.cluster.client(), "default", &virtual_machine());
    let machine = serde_json::from_value(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": { "name": "web" },
        "spec": {
            "dataVolumeTemplates": [{
                "metadata": { "name": "web" },
                "spec": { "sourceRef": { "kind": "DataSource", "name": "fedora" } },
            }],
            "template": { "spec": {} },
        },
    }))?;
    let made = machines.create(&params, &machine).await?;
    let actual = made.data.pointer("/spec/template/spec/architecture");
    assert_eq!(actual, Some(&json!("arm64")));
    fixture.check.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_from_other_namespace_needs_permission() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let admin = fixture.cluster.client();
    let user = fixture
        .cluster
        .client_as("somebody", &["system:authenticated"])?;
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    let role = serde_json::from_value(json!({
        "metadata": { "name": "machines" },
        "rules": [{
            "apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes"], "verbs": ["create", "get"],
        }],
    }))?;
    let params = PostParams::default();
    roles.create(&params, &role).await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    let binding = serde_json::from_value(json!({
        "metadata": { "name": "machines" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "machines" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody" }],
    }))?;
    bindings.create(&params, &binding).await?;

    // It is named in its own namespace, but resolves to another one.
    let sources: Api<DataSource> = fixture.api("default");
    let source = serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": { "name": "fedora" },
        "spec": { "source": { "snapshot": { "namespace": "kube-system", "name": "disk" } } },
    }))?;
    sources.create(&params, &source).await?;
    let copy = |name: &str, spec: Value| {
        let object = json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
            "metadata": { "name": name }, "spec": spec,
        });
        let volumes: Api<DataVolume> = Api::namespaced(user.clone(), "default");
        async move {
            let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
            volumes.create(&PostParams::default(), &object).await
        }
    };
    let here = json!({ "source": { "pvc": { "namespace": "default", "name": "disk" } } });
    // A real API server notices new permissions a moment later.
    wait_until("somebody may make volumes", WAIT_TIMEOUT, async || {
        Ok(copy("here", here.clone()).await.ok())
    })
    .await?;
    let expected =
        "User somebody has insufficient permissions in clone source namespace kube-system";
    for spec in [
        json!({ "source": { "pvc": { "namespace": "kube-system", "name": "disk" } } }),
        json!({ "source": { "snapshot": { "namespace": "kube-system", "name": "disk" } } }),
        json!({ "sourceRef": { "kind": "DataSource", "name": "fedora" } }),
    ] {
        let message = refusal(copy("there", spec).await)?;
        assert!(message.contains(expected), "{message}");
    }
    let roles: Api<Role> = Api::namespaced(admin.clone(), "kube-system");
    let role = serde_json::from_value(json!({
        "metadata": { "name": "copy" },
        "rules": [{
            "apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes/source"], "verbs": ["create"],
        }],
    }))?;
    roles.create(&params, &role).await?;
    let bindings: Api<RoleBinding> = Api::namespaced(admin, "kube-system");
    let binding = serde_json::from_value(json!({
        "metadata": { "name": "copy" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "copy" },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated",
        }],
    }))?;
    bindings.create(&params, &binding).await?;
    let spec = json!({ "sourceRef": { "kind": "DataSource", "name": "fedora" } });
    wait_until("everybody may copy", WAIT_TIMEOUT, async || {
        Ok(copy("there", spec.clone()).await.ok())
    })
    .await?;
    fixture.check.stop().await;
    Ok(())
}
