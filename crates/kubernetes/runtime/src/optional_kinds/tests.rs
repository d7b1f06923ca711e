//! Kinds that are installed and removed while they are watched.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

use super::{OptionalKindChange, OptionalKinds};
use crate::{Cache, Manager};

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
const GROUP: &str = "toys.example.com";
const NAME: &str = "kites.toys.example.com";

fn kite(version: &str) -> GroupVersionKind {
    GroupVersionKind::gvk(GROUP, version, "Kite")
}

fn version(name: &str, served: bool, storage: bool) -> Value {
    json!({
        "name": name, "served": served, "storage": storage,
        "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }},
    })
}

async fn install(client: &Client, versions: &[Value]) -> anyhow::Result<CustomResourceDefinition> {
    let definition = serde_json::from_value(json!({
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP, "scope": "Cluster", "versions": versions,
            "names": {"kind": "Kite", "plural": "kites"},
        },
    }))?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    Ok(api.create(&PostParams::default(), &definition).await?)
}

async fn uninstall(client: &Client) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.delete(NAME, &DeleteParams::default()).await?;
    wait_until("the definition is gone", WAIT_TIMEOUT, async || {
        Ok(api.get_opt(NAME).await?.is_none().then_some(()))
    })
    .await
}

/// Waits for the cache of a kind.
async fn appears(
    foreign: &OptionalKinds,
    kind: &GroupVersionKind,
) -> anyhow::Result<Cache<DynamicObject>> {
    wait_until("the kind is followed", WAIT_TIMEOUT, async || {
        Ok(foreign.open(kind).await?)
    })
    .await
}

async fn disappears(foreign: &OptionalKinds, kind: &GroupVersionKind) -> anyhow::Result<()> {
    wait_until("the kind is not followed", WAIT_TIMEOUT, async || {
        Ok(foreign.cache(kind).is_none().then_some(()))
    })
    .await
}

async fn create(
    foreign: &OptionalKinds,
    kind: &GroupVersionKind,
    name: &str,
) -> anyhow::Result<DynamicObject> {
    let (resource, _) = foreign.resource(kind).expect("the kind is followed");
    let api = foreign.api(kind, None).expect("the kind is followed");
    let mut object = DynamicObject::new(name, &resource);
    object.data = json!({"color": "red"});
    // The API server serves a kind a moment after it reports it as served.
    wait_until("the object is created", WAIT_TIMEOUT, async || {
        match api.create(&PostParams::default(), &object).await {
            Ok(created) => Ok(Some(created)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Records notifications, one line each.
fn listen(foreign: &OptionalKinds) -> Arc<Mutex<Vec<String>>> {
    let notified = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&notified);
    foreign.on_change(move |change| {
        let version = &change.kind().version;
        let line = match change {
            OptionalKindChange::Appeared(_) => format!("{version} appeared"),
            OptionalKindChange::Redefined(_) => format!("{version} redefined"),
            OptionalKindChange::Disappeared(_) => format!("{version} disappeared"),
            OptionalKindChange::Object { key, change, .. } => {
                let (old, new) = (change.old.is_some(), change.new.is_some());
                format!("{version} {key} {old} -> {new}")
            }
        };
        lines.lock().push(line);
    });
    notified
}

async fn expect_notifications(
    notified: &Mutex<Vec<String>>,
    expected: &[&str],
) -> anyhow::Result<()> {
    let received = wait_until(&format!("{expected:?}"), WAIT_TIMEOUT, async || {
        let received = notified.lock().clone();
        Ok((received.len() >= expected.len()).then_some(received))
    })
    .await
    .map_err(|error| error.context(format!("{:?}", notified.lock())))?;
    assert_eq!(received, expected);
    Ok(())
}

#[tokio::test]
async fn kind_is_watched_while_installed() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    let foreign = manager.optional_kinds();
    let kind = kite("v1");
    foreign.follow(&kind);
    let notified = listen(foreign);

    // A kind that is not installed is not an error.
    assert!(foreign.open(&kind).await?.is_none());
    assert!(foreign.kind(GROUP, "Kite").is_none());
    foreign.synced().await;
    assert_eq!(foreign.unsynced(), [""; 0]);

    install(&client, &[version("v1", true, true)]).await?;
    let first = appears(foreign, &kind).await?;
    let installed = foreign.kind(GROUP, "Kite").expect("it is installed");
    assert_eq!(installed.served, ["v1"]);
    assert_eq!(installed.storage.as_deref(), Some("v1"));
    assert_eq!(installed.plural, "kites");
    assert!(!installed.namespaced);
    assert_eq!(installed.definition.name_any(), NAME);

    let created = create(foreign, &kind, "a").await?;
    first.saw(&created).await;
    let seen = first.get("", "a").expect("the cache has seen it");
    assert_eq!(seen.data["color"], "red");
    assert!(
        seen.metadata.managed_fields.is_some(),
        "managed fields are kept"
    );

    uninstall(&client).await?;
    disappears(foreign, &kind).await?;
    wait_until("the cache is at its end", WAIT_TIMEOUT, async || {
        Ok(first.has_ended().then_some(()))
    })
    .await?;
    assert!(first.is_empty());
    assert!(foreign.kind(GROUP, "Kite").is_none());
    // Waiting on a closed cache returns.
    first
        .saw(&DynamicObject {
            metadata: kube::api::ObjectMeta {
                resource_version: Some(u64::MAX.to_string()),
                ..Default::default()
            },
            ..(*seen).clone()
        })
        .await;

    install(&client, &[version("v1", true, true)]).await?;
    let second = appears(foreign, &kind).await?;
    assert!(second.is_empty(), "objects go with their kind");
    let created = create(foreign, &kind, "b").await?;
    second.saw(&created).await;
    assert!(second.get("", "b").is_some());

    let expected = [
        "v1 appeared",
        "v1 a false -> true",
        "v1 a true -> false",
        "v1 disappeared",
        "v1 appeared",
        "v1 b false -> true",
    ];
    expect_notifications(&notified, &expected).await?;
    // A late listener first receives the current state.
    expect_notifications(&listen(foreign), &expected[4..]).await?;
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn version_is_watched_while_served() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    let foreign = manager.optional_kinds();
    let both = [version("v1", true, true), version("v1beta1", true, false)];
    install(&client, &both).await?;
    let (old, new) = (kite("v1beta1"), kite("v1"));
    appears(foreign, &old).await?;
    let kept = appears(foreign, &new).await?;
    let notified = listen(foreign);
    expect_notifications(&notified, &["v1 appeared", "v1beta1 appeared"]).await?;

    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let versions = [version("v1", true, true), version("v1beta1", false, false)];
    let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
    api.patch(NAME, &PatchParams::default(), &patch).await?;
    disappears(foreign, &old).await?;
    assert!(foreign.open(&old).await?.is_none());
    let installed = foreign.kind(GROUP, "Kite").expect("it is installed");
    assert_eq!(installed.served, ["v1"]);
    let created = create(foreign, &new, "a").await?;
    kept.saw(&created).await;
    assert!(kept.get("", "a").is_some(), "the other version goes on");

    let patch = Patch::Merge(json!({"spec": {"versions": both}}));
    api.patch(NAME, &PatchParams::default(), &patch).await?;
    let again = appears(foreign, &old).await?;
    wait_until("the object is seen", WAIT_TIMEOUT, async || {
        Ok(again.get("", "a"))
    })
    .await?;
    wait_until("listeners are notified", WAIT_TIMEOUT, async || {
        let received = |line: &str| {
            notified
                .lock()
                .iter()
                .filter(|notified| *notified == line)
                .count()
        };
        let all = received("v1beta1 disappeared") == 1
            && received("v1beta1 appeared") == 2
            && received("v1beta1 a false -> true") == 1
            && received("v1 redefined") == 2
            && received("v1 disappeared") == 0;
        Ok(all.then_some(()))
    })
    .await
    .map_err(|error| error.context(format!("{:?}", notified.lock())))?;
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn built_in_kinds_need_no_crd() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("foreign").await?;
    let manager = Manager::new(cluster.client());
    let foreign = manager.optional_kinds();
    let maps = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let roles = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRole");
    let cache = foreign.open(&maps).await?.expect("every cluster has it");
    let roles = foreign.open(&roles).await?.expect("every cluster has it");
    assert!(roles.get("", "cluster-admin").is_some());
    let listed = roles.list();
    assert!(listed.iter().all(|role| {
        role.types
            .as_ref()
            .is_some_and(|types| types.kind == "ClusterRole")
    }));

    let (resource, namespaced) = foreign.resource(&maps).expect("it is followed");
    assert!(namespaced);
    let api = foreign
        .api(&maps, Some(&namespace))
        .expect("it is followed");
    let mut map = DynamicObject::new("a", &resource);
    map.data = json!({"data": {"a": "b"}});
    let created = api.create(&PostParams::default(), &map).await?;
    cache.saw(&created).await;
    let seen = cache.get(&namespace, "a").expect("the cache has seen it");
    assert_eq!(seen.data["data"]["a"], "b");

    // Reviews can be created but not listed; and not every version exists.
    for (group, version, kind) in [
        ("authorization.k8s.io", "v1", "SubjectAccessReview"),
        ("", "v7", "ConfigMap"),
        ("apps", "v1", "ConfigMap"),
        ("nobody.example.com", "v1", "Nothing"),
    ] {
        let kind = GroupVersionKind::gvk(group, version, kind);
        assert!(foreign.open(&kind).await?.is_none(), "{kind:?}");
    }
    manager.stop().await;
    Ok(())
}
