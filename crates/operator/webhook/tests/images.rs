//! The check of what images are made of, as an API server asks it, with its own rights.

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
use webhook::{Checks, Layer, Running};

/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(30);
const USER: &str = "system:serviceaccount:medley-system:medley-webhook";

struct World {
    cluster: TestCluster,
    check: Running,
}

impl World {
    /// The kinds are there, and the API server asks.
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
        let checks = Checks {
            layers: Layer::ALL.to_vec(),
            ..Checks::default()
        };
        // A genuine server notices new rights a moment later.
        let check = wait_until("the check may register itself", SOON, || async {
            let started = webhook::start(client.clone(), any, &checks).await;
            Ok(started.ok())
        })
        .await?;
        let world = Self { cluster, check };
        // And new registrations.
        wait_until("the API server asks", SOON, async || {
            let wrong = cron("probe", json!({ "schedule": "whenever" }));
            let refused = world.dry_run::<DataImportCron>("default", wrong).await;
            Ok(refused.is_err().then_some(()))
        })
        .await?;
        Ok(world)
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

/// What was said to somebody whose request did not pass.
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
async fn what_images_are_made_of_is_checked() -> anyhow::Result<()> {
    let world = World::start().await?;

    // DataImportCrons.
    let crons: Api<DataImportCron> = world.api("default");
    let wrong = cron(
        "wrong",
        json!({ "schedule": "whenever", "managedDataSource": "" }),
    );
    let said = refusal(world.dry_run::<DataImportCron>("default", wrong).await)?;
    for part in ["Illegal cron schedule", "Illegal ManagedDataSource"] {
        assert!(said.contains(part), "{said}");
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
    world.dry_run::<DataImportCron>("default", right).await?;
    let wrong = file(json!({ "checksum": "md5:0123", "extraHeaders": ["secret"] }));
    let said = refusal(world.dry_run::<DataImportCron>("default", wrong).await)?;
    for part in ["Illegal http source checksum", "sha256:", "extraHeaders[0]"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("secret"), "{said}");
    let right = serde_json::from_value(cron("fedora", json!({})))?;
    crons.create(&PostParams::default(), &right).await?;
    let params = PatchParams::default();
    let patch = Patch::Merge(json!({ "spec": { "schedule": "1 1 * * *" } }));
    let said = refusal(crons.patch("fedora", &params, &patch).await)?;
    assert!(said.contains("Cannot update DataImportCron Spec"), "{said}");
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    crons.patch("fedora", &params, &patch).await?;

    // SSPs: there is one.
    let ssp = |on: bool| {
        json!({
            "apiVersion": "ssp.kubevirt.io/v1beta3", "kind": "SSP", "metadata": { "name": "ssp" },
            "spec": { "commonTemplates": {}, "enableMultipleArchitectures": on },
        })
    };
    let said = refusal(world.dry_run::<SSP>("default", ssp(true)).await)?;
    assert!(said.contains(".spec.cluster needs to be non-nil"), "{said}");
    let ssps: Api<SSP> = world.api("default");
    let first = serde_json::from_value(ssp(false))?;
    ssps.create(&PostParams::default(), &first).await?;
    let said = refusal(world.dry_run::<SSP>("kube-system", ssp(false)).await)?;
    assert!(
        said.contains("already exists in namespace default"),
        "{said}"
    );
    world.check.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hyperconverged_is_completed() -> anyhow::Result<()> {
    let world = World::start().await?;
    let kind = hyperconverged(HyperConvergedVersion::V1);
    let home = names::VIRTUALIZATION_NAMESPACE;
    let api: Api<DynamicObject> = Api::namespaced_with(world.cluster.client(), home, &kind);
    let change = |spec: Value| {
        let api = api.clone();
        async move {
            let patch = Patch::Merge(json!({ "spec": spec }));
            api.patch(names::HYPERCONVERGED, &PatchParams::default(), &patch)
                .await
        }
    };
    // A gate that is out of date becomes the field.
    let name = "enableMultiArchBootImageImport";
    let gate = |state: &str| json!({ "featureGates": [{ "name": name, "state": state }] });
    let changed = change(gate("Enabled")).await?;
    assert_eq!(changed.data["spec"]["workloadSources"][name], true);
    // The field wins, and the gate goes.
    let changed = change(json!({ "workloadSources": { name: false } })).await?;
    assert_eq!(changed.data["spec"]["workloadSources"][name], false);
    assert_eq!(changed.data["spec"]["featureGates"], json!([]));
    // Templates get what they lack, or are refused.
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
    let said =
        refusal(change(json!({ "workloadSources": { "dataImportCronTemplates": twice } })).await)?;
    assert!(
        said.contains("mine dataImportCronTemplate is already defined"),
        "{said}"
    );
    world.check.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_gets_the_architecture_of_its_image() -> anyhow::Result<()> {
    let world = World::start().await?;
    let sources: Api<DataSource> = world.api("default");
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
        Api::namespaced_with(world.cluster.client(), "default", &virtual_machine());
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
    let said = made.data.pointer("/spec/template/spec/architecture");
    assert_eq!(said, Some(&json!("arm64")));
    world.check.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_from_another_namespace_takes_the_right_to_it() -> anyhow::Result<()> {
    let world = World::start().await?;
    let admin = world.cluster.client();
    let user = world
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

    // It is pointed to in its own namespace, but what it points to is elsewhere.
    let sources: Api<DataSource> = world.api("default");
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
    // A genuine server notices new rights a moment later.
    wait_until("somebody may make volumes", SOON, async || {
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
        let said = refusal(copy("there", spec).await)?;
        assert!(said.contains(expected), "{said}");
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
    wait_until("everybody may copy", SOON, async || {
        Ok(copy("there", spec.clone()).await.ok())
    })
    .await?;
    world.check.stop().await;
    Ok(())
}
