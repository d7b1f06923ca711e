use api::advisor::names;
use jiff::Timestamp;
use machinery::patch::{PatchError, json_patch};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::approval::Approvals;

const NAME: &str = "load-aware-rebalancing";
const SHOWN: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// An object with a plan that was shown.
fn config(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["profile"] = NAME.into();
    json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1",
        "kind": "VirtPlatformConfig",
        "metadata": { "name": NAME, "annotations": { "team": "a" } },
        "spec": spec,
        "status": { "planDigest": SHOWN },
    })
}

fn annotated(mut object: Value, name: &str, value: &str) -> Value {
    object["metadata"]["annotations"][name] = value.into();
    object
}

fn request(old: Option<Value>, new: Value) -> Admission {
    Admission {
        name: NAME.to_owned(),
        old,
        new,
        user: "ann".to_owned(),
        may_approve: true,
        now: now(),
    }
}

/// What the object becomes, as a server that follows RFC 6902 makes it; with warnings.
fn admitted(request: &Admission) -> (Value, Vec<String>) {
    match admit(request) {
        Verdict::Denied { message } => panic!("denied: {message}"),
        Verdict::Allowed {
            patch, warnings, ..
        } => (patched(request, patch).unwrap(), warnings),
    }
}

fn patched(request: &Admission, patch: Vec<Value>) -> Result<Value, PatchError> {
    let mut object = request.new.clone();
    json_patch(&mut object, Value::Array(patch).to_string().as_bytes())?;
    Ok(object)
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(name)?.as_str()
}

/// Who approved what, as recorded.
fn recorded(object: &Value) -> Vec<(String, String)> {
    let approvals = Approvals::parse(annotation(object, names::APPROVALS)).unwrap();
    let entries = approvals.entries().iter();
    entries
        .map(|entry| (entry.user.clone(), entry.digest.clone()))
        .collect()
}

#[rstest]
// Creation.
#[case(None, config(&json!({"action": "DryRun"})), None)]
#[case(None, config(&json!({"action": "Ignore"})), None)]
#[case(None, config(&json!({})), None)]
#[case(None, config(&json!({"action": "DryRun", "approvalPolicy": {"requiredApprovals": {"high": 2}}})), None)]
#[case(None, config(&json!({"action": "Apply"})), Some(Ask::Apply))]
#[case(None, config(&json!({"action": "DryRun", "bypassOptimisticLock": true})), Some(Ask::Bypass))]
#[case(None, config(&json!({"action": "DryRun", "approval": {"planDigest": SHOWN}})), Some(Ask::Approval))]
#[case(None, annotated(config(&json!({"action": "DryRun"})), names::APPROVE, SHOWN), Some(Ask::Approve))]
// Editing what is not applied.
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "DryRun", "options": {"loadAware": {}}})), None)]
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "DryRun", "rollbackTo": 3})), None)]
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "Ignore"})), None)]
#[case(Some(config(&json!({"action": "Ignore"}))), config(&json!({"action": "DryRun"})), None)]
// Stopping.
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "DryRun"})), None)]
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "Ignore", "options": {"loadAware": {}}})), None)]
#[case(Some(config(&json!({"action": "Apply", "bypassOptimisticLock": true}))), config(&json!({"action": "DryRun", "bypassOptimisticLock": false})), None)]
// Applying, and editing what is applied.
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "Apply"})), Some(Ask::Apply))]
#[case(Some(config(&json!({"action": "Ignore"}))), config(&json!({"action": "Apply"})), Some(Ask::Apply))]
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "Apply"})), None)]
#[case(Some(config(&json!({"action": "Apply"}))), annotated(config(&json!({"action": "Apply"})), "team", "b"), None)]
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "Apply", "options": {"loadAware": {}}})), Some(Ask::ChangeApplied))]
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "Apply", "waitTimeout": "1h"})), Some(Ask::ChangeApplied))]
#[case(Some(config(&json!({"action": "Apply", "maintenanceWindows": [{"schedule": "0 0 * * 6", "duration": "4h"}]}))), config(&json!({"action": "Apply"})), Some(Ask::ChangeApplied))]
#[case(Some(config(&json!({"action": "Apply", "bypassOptimisticLock": true}))), config(&json!({"action": "Apply"})), Some(Ask::ChangeApplied))]
// Approving, whatever the action is.
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "DryRun", "approval": {"items": ["a"]}})), Some(Ask::Approval))]
#[case(Some(config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": SHOWN}}}))), config(&json!({"action": "DryRun"})), Some(Ask::Approval))]
#[case(Some(config(&json!({"action": "DryRun", "approval": {"items": ["a"]}}))), config(&json!({"action": "DryRun", "approval": {"items": ["a"]}})), None)]
#[case(Some(config(&json!({"action": "Apply", "approval": {"planDigest": SHOWN}}))), config(&json!({"action": "Apply"})), Some(Ask::Approval))]
#[case(Some(config(&json!({"action": "Apply", "approval": {"planDigest": SHOWN, "items": ["a"]}}))), config(&json!({"action": "DryRun", "approval": {"planDigest": SHOWN}})), Some(Ask::Approval))]
#[case(Some(config(&json!({"action": "Apply", "approval": {"planDigest": SHOWN}}))), config(&json!({"action": "DryRun", "rollbackTo": 1})), None)]
#[case(Some(config(&json!({"action": "DryRun", "approval": {"planDigest": SHOWN, "rejected": {"planDigest": OTHER}}}))), config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": OTHER}}})), None)]
#[case(Some(config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": OTHER}}}))), config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": SHOWN}}})), Some(Ask::Approval))]
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "DryRun", "bypassOptimisticLock": true})), Some(Ask::Bypass))]
#[case(Some(config(&json!({"action": "DryRun", "bypassOptimisticLock": true}))), config(&json!({"action": "DryRun", "bypassOptimisticLock": true, "waitTimeout": "1h"})), None)]
#[case(Some(config(&json!({"action": "DryRun", "approvalPolicy": {"requiredApprovals": {"high": 2}}}))), config(&json!({"action": "DryRun"})), Some(Ask::Policy))]
#[case(Some(config(&json!({"action": "DryRun"}))), annotated(config(&json!({"action": "DryRun"})), names::APPROVE, SHOWN), Some(Ask::Approve))]
#[case(Some(annotated(config(&json!({})), names::APPROVE, SHOWN)), annotated(config(&json!({})), names::APPROVE, OTHER), Some(Ask::Approve))]
#[case(Some(annotated(config(&json!({})), names::APPROVE, SHOWN)), annotated(config(&json!({})), names::APPROVE, SHOWN), None)]
#[case(Some(annotated(config(&json!({})), names::APPROVE, SHOWN)), config(&json!({})), None)]
fn only_approvers_have_plans_carried_out(
    #[case] old: Option<Value>,
    #[case] new: Value,
    #[case] ask: Option<Ask>,
) {
    assert_eq!(asks_for(old.as_ref(), &new), ask);
    let approver = request(old, new);
    admitted(&approver);
    let editor = Admission {
        user: "ed".to_owned(),
        may_approve: false,
        ..approver
    };
    match (ask, admit(&editor)) {
        (None, Verdict::Allowed { approved, .. }) => assert!(approved.is_empty(), "{approved:?}"),
        (Some(ask), Verdict::Denied { message }) => {
            for part in [
                "\"ed\"",
                NAME,
                &ask.to_string(),
                "verb \"approve\" on virtplatformconfigs.advisor.kubevirt.io is needed",
            ] {
                assert!(message.contains(part), "{part} in {message}");
            }
        }
        (_, verdict) => panic!("{verdict:?}"),
    }
}

#[rstest]
#[case::annotation(
    config(&json!({"action": "DryRun"})),
    annotated(config(&json!({"action": "DryRun"})), names::APPROVE, OTHER),
    &[OTHER]
)]
#[case::digest(
    config(&json!({"action": "DryRun"})),
    config(&json!({"action": "DryRun", "approval": {"planDigest": OTHER}})),
    &[OTHER]
)]
#[case::action_approves_what_was_shown(
    config(&json!({"action": "DryRun"})),
    config(&json!({"action": "Apply"})),
    &[SHOWN]
)]
#[case::action_approves_what_is_named(
    config(&json!({"action": "DryRun"})),
    config(&json!({"action": "Apply", "approval": {"planDigest": OTHER}})),
    &[OTHER]
)]
#[case::action_approves_what_others_named(
    config(&json!({"action": "DryRun", "approval": {"planDigest": OTHER}})),
    config(&json!({"action": "Apply", "approval": {"planDigest": OTHER}})),
    &[OTHER]
)]
#[case::all_at_once(
    config(&json!({"action": "DryRun"})),
    annotated(config(&json!({"action": "Apply", "approval": {"planDigest": OTHER}})), names::APPROVE, SHOWN),
    &[SHOWN, OTHER]
)]
#[case::nobody_saw_the_plan_of_new_options(
    config(&json!({"action": "DryRun"})),
    config(&json!({"action": "Apply", "options": {"loadAware": {}}})),
    &[]
)]
#[case::items_are_no_plan(
    config(&json!({"action": "Apply"})),
    config(&json!({"action": "Apply", "approval": {"items": ["a"]}})),
    &[]
)]
#[case::rejecting_is_not_approving(
    config(&json!({"action": "DryRun"})),
    config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": SHOWN}}})),
    &[]
)]
#[case::stopping_is_not_approving(
    config(&json!({"action": "Apply"})),
    config(&json!({"action": "DryRun"})),
    &[]
)]
fn approvals_are_recorded(#[case] old: Value, #[case] new: Value, #[case] digests: &[&str]) {
    let (object, _) = admitted(&request(Some(old), new));
    let expected: Vec<_> = digests
        .iter()
        .map(|digest| ("ann".to_owned(), (*digest).to_owned()))
        .collect();
    assert_eq!(recorded(&object), expected);
    assert_eq!(annotation(&object, names::APPROVE), None);
    assert_eq!(annotation(&object, "team"), Some("a"));
}

#[test]
fn approvals_are_added_to_those_there_are() {
    let old = annotated(
        config(&json!({"action": "DryRun"})),
        names::APPROVALS,
        &approval::record(None, "bob", SHOWN, now()),
    );
    let new = annotated(old.clone(), names::APPROVE, SHOWN);
    let (object, warnings) = admitted(&request(Some(old), new));
    let both = [("bob", SHOWN), ("ann", SHOWN)].map(|(u, d)| (u.to_owned(), d.to_owned()));
    assert_eq!(recorded(&object), both);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn nothing_that_a_new_object_says_about_itself_is_believed() {
    // Its status is not stored, and there can be no plan yet.
    let new = config(&json!({"action": "Apply"}));
    let (object, _) = admitted(&request(None, new));
    assert_eq!(recorded(&object), []);
    // No place for annotations: one is made.
    let mut bare = config(&json!({"action": "DryRun"}));
    bare["metadata"] = json!({ "name": NAME });
    let (object, _) = admitted(&request(None, bare));
    assert_eq!(
        object["metadata"]["annotations"],
        json!({ names::AUTHOR: "ann" })
    );
}

#[rstest]
#[case::forged("forged")]
#[case::an_empty_list("[]")]
fn nobody_writes_the_record_themselves(#[case] forged: &str) {
    let kept = approval::record(None, "bob", SHOWN, now());
    let bare = config(&json!({"action": "DryRun"}));
    let full = annotated(
        annotated(bare.clone(), names::APPROVALS, &kept),
        names::AUTHOR,
        "bob",
    );
    let fake = |object: &Value| {
        let object = annotated(object.clone(), names::APPROVALS, forged);
        annotated(object, names::AUTHOR, "eve")
    };
    for (old, new, approvals, author) in [
        (None, fake(&bare), None, Some("ann")),
        (Some(bare.clone()), fake(&bare), None, None),
        (
            Some(full.clone()),
            fake(&full),
            Some(kept.as_str()),
            Some("bob"),
        ),
        (
            Some(full.clone()),
            bare.clone(),
            Some(kept.as_str()),
            Some("bob"),
        ),
    ] {
        let mut request = request(old, new);
        for may_approve in [false, true] {
            request.may_approve = may_approve;
            let (object, warnings) = admitted(&request);
            assert_eq!(annotation(&object, names::APPROVALS), approvals);
            assert_eq!(annotation(&object, names::AUTHOR), author);
            assert_eq!(warnings.len(), 2, "{warnings:?}");
            assert!(warnings[0].contains(names::APPROVALS), "{warnings:?}");
            assert!(warnings[1].contains(names::AUTHOR), "{warnings:?}");
        }
    }
}

#[test]
fn a_forged_record_does_not_get_in_with_a_true_one() {
    let old = config(&json!({"action": "DryRun"}));
    let forged = approval::record(None, "bob", SHOWN, now());
    let new = annotated(old.clone(), names::APPROVALS, &forged);
    let new = annotated(new, names::APPROVE, SHOWN);
    let (object, warnings) = admitted(&request(Some(old), new));
    assert_eq!(recorded(&object), [("ann".to_owned(), SHOWN.to_owned())]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[rstest]
#[case::options(json!({"action": "DryRun", "options": {"loadAware": {"mode": "Automatic"}}}), true)]
#[case::rollback(json!({"action": "DryRun", "rollbackTo": 2}), true)]
#[case::action(json!({"action": "Ignore"}), false)]
#[case::policy(json!({"action": "DryRun", "approvalPolicy": {"authorMayApprove": true}}), false)]
#[case::timeout(json!({"action": "DryRun", "waitTimeout": "2h"}), false)]
#[case::no_value_is_none(json!({"action": "DryRun", "options": null}), false)]
fn the_author_is_who_changes_what_a_plan_is_made_from(#[case] spec: Value, #[case] authored: bool) {
    let old = annotated(
        config(&json!({"action": "DryRun"})),
        names::AUTHOR,
        "somebody",
    );
    let new = annotated(config(&spec), names::AUTHOR, "somebody");
    let (object, warnings) = admitted(&request(Some(old), new));
    let author = if authored { "ann" } else { "somebody" };
    assert_eq!(annotation(&object, names::AUTHOR), Some(author));
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn what_changes_nothing_is_not_patched() {
    let old = config(&json!({"action": "Apply"}));
    let verdict = admit(&request(Some(old.clone()), old));
    let nothing = Verdict::Allowed {
        patch: Vec::new(),
        warnings: Vec::new(),
        approved: Vec::new(),
    };
    assert_eq!(verdict, nothing);
}

#[rstest]
fn what_is_no_digest_cannot_be_approved(
    #[values("", "yes", "sha256:", "sha256:12", "1111")] digest: &str,
) {
    let old = config(&json!({"action": "DryRun"}));
    let new = annotated(old.clone(), names::APPROVE, digest);
    let Verdict::Denied { message } = admit(&request(Some(old), new)) else {
        panic!("allowed");
    };
    assert!(message.contains(SHOWN), "{message}");
}

#[test]
fn approving_another_plan_than_there_is_warns() {
    let old = config(&json!({"action": "DryRun"}));
    let new = annotated(old.clone(), names::APPROVE, OTHER);
    let (_, warnings) = admitted(&request(Some(old), new));
    assert!(
        warnings[0].contains(OTHER) && warnings[0].contains(SHOWN),
        "{warnings:?}"
    );
}

/// Small values of any shape, with the words that matter among them.
fn garbage() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("Apply".to_owned()),
        Just(SHOWN.to_owned()),
        Just(names::APPROVE.to_owned()),
        Just(names::APPROVALS.to_owned()),
        ".*",
    ];
    let key = prop_oneof![
        Just("spec".to_owned()),
        Just("metadata".to_owned()),
        Just("annotations".to_owned()),
        Just("status".to_owned()),
        Just("action".to_owned()),
        Just("approval".to_owned()),
        Just("planDigest".to_owned()),
        Just(names::APPROVE.to_owned()),
        Just(names::AUTHOR.to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(key.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_makes_it_panic_and_an_editor_never_gets_an_approval(
        old in proptest::option::of(garbage()),
        new in garbage(),
    ) {
        let mut request = request(old, new);
        request.may_approve = false;
        if let Verdict::Allowed { patch, approved, .. } = admit(&request) {
            prop_assert!(approved.is_empty());
            let patched = patched(&request, patch);
            prop_assert!(patched.is_ok(), "{:?}", patched);
        }
    }
}
