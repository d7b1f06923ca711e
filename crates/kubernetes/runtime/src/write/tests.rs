//! Writes of a controller, against an API server.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DynamicObject, ObjectMeta, PostParams};
use kube::core::ApiResource;
use serde_json::json;
use testkit::TestCluster;

use super::Writer;
use crate::{Absent as _, Key, Manager, Queue};

const FINALIZER: &str = "medley.dev/test";

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        // Without a field to own, the API server records no manager.
        data: Some([("key".to_owned(), "0".to_owned())].into()),
        ..ConfigMap::default()
    }
}

fn field_managers(map: &ConfigMap) -> Vec<&str> {
    let managed = map.metadata.managed_fields.iter().flatten();
    managed.filter_map(|it| it.manager.as_deref()).collect()
}

#[tokio::test]
async fn writes_name_their_manager_and_are_in_the_cache_when_they_return() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("writes").await?;
    let manager = Manager::new(cluster.client());
    let cache = manager.cache::<ConfigMap>();
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let writer = Writer::new(api.clone(), "writes-test").shown_by(&cache);

    let created = writer.create(&map("a")).await?;
    assert_eq!(field_managers(&created), ["writes-test"]);
    assert!(cache.get(&namespace, "a").is_some());
    let again = writer.create(&map("a")).await.unwrap_err();
    assert!(again.is_conflict(), "{again}");
    assert_eq!(
        again.to_string(),
        r#"creating ConfigMap a: configmaps "a" already exists"#
    );
    assert!(writer.create_if_absent(&map("a")).await?.is_none());

    let patch = json!({ "data": { "key": "1" } });
    let first = writer.merge_into(&created.metadata, patch.clone()).await?;
    let stale = writer
        .merge_into(&created.metadata, patch)
        .await
        .unwrap_err();
    assert!(stale.is_conflict(), "the object has changed since: {stale}");
    let step = json!({ "op": "replace", "path": "/data/key", "value": "2" });
    let stale = writer
        .json_patch(&created.metadata, vec![step.clone()])
        .await;
    assert!(stale.unwrap_err().is_conflict());
    writer.json_patch(&first.metadata, vec![step]).await?;
    let shown = cache.get(&namespace, "a").and_then(|it| it.data.clone());
    assert_eq!(shown, Some([("key".to_owned(), "2".to_owned())].into()));

    let wanted = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "key": "3" },
    });
    let key = Key::new(&namespace, "a");
    let tried = writer.clone().dry_run(true).apply(&key, &wanted).await?;
    assert_eq!(
        tried.data,
        Some([("key".to_owned(), "3".to_owned())].into())
    );
    let shown = cache.get(&namespace, "a").and_then(|it| it.data.clone());
    assert_eq!(
        shown,
        Some([("key".to_owned(), "2".to_owned())].into()),
        "a dry run"
    );
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn apply_takes_fields_of_other_managers_only_by_force() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("writes").await?;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let key = Key::new(&namespace, "a");
    let wanted = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "key": value },
        })
    };
    Writer::new(api.clone(), "one")
        .apply(&key, &wanted("1"))
        .await?;
    let other = Writer::new(api, "other");
    let refused = other.clone().force(false).apply(&key, &wanted("2")).await;
    assert_eq!(refused.unwrap_err().code(), Some(409));
    let taken = other.apply(&key, &wanted("2")).await?;
    assert_eq!(field_managers(&taken), ["other"]);
    Ok(())
}

#[tokio::test]
async fn delete_spares_a_new_object_of_the_same_name() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("writes").await?;
    let manager = Manager::new(cluster.client());
    let cache = manager.cache::<ConfigMap>();
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let writer = Writer::new(api.clone(), "writes-test").shown_by(&cache);
    let first = writer.create(&map("a")).await?;
    assert!(writer.delete(&first.metadata).await?);
    assert!(cache.get(&namespace, "a").is_none());
    assert!(!writer.delete(&first.metadata).await?, "it is gone already");
    let second = writer.create(&map("a")).await?;
    let refused = writer.delete(&first.metadata).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    let changed = writer
        .merge(&Key::new(&namespace, "a"), &json!({ "data": { "k": "v" } }))
        .await?;
    let refused = writer.delete_unchanged(&second.metadata).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    assert!(writer.delete_unchanged(&changed.metadata).await?);
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn removing_the_last_finalizer_returns_when_the_object_is_gone() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("writes").await?;
    let manager = Manager::new(cluster.client());
    let cache = manager.cache::<ConfigMap>();
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let writer = Writer::new(api.clone(), "writes-test").shown_by(&cache);
    let created = api.create(&PostParams::default(), &map("a")).await?;
    cache.saw(&created).await;
    writer
        .set_finalizer(&created.metadata, FINALIZER, true)
        .await?;
    let held = api.get("a").await?;
    assert_eq!(held.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    writer.delete(&held.metadata).await?;
    let terminating = api.get("a").await?;
    writer
        .set_finalizer(&terminating.metadata, FINALIZER, false)
        .await?;
    assert!(api.get_opt("a").await?.is_none());
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn writers_without_an_api_write_where_the_object_is() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let manager = Manager::new(cluster.client());
    let cache = manager.cache::<ConfigMap>();
    let queue = Queue::new();
    queue.enqueue_objects(&cache);
    let typed = Writer::<ConfigMap>::namespaced(cluster.client()).shown_by(&cache);
    let kind = ApiResource::erase::<ConfigMap>(&());
    let dynamic = Writer::<DynamicObject>::dynamic(cluster.client(), &kind);
    for name in ["one", "other"] {
        let namespace = cluster.namespace(name).await?;
        let mut wanted = map("written");
        wanted.metadata.namespace = Some(namespace.clone());
        let created = typed.create(&wanted).await?;
        let key = Key::of(&created.metadata);
        assert_eq!(key.namespace, namespace);
        // The API server creates other ConfigMaps in a namespace.
        while queue.next().await != key {}
        let mut changed = created.clone();
        changed.data = Some([("key".to_owned(), "1".to_owned())].into());
        typed.replace(&changed).await?;
        let stale = typed.replace(&changed).await.unwrap_err();
        assert!(stale.is_conflict(), "the object has changed since: {stale}");
        let live = dynamic.get(&key).await?.expect("it was created");
        assert_eq!(live.data["data"]["key"], "1");
        assert!(dynamic.delete(&live.metadata).await?);
        assert!(typed.get(&key).await?.is_none());
        let gone = typed.merge(&key, &json!({})).await.not_found_as_none()?;
        assert!(gone.is_none());
    }
    manager.stop().await;
    Ok(())
}
