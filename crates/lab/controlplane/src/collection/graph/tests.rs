use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::core::PartialObjectMetaExt as _;
use kube::discovery::ApiResource;
use runtime::Change;

use super::{Effects, Graph, Look};
use crate::collection::node::{FOREGROUND, Meta, ORPHAN};
use crate::discovery::Served;

/// The world of a test: maps in the namespace `here`, named as their uids.
#[derive(Default)]
struct World {
    graph: Graph,
}

fn kind(plural: &str) -> Arc<Served> {
    Arc::new(Served {
        resource: ApiResource {
            group: String::new(),
            version: "v1".into(),
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            plural: plural.into(),
        },
        namespaced: true,
        verbs: Vec::new(),
    })
}

fn reference(owner: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: owner.into(),
        uid: owner.into(),
        ..OwnerReference::default()
    }
}

fn blocking(owner: &str) -> OwnerReference {
    OwnerReference {
        block_owner_deletion: Some(true),
        ..reference(owner)
    }
}

fn map(name: &str, owners: &[OwnerReference]) -> Meta {
    let meta = ObjectMeta {
        name: Some(name.into()),
        uid: Some(name.into()),
        namespace: Some("here".into()),
        owner_references: Some(owners.to_vec()),
        ..ObjectMeta::default()
    };
    meta.into_response_partial()
}

fn deleting(mut object: Meta, finalizer: &str) -> Meta {
    object.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    object.metadata.finalizers = Some(vec![finalizer.to_owned()]);
    object
}

impl World {
    fn change(&mut self, old: Option<Meta>, new: Option<Meta>) -> Effects {
        let change = Change {
            old: old.map(Arc::new),
            new: new.map(Arc::new),
        };
        self.graph.change(&kind("configmaps"), &change)
    }

    fn put(&mut self, object: Meta) -> Vec<String> {
        look_at(&self.change(None, Some(object)))
    }
}

fn look_at(effects: &Effects) -> Vec<String> {
    let mut all: Vec<String> = effects.look_at.iter().map(ToString::to_string).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn a_dependent_is_looked_at_when_its_owner_is_not_there_or_goes() {
    let mut world = World::default();
    assert_eq!(world.put(map("early", &[reference("owner")])), ["early"]);
    assert_eq!(world.put(map("owner", &[])), [""; 0]);
    assert_eq!(world.put(map("late", &[reference("owner")])), [""; 0]);
    assert!(matches!(world.graph.look("late"), Look::Rest));

    let effects = world.change(Some(map("owner", &[])), None);
    assert_eq!(look_at(&effects), ["early", "late"]);
    assert!(effects.gone.is_some(), "what has dependents is remembered");
    assert!(matches!(world.graph.look("late"), Look::Owners(_)));
}

#[test]
fn a_successor_of_the_same_name_is_no_owner() {
    let mut world = World::default();
    world.put(map("owner", &[]));
    world.put(map("dependent", &[reference("owner")]));
    let mut successor = map("owner", &[]);
    successor.metadata.uid = Some("other".into());
    let effects = world.change(Some(map("owner", &[])), Some(successor));
    assert_eq!(look_at(&effects), ["dependent"]);
    assert!(matches!(world.graph.look("dependent"), Look::Owners(_)));
}

#[test]
fn a_reference_that_means_something_else_is_looked_at_whoever_comes_first() {
    let wrong = OwnerReference {
        name: "not-the-name".into(),
        ..reference("owner")
    };
    let mut world = World::default();
    world.put(map("early", std::slice::from_ref(&wrong)));
    assert_eq!(world.put(map("owner", &[])), ["early"]);
    assert_eq!(world.put(map("late", &[wrong])), ["late"]);
}

#[test]
fn an_owner_of_another_namespace_is_told_of_whoever_comes_first() {
    let elsewhere = |name: &str| {
        let mut object = map(name, &[reference("owner")]);
        object.metadata.namespace = Some("there".into());
        object
    };
    let misplaced = |effects: &Effects| -> Vec<String> {
        let names = effects.misplaced.iter();
        names.map(|(node, _)| node.name().to_owned()).collect()
    };
    let mut world = World::default();
    let early = world.change(None, Some(elsewhere("early")));
    assert_eq!(misplaced(&early), [""; 0], "not known yet");
    let owner = world.change(None, Some(map("owner", &[])));
    assert_eq!(misplaced(&owner), ["early"]);
    let late = world.change(None, Some(elsewhere("late")));
    assert_eq!(misplaced(&late), ["late"]);
    assert_eq!(look_at(&late), ["late"]);
}

#[test]
fn an_owner_in_the_foreground_waits_for_those_that_block_it() {
    let mut world = World::default();
    world.put(map("owner", &[]));
    world.put(map("blocks", &[blocking("owner")]));
    world.put(map("does-not", &[reference("owner")]));
    let going = deleting(map("owner", &[]), FOREGROUND);
    assert_eq!(world.put(going), ["blocks", "does-not", "owner"]);
    match world.graph.look("owner") {
        Look::Await(next) => assert_eq!(*next[0], *"blocks"),
        other => panic!("{other:?}"),
    }

    // What is on its way out is not asked again, and still waited for.
    world.put(deleting(map("blocks", &[blocking("owner")]), "some/thing"));
    assert!(matches!(world.graph.look("owner"), Look::Await(next) if next.is_empty()));

    let gone = world.change(Some(map("blocks", &[blocking("owner")])), None);
    assert_eq!(look_at(&gone), ["owner"]);
    assert!(matches!(world.graph.look("owner"), Look::Release(_)));
}

#[test]
fn an_owner_is_looked_at_when_a_dependent_stops_to_block_it() {
    for now in [vec![reference("owner")], vec![]] {
        let mut world = World::default();
        world.put(map("owner", &[]));
        world.put(map("dependent", &[blocking("owner")]));
        assert_eq!(world.put(map("dependent", &now)), ["owner"]);
    }
}

#[test]
fn what_comes_while_its_owner_goes_is_looked_at() {
    let mut world = World::default();
    world.put(deleting(map("owner", &[]), FOREGROUND));
    assert_eq!(world.put(map("late", &[blocking("owner")])), ["late"]);
}

#[test]
fn an_owner_that_orphans_names_all_that_have_to_forget_it() {
    let mut world = World::default();
    world.put(map("owner", &[]));
    world.put(map("one", &[reference("owner")]));
    world.put(map("two", &[blocking("owner")]));
    assert_eq!(world.put(deleting(map("owner", &[]), ORPHAN)), ["owner"]);
    match world.graph.look("owner") {
        Look::Orphan(_, dependents) => assert_eq!(dependents.len(), 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_kind_that_vanishes_takes_nobody_along() {
    let mut world = World::default();
    world.put(map("owner", &[]));
    world.put(map("dependent", &[reference("owner")]));
    world.graph.forget_kind(&kind("other"));
    assert!(matches!(world.graph.look("dependent"), Look::Rest));
    world.graph.forget_kind(&kind("configmaps"));
    assert!(world.graph.node("owner").is_none());
}
