//! Building plans from drafts and previews.

use std::collections::BTreeMap;

use api::advisor::{Impact, Item, ItemState, Operation, TargetRef, names};
use rstest::rstest;
use serde_json::{Value, json};

use super::{Draft, Preview, ROLLBACK_MANAGER, assemble, bears_our_mark, mark, wanted_values};
use crate::hash::PlanTerms;
use crate::ownership::Conflict;

fn target() -> TargetRef {
    TargetRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "x".to_owned(),
        namespace: None,
    }
}

fn object(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "data": data })
}

/// An item that sets `data.a` to 1, with our mark.
fn item() -> Item {
    let mut desired = object(&json!({ "a": 1 }));
    let wanted = BTreeMap::from([("data.a".to_owned(), json!(1))]);
    mark(&mut desired, "config", &wanted);
    Item {
        name: "set".to_owned(),
        target_ref: target(),
        impact_severity: Some(Impact::High),
        desired_state: Some(desired),
        managed_fields: vec!["data.a".to_owned()],
        ..Item::default()
    }
}

fn draft(items: Vec<Item>) -> Draft {
    Draft {
        items,
        ..Draft::default()
    }
}

/// A dry-run result: the desired state merged into the live one.
fn preview(live: Option<Value>) -> Preview {
    let mut result = live.clone().unwrap_or_else(|| object(&json!({})));
    result["data"]["a"] = json!(1);
    let annotations = item().desired_state.unwrap()["metadata"]["annotations"].clone();
    for (name, value) in annotations.as_object().unwrap() {
        result["metadata"]["annotations"][name] = value.clone();
    }
    Preview {
        live,
        result: Some(result),
        ..Preview::default()
    }
}

/// B13: impact and message change once an item is applied.
#[test]
fn informational_fields_do_not_change_the_plan() {
    let mut changed = item();
    changed.impact_severity = Some(Impact::Low);
    changed.message = Some("done".to_owned());
    changed.state = ItemState::Completed;
    changed.base = Some(BTreeMap::new());
    assert!(draft(vec![item()]).same_as(&[changed]));
}

#[rstest]
#[case::name(|item: &mut Item| item.name = "other".to_owned())]
#[case::target(|item: &mut Item| item.target_ref.name = "y".to_owned())]
#[case::operation(|item: &mut Item| item.operation = Operation::Restore)]
#[case::desired(|item: &mut Item| item.desired_state = Some(object(&json!({ "a": 2 }))))]
#[case::managed(|item: &mut Item| item.managed_fields.push("data.b".to_owned()))]
fn requested_changes_change_the_plan(#[case] change: fn(&mut Item)) {
    let mut other = item();
    change(&mut other);
    assert!(!draft(vec![item()]).same_as(&[other]));
    assert!(!draft(vec![item()]).same_as(&[]));
    assert!(!draft(vec![item()]).same_as(&[item(), item()]));
}

/// A removal is part of the plan that removed the object, and of no later one.
#[test]
fn completed_removal_is_not_requested_again() {
    let mut removal = Item {
        name: "remove-other".to_owned(),
        operation: Operation::Delete,
        ..item()
    };
    assert!(!draft(vec![item()]).same_as(&[item(), removal.clone()]));
    removal.state = ItemState::Completed;
    assert!(draft(vec![item()]).same_as(&[item(), removal.clone()]));
    removal.state = ItemState::Failed;
    assert!(draft(vec![item()]).same_as(&[item(), removal]));
}

/// Our marks on an object without annotations are no change.
#[rstest]
#[case::absent(None, false)]
#[case::otherwise(Some(object(&json!({ "a": 2 }))), false)]
#[case::bare(Some(object(&json!({ "a": 1 }))), true)]
#[case::annotated(Some({
    let mut live = object(&json!({ "a": 1 }));
    live["metadata"]["annotations"] = json!({ "mine": "x" });
    live
}), true)]
fn ownership_marks_are_no_change(#[case] live: Option<Value>, #[case] unchanged: bool) {
    let plan = assemble(
        draft(vec![item()]),
        &[preview(live.clone())],
        &[],
        &PlanTerms::default(),
    )
    .unwrap();
    assert_eq!(plan.changes_nothing, unchanged);
    let impact = if unchanged { Impact::Low } else { Impact::High };
    assert_eq!(plan.impact, impact);
    let base = live.map(|live| BTreeMap::from([("data.a".to_owned(), live["data"]["a"].clone())]));
    assert_eq!(plan.items[0].base, base);
}

#[test]
fn digest_covers_items_and_targets() {
    let of = |live: Option<Value>| {
        let plan = assemble(
            draft(vec![item()]),
            &[preview(live)],
            &[],
            &PlanTerms::default(),
        );
        plan.unwrap().digest
    };
    let two = || Some(object(&json!({ "a": 2 })));
    assert_eq!(of(two()), of(two()));
    assert_ne!(of(two()), of(Some(object(&json!({ "a": 3 })))));
    assert_ne!(of(two()), of(None));
    // Other fields of the same object do not count.
    assert_eq!(of(two()), of(Some(object(&json!({ "a": 2, "b": 1 })))));
}

#[test]
fn rejected_dry_run_yields_no_plan() {
    let refused = Preview {
        refused: Some("data.a: must be even".to_owned()),
        ..Preview::default()
    };
    assert_eq!(
        assemble(draft(vec![item()]), &[refused], &[], &PlanTerms::default()).unwrap_err(),
        "Failed to generate plan items: set: the server refuses ConfigMap x: data.a: must be even"
    );
}

/// Fields restored without a known owner can be taken again; those of other managers need consent.
#[rstest]
#[case::others("argocd", false)]
#[case::nobody(ROLLBACK_MANAGER, true)]
fn takeovers_name_the_owner(#[case] manager: &str, #[case] reclaimed: bool) {
    let mut preview = preview(Some(object(&json!({ "a": 2 }))));
    preview.conflicts = vec![Conflict {
        manager: manager.to_owned(),
        path: "data.a".to_owned(),
        since: None,
    }];
    let plan = assemble(draft(vec![item()]), &[preview], &[], &PlanTerms::default()).unwrap();
    let takeover = &plan.items[0].takeovers[0];
    assert_eq!(takeover.manager, manager);
    assert_eq!(takeover.reclaimed, reclaimed);
    assert_eq!(
        (takeover.live.clone(), takeover.wanted.clone()),
        (Some(json!(2)), Some(json!(1)))
    );
}

/// The mark only counts with our field ownership: annotations can be copied.
#[test]
fn mark_is_specific_to_item_and_configuration() {
    let item = item();
    let mut live = item.desired_state.clone().unwrap();
    assert!(!bears_our_mark(&item, &live, "config"));
    live["metadata"]["managedFields"] = json!([{ "manager": "virt-advisor-operator" }]);
    assert!(bears_our_mark(&item, &live, "config"));
    assert!(!bears_our_mark(&item, &live, "other"));
    live["metadata"]["annotations"][names::APPLIED_PROFILE_HASH] = json!("sha256:other");
    assert!(!bears_our_mark(&item, &live, "config"));
    assert_eq!(
        wanted_values(&item),
        BTreeMap::from([("data.a".to_owned(), json!(1))])
    );
}

/// etcd limits requests to 1.5 MiB; managedFields and the applied state are added to the plan.
#[test]
fn a_plan_of_a_thousand_items_fits_into_an_object() {
    let items: Vec<_> = (0..1000)
        .map(|number| Item {
            name: format!("set-{number}"),
            ..item()
        })
        .collect();
    let live = object(&json!({ "a": 0, "text": "x".repeat(2000) }));
    let previews: Vec<_> = items.iter().map(|_| preview(Some(live.clone()))).collect();
    let plan = assemble(draft(items.clone()), &previews, &[], &PlanTerms::default()).unwrap();
    assert!(!plan.changes_nothing);
    let diffs: usize = plan
        .items
        .iter()
        .map(|item| item.diff.as_ref().unwrap().len())
        .sum();
    assert!(diffs < 400 * 1024, "{diffs} bytes of diffs");
    for (planned, item) in plan.items.iter().zip(&items) {
        assert!(!crate::diff::is_no_change(planned.diff.as_ref().unwrap()));
        assert_eq!(planned.desired_state, item.desired_state);
        assert_eq!(
            planned.base,
            Some(BTreeMap::from([("data.a".to_owned(), json!(0))]))
        );
    }
}
