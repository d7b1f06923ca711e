//! Kinds that come and go while somebody follows them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

use super::{Foreign, ForeignChange};
use crate::{Cache, Manager};

const PATIENCE: Duration = Duration::from_mins(1);
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
    wait_until("the definition is gone", PATIENCE, async || {
        Ok(api.get_opt(NAME).await?.is_none().then_some(()))
    })
    .await
}

/// The cache of a kind, once it is followed.
async fn appears(
    foreign: &Foreign,
    kind: &GroupVersionKind,
) -> anyhow::Result<Cache<DynamicObject>> {
    wait_until("the kind is followed", PATIENCE, async || {
        Ok(foreign.open(kind).await?)
    })
    .await
}

async fn disappears(foreign: &Foreign, kind: &GroupVersionKind) -> anyhow::Result<()> {
    wait_until("the kind is not followed", PATIENCE, async || {
        Ok(foreign.cache(kind).is_none().then_some(()))
    })
    .await
}

async fn create(
    foreign: &Foreign,
    kind: &GroupVersionKind,
    name: &str,
) -> anyhow::Result<DynamicObject> {
    let (resource, _) = foreign.resource(kind).expect("the kind is followed");
    let api = foreign.api(kind, None).expect("the kind is followed");
    let mut object = DynamicObject::new(name, &resource);
    object.data = json!({"color": "red"});
    // A server needs a moment after it said that it serves a kind.
    wait_until("the object is created", PATIENCE, async || {
        match api.create(&PostParams::default(), &object).await {
            Ok(created) => Ok(Some(created)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// What listeners are told of, a line each.
fn listen(foreign: &Foreign) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&told);
    foreign.on_change(move |change| {
        let version = &change.kind().version;
        let line = match change {
            ForeignChange::Appeared(_) => format!("{version} appeared"),
            ForeignChange::Redefined(_) => format!("{version} redefined"),
            ForeignChange::Disappeared(_) => format!("{version} disappeared"),
            ForeignChange::Object { key, change, .. } => {
                let (old, new) = (change.old.is_some(), change.new.is_some());
                format!("{version} {key} {old} -> {new}")
            }
        };
        lines.lock().push(line);
    });
    told
}

async fn hears(told: &Mutex<Vec<String>>, expected: &[&str]) -> anyhow::Result<()> {
    let heard = wait_until(&format!("{expected:?}"), PATIENCE, async || {
        let heard = told.lock().clone();
        Ok((heard.len() >= expected.len()).then_some(heard))
    })
    .await
    .map_err(|error| error.context(format!("{:?}", told.lock())))?;
    assert_eq!(heard, expected);
    Ok(())
}

#[tokio::test]
async fn a_kind_is_followed_from_when_it_is_installed_until_it_is_not() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    let foreign = manager.foreign();
    let kind = kite("v1");
    foreign.follow(&kind);
    let told = listen(foreign);

    // It is not there, and that is no error.
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
    assert!(seen.metadata.managed_fields.is_some(), "who set what");

    uninstall(&client).await?;
    disappears(foreign, &kind).await?;
    wait_until("the cache is at its end", PATIENCE, async || {
        Ok(first.has_ended().then_some(()))
    })
    .await?;
    assert!(first.is_empty());
    assert!(foreign.kind(GROUP, "Kite").is_none());
    // Who waits for what a kind cannot show any more does not wait forever.
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
    hears(&told, &expected).await?;
    // Who comes late is told what there is.
    hears(&listen(foreign), &expected[4..]).await?;
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_version_is_followed_for_as_long_as_it_is_served() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    let foreign = manager.foreign();
    let both = [version("v1", true, true), version("v1beta1", true, false)];
    install(&client, &both).await?;
    let (old, new) = (kite("v1beta1"), kite("v1"));
    appears(foreign, &old).await?;
    let kept = appears(foreign, &new).await?;
    let told = listen(foreign);
    hears(&told, &["v1 appeared", "v1beta1 appeared"]).await?;

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
    wait_until("the object is seen", PATIENCE, async || {
        Ok(again.get("", "a"))
    })
    .await?;
    wait_until("listeners hear it", PATIENCE, async || {
        let heard = |line: &str| told.lock().iter().filter(|told| *told == line).count();
        let all = heard("v1beta1 disappeared") == 1
            && heard("v1beta1 appeared") == 2
            && heard("v1beta1 a false -> true") == 1
            && heard("v1 redefined") == 2
            && heard("v1 disappeared") == 0;
        Ok(all.then_some(()))
    })
    .await
    .map_err(|error| error.context(format!("{:?}", told.lock())))?;
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn kinds_that_are_built_in_need_no_definition() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("foreign").await?;
    let manager = Manager::new(cluster.client());
    let foreign = manager.foreign();
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

    // Reviews can be asked for, but not listed; and not every version exists.
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
