//! kube-rs as a client: typed and dynamic calls, watchers, reflectors and controllers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{Controller, WatchStreamExt as _, finalizer, watcher};
use kube::{Api, Client, Discovery, ResourceExt as _};
use serde_json::json;
use testkit::{TestCluster, wait_until};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(
            data.iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        ),
        ..ConfigMap::default()
    }
}

async fn maps(cluster: &TestCluster) -> anyhow::Result<Api<ConfigMap>> {
    let namespace = cluster.namespace("clients").await?;
    Ok(Api::namespaced(cluster.client(), &namespace))
}

#[tokio::test]
async fn objects_are_created_read_updated_and_deleted() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let api = maps(&cluster).await?;
    let created = api
        .create(&PostParams::default(), &map("a", &[("x", "1")]))
        .await?;
    assert!(created.resource_version().is_some() && created.uid().is_some());
    let error = api
        .create(&PostParams::default(), &map("a", &[]))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists"),
        "{error}"
    );

    let mut changed = created.clone();
    changed.data = Some(BTreeMap::from([("x".to_owned(), "2".to_owned())]));
    let replaced = api.replace("a", &PostParams::default(), &changed).await?;
    assert_ne!(replaced.resource_version(), created.resource_version());
    let error = api
        .replace("a", &PostParams::default(), &changed)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.reason == "Conflict"),
        "{error}"
    );

    let patched = api
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"y": "3"}})),
        )
        .await?;
    assert_eq!(patched.data.unwrap().len(), 2);
    let mut entry = api.entry("b").await?.or_insert(|| map("b", &[]));
    entry.get_mut().data = Some(BTreeMap::from([("k".to_owned(), "v".to_owned())]));
    entry.commit(&PostParams::default()).await?;
    let listed = api.list(&ListParams::default()).await?;
    assert_eq!(
        listed
            .items
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    let metadata = api
        .list_metadata(&ListParams::default().fields("metadata.name=b"))
        .await?;
    assert_eq!(metadata.items.len(), 1);
    api.delete("a", &DeleteParams::default()).await?;
    assert!(api.get_opt("a").await?.is_none());
    let error = api.get("a").await.unwrap_err();
    assert!(
        error.to_string().contains("configmaps \"a\" not found"),
        "{error}"
    );
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    assert!(api.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn dry_runs_below_a_pod_change_nothing() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("dry").await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), &namespace);
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let before = pods
        .create(&PostParams::default(), &serde_json::from_value(pod)?)
        .await?;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    });
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
    });
    for (part, body) in [("binding", binding), ("eviction", eviction)] {
        let request = http::Request::post(format!(
            "/api/v1/namespaces/{namespace}/pods/p/{part}?dryRun=All"
        ))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&body)?)?;
        let answer = cluster.request(request).await?;
        assert_eq!(answer.status(), 201, "{part}");
        assert_eq!(pods.get("p").await?, before, "{part}");
    }
    Ok(())
}

#[tokio::test]
async fn pages_hold_every_object_once() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let api = maps(&cluster).await?;
    for index in 0..25 {
        api.create(&PostParams::default(), &map(&format!("m{index:02}"), &[]))
            .await?;
    }
    let mut names = Vec::new();
    let mut params = ListParams::default().limit(10);
    loop {
        let page = api.list(&params).await?;
        names.extend(page.items.iter().map(kube::ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(
        names,
        (0..25)
            .map(|index| format!("m{index:02}"))
            .collect::<Vec<_>>()
    );
    Ok(())
}

#[tokio::test]
async fn appliers_own_what_they_apply() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let api = maps(&cluster).await?;
    let apply = |manager: &'static str, force: bool, data: serde_json::Value| {
        let api = api.clone();
        async move {
            let mut params = PatchParams::apply(manager);
            params.force = force;
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
            api.patch("a", &params, &Patch::Apply(&body)).await
        }
    };
    // kube-rs omits the name from the body, which the server accepts only for existing objects.
    api.create(&PostParams::default(), &map("a", &[])).await?;
    apply("one", false, json!({"x": "1", "y": "1"})).await?;
    let error = apply("two", false, json!({"x": "2"})).await.unwrap_err();
    assert!(
        error.to_string().contains("conflict with \"one\": .data.x"),
        "{error}"
    );
    apply("two", true, json!({"x": "2"})).await?;
    let object = apply("one", false, json!({})).await?;
    assert_eq!(
        object.data.unwrap(),
        BTreeMap::from([("x".to_owned(), "2".to_owned())])
    );
    Ok(())
}

/// Runs a watcher until it has delivered the expected events.
async fn watched(cluster: &TestCluster, config: watcher::Config) -> anyhow::Result<()> {
    let api = maps(cluster).await?;
    api.create(&PostParams::default(), &map("before", &[]))
        .await?;
    let mut events = watcher(api.clone(), config).boxed();
    let mut seen = Vec::new();
    let mut changed = false;
    let follow = async {
        while let Some(event) = events.try_next().await? {
            match event {
                watcher::Event::Init => seen.push("init".to_owned()),
                watcher::Event::InitApply(object) => {
                    seen.push(format!("was {}", object.name_any()));
                }
                watcher::Event::InitDone => {
                    seen.push("done".to_owned());
                    if !changed {
                        changed = true;
                        api.create(&PostParams::default(), &map("after", &[]))
                            .await?;
                        api.delete("before", &DeleteParams::default()).await?;
                    }
                }
                watcher::Event::Apply(object) => seen.push(format!("apply {}", object.name_any())),
                watcher::Event::Delete(object) => {
                    seen.push(format!("delete {}", object.name_any()));
                    break;
                }
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(WAIT_TIMEOUT, follow).await??;
    assert_eq!(
        seen,
        ["init", "was before", "done", "apply after", "delete before"]
    );
    Ok(())
}

#[tokio::test]
async fn watchers_list_and_watch() -> anyhow::Result<()> {
    watched(&TestCluster::start().await?, watcher::Config::default()).await
}

#[tokio::test]
async fn watchers_stream_their_lists() -> anyhow::Result<()> {
    watched(
        &TestCluster::start().await?,
        watcher::Config::default().streaming_lists(),
    )
    .await
}

#[tokio::test]
async fn watches_time_out_and_resume_from_a_resource_version() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let api = maps(&cluster).await?;
    let from = api
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap();
    api.create(&PostParams::default(), &map("a", &[])).await?;
    let mut last = String::new();
    let mut stream = api
        .watch(&WatchParams::default().timeout(1), &from)
        .await?
        .boxed();
    while let Some(event) = stream.try_next().await? {
        if let WatchEvent::Added(object) = event {
            last = object.resource_version().unwrap();
        }
    }
    api.create(&PostParams::default(), &map("b", &[])).await?;
    let mut stream = api
        .watch(&WatchParams::default().timeout(20), &last)
        .await?
        .boxed();
    let event = tokio::time::timeout(WAIT_TIMEOUT, stream.try_next()).await??;
    assert!(
        matches!(&event, Some(WatchEvent::Added(object)) if object.name_any() == "b"),
        "{event:?}"
    );
    Ok(())
}

#[tokio::test]
async fn expired_resource_version_causes_a_relist() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let Some(store) = cluster.store() else {
        println!("skipped: history cannot be compacted through the API of the genuine server");
        return Ok(());
    };
    let api = maps(&cluster).await?;
    let from = api
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap();
    api.create(&PostParams::default(), &map("a", &[])).await?;
    api.create(&PostParams::default(), &map("b", &[])).await?;
    store.compact(store.revision()).await?;
    let mut stream = api.watch(&WatchParams::default(), &from).await?.boxed();
    let event = tokio::time::timeout(WAIT_TIMEOUT, stream.try_next()).await??;
    assert!(
        matches!(&event, Some(WatchEvent::Error(status)) if status.code == 410),
        "{event:?}"
    );
    // A watcher recovers on its own.
    let (reader, writer) = reflector::store();
    let driver = tokio::spawn(
        watcher(api.clone(), watcher::Config::default())
            .default_backoff()
            .reflect(writer)
            .for_each(|_| async {}),
    );
    wait_until("the reflector is filled", WAIT_TIMEOUT, || async {
        Ok((reader.len() == 2).then_some(()))
    })
    .await?;
    driver.abort();
    Ok(())
}

#[tokio::test]
async fn reflector_matches_the_server() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let api = maps(&cluster).await?;
    let (reader, writer) = reflector::store::<ConfigMap>();
    let stream = watcher(api.clone(), watcher::Config::default()).reflect(writer);
    let driver = tokio::spawn(stream.for_each(|_| async {}));
    for index in 0..20 {
        api.create(
            &PostParams::default(),
            &map(&format!("m{index}"), &[("i", &index.to_string())]),
        )
        .await?;
    }
    for index in 0..10 {
        api.delete(&format!("m{index}"), &DeleteParams::default())
            .await?;
    }
    wait_until("the reflector has ten objects", WAIT_TIMEOUT, || async {
        Ok((reader.len() == 10).then_some(()))
    })
    .await?;
    let listed = api.list(&ListParams::default()).await?;
    for object in listed.items {
        let key = ObjectRef::from_obj(&object);
        assert_eq!(reader.get(&key).as_deref(), Some(&object));
    }
    driver.abort();
    Ok(())
}

#[derive(Debug)]
struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for Failed {}

impl From<kube::Error> for Failed {
    fn from(_: kube::Error) -> Self {
        Self
    }
}

struct Shared {
    client: Client,
    cleaned: AtomicUsize,
}

async fn reconcile(
    object: Arc<ConfigMap>,
    shared: Arc<Shared>,
) -> Result<Action, finalizer::Error<Failed>> {
    let api = Api::namespaced(
        shared.client.clone(),
        &object.namespace().unwrap_or_default(),
    );
    finalizer(&api, "example.com/cleanup", object, |event| async {
        match event {
            finalizer::Event::Apply(object) => {
                let body = json!({"metadata": {"annotations": {"example.com/seen": "yes"}}});
                api.patch(
                    &object.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(body),
                )
                .await?;
            }
            finalizer::Event::Cleanup(_) => {
                shared.cleaned.fetch_add(1, Ordering::SeqCst);
            }
        }
        Ok::<_, Failed>(Action::await_change())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_with_a_finalizer_reconciles_its_objects() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let api = maps(&cluster).await?;
    let shared = Arc::new(Shared {
        client: cluster.client(),
        cleaned: AtomicUsize::new(0),
    });
    let controller = Controller::new(api.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(100)),
            Arc::clone(&shared),
        )
        .for_each(|_| async {});
    let driver = tokio::spawn(controller);
    api.create(&PostParams::default(), &map("a", &[])).await?;
    wait_until("the object is reconciled", WAIT_TIMEOUT, || async {
        let object = api.get("a").await?;
        let ready = object.annotations().get("example.com/seen").is_some()
            && !object.finalizers().is_empty();
        Ok(ready.then_some(()))
    })
    .await?;
    api.delete("a", &DeleteParams::default()).await?;
    wait_until("the object is gone", WAIT_TIMEOUT, || async {
        Ok(api.get_opt("a").await?.is_none().then_some(()))
    })
    .await?;
    assert!(shared.cleaned.load(Ordering::SeqCst) >= 1);
    driver.abort();
    Ok(())
}

#[tokio::test]
async fn discovery_finds_built_in_and_custom_kinds() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.clients.example.com"},
        "spec": {
            "group": "clients.example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }))?;
    Api::all(cluster.client())
        .create(&PostParams::default(), &definition)
        .await?;
    let kind = GroupVersionKind::gvk("clients.example.com", "v1", "Gadget");
    let (resource, capabilities) = wait_until("the kind is discovered", WAIT_TIMEOUT, || async {
        let classic = Discovery::new(cluster.client()).run().await?;
        Ok(classic.resolve_gvk(&kind))
    })
    .await?;
    assert_eq!(resource.plural, "gadgets");
    assert_eq!(capabilities.scope, Scope::Namespaced);
    let aggregated = Discovery::new(cluster.client()).run_aggregated().await?;
    for kind in [
        kind,
        GroupVersionKind::gvk("apps", "v1", "Deployment"),
        GroupVersionKind::gvk("", "v1", "Pod"),
    ] {
        let found = aggregated.resolve_gvk(&kind);
        assert!(found.is_some(), "{kind:?}");
    }
    let namespace = cluster.namespace("clients").await?;
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), &namespace, &resource);
    let object = DynamicObject::new("g", &resource).data(json!({"any": {"thing": [1, 2]}}));
    let created = api.create(&PostParams::default(), &object).await?;
    assert_eq!(created.data["any"]["thing"], json!([1, 2]));
    Ok(())
}

#[tokio::test]
async fn self_subject_review_returns_the_user() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client_as("alice", &["devs"])?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())?;
    let answer: serde_json::Value = client.request(request).await?;
    let user = &answer["status"]["userInfo"];
    assert_eq!(user["username"], "alice");
    assert_eq!(user["groups"], json!(["devs", "system:authenticated"]));
    Ok(())
}

/// An object stored under one version of a CRD is read with the defaults of the next one, by every kind of request; an
/// object written under the new version is stored as written.
#[tokio::test]
async fn stored_objects_are_read_with_current_defaults() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let definition = |defaults: serde_json::Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "sails.clients.example.com" },
            "spec": {
                "group": "clients.example.com", "scope": "Cluster",
                "names": { "plural": "sails", "kind": "Sail" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                        "spec": { "type": "object", "properties": defaults },
                    }}},
                }],
            },
        })
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("test").force();
    let define = async |defaults| {
        let definition = definition(defaults);
        definitions
            .patch(
                "sails.clients.example.com",
                &apply,
                &Patch::Apply(definition),
            )
            .await
    };
    let color = json!({ "type": "string", "default": "white" });
    define(json!({ "color": color, "size": { "type": "integer" } })).await?;
    let kind = GroupVersionKind::gvk("clients.example.com", "v1", "Sail");
    let resource = kube::discovery::ApiResource::from_gvk_with_plural(&kind, "sails");
    let sails: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    wait_until("sails are served", WAIT_TIMEOUT, || async {
        Ok(sails.list(&ListParams::default()).await.ok().map(drop))
    })
    .await?;
    let sail = |name: &str| {
        json!({
            "apiVersion": "clients.example.com/v1", "kind": "Sail",
            "metadata": { "name": name }, "spec": {},
        })
    };
    let made = |name: &str| serde_json::from_value::<DynamicObject>(sail(name));
    let post = PostParams::default();
    let before = sails.create(&post, &made("before")?).await?;
    assert_eq!(before.data["spec"], json!({ "color": "white" }));

    define(json!({ "color": color, "size": { "type": "integer", "default": 7 } })).await?;
    let both = json!({ "color": "white", "size": 7 });
    wait_until("the second default is in effect", WAIT_TIMEOUT, || async {
        let now = sails.get("before").await?;
        Ok((now.data["spec"] == both).then_some(()))
    })
    .await?;
    let listed = sails.list(&ListParams::default()).await?;
    assert_eq!(listed.items[0].data["spec"], both);
    // kube-apiserver starts a new watch cache for a changed CRD: earlier versions are too old then.
    let version = listed.metadata.resource_version.unwrap_or_default();
    let events = sails.watch(&WatchParams::default(), &version).await?;
    let mut events = events.boxed();
    sails.create(&post, &made("after")?).await?;
    let label = json!({ "metadata": { "labels": { "touched": "yes" } } });
    let touched = sails
        .patch("before", &PatchParams::default(), &Patch::Merge(label))
        .await?;
    assert_eq!(touched.data["spec"], both);
    for name in ["after", "before"] {
        let event = events.try_next().await?;
        let Some(WatchEvent::Added(seen) | WatchEvent::Modified(seen)) = event else {
            anyhow::bail!("{event:?} instead of {name}");
        };
        assert_eq!(
            (seen.name_any().as_str(), &seen.data["spec"]),
            (name, &both)
        );
        assert_eq!(sails.get(name).await?.data, seen.data);
    }
    sails.delete("before", &DeleteParams::default()).await?;
    let Some(WatchEvent::Deleted(gone)) = events.try_next().await? else {
        anyhow::bail!("the deletion is not delivered");
    };
    assert_eq!(gone.data["spec"], both);
    Ok(())
}
