use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::discovery::ApiResource;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::{Kind, state::State};
use crate::{Key, Manager};

fn map(name: &str, revision: u64) -> Arc<ConfigMap> {
    Arc::new(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some("here".into()),
            resource_version: Some(revision.to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    })
}

fn shows<K: Kind>(state: &State<K>) -> BTreeMap<String, u64> {
    state
        .objects
        .iter()
        .map(|(key, object)| {
            let revision = super::revision(object.meta()).unwrap_or_default();
            (key.name.clone(), revision)
        })
        .collect()
}

#[test]
fn older_list_does_not_undo_newer_objects() {
    let mut state = State::default();
    for (name, revision) in [("kept", 3), ("gone", 4), ("newer", 9), ("changed", 5)] {
        state.set(&Key::new("here", name), Some(map(name, revision)));
    }
    let changes = state.replace(
        vec![map("kept", 3), map("changed", 7), map("fresh", 8)],
        BTreeMap::new(),
        8,
    );
    let expected = [("changed", 7), ("fresh", 8), ("kept", 3), ("newer", 9)];
    assert_eq!(
        shows(&state),
        expected.map(|(name, at)| (name.to_owned(), at)).into()
    );
    assert_eq!(changes.len(), 3, "changed, fresh and gone: {changes:?}");
}

proptest! {
    /// The indices match the objects after any sequence of inserts and removals.
    #[test]
    fn indices_follow_the_objects(steps in prop::collection::vec((0..6u8, prop::option::of((0..4u8, 0..3u8))), 0..60)) {
        let mut state = State::<ConfigMap>::default();
        let slot = state.add_index(|map| map.data.iter().flatten().map(|(key, _)| key.clone()).collect());
        for (name, what) in steps {
            let key = Key::new("here", format!("m{name}"));
            let object = what.map(|(owner, term)| {
                let mut object = Arc::unwrap_or_clone(map(&key.name, 1));
                object.metadata.owner_references = Some(vec![OwnerReference {
                    uid: format!("u{owner}"),
                    controller: Some(true),
                    ..OwnerReference::default()
                }]);
                object.data = Some([(format!("t{term}"), String::new())].into());
                Arc::new(object)
            });
            state.set(&key, object);
        }
        for owner in 0..4 {
            let uid = format!("u{owner}");
            let naive = state.objects.values().filter(|object| {
                object.metadata.owner_references.iter().flatten().any(|o| o.uid == uid)
            }).count();
            prop_assert_eq!(state.controlled_by(&uid).len(), naive);
        }
        for term in 0..3 {
            let term = format!("t{term}");
            let naive = state.objects.values().filter(|object| {
                object.data.iter().flatten().any(|(key, _)| *key == term)
            }).count();
            prop_assert_eq!(state.indexed(slot, &term).len(), naive);
        }
    }
}

#[tokio::test]
async fn cache_observes_writes_and_notifies_in_order() -> anyhow::Result<()> {
    let cluster = testkit::TestCluster::start().await?;
    let namespace = cluster.namespace("cache").await?;
    let manager = Manager::new(cluster.client());
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let before = Arc::unwrap_or_clone(map("before", 0));
    let before = ConfigMap {
        metadata: ObjectMeta {
            name: before.metadata.name,
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    api.create(&PostParams::default(), &before).await?;

    let cache = manager.cache::<ConfigMap>();
    cache.synced().await;
    assert!(cache.get(&namespace, "before").is_some());

    let notified = Arc::new(Mutex::new(Vec::new()));
    let here = namespace.clone();
    cache.on_change({
        let notified = Arc::clone(&notified);
        move |change| {
            if let Some(object) = change.object()
                && object.metadata.namespace.as_ref() == Some(&here)
                && object.metadata.name.as_deref() != Some("kube-root-ca.crt")
            {
                let kind = (change.old.is_some(), change.new.is_some());
                notified
                    .lock()
                    .push((object.metadata.name.clone().unwrap_or_default(), kind));
            }
        }
    });

    let mut fresh = before.clone();
    fresh.metadata.name = Some("fresh".into());
    let fresh = api.create(&PostParams::default(), &fresh).await?;
    cache.saw(&fresh).await;
    assert!(cache.get(&namespace, "fresh").is_some());

    let patch = Patch::Merge(serde_json::json!({"data": {"a": "b"}}));
    let patched = api.patch("fresh", &PatchParams::default(), &patch).await?;
    cache.saw(&patched).await;
    let seen = cache
        .get(&namespace, "fresh")
        .and_then(|map| map.data.clone());
    assert_eq!(seen, patched.data);

    api.delete("fresh", &DeleteParams::default()).await?;
    cache.wait_for_deletion(&fresh.metadata).await;
    assert!(cache.get(&namespace, "fresh").is_none());

    let expected = [
        ("before", (false, true)),
        ("fresh", (false, true)),
        ("fresh", (true, true)),
        ("fresh", (true, false)),
    ];
    assert_eq!(
        *notified.lock(),
        expected.map(|(name, kind)| (name.to_owned(), kind))
    );
    manager.stop().await;
    Ok(())
}

/// A kind whose CRD allows more than its type: `size` is a number here and anything there.
#[derive(kube::CustomResource, serde::Serialize, serde::Deserialize, Debug, Clone)]
#[kube(
    group = "test.medley.dev",
    version = "v1",
    kind = "Crate",
    namespaced,
    schema = "disabled"
)]
struct CrateSpec {
    size: u32,
}

#[tokio::test]
async fn undecodable_object_does_not_stall_the_others() -> anyhow::Result<()> {
    let cluster = testkit::TestCluster::start().await?;
    let namespace = cluster.namespace("undecodable").await?;
    let crd = serde_json::from_value(serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "crates.test.medley.dev" },
        "spec": {
            "group": "test.medley.dev", "scope": "Namespaced",
            "names": { "plural": "crates", "singular": "crate", "kind": "Crate" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } } }],
        },
    }))?;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    crds.create(&PostParams::default(), &crd).await?;
    crate::wait_until_served(&cluster.client(), "crates.test.medley.dev").await?;
    let resource = ApiResource::erase::<Crate>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), &namespace, &resource);
    let write = async |name: &str, size: serde_json::Value| {
        let object = serde_json::json!({
            "apiVersion": "test.medley.dev/v1", "kind": "Crate",
            "metadata": { "name": name }, "spec": { "size": size },
        });
        let params = PatchParams::apply("test").force();
        api.patch(name, &params, &Patch::Apply(object)).await
    };
    write("good", 1.into()).await?;
    write("odd", "large".into()).await?;

    // It is there when the cache lists the kind.
    let manager = Manager::new(cluster.client());
    let cache = manager.cache::<Crate>();
    cache.synced().await;
    let sizes = || -> BTreeMap<String, u32> {
        let all = cache.list();
        let all = all
            .iter()
            .map(|it| (it.metadata.name.clone().unwrap_or_default(), it.spec.size));
        all.collect()
    };
    assert_eq!(sizes(), [("good".to_owned(), 1)].into());
    let text = manager.metrics().render();
    assert!(
        text.contains(r#"medley_undecodable_objects{kind="Crate"} 1"#),
        "{text}"
    );
    let events: Api<Event> = Api::namespaced(cluster.client(), &namespace);
    let limit = std::time::Duration::from_secs(10);
    testkit::wait_until("an event about the object", limit, async || {
        let found = events.list(&ListParams::default()).await?;
        let reported = found.iter().any(|event| {
            event.reason.as_deref() == Some(crate::UNDECODABLE)
                && event.involved_object.name.as_deref() == Some("odd")
        });
        Ok(reported.then_some(()))
    })
    .await?;

    // It becomes so while the cache watches: its last state stays, and the other object changes.
    cache.saw(&write("good", "huge".into()).await?).await;
    assert_eq!(
        sizes(),
        [("good".to_owned(), 1)].into(),
        "not taken for a deletion"
    );
    cache.saw(&write("odd", 2.into()).await?).await;
    assert_eq!(
        sizes(),
        [("good".to_owned(), 1), ("odd".to_owned(), 2)].into()
    );
    cache.saw(&write("good", 3.into()).await?).await;
    assert_eq!(
        sizes(),
        [("good".to_owned(), 3), ("odd".to_owned(), 2)].into()
    );
    let text = manager.metrics().render();
    assert!(
        text.contains(r#"medley_undecodable_objects{kind="Crate"} 0"#),
        "{text}"
    );
    cache.saw(&write("odd", "large".into()).await?).await;
    api.delete("odd", &DeleteParams::default()).await?;
    cache
        .shows(&Key::new(&namespace, "odd"), |object| object.is_none())
        .await;
    assert_eq!(cache.undecodable_len(), 0);
    manager.stop().await;
    Ok(())
}
