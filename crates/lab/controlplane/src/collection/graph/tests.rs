use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::core::PartialObjectMetaExt as _;
use kube::discovery::ApiResource;
use runtime::Change;

use super::{Effects, Graph, GraphAction};
use crate::collection::node::{FOREGROUND, Meta, ORPHAN};
use crate::discovery::Served;

/// Fixture: config maps in the namespace `here`, named after their UIDs.
#[derive(Default)]
struct Fixture {
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

impl Fixture {
    fn change(&mut self, old: Option<Meta>, new: Option<Meta>) -> Effects {
        let change = Change {
            old: old.map(Arc::new),
            new: new.map(Arc::new),
        };
        self.graph.change(&kind("configmaps"), &change)
    }

    fn put(&mut self, object: Meta) -> Vec<String> {
        enqueue(&self.change(None, Some(object)))
    }
}

fn enqueue(effects: &Effects) -> Vec<String> {
    let mut all: Vec<String> = effects.enqueue.iter().map(ToString::to_string).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn dependent_is_enqueued_when_its_owner_is_missing_or_deleted() {
    let mut fixture = Fixture::default();
    assert_eq!(fixture.put(map("early", &[reference("owner")])), ["early"]);
    assert_eq!(fixture.put(map("owner", &[])), [""; 0]);
    assert_eq!(fixture.put(map("late", &[reference("owner")])), [""; 0]);
    assert!(matches!(
        fixture.graph.next_action("late"),
        GraphAction::Rest
    ));

    let effects = fixture.change(Some(map("owner", &[])), None);
    assert_eq!(enqueue(&effects), ["early", "late"]);
    assert!(effects.gone.is_some(), "what has dependents is remembered");
    assert!(matches!(
        fixture.graph.next_action("late"),
        GraphAction::Owners(_)
    ));
}

#[test]
fn successor_of_the_same_name_is_no_owner() {
    let mut fixture = Fixture::default();
    fixture.put(map("owner", &[]));
    fixture.put(map("dependent", &[reference("owner")]));
    let mut successor = map("owner", &[]);
    successor.metadata.uid = Some("other".into());
    let effects = fixture.change(Some(map("owner", &[])), Some(successor));
    assert_eq!(enqueue(&effects), ["dependent"]);
    assert!(matches!(
        fixture.graph.next_action("dependent"),
        GraphAction::Owners(_)
    ));
}

#[test]
fn mismatching_reference_is_enqueued_in_any_order() {
    let wrong = OwnerReference {
        name: "not-the-name".into(),
        ..reference("owner")
    };
    let mut fixture = Fixture::default();
    fixture.put(map("early", std::slice::from_ref(&wrong)));
    assert_eq!(fixture.put(map("owner", &[])), ["early"]);
    assert_eq!(fixture.put(map("late", &[wrong])), ["late"]);
}

#[test]
fn cross_namespace_owner_is_reported_in_any_order() {
    let elsewhere = |name: &str| {
        let mut object = map(name, &[reference("owner")]);
        object.metadata.namespace = Some("there".into());
        object
    };
    let misplaced = |effects: &Effects| -> Vec<String> {
        let names = effects.misplaced.iter();
        names.map(|(node, _)| node.name().to_owned()).collect()
    };
    let mut fixture = Fixture::default();
    let early = fixture.change(None, Some(elsewhere("early")));
    assert_eq!(misplaced(&early), [""; 0], "not known yet");
    let owner = fixture.change(None, Some(map("owner", &[])));
    assert_eq!(misplaced(&owner), ["early"]);
    let late = fixture.change(None, Some(elsewhere("late")));
    assert_eq!(misplaced(&late), ["late"]);
    assert_eq!(enqueue(&late), ["late"]);
}

#[test]
fn foreground_owner_waits_for_blocking_dependents() {
    let mut fixture = Fixture::default();
    fixture.put(map("owner", &[]));
    fixture.put(map("blocks", &[blocking("owner")]));
    fixture.put(map("does-not", &[reference("owner")]));
    let going = deleting(map("owner", &[]), FOREGROUND);
    assert_eq!(fixture.put(going), ["blocks", "does-not", "owner"]);
    match fixture.graph.next_action("owner") {
        GraphAction::Await(next) => assert_eq!(*next[0], *"blocks"),
        other => panic!("{other:?}"),
    }

    // A dependent that is being deleted is not deleted again, but still blocks.
    fixture.put(deleting(map("blocks", &[blocking("owner")]), "some/thing"));
    assert!(
        matches!(fixture.graph.next_action("owner"), GraphAction::Await(next) if next.is_empty())
    );

    let gone = fixture.change(Some(map("blocks", &[blocking("owner")])), None);
    assert_eq!(enqueue(&gone), ["owner"]);
    assert!(matches!(
        fixture.graph.next_action("owner"),
        GraphAction::Release(_)
    ));
}

#[test]
fn owner_is_enqueued_when_a_dependent_stops_blocking() {
    for now in [vec![reference("owner")], vec![]] {
        let mut fixture = Fixture::default();
        fixture.put(map("owner", &[]));
        fixture.put(map("dependent", &[blocking("owner")]));
        assert_eq!(fixture.put(map("dependent", &now)), ["owner"]);
    }
}

#[test]
fn dependent_created_during_deletion_is_enqueued() {
    let mut fixture = Fixture::default();
    fixture.put(deleting(map("owner", &[]), FOREGROUND));
    assert_eq!(fixture.put(map("late", &[blocking("owner")])), ["late"]);
}

#[test]
fn orphaning_owner_lists_its_dependents() {
    let mut fixture = Fixture::default();
    fixture.put(map("owner", &[]));
    fixture.put(map("one", &[reference("owner")]));
    fixture.put(map("two", &[blocking("owner")]));
    assert_eq!(fixture.put(deleting(map("owner", &[]), ORPHAN)), ["owner"]);
    match fixture.graph.next_action("owner") {
        GraphAction::Orphan(_, dependents) => assert_eq!(dependents.len(), 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn removed_kind_does_not_delete_dependents() {
    let mut fixture = Fixture::default();
    fixture.put(map("owner", &[]));
    fixture.put(map("dependent", &[reference("owner")]));
    fixture.graph.forget_kind(&kind("other"));
    assert!(matches!(
        fixture.graph.next_action("dependent"),
        GraphAction::Rest
    ));
    fixture.graph.forget_kind(&kind("configmaps"));
    assert!(fixture.graph.node("owner").is_none());
}
