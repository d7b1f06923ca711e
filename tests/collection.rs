//! Garbage collection of objects whose owners are deleted, on both servers.

mod controlled;

use anyhow::Context as _;
use controlled::{ControlledCluster, create, delete, gone, patch, present, release, until};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, DynamicObject, ListParams, PropagationPolicy};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::{Value, json};
use testkit::wait_until;

const KEEP: &str = "example.com/keep";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_and_dependents() -> anyhow::Result<()> {
    let fixture = &ControlledCluster::start().await?;
    fixture
        .run(cases![fixture;
            background_deletes_all_dependents,
            foreground_waits_for_blocking_dependents,
            foreground_does_not_wait_for_other_dependents,
            foreground_deletes_leaves_first,
            owner_cycle_is_deleted_as_a_whole,
            orphaned_dependents_lose_their_owner_reference,
            owner_in_another_namespace_does_not_count,
            owner_with_another_uid_does_not_count,
            cluster_scoped_owner_owns_in_every_namespace,
            owner_of_an_unknown_kind_keeps_its_dependents,
            dependent_created_during_deletion_is_deleted,
            one_remaining_owner_keeps_the_dependent,
            owner_does_not_wait_for_dependents_of_another_owner,
            custom_resources_own_and_are_owned,
        ])
        .await
}

/// The config maps of a new namespace.
async fn maps_in(fixture: &ControlledCluster, prefix: &str) -> anyhow::Result<Api<ConfigMap>> {
    let namespace = fixture.cluster.namespace(prefix).await?;
    Ok(fixture.api(&namespace))
}

/// A reference to an owner.
fn owned_by<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    let reference = owner.owner_ref(&());
    json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "name": reference.as_ref().map(|owner| owner.name.clone()),
        "uid": reference.map(|owner| owner.uid),
    })
}

/// A reference with `blockOwnerDeletion`.
fn blocking(mut reference: Value) -> Value {
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

async fn map(api: &Api<ConfigMap>, name: &str, owners: &[Value]) -> anyhow::Result<ConfigMap> {
    let meta = json!({"name": name, "ownerReferences": owners});
    create(api, json!({"metadata": meta})).await
}

/// A config map with a finalizer.
async fn kept(api: &Api<ConfigMap>, name: &str, owners: &[Value]) -> anyhow::Result<ConfigMap> {
    let meta = json!({"name": name, "ownerReferences": owners, "finalizers": [KEEP]});
    create(api, json!({"metadata": meta})).await
}

fn foreground() -> DeleteParams {
    DeleteParams::foreground()
}

/// Waits until the garbage collector has processed all earlier changes: it deletes a later orphan.
async fn fence(api: &Api<ConfigMap>) -> anyhow::Result<()> {
    let mut absent = owned_by(&map(api, "fence-owner", &[]).await?);
    absent["uid"] = json!("00000000-0000-0000-0000-000000000000");
    map(api, "fence", &[absent]).await?;
    gone(api, "fence").await?;
    delete(api, "fence-owner", &DeleteParams::default()).await
}

async fn background_deletes_all_dependents(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "background").await?;
    let owner = map(&maps, "owner", &[]).await?;
    let child = map(&maps, "child", &[owned_by(&owner)]).await?;
    map(&maps, "grandchild", &[blocking(owned_by(&child))]).await?;
    map(&maps, "stranger", &[]).await?;
    fence(&maps).await?;
    present(&maps, "grandchild").await?;

    delete(&maps, "owner", &DeleteParams::background()).await?;
    anyhow::ensure!(
        maps.get_opt("owner").await?.is_none(),
        "the owner goes at once"
    );
    gone(&maps, "child").await?;
    gone(&maps, "grandchild").await?;
    maps.get("stranger").await.context("a stranger stays")?;
    Ok(())
}

async fn foreground_waits_for_blocking_dependents(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "foreground").await?;
    let owner = map(&maps, "owner", &[]).await?;
    kept(&maps, "blocks", &[blocking(owned_by(&owner))]).await?;
    map(&maps, "goes", &[blocking(owned_by(&owner))]).await?;
    fence(&maps).await?;

    delete(&maps, "owner", &foreground()).await?;
    gone(&maps, "goes").await?;
    until(&maps, "blocks", "is on its way out", |map| {
        map.metadata.deletion_timestamp.is_some()
    })
    .await?;
    let waiting = maps.get("owner").await.context("the owner waits")?;
    assert_eq!(waiting.finalizers(), ["foregroundDeletion"]);

    release(&maps, "blocks").await?;
    gone(&maps, "blocks").await?;
    gone(&maps, "owner").await
}

async fn foreground_does_not_wait_for_other_dependents(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "nonblocking").await?;
    let owner = map(&maps, "owner", &[]).await?;
    kept(&maps, "dependent", &[owned_by(&owner)]).await?;
    fence(&maps).await?;
    delete(&maps, "owner", &foreground()).await?;
    gone(&maps, "owner").await?;
    until(&maps, "dependent", "is on its way out", |map| {
        map.metadata.deletion_timestamp.is_some()
    })
    .await?;
    release(&maps, "dependent").await?;
    gone(&maps, "dependent").await
}

async fn foreground_deletes_leaves_first(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "leaves").await?;
    let root = map(&maps, "root", &[]).await?;
    let branch = map(&maps, "branch", &[blocking(owned_by(&root))]).await?;
    kept(&maps, "leaf", &[blocking(owned_by(&branch))]).await?;
    fence(&maps).await?;
    delete(&maps, "root", &foreground()).await?;
    until(&maps, "leaf", "is on its way out", |map| {
        map.metadata.deletion_timestamp.is_some()
    })
    .await?;
    let branch = maps.get("branch").await.context("the branch waits")?;
    assert_eq!(branch.finalizers(), ["foregroundDeletion"]);
    maps.get("root").await.context("the root waits")?;
    release(&maps, "leaf").await?;
    gone(&maps, "branch").await?;
    gone(&maps, "root").await
}

async fn owner_cycle_is_deleted_as_a_whole(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "circle").await?;
    let first = map(&maps, "first", &[]).await?;
    let second = map(&maps, "second", &[blocking(owned_by(&first))]).await?;
    let back = json!({"metadata": {"ownerReferences": [blocking(owned_by(&second))]}});
    patch(&maps, "first", back).await?;
    fence(&maps).await?;
    delete(&maps, "first", &foreground()).await?;
    gone(&maps, "second").await?;
    gone(&maps, "first").await
}

async fn orphaned_dependents_lose_their_owner_reference(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "orphan").await?;
    let owner = map(&maps, "owner", &[]).await?;
    let other = map(&maps, "other", &[]).await?;
    map(&maps, "one", &[owned_by(&owner)]).await?;
    map(
        &maps,
        "two",
        &[blocking(owned_by(&owner)), owned_by(&other)],
    )
    .await?;
    fence(&maps).await?;
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    delete(&maps, "owner", &params).await?;
    gone(&maps, "owner").await?;
    assert_eq!(maps.get("one").await?.owner_references(), []);
    let names: Vec<String> = maps
        .get("two")
        .await?
        .owner_references()
        .iter()
        .map(|owner| owner.name.clone())
        .collect();
    assert_eq!(names, ["other"]);
    fence(&maps).await?;
    maps.get("one").await.context("an orphan stays")?;
    Ok(())
}

async fn owner_in_another_namespace_does_not_count(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "here").await?;
    let there = fixture.cluster.namespace("there").await?;
    let elsewhere: Api<ConfigMap> = fixture.api(&there);
    let owner = map(&maps, "owner", &[]).await?;
    fence(&maps).await?;
    kept(&elsewhere, "dependent", &[owned_by(&owner)]).await?;
    until(&elsewhere, "dependent", "is on its way out", |map| {
        map.metadata.deletion_timestamp.is_some()
    })
    .await?;
    release(&elsewhere, "dependent").await?;
    let events: Api<Event> = fixture.api(&there);
    let about = ListParams::default().fields("reason=OwnerRefInvalidNamespace");
    let event = wait_until("an event is emitted", controlled::WAIT_TIMEOUT, || async {
        Ok(events.list(&about).await?.items.pop())
    })
    .await?;
    let uid = owner.uid().unwrap_or_default();
    assert_eq!(
        event.message,
        Some(format!(
            "ownerRef [v1/ConfigMap, namespace: {there}, name: owner, uid: {uid}] \
             does not exist in namespace \"{there}\""
        ))
    );
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.involved_object.name.as_deref(), Some("dependent"));
    let component = event.source.and_then(|source| source.component);
    assert_eq!(component.as_deref(), Some("garbage-collector-controller"));
    maps.get("owner").await.context("the owner stays")?;
    Ok(())
}

async fn owner_with_another_uid_does_not_count(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "uid").await?;
    let owner = map(&maps, "owner", &[]).await?;
    delete(&maps, "owner", &DeleteParams::default()).await?;
    map(&maps, "owner", &[]).await?;
    map(&maps, "dependent", &[owned_by(&owner)]).await?;
    gone(&maps, "dependent").await?;
    maps.get("owner").await.context("the successor stays")?;
    Ok(())
}

async fn cluster_scoped_owner_owns_in_every_namespace(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "clusterowner").await?;
    let roles: Api<ClusterRole> = Api::all(fixture.cluster.client());
    let owner = create(&roles, json!({"metadata": {"generateName": "owner-"}})).await?;
    map(&maps, "dependent", &[owned_by(&owner)]).await?;
    fence(&maps).await?;
    maps.get("dependent").await.context("it has an owner")?;
    delete(&roles, &owner.name_any(), &DeleteParams::default()).await?;
    gone(&maps, "dependent").await
}

async fn owner_of_an_unknown_kind_keeps_its_dependents(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "unknown").await?;
    let mut unknown = owned_by(&map(&maps, "owner", &[]).await?);
    unknown["apiVersion"] = json!("nowhere.example.com/v1");
    map(&maps, "dependent", &[unknown]).await?;
    fence(&maps).await?;
    maps.get("dependent")
        .await
        .context("dependent of an unknown kind is kept")?;
    Ok(())
}

async fn dependent_created_during_deletion_is_deleted(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "meanwhile").await?;
    let owner = map(&maps, "owner", &[]).await?;
    let fill = async {
        for index in 0..30 {
            map(&maps, &format!("d{index:02}"), &[owned_by(&owner)]).await?;
        }
        anyhow::Ok(())
    };
    let end = async {
        present(&maps, "d10").await?;
        delete(&maps, "owner", &DeleteParams::default()).await
    };
    futures::future::try_join(fill, end).await?;
    for index in 0..30 {
        gone(&maps, &format!("d{index:02}")).await?;
    }
    Ok(())
}

async fn one_remaining_owner_keeps_the_dependent(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "mixed").await?;
    let first = map(&maps, "first", &[]).await?;
    let second = map(&maps, "second", &[]).await?;
    map(&maps, "dependent", &[owned_by(&first), owned_by(&second)]).await?;
    fence(&maps).await?;
    delete(&maps, "first", &DeleteParams::default()).await?;
    until(&maps, "dependent", "forgets the first", |map| {
        let owners: Vec<&OwnerReference> = map.owner_references().iter().collect();
        owners.len() == 1 && owners[0].name == "second"
    })
    .await?;
    delete(&maps, "second", &DeleteParams::default()).await?;
    gone(&maps, "dependent").await
}

async fn owner_does_not_wait_for_dependents_of_another_owner(
    fixture: &ControlledCluster,
) -> anyhow::Result<()> {
    let maps = maps_in(fixture, "waiting").await?;
    let waits = map(&maps, "waits", &[]).await?;
    let stays = map(&maps, "stays", &[]).await?;
    let owners = [blocking(owned_by(&waits)), owned_by(&stays)];
    map(&maps, "dependent", &owners).await?;
    fence(&maps).await?;
    delete(&maps, "waits", &foreground()).await?;
    gone(&maps, "waits").await?;
    let dependent = maps.get("dependent").await.context("it stays")?;
    assert_eq!(dependent.owner_references().len(), 1);
    Ok(())
}

async fn custom_resources_own_and_are_owned(fixture: &ControlledCluster) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.cluster.client());
    let namespace = fixture.cluster.namespace("custom").await?;
    let maps: Api<ConfigMap> = fixture.api(&namespace);
    let kites = fixture.kites("collection.example.com", &namespace).await?;
    let kite = |name: &str, owners: &[Value]| {
        json!({
            "apiVersion": "collection.example.com/v1",
            "kind": "Kite",
            "metadata": {"name": name, "ownerReferences": owners},
        })
    };
    let reference = |owner: &DynamicObject| {
        json!({
            "apiVersion": "collection.example.com/v1",
            "kind": "Kite",
            "name": owner.name_any(),
            "uid": owner.uid(),
        })
    };
    let root = map(&maps, "root", &[]).await?;
    let middle = create(&kites, kite("middle", &[owned_by(&root)])).await?;
    map(&maps, "leaf", &[reference(&middle)]).await?;
    let last = create(&kites, kite("last", &[])).await?;
    map(&maps, "survivor", &[reference(&last)]).await?;
    fence(&maps).await?;

    delete(&maps, "root", &DeleteParams::default()).await?;
    gone(&kites, "middle").await?;
    gone(&maps, "leaf").await?;
    maps.get("survivor").await.context("its owner is there")?;

    // Deleting a CRD deletes its custom resources, and their dependents.
    let name = "kites.collection.example.com";
    delete(&definitions, name, &DeleteParams::default()).await?;
    gone(&definitions, name).await?;
    gone(&maps, "survivor").await
}
