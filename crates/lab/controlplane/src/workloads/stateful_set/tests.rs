use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::decide::{Decision, Revision, StatefulSetInputs, StatefulSetStep, decide};
use super::{identity, retention};

/// A set with `more` merged into its spec.
fn set(replicas: i32, more: Value) -> StatefulSet {
    let mut spec = json!({
        "replicas": replicas,
        "serviceName": "web",
        "selector": { "matchLabels": { "app": "web" } },
        "template": template("new"),
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
    });
    if let Value::Object(fields) = more {
        for (key, value) in fields {
            spec[key] = value;
        }
    }
    from_value(json!({
        "metadata": { "name": "web", "namespace": "here", "uid": "set", "generation": 3 },
        "spec": spec,
    }))
    .unwrap()
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "image": image }] },
    })
}

fn revision(name: &str) -> Revision {
    let template: PodTemplateSpec = from_value(template(name)).unwrap();
    Revision {
        name: name.to_owned(),
        template,
    }
}

/// `3 new ready`: ordinal, revision, state.
fn pod(set: &StatefulSet, text: &str) -> Arc<Pod> {
    let words: Vec<&str> = text.split(' ').collect();
    let ordinal: i32 = words[0].parse().unwrap();
    let made_from = revision(words[1]);
    let mut pod = identity::render_pod(set, &made_from.template, words[1], ordinal);
    pod.metadata.uid = Some(format!("uid-{ordinal}-{}", words[1]));
    let (phase, ready) = match words[2] {
        "ready" | "leaving" => ("Running", "True"),
        "running" => ("Running", "False"),
        "failed" => ("Failed", "False"),
        _ => ("Pending", "False"),
    };
    pod.status = from_value(json!({
        "phase": phase,
        "conditions": [{
            "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }))
    .unwrap();
    if words[2] == "leaving" {
        pod.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    }
    Arc::new(pod)
}

fn decided(set: &StatefulSet, pods: &[Arc<Pod>], current: &str) -> Decision {
    decide(&StatefulSetInputs {
        set,
        spec: set.spec.as_ref().unwrap(),
        pods,
        claim: &|_| None,
        current: &revision(current),
        update: &revision("new"),
        collisions: 0,
        now: "2026-01-01T00:00:05Z".parse::<Timestamp>().unwrap(),
    })
}

fn describe(step: &StatefulSetStep) -> String {
    match step {
        StatefulSetStep::Create(ordinal, pod) => {
            format!("create {ordinal} {}", identity::revision(pod))
        }
        StatefulSetStep::Claims(ordinal) => format!("claims {ordinal}"),
        StatefulSetStep::Own(claim) => format!("own {}", claim.metadata.name.clone().unwrap()),
        StatefulSetStep::Repair(pod) => format!("repair {}", identity::ordinal(pod).unwrap()),
        StatefulSetStep::Delete(pod) => format!("delete {}", identity::ordinal(pod).unwrap()),
        StatefulSetStep::Wait => "wait".to_owned(),
    }
}

#[rstest]
#[case::first(3, json!({}), &[], &["create 0 new"])]
#[case::waits_for_the_first(3, json!({}), &["0 new running"], &[])]
#[case::second(3, json!({}), &["0 new ready"], &["create 1 new"])]
#[case::a_hole(3, json!({}), &["0 new ready", "2 new ready"], &["create 1 new"])]
#[case::settled(2, json!({}), &["0 new ready", "1 new ready"], &[])]
#[case::a_failed_pod_is_replaced(2, json!({}), &["0 new failed", "1 new ready"], &["delete 0"])]
#[case::not_long_enough(2, json!({ "minReadySeconds": 60 }), &["0 new ready"], &[])]
#[case::long_enough(2, json!({ "minReadySeconds": 5 }), &["0 new ready"], &["create 1 new"])]
#[case::starts_later(2, json!({ "ordinals": { "start": 5 } }), &["0 new ready"], &["create 5 new"])]
#[case::below_the_start(
    1, json!({ "ordinals": { "start": 5 } }), &["5 new ready", "0 new ready"], &["delete 0"]
)]
#[case::highest_goes_first(
    1, json!({}), &["0 new ready", "1 new ready", "2 new ready"], &["delete 2"]
)]
#[case::one_goes_at_a_time(1, json!({}), &["0 new ready", "1 new ready", "2 new leaving"], &[])]
#[case::none_goes_while_one_is_down(
    1, json!({}), &["0 new running", "1 new ready", "2 new ready"], &[]
)]
#[case::the_one_that_is_down_may_go(
    1, json!({}), &["0 new ready", "1 new ready", "2 new running"], &["delete 2"]
)]
#[case::update_from_the_top(2, json!({}), &["0 old ready", "1 old ready"], &["delete 1"])]
#[case::update_waits(2, json!({}), &["0 old ready", "1 new running"], &[])]
#[case::update_goes_on(2, json!({}), &["0 old ready", "1 new ready"], &["delete 0"])]
#[case::update_makes_the_new_one(2, json!({}), &["0 old ready"], &["create 1 new"])]
#[case::on_delete(
    2, json!({ "updateStrategy": { "type": "OnDelete" } }), &["0 old ready", "1 old ready"], &[]
)]
#[case::partition(
    3,
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } } }),
    &["0 old ready", "1 old ready", "2 new ready"],
    &[]
)]
#[case::below_the_partition_stays_old(
    3,
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } } }),
    &["0 old ready", "2 new ready"],
    &["create 1 old"]
)]
#[case::two_at_once(
    3,
    json!({ "updateStrategy": {
        "type": "RollingUpdate", "rollingUpdate": { "partition": 0, "maxUnavailable": 2 }
    } }),
    &["0 old ready", "1 old ready", "2 old ready"],
    &["delete 2", "delete 1"]
)]
#[case::parallel(
    2,
    json!({ "podManagementPolicy": "Parallel" }),
    &["3 new ready", "4 new running"],
    &["create 0 new", "create 1 new", "delete 4", "delete 3"]
)]
#[case::parallel_update_is_one_by_one(
    2,
    json!({ "podManagementPolicy": "Parallel" }),
    &["0 old ready", "1 old ready"],
    &["delete 1"]
)]
#[case::claims_of_a_pending_pod(
    1,
    json!({ "volumeClaimTemplates": [{ "metadata": { "name": "data" } }] }),
    &["0 new pending"],
    &["claims 0"]
)]
fn does_the_next_thing(
    #[case] replicas: i32,
    #[case] more: Value,
    #[case] pods: &[&str],
    #[case] expected: &[&str],
) {
    let set = set(replicas, more);
    let pods: Vec<_> = pods.iter().map(|text| pod(&set, text)).collect();
    let decision = decided(&set, &pods, "old");
    let steps: Vec<_> = decision.steps.iter().map(describe).collect();
    assert_eq!(steps, expected);
    assert_eq!(decided(&set, &pods, "old"), decision, "asked twice");
}

#[test]
fn deleted_set_only_updates_its_status() {
    let mut set = set(3, json!({}));
    set.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let decision = decided(&set, &[pod(&set, "0 new ready")], "new");
    assert_eq!(decision.steps, []);
    assert_eq!(decision.status.replicas, 1);
}

#[test]
fn status_counts_revisions() {
    let set = set(4, json!({}));
    let pods = [
        "0 old ready",
        "1 old leaving",
        "2 new running",
        "3 new ready",
    ];
    let pods: Vec<_> = pods.iter().map(|text| pod(&set, text)).collect();
    let status = decided(&set, &pods, "old").status;
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({
            "observedGeneration": 3, "replicas": 4, "readyReplicas": 3, "availableReplicas": 3,
            "currentReplicas": 1, "updatedReplicas": 2,
            "currentRevision": "old", "updateRevision": "new", "collisionCount": 0,
        })
    );
}

#[test]
fn completed_update_becomes_the_current_revision() {
    let set = set(2, json!({}));
    let pods = [pod(&set, "0 new ready"), pod(&set, "1 new ready")];
    let status = decided(&set, &pods, "old").status;
    assert_eq!(status.current_revision.as_deref(), Some("new"));
    assert_eq!(status.current_replicas, Some(2));
}

#[test]
fn pod_has_its_name_labels_and_claims() {
    let mut set = set(
        1,
        json!({ "volumeClaimTemplates": [{
            "metadata": { "name": "data", "labels": { "tier": "db" } },
            "spec": { "accessModes": ["ReadWriteOnce"] },
        }] }),
    );
    let spec = set.spec.as_mut().unwrap();
    spec.template.spec.as_mut().unwrap().volumes =
        from_value(json!([{ "name": "data", "emptyDir": {} }, { "name": "tmp", "emptyDir": {} }]))
            .unwrap();
    let template = spec.template.clone();
    let pod = identity::render_pod(&set, &template, "rev", 7);
    let shown = serde_json::to_value(&pod).unwrap();
    assert_eq!(shown["metadata"]["name"], "web-7");
    assert_eq!(
        shown["metadata"]["labels"],
        json!({
            "app": "web", "controller-revision-hash": "rev",
            "statefulset.kubernetes.io/pod-name": "web-7", "apps.kubernetes.io/pod-index": "7",
        })
    );
    assert_eq!(shown["spec"]["hostname"], "web-7");
    assert_eq!(shown["spec"]["subdomain"], "web");
    assert_eq!(
        shown["spec"]["volumes"],
        json!([
            { "name": "data", "persistentVolumeClaim": { "claimName": "data-web-7" } },
            { "name": "tmp", "emptyDir": {} },
        ])
    );
    let claims = serde_json::to_value(identity::render_claims(&set, 7)).unwrap();
    assert_eq!(claims[0]["metadata"]["name"], "data-web-7");
    assert_eq!(
        claims[0]["metadata"]["labels"],
        json!({ "app": "web", "tier": "db" })
    );
    assert_eq!(identity::repaired(&set, &pod), None);
}

#[rstest]
#[case("web-0", Some(("web", 0)))]
#[case("my-web-12", Some(("my-web", 12)))]
#[case("web", None)]
#[case("web-x", None)]
#[case("web-", None)]
#[case("web-99999999999", None)]
fn pod_names_are_parsed(#[case] name: &str, #[case] expected: Option<(&str, i32)>) {
    assert_eq!(identity::parse(name), expected);
}

#[rstest]
#[case::keep("Retain", "Retain", true, &["set"], Some(&[][..]))]
#[case::kept("Retain", "Retain", true, &[], None)]
#[case::goes_with_the_set("Delete", "Retain", true, &[], Some(&["set"][..]))]
#[case::already("Delete", "Retain", true, &["set"], None)]
#[case::goes_when_scaled("Retain", "Delete", false, &[], Some(&["pod"][..]))]
#[case::not_yet_scaled("Retain", "Delete", true, &[], None)]
#[case::both_needed("Delete", "Delete", true, &[], Some(&["set"][..]))]
#[case::both_scaled("Delete", "Delete", false, &["set"], Some(&["pod"][..]))]
#[case::somebody_else_looks_after_it("Delete", "Retain", true, &["other"], None)]
#[case::an_earlier_set("Delete", "Retain", true, &["earlier"], None)]
fn retention_policy_determines_claim_owners(
    #[case] when_deleted: &str,
    #[case] when_scaled: &str,
    #[case] needed: bool,
    #[case] owners: &[&str],
    #[case] expected: Option<&[&str]>,
) {
    let set = set(
        1,
        json!({ "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": when_deleted, "whenScaled": when_scaled
        } }),
    );
    let pod = pod(&set, "0 new ready");
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            let (kind, name, uid) = match *owner {
                "set" => ("StatefulSet", "web", "set"),
                "earlier" => ("StatefulSet", "web", "earlier"),
                "pod" => ("Pod", "web-0", "uid-0-new"),
                _ => ("Other", "x", "other"),
            };
            json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true })
        })
        .collect();
    let claim: PersistentVolumeClaim =
        from_value(json!({ "metadata": { "ownerReferences": owners } })).unwrap();
    let corrected = retention::corrected(&claim, &set, &pod, needed).map(|owners| {
        let short = |uid: String| if uid == "set" { "set" } else { "pod" };
        owners
            .into_iter()
            .map(|owner| short(owner.uid))
            .collect::<Vec<_>>()
    });
    assert_eq!(corrected.as_deref(), expected);
}

/// One pod of a simulated cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Simulated {
    updated: bool,
    state: &'static str,
}

fn shown(set: &StatefulSet, pods: &BTreeMap<i32, Simulated>) -> Vec<Arc<Pod>> {
    pods.iter()
        .map(|(ordinal, one)| {
            let revision = if one.updated { "new" } else { "old" };
            pod(set, &format!("{ordinal} {revision} {}", one.state))
        })
        .collect()
}

fn act(pods: &mut BTreeMap<i32, Simulated>, steps: &[StatefulSetStep]) {
    for step in steps {
        match step {
            StatefulSetStep::Create(ordinal, pod) => {
                let updated = identity::revision(pod) == "new";
                let fresh = Simulated {
                    updated,
                    state: "pending",
                };
                assert!(pods.insert(*ordinal, fresh).is_none(), "made twice");
            }
            StatefulSetStep::Delete(pod) => {
                let ordinal = identity::ordinal(pod).unwrap();
                pods.get_mut(&ordinal).unwrap().state = "leaving";
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Regardless of how slowly pods start and stop, an ordered update takes down one at a time,
    /// and it completes.
    #[test]
    fn ordered_update_has_one_pod_down_at_a_time(
        replicas in 1..5_i32,
        moves in proptest::collection::vec((0..5_i32, any::<bool>()), 0..60),
    ) {
        let set = set(replicas, json!({}));
        let ready = Simulated { updated: false, state: "ready" };
        let mut pods: BTreeMap<i32, Simulated> = (0..replicas).map(|ordinal| (ordinal, ready)).collect();
        let rounds = Cell::new(0);
        let check = |pods: &mut BTreeMap<i32, Simulated>| {
            rounds.set(rounds.get() + 1);
            let decision = decided(&set, &shown(&set, pods), "old");
            act(pods, &decision.steps);
            let up = pods.values().filter(|pod| pod.state == "ready").count();
            assert!(up + 1 >= usize::try_from(replicas).unwrap(), "two are down: {pods:?}");
            decision.steps.is_empty()
        };
        let kubelet = |pods: &mut BTreeMap<i32, Simulated>, ordinal: i32| {
            match pods.get(&ordinal).map(|pod| pod.state) {
                Some("pending") => pods.get_mut(&ordinal).unwrap().state = "running",
                Some("running") => pods.get_mut(&ordinal).unwrap().state = "ready",
                Some("leaving") => drop(pods.remove(&ordinal)),
                _ => {}
            }
        };
        for (ordinal, look) in moves {
            kubelet(&mut pods, ordinal);
            if look {
                check(&mut pods);
            }
        }
        loop {
            let before = pods.clone();
            let idle = check(&mut pods);
            for ordinal in 0..replicas {
                kubelet(&mut pods, ordinal);
            }
            if idle && before == pods {
                break;
            }
            prop_assert!(rounds.get() < 200, "no end: {:?}", pods);
        }
        prop_assert!(pods.values().all(|pod| pod.updated && pod.state == "ready"));
        prop_assert_eq!(pods.len(), usize::try_from(replicas).unwrap());
    }
}
