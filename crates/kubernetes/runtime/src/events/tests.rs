//! Writing and counting events.

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::core::GroupVersionKind;

use crate::Manager;

const WAIT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

#[tokio::test]
async fn events_refer_to_kinds_found_at_run_time() -> anyhow::Result<()> {
    let cluster = testkit::TestCluster::start().await?;
    let manager = Manager::new(cluster.client());
    let kind = GroupVersionKind::gvk("toys.example.com", "v1", "Kite");
    let kind = ApiResource::from_gvk(&kind);
    // It is cluster-scoped: its events go to namespace `default`.
    let kite = DynamicObject::new("red", &kind);
    let events = manager.events("tester");
    events.normal_of_kind(&kite, &kind, "Flies", "it flies");
    events.warning_of_kind(&kite, &kind, "Falls", "it falls");

    let api: Api<Event> = Api::namespaced(cluster.client(), "default");
    let written = testkit::wait_until("both events are written", WAIT_TIMEOUT, async || {
        let mut list = api.list(&ListParams::default()).await?.items;
        list.retain(|event| event.involved_object.kind.as_deref() == Some("Kite"));
        Ok((list.len() == 2).then_some(list))
    })
    .await?;
    for event in written {
        let expected = match event.reason.as_deref() {
            Some("Flies") => "Normal",
            _ => "Warning",
        };
        assert_eq!(event.type_.as_deref(), Some(expected));
        let about = &event.involved_object;
        assert_eq!(about.api_version.as_deref(), Some("toys.example.com/v1"));
        assert_eq!(about.name.as_deref(), Some("red"));
    }
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn repeated_event_increments_count() -> anyhow::Result<()> {
    let cluster = testkit::TestCluster::start().await?;
    let namespace = cluster.namespace("events").await?;
    let manager = Manager::new(cluster.client());
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let about = ConfigMap {
        metadata: ObjectMeta {
            name: Some("about".into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let about = maps.create(&PostParams::default(), &about).await?;

    let events = manager.events("tester");
    for _ in 0..3 {
        events.warning(&about, "Odd", "it is odd");
    }
    events.normal(&about, "Fine", "it is fine");

    let api: Api<Event> = Api::namespaced(cluster.client(), &namespace);
    let written = testkit::wait_until("both events are written", WAIT_TIMEOUT, async || {
        let list = api.list(&ListParams::default()).await?.items;
        let fine = list
            .iter()
            .any(|event| event.reason.as_deref() == Some("Fine"));
        Ok(fine.then_some(list))
    })
    .await?;
    assert_eq!(written.len(), 2);
    let odd = written
        .iter()
        .find(|event| event.reason.as_deref() == Some("Odd"))
        .expect("the odd one");
    assert_eq!(odd.count, Some(3));
    assert_eq!(odd.type_.as_deref(), Some("Warning"));
    assert_eq!(odd.involved_object.uid, about.metadata.uid);
    assert_eq!(odd.involved_object.kind.as_deref(), Some("ConfigMap"));
    manager.stop().await;
    Ok(())
}
