//! The requests that apply one item, and what follows from their responses.

use api::advisor::{
    ConsentedTakeover, Deviation, DeviationClass, FIELD_MANAGER, Item, Operation, Takeover, names,
};
use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::profiles::config_map;
use crate::decide::{Executed, Execution, ItemExecution, MAX_ATTEMPTS};
use crate::exchange::{Next, Request, Response};
use crate::ownership::Conflict;
use crate::plan::{self, DryRun, Preview, ROLLBACK_MANAGER};
use crate::profile::kinds::CONFIG_MAP;
use crate::values;

const CONFIG: &str = "steps";

/// A target with this data at a resourceVersion.
fn live(version: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "x", "namespace": "there", "uid": "u", "resourceVersion": version,
            "annotations": { names::GOVERNED_BY: CONFIG },
            "managedFields": [{ "manager": FIELD_MANAGER, "operation": "Apply" }],
        },
        "data": data,
    })
}

/// An item that brings the fields `data.a` and `data.b` from one state to another.
fn execution(operation: Operation, base: Option<&Value>, data: &Value) -> Execution {
    let managed_fields = vec!["data.a".to_owned(), "data.b".to_owned()];
    let base = base.map(|data| json!({ "data": data }));
    let mut desired = plan::identity(&config_map("x"), &json!({}));
    desired["data"] = data.clone();
    let item = Item {
        name: "item".to_owned(),
        target_ref: config_map("x"),
        operation,
        base: base.map(|base| values::managed(&base, &managed_fields).unwrap()),
        managed_fields,
        desired_state: Some(desired),
        ..Item::default()
    };
    Execution {
        index: 0,
        item,
        bypass: false,
        consent: Vec::new(),
        owners: [("data.a".to_owned(), "admin".to_owned())].into(),
    }
}

fn object(version: &str, data: &Value) -> Response {
    Response::Object(Some(live(version, data)))
}

fn conflict() -> Response {
    Response::Conflicts(vec![Conflict {
        manager: "argocd".to_owned(),
        path: "data.a".to_owned(),
        since: None,
    }])
}

fn apply(version: Option<&str>, force: bool, dry_run: bool) -> Request {
    let mut object = plan::identity(&config_map("x"), &json!({}));
    object["data"] = json!({ "a": 2 });
    if let Some(version) = version {
        object["metadata"]["resourceVersion"] = json!(version);
    }
    Request::Apply {
        object,
        force,
        dry_run,
    }
}

fn merge(manager: &str, version: &str, data: &Value) -> Request {
    Request::Merge {
        manager: manager.to_owned(),
        patch: json!({ "metadata": { "resourceVersion": version }, "data": data }),
        dry_run: false,
    }
}

fn release(version: &str) -> Request {
    Request::Apply {
        object: plan::identity(&config_map("x"), &json!({ "resourceVersion": version })),
        force: true,
        dry_run: false,
    }
}

/// Gives the responses in order; returns the requests after the first read, and the result.
fn play(execution: &Execution, responses: Vec<Response>) -> (Vec<Request>, Option<Next<Executed>>) {
    let (mut item, first) = ItemExecution::start(execution, CONFIG, None);
    assert_eq!(first, Request::Read);
    let mut requests = Vec::new();
    for response in responses {
        match item.next(response) {
            Next::Send(request) => requests.push(request),
            ended => return (requests, Some(ended)),
        }
    }
    (requests, None)
}

fn done() -> Next<Executed> {
    Next::Finished(Executed::Done)
}

fn twos() -> Value {
    json!({ "a": 2 })
}

fn ones() -> Value {
    json!({ "a": 1 })
}

#[rstest]
#[case::creates(None, vec![Response::Object(None), object("2", &twos())], vec![apply(None, false, false)], done())]
#[case::changes(
    Some(ones()),
    vec![object("7", &ones()), object("7", &twos()), object("8", &twos())],
    vec![apply(Some("7"), false, true), apply(Some("7"), false, false)],
    done()
)]
#[case::keeps_another_value(
    Some(ones()),
    vec![object("7", &ones()), object("7", &twos()), object("8", &ones())],
    vec![apply(Some("7"), false, true), apply(Some("7"), false, false)],
    Next::Finished(Executed::Kept(vec![Deviation {
        path: "data.a".to_owned(),
        class: DeviationClass::ChangedByAdmission,
        wanted: Some(json!(2)),
        kept: Some(json!(1)),
        by: None,
    }]))
)]
#[case::reads_again(
    Some(ones()),
    vec![object("7", &ones()), Response::Outdated, object("8", &ones()), object("8", &ones()), conflict(),
        object("9", &ones()), Response::Rejected("no".to_owned())],
    vec![apply(Some("7"), false, true), Request::Read, apply(Some("8"), false, true), apply(Some("8"), false, false),
        Request::Read, apply(Some("9"), false, true)],
    Next::Finished(Executed::Refused("no".to_owned()))
)]
#[case::stale(
    Some(ones()),
    vec![object("7", &json!({ "a": 3 }))],
    vec![],
    Next::Finished(Executed::Stale("ConfigMap there/x: data.a changed from 1 to 3".to_owned()))
)]
fn apply_dry_runs_first(
    #[case] base: Option<Value>,
    #[case] responses: Vec<Response>,
    #[case] requests: Vec<Request>,
    #[case] result: Next<Executed>,
) {
    let execution = execution(Operation::Apply, base.as_ref(), &json!({ "a": 2 }));
    assert_eq!(play(&execution, responses), (requests, Some(result)));
}

#[rstest]
#[case::neither(false, false, false)]
#[case::consent_without_plan(false, true, false)]
#[case::planned(true, false, false)]
#[case::planned_with_consent(true, true, true)]
fn conflicts_are_forced_only_with_consent(
    #[case] planned: bool,
    #[case] consent: bool,
    #[case] forced: bool,
) {
    let mut execution = execution(Operation::Apply, Some(&ones()), &json!({ "a": 2 }));
    if planned {
        execution.item.takeovers = vec![Takeover {
            path: "data.a".to_owned(),
            manager: "argocd".to_owned(),
            ..Takeover::default()
        }];
    }
    if consent {
        execution.consent = vec![ConsentedTakeover {
            item: "item".to_owned(),
            path: None,
            manager: None,
        }];
    }
    let (requests, result) = play(&execution, vec![object("7", &ones()), conflict()]);
    if forced {
        assert_eq!(requests[1..], [apply(Some("7"), true, false)]);
    } else {
        assert_eq!(requests.len(), 1);
        let Some(Next::Finished(Executed::WithoutConsent(takeovers))) = result else {
            panic!("{result:?}");
        };
        assert_eq!(takeovers[0].manager, "argocd");
        assert_eq!(takeovers[0].live, Some(json!(1)));
        assert_eq!(takeovers[0].wanted, Some(json!(2)));
    }
}

#[test]
fn only_governed_objects_are_deleted() {
    let execution = execution(Operation::Delete, Some(&ones()), &json!({}));
    let delete = Request::Delete {
        uid: Some("u".to_owned()),
        resource_version: Some("7".to_owned()),
    };
    let (requests, result) = play(
        &execution,
        vec![object("7", &ones()), Response::Object(None)],
    );
    assert_eq!((requests, result), (vec![delete], Some(done())));
    assert_eq!(
        play(&execution, vec![Response::Object(None)]),
        (vec![], Some(done())),
        "it is gone"
    );
    let mut foreign = live("7", &ones());
    foreign["metadata"]["annotations"] = json!({ names::GOVERNED_BY: "other" });
    let why = "ConfigMap there/x is no longer annotated as governed by steps; not deleting it";
    assert_eq!(
        play(&execution, vec![Response::Object(Some(foreign))]),
        (
            vec![],
            Some(Next::Finished(Executed::Stale(why.to_owned())))
        )
    );
}

/// Each write has the resourceVersion of the previous response.
#[test]
fn values_are_restored_by_manager_then_released() {
    let now = json!({ "a": 2, "b": 2 });
    let execution = execution(Operation::Restore, Some(&now), &ones());
    let responses = vec![
        object("7", &now),
        object("8", &json!({ "a": 1, "b": 2 })),
        object("9", &ones()),
        object("10", &ones()),
    ];
    let requests = vec![
        merge("admin", "7", &json!({ "a": 1 })),
        merge(ROLLBACK_MANAGER, "8", &json!({ "b": null })),
        release("9"),
    ];
    assert_eq!(play(&execution, responses), (requests, Some(done())));
    // A field that is restored already needs no patch.
    let half = json!({ "a": 1, "b": 2 });
    let responses = vec![object("7", &half), object("8", &ones()), Response::Outdated];
    let requests = vec![
        merge(ROLLBACK_MANAGER, "7", &json!({ "b": null })),
        release("8"),
        Request::Read,
    ];
    assert_eq!(play(&execution, responses), (requests, None));
}

#[test]
fn gives_up_on_a_target_that_keeps_changing() {
    let execution = execution(Operation::Apply, Some(&ones()), &json!({ "a": 2 }));
    let attempt = || [object("7", &ones()), Response::Outdated];
    let responses = (0..=MAX_ATTEMPTS).flat_map(|_| attempt()).collect();
    let (requests, result) = play(&execution, responses);
    assert_eq!(requests.len(), 2 * MAX_ATTEMPTS - 1);
    let message =
        "applying item 'item' to ConfigMap there/x: the object was modified on every attempt";
    assert_eq!(result, Some(Next::GiveUp(message.to_owned())));
}

/// Conflicts are reported, and the forced dry run shows the result.
#[test]
fn dry_run_reports_conflicts() {
    let execution = execution(Operation::Apply, None, &json!({ "a": 2 }));
    let (mut dry_run, first) = DryRun::start(&execution.item, None);
    assert_eq!(first, Request::Read);
    assert_eq!(
        dry_run.next(object("7", &ones())),
        Next::Send(apply(None, false, true))
    );
    assert_eq!(
        dry_run.next(conflict()),
        Next::Send(apply(None, true, true))
    );
    let Next::Finished(preview) = dry_run.next(object("7", &json!({ "a": 2 }))) else {
        panic!("{dry_run:?}");
    };
    assert_eq!(preview.live, Some(live("7", &ones())));
    assert_eq!(preview.result, Some(live("7", &json!({ "a": 2 }))));
    assert_eq!(Response::Conflicts(preview.conflicts), conflict());
    assert_eq!(preview.refused, None);
}

#[rstest]
#[case::apply(Operation::Apply, "apply")]
#[case::restore(Operation::Restore, "restore")]
fn dry_run_is_refused_or_overtaken(#[case] operation: Operation, #[case] name: &str) {
    let execution = execution(operation, None, &json!({ "a": 2 }));
    let after_read = || {
        let (mut dry_run, _) = DryRun::start(&execution.item, None);
        dry_run.next(object("7", &ones()));
        dry_run
    };
    let refused = Preview {
        live: Some(live("7", &ones())),
        refused: Some("no".to_owned()),
        ..Preview::default()
    };
    assert_eq!(
        after_read().next(Response::Rejected("no".to_owned())),
        Next::Finished(refused)
    );
    assert_eq!(
        after_read().next(Response::Outdated),
        Next::GiveUp(format!(
            "dry-running the {name} of ConfigMap there/x: the object was modified by another client"
        ))
    );
}

fn any_data() -> impl Strategy<Value = Value> {
    let scalar = (0..3_i64).prop_map(Value::from);
    let value = prop_oneof![
        scalar,
        (0..3_i64).prop_map(|x| json!([x])),
        prop::collection::btree_map("[x-y]", 0..3_i64, 1..3).prop_map(|map| json!(map)),
    ];
    prop::collection::btree_map("[ab]", value, 0..3)
        .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>()))
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop::sample::select(vec![
        Operation::Apply,
        Operation::Delete,
        Operation::Restore,
    ])
}

fn any_conflict() -> impl Strategy<Value = Conflict> {
    let manager = prop::sample::select(vec!["argocd", "admin"]);
    let path = prop::sample::select(vec!["data.a", "data.b"]);
    (manager, path).prop_map(|(manager, path)| Conflict {
        manager: manager.to_owned(),
        path: path.to_owned(),
        since: None,
    })
}

fn any_response(base: &Value) -> impl Strategy<Value = Response> + use<> {
    prop_oneof![
        4 => Just(object("7", base)),
        1 => any_data().prop_map(|data| object("8", &data)),
        1 => Just(Response::Object(None)),
        2 => Just(Response::Outdated),
        2 => prop::collection::vec(any_conflict(), 1..3).prop_map(Response::Conflicts),
        1 => Just(Response::Rejected("no".to_owned())),
    ]
}

/// Drives an execution against a cluster; returns the number of requests.
fn drive(cluster: &mut Cluster, execution: &Execution) -> (Next<Executed>, usize) {
    let (mut item, mut request) = ItemExecution::start(execution, CONFIG, None);
    let mut count = 0;
    loop {
        count += 1;
        let response = cluster.answer(&execution.item.target_ref, request, Timestamp::UNIX_EPOCH);
        match item.next(response) {
            Next::Send(next) => request = next,
            ended => return (ended, count),
        }
    }
}

proptest! {
    /// Every execution ends, and forces only conflicts that are planned and have consent.
    #[test]
    fn any_responses_end_within_the_attempts(
        operation in any_operation(),
        responses in prop::collection::vec(any_response(&ones()), 64),
        planned in prop::collection::vec(any_conflict(), 0..3),
        consent in prop::option::of(prop::sample::select(vec!["data.a", "data.b"])),
    ) {
        let mut execution = execution(operation, Some(&ones()), &json!({ "a": 2 }));
        execution.item.takeovers = planned
            .iter()
            .map(|conflict| Takeover {
                path: conflict.path.clone(),
                manager: conflict.manager.clone(),
                ..Takeover::default()
            })
            .collect();
        execution.consent = consent
            .iter()
            .map(|path| ConsentedTakeover {
                item: "item".to_owned(),
                path: Some((*path).to_owned()),
                manager: None,
            })
            .collect();
        let (mut item, mut request) = ItemExecution::start(&execution, CONFIG, None);
        let mut reads = 0;
        let mut ended = false;
        for response in responses {
            reads += usize::from(request == Request::Read);
            let last = response.clone();
            let Next::Send(next) = item.next(response) else {
                ended = true;
                break;
            };
            request = next;
            let forced = matches!(&request, Request::Apply { object, force: true, .. } if object["data"].is_object());
            if forced {
                let Response::Conflicts(conflicts) = last else {
                    return Err(TestCaseError::fail("forced without a conflict"));
                };
                for conflict in conflicts {
                    prop_assert!(planned.contains(&conflict));
                    prop_assert_eq!(consent, Some(conflict.path.as_str()));
                }
            }
        }
        prop_assert!(ended);
        prop_assert!(reads <= MAX_ATTEMPTS);
    }

    /// What was applied is not applied again; what was restored has its former values, and nothing of it is ours,
    /// independent of its former owner and of how often it was applied.
    #[test]
    fn applied_and_restored_items_are_done(
        before in any_data(),
        writer in prop::sample::select(vec!["", "admin", "argocd"]),
        plans in prop::collection::vec(any_data(), 1..3),
    ) {
        let target = config_map("x");
        let mut cluster = Cluster::default();
        cluster.install(CONFIG_MAP, "v1", None);
        let original = json!({ "data": before, "kind": "ConfigMap" });
        cluster.edit(&target, writer, &original, Timestamp::UNIX_EPOCH);
        let mut base = before.clone();
        for data in &plans {
            let mut execution = execution(Operation::Apply, Some(&base), data);
            execution.bypass = true;
            let wanted = plan::wanted_values(&execution.item);
            if let Some(desired) = &mut execution.item.desired_state {
                plan::mark(desired, CONFIG, &wanted);
            }
            prop_assert_eq!(drive(&mut cluster, &execution).0, done());
            prop_assert_eq!(drive(&mut cluster, &execution), (done(), 1));
            base = cluster.get(&target).unwrap()["data"].clone();
        }
        let execution = execution(Operation::Restore, Some(&base), &before);
        prop_assert_eq!(drive(&mut cluster, &execution).0, done());
        let restored = cluster.get(&target).unwrap();
        let managed = values::managed(&restored, &execution.item.managed_fields).unwrap();
        prop_assert_eq!(managed, plan::wanted_values(&execution.item));
        prop_assert!(!plan::owned(&restored), "{}", restored);
        prop_assert_eq!(drive(&mut cluster, &execution), (done(), 1));
    }
}
