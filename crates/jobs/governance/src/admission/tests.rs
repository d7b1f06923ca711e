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

/// An object with a plan in status.
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
        groups: vec!["leads".to_owned()],
        may_approve: true,
        now: now(),
    }
}

/// The annotation with the approval of one user.
fn kept(user: &str) -> String {
    let entry = approval::Entry {
        user: user.to_owned(),
        digest: SHOWN.to_owned(),
        at: Time(now()),
        groups: Vec::new(),
        unplanned: None,
    };
    approval::record(None, entry)
}

/// The admitted object after a server that follows RFC 6902 applied the patch, with the warnings.
fn admitted(request: &Admission) -> (Value, Vec<String>) {
    match admit(request) {
        AdmissionVerdict::Denied { message } => panic!("denied: {message}"),
        AdmissionVerdict::Allowed {
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

/// The recorded approvals: user and digest.
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
#[case(None, config(&json!({"action": "Apply"})), Some(ApprovalTrigger::Apply))]
#[case(None, config(&json!({"action": "DryRun", "bypassOptimisticLock": true})), Some(ApprovalTrigger::Bypass))]
#[case(None, config(&json!({"action": "DryRun", "approval": {"planDigest": SHOWN}})), Some(ApprovalTrigger::Approval))]
#[case(None, annotated(config(&json!({"action": "DryRun"})), names::APPROVE, SHOWN), Some(ApprovalTrigger::Approve))]
// Editing a spec that is not applied.
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "DryRun", "options": {"loadAware": {}}})), None)]
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "DryRun", "rollbackTo": 3})), None)]
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "Ignore"})), None)]
#[case(Some(config(&json!({"action": "Ignore"}))), config(&json!({"action": "DryRun"})), None)]
// Stopping.
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "DryRun"})), None)]
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "Ignore", "options": {"loadAware": {}}})), None)]
#[case(Some(config(&json!({"action": "Apply", "bypassOptimisticLock": true}))), config(&json!({"action": "DryRun", "bypassOptimisticLock": false})), None)]
// Applying, and editing an applied spec.
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "Apply"})), Some(ApprovalTrigger::Apply))]
#[case(Some(config(&json!({"action": "Ignore"}))), config(&json!({"action": "Apply"})), Some(ApprovalTrigger::Apply))]
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "Apply"})), None)]
#[case(Some(config(&json!({"action": "Apply"}))), annotated(config(&json!({"action": "Apply"})), "team", "b"), None)]
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "Apply", "options": {"loadAware": {}}})), Some(ApprovalTrigger::ChangeApplied))]
#[case(Some(config(&json!({"action": "Apply"}))), config(&json!({"action": "Apply", "waitTimeout": "1h"})), Some(ApprovalTrigger::ChangeApplied))]
#[case(Some(config(&json!({"action": "Apply", "maintenanceWindows": [{"schedule": "0 0 * * 6", "duration": "4h"}]}))), config(&json!({"action": "Apply"})), Some(ApprovalTrigger::ChangeApplied))]
#[case(Some(config(&json!({"action": "Apply", "bypassOptimisticLock": true}))), config(&json!({"action": "Apply"})), Some(ApprovalTrigger::ChangeApplied))]
// Approving, with any action.
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "DryRun", "approval": {"items": ["a"]}})), Some(ApprovalTrigger::Approval))]
#[case(Some(config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": SHOWN}}}))), config(&json!({"action": "DryRun"})), Some(ApprovalTrigger::Approval))]
#[case(Some(config(&json!({"action": "DryRun", "approval": {"items": ["a"]}}))), config(&json!({"action": "DryRun", "approval": {"items": ["a"]}})), None)]
#[case(Some(config(&json!({"action": "Apply", "approval": {"planDigest": SHOWN}}))), config(&json!({"action": "Apply"})), Some(ApprovalTrigger::Approval))]
#[case(Some(config(&json!({"action": "Apply", "approval": {"planDigest": SHOWN, "items": ["a"]}}))), config(&json!({"action": "DryRun", "approval": {"planDigest": SHOWN}})), Some(ApprovalTrigger::Approval))]
#[case(Some(config(&json!({"action": "Apply", "approval": {"planDigest": SHOWN}}))), config(&json!({"action": "DryRun", "rollbackTo": 1})), None)]
#[case(Some(config(&json!({"action": "DryRun", "approval": {"planDigest": SHOWN, "rejected": {"planDigest": OTHER}}}))), config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": OTHER}}})), None)]
#[case(Some(config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": OTHER}}}))), config(&json!({"action": "DryRun", "approval": {"rejected": {"planDigest": SHOWN}}})), Some(ApprovalTrigger::Approval))]
#[case(Some(config(&json!({"action": "DryRun"}))), config(&json!({"action": "DryRun", "bypassOptimisticLock": true})), Some(ApprovalTrigger::Bypass))]
#[case(Some(config(&json!({"action": "DryRun", "bypassOptimisticLock": true}))), config(&json!({"action": "DryRun", "bypassOptimisticLock": true, "waitTimeout": "1h"})), None)]
#[case(Some(config(&json!({"action": "DryRun", "approvalPolicy": {"requiredApprovals": {"high": 2}}}))), config(&json!({"action": "DryRun"})), Some(ApprovalTrigger::Policy))]
#[case(Some(config(&json!({"action": "DryRun"}))), annotated(config(&json!({"action": "DryRun"})), names::APPROVE, SHOWN), Some(ApprovalTrigger::Approve))]
#[case(Some(annotated(config(&json!({})), names::APPROVE, SHOWN)), annotated(config(&json!({})), names::APPROVE, OTHER), Some(ApprovalTrigger::Approve))]
#[case(Some(annotated(config(&json!({})), names::APPROVE, SHOWN)), annotated(config(&json!({})), names::APPROVE, SHOWN), None)]
#[case(Some(annotated(config(&json!({})), names::APPROVE, SHOWN)), config(&json!({})), None)]
fn only_approvers_may_apply_plans(
    #[case] old: Option<Value>,
    #[case] new: Value,
    #[case] trigger: Option<ApprovalTrigger>,
) {
    assert_eq!(approval_trigger(old.as_ref(), &new), trigger);
    let approver = request(old, new);
    admitted(&approver);
    let editor = Admission {
        user: "ed".to_owned(),
        may_approve: false,
        ..approver
    };
    match (trigger, admit(&editor)) {
        (None, AdmissionVerdict::Allowed { approved, .. }) => {
            assert!(approved.is_empty(), "{approved:?}");
        }
        (Some(trigger), AdmissionVerdict::Denied { message }) => {
            for part in [
                "\"ed\"",
                NAME,
                &trigger.to_string(),
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
#[case::approving_a_part_approves_the_plan_in_status(
    config(&json!({"action": "Apply"})),
    config(&json!({"action": "Apply", "approval": {"items": ["a"]}})),
    &[SHOWN]
)]
#[case::withdrawing_is_not_approving(
    config(&json!({"action": "Apply", "approval": {"items": ["a"]}})),
    config(&json!({"action": "Apply"})),
    &[]
)]
#[case::windows_make_another_plan(
    config(&json!({"action": "DryRun", "maintenanceWindows": [{"schedule": "@daily", "duration": "1h"}]})),
    config(&json!({"action": "Apply"})),
    &[]
)]
#[case::failure_policy_makes_another_plan(
    config(&json!({"action": "DryRun"})),
    config(&json!({"action": "Apply", "failurePolicy": "Continue"})),
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
fn approvals_are_appended() {
    let old = annotated(
        config(&json!({"action": "DryRun"})),
        names::APPROVALS,
        &kept("bob"),
    );
    let new = annotated(old.clone(), names::APPROVE, SHOWN);
    let (object, warnings) = admitted(&request(Some(old), new));
    let both = [("bob", SHOWN), ("ann", SHOWN)].map(|(u, d)| (u.to_owned(), d.to_owned()));
    assert_eq!(recorded(&object), both);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn status_of_a_new_object_is_ignored() {
    // Its status is not stored, and a new object has no plan.
    let new = config(&json!({"action": "Apply"}));
    let (object, _) = admitted(&request(None, new));
    assert_eq!(recorded(&object), [("ann".to_owned(), String::new())]);
    // The patch creates `metadata.annotations` if missing.
    let mut bare = config(&json!({"action": "DryRun"}));
    bare["metadata"] = json!({ "name": NAME });
    let (object, _) = admitted(&request(None, bare));
    assert_eq!(
        object["metadata"]["annotations"],
        json!({ names::AUTHORS: r#"["ann"]"# })
    );
}

#[rstest]
#[case::forged("forged")]
#[case::an_empty_list("[]")]
fn users_cannot_write_the_record(#[case] forged: &str) {
    let kept = kept("bob");
    let bare = config(&json!({"action": "DryRun"}));
    let full = annotated(
        annotated(bare.clone(), names::APPROVALS, &kept),
        names::AUTHORS,
        r#"["bob"]"#,
    );
    let fake = |object: &Value| {
        let object = annotated(object.clone(), names::APPROVALS, forged);
        annotated(object, names::AUTHORS, r#"["eve"]"#)
    };
    for (old, new, approvals, author) in [
        (None, fake(&bare), None, Some(r#"["ann"]"#)),
        (Some(bare.clone()), fake(&bare), None, None),
        (
            Some(full.clone()),
            fake(&full),
            Some(kept.as_str()),
            Some(r#"["bob"]"#),
        ),
        (
            Some(full.clone()),
            bare.clone(),
            Some(kept.as_str()),
            Some(r#"["bob"]"#),
        ),
    ] {
        let mut request = request(old, new);
        for may_approve in [false, true] {
            request.may_approve = may_approve;
            let (object, warnings) = admitted(&request);
            assert_eq!(annotation(&object, names::APPROVALS), approvals);
            assert_eq!(annotation(&object, names::AUTHORS), author);
            assert_eq!(warnings.len(), 2, "{warnings:?}");
            assert!(warnings[0].contains(names::APPROVALS), "{warnings:?}");
            assert!(warnings[1].contains(names::AUTHORS), "{warnings:?}");
        }
    }
}

#[test]
fn forged_record_is_dropped_beside_a_real_approval() {
    let old = config(&json!({"action": "DryRun"}));
    let forged = kept("bob");
    let new = annotated(old.clone(), names::APPROVALS, &forged);
    let new = annotated(new, names::APPROVE, SHOWN);
    let (object, warnings) = admitted(&request(Some(old), new));
    assert_eq!(recorded(&object), [("ann".to_owned(), SHOWN.to_owned())]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

/// An object in some phase, with an author on record.
fn in_phase(spec: &Value, phase: &str) -> Value {
    let mut object = annotated(config(spec), names::AUTHORS, r#"["eve"]"#);
    object["metadata"]["generation"] = 3.into();
    object["status"]["phase"] = phase.into();
    object["status"]["observedGeneration"] = 3.into();
    object
}

#[rstest]
#[case::options(json!({"action": "DryRun", "options": {"loadAware": {"mode": "Automatic"}}}), true)]
#[case::rollback(json!({"action": "DryRun", "rollbackTo": 2}), true)]
#[case::windows(json!({"action": "DryRun", "maintenanceWindows": [{"schedule": "@daily", "duration": "1h"}]}), true)]
#[case::failure_policy(json!({"action": "DryRun", "failurePolicy": "Continue"}), true)]
#[case::timeout(json!({"action": "DryRun", "waitTimeout": "2h"}), true)]
#[case::policy(json!({"action": "DryRun", "approvalPolicy": {"authorMayApprove": true}}), true)]
#[case::approving_is_not_authoring(json!({"action": "Apply"}), false)]
#[case::ignoring_asks_for_nothing(json!({"action": "Ignore"}), false)]
#[case::no_value_is_none(json!({"action": "DryRun", "options": null}), false)]
#[case::default_is_none(json!({"action": "DryRun", "failurePolicy": "Abort", "bypassOptimisticLock": false}), false)]
fn editors_of_plan_inputs_are_authors(#[case] spec: Value, #[case] authored: bool) {
    let old = in_phase(&json!({"action": "DryRun"}), "ReviewRequired");
    let mut new = in_phase(&spec, "ReviewRequired");
    new["metadata"]["generation"] = 4.into();
    let (object, warnings) = admitted(&request(Some(old), new));
    let authors = if authored {
        r#"["ann","eve"]"#
    } else {
        r#"["eve"]"#
    };
    assert_eq!(annotation(&object, names::AUTHORS), Some(authors));
    assert_eq!(warnings, Vec::<String>::new());
}

/// The operator creates advertised configurations: the user who requests the plan is its author, not the operator.
#[test]
fn requester_of_an_advertised_plan_is_its_author() {
    let advertised = || config(&json!({"action": "Ignore"}));
    let mut operator = request(None, advertised());
    operator.user = "system:serviceaccount:medley-system:medley-operator".to_owned();
    let (object, _) = admitted(&operator);
    assert_eq!(annotation(&object, names::AUTHORS), None);
    for action in ["DryRun", "Apply"] {
        let mut old = advertised();
        old["status"] = json!({ "phase": "Ignored" });
        let mut new = old.clone();
        new["spec"]["action"] = action.into();
        let (object, _) = admitted(&request(Some(old), new));
        assert_eq!(annotation(&object, names::AUTHORS), Some(r#"["ann"]"#));
    }
}

#[rstest]
#[case::executed("Completed", 3, r#"["ann"]"#)]
#[case::drifted("Drifted", 3, r#"["ann"]"#)]
#[case::edit_that_was_not_seen("Completed", 2, r#"["ann","eve"]"#)]
#[case::waits("ReviewRequired", 3, r#"["ann","eve"]"#)]
#[case::failed("Failed", 3, r#"["ann","eve"]"#)]
#[case::handed_over("Ignored", 3, r#"["ann","eve"]"#)]
fn authors_are_kept_until_the_plan_completed(
    #[case] phase: &str,
    #[case] observed: i64,
    #[case] authors: &str,
) {
    let mut old = in_phase(&json!({"action": "DryRun"}), phase);
    old["status"]["observedGeneration"] = observed.into();
    let mut new = old.clone();
    new["spec"]["options"] = json!({"loadAware": {}});
    let (object, _) = admitted(&request(Some(old), new));
    assert_eq!(annotation(&object, names::AUTHORS), Some(authors));
}

#[rstest]
#[case::fewer(json!({"high": 2}), false, json!({"high": 1}), false)]
#[case::none(json!({"low": 1}), false, json!({}), false)]
#[case::authors(json!({"high": 1}), false, json!({"high": 1}), true)]
fn requirement_cannot_be_lowered_while_applying_or_approving(
    #[case] before: Value,
    #[case] author_before: bool,
    #[case] after: Value,
    #[case] author_after: bool,
) {
    let policy = |action: &str, required: &Value, author: bool| {
        config(&json!({"action": action, "approvalPolicy": {
            "requiredApprovals": required, "authorMayApprove": author,
        }}))
    };
    let old = |action| policy(action, &before, author_before);
    let new = |action| policy(action, &after, author_after);
    for (old, new) in [
        (old("DryRun"), new("Apply")),
        (old("Apply"), new("Apply")),
        (
            old("DryRun"),
            annotated(new("DryRun"), names::APPROVE, SHOWN),
        ),
    ] {
        let verdict = admit(&request(Some(old), new));
        let AdmissionVerdict::Denied { message } = verdict else {
            panic!("{verdict:?}");
        };
        assert!(message.contains("lowers spec.approvalPolicy"), "{message}");
    }
    // In a request of its own, which leads to another plan.
    admitted(&request(Some(old("DryRun")), new("DryRun")));
    admitted(&request(Some(new("DryRun")), old("Apply")));
}

/// The seed's story 2, and its limits.
#[test]
fn unplanned_apply_is_bound_to_its_spec() {
    let entry = |object: &Value| {
        let approvals = Approvals::parse(annotation(object, names::APPROVALS)).unwrap();
        approvals.entries().first().cloned()
    };
    let (object, _) = admitted(&request(None, config(&json!({"action": "Apply"}))));
    let created = entry(&object).unwrap();
    assert_eq!(created.groups, ["leads"]);
    let bound = created.unplanned.unwrap();
    assert_eq!((bound.generation, bound.after), (1, None));
    // An advertised configuration that was applied before.
    let mut old = config(&json!({"action": "Ignore"}));
    old["metadata"]["generation"] = 4.into();
    old["status"] = json!({ "phase": "Ignored", "planDigest": SHOWN, "revision": 2 });
    let mut new = old.clone();
    new["spec"]["action"] = "Apply".into();
    let (object, _) = admitted(&request(Some(old.clone()), new.clone()));
    let bound = entry(&object).unwrap().unplanned.unwrap();
    assert_eq!((bound.generation, bound.after), (5, Some(2)));
    // With options prepared by another user there is something to review.
    let old = annotated(old, names::AUTHORS, r#"["eve"]"#);
    let new = annotated(new, names::AUTHORS, r#"["eve"]"#);
    let (object, _) = admitted(&request(Some(old), new));
    assert_eq!(entry(&object), None);
}

#[test]
fn unchanged_request_is_not_patched() {
    let old = config(&json!({"action": "Apply"}));
    let verdict = admit(&request(Some(old.clone()), old));
    let nothing = AdmissionVerdict::Allowed {
        patch: Vec::new(),
        warnings: Vec::new(),
        approved: Vec::new(),
    };
    assert_eq!(verdict, nothing);
}

#[rstest]
fn invalid_digest_cannot_be_approved(
    #[values("", "yes", "sha256:", "sha256:12", "1111")] digest: &str,
) {
    let old = config(&json!({"action": "DryRun"}));
    let new = annotated(old.clone(), names::APPROVE, digest);
    let AdmissionVerdict::Denied { message } = admit(&request(Some(old), new)) else {
        panic!("allowed");
    };
    assert!(message.contains(SHOWN), "{message}");
}

#[test]
fn approving_another_plan_warns() {
    let old = config(&json!({"action": "DryRun"}));
    let new = annotated(old.clone(), names::APPROVE, OTHER);
    let (_, warnings) = admitted(&request(Some(old), new));
    assert!(
        warnings[0].contains(OTHER) && warnings[0].contains(SHOWN),
        "{warnings:?}"
    );
}

/// Small JSON values of any shape, including the relevant field names.
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
        Just(names::AUTHORS.to_owned()),
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
    fn admission_never_panics_or_approves_for_editors(
        old in proptest::option::of(garbage()),
        new in garbage(),
    ) {
        let mut request = request(old, new);
        request.may_approve = false;
        if let AdmissionVerdict::Allowed { patch, approved, .. } = admit(&request) {
            prop_assert!(approved.is_empty());
            let patched = patched(&request, patch);
            prop_assert!(patched.is_ok(), "{:?}", patched);
        }
    }
}
