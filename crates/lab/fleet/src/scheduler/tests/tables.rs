//! Scheduling decisions, case by case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PodSpec};
use k8s_openapi::api::storage::v1::StorageClass;
use rstest::rstest;
use runtime::Key;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{asking, cluster, node, pod, put};
use crate::scheduler::cluster::Cluster;
use crate::scheduler::decide::decide;
use crate::scheduler::pod::PodInfo;
use crate::scheduler::preempt::preempt_pods;
use crate::scheduler::queue::Waiting;
use crate::scheduler::reason::{ChangeKind, Reason, UnschedulableReason};
use crate::scheduler::resources::{Resources, of_pod};
use crate::scheduler::volumes::Source;

fn nothing() -> Value {
    json!({})
}

#[rstest]
#[case::containers_together(json!({"containers": [
    {"name": "a", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}},
    {"name": "b", "resources": {"requests": {"cpu": "1"}}}]}), 1100, 1 << 30)]
#[case::a_large_init_container(json!({"containers": [
    {"name": "a", "resources": {"requests": {"cpu": "100m"}}}],
    "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]}), 2000, 0)]
#[case::a_sidecar_stays(json!({"containers": [
    {"name": "a", "resources": {"requests": {"cpu": "100m"}}}],
    "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
                       {"name": "i", "resources": {"requests": {"cpu": "50m"}}}]}), 300, 0)]
#[case::a_sidecar_beside_a_large_init_container(json!({"containers": [
    {"name": "a", "resources": {"requests": {"cpu": "100m"}}}],
    "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
                       {"name": "i", "resources": {"requests": {"cpu": "1"}}}]}), 1200, 0)]
#[case::overhead(json!({"containers": [
    {"name": "a", "resources": {"requests": {"cpu": "100m"}}}], "overhead": {"cpu": "250m", "memory": "1Ki"}}), 350, 1024)]
#[case::the_whole_pod(json!({"containers": [
    {"name": "a", "resources": {"requests": {"cpu": "100m"}}}], "resources": {"requests": {"cpu": "3"}}}), 3000, 0)]
fn pod_requests_are_summed(#[case] spec: Value, #[case] cpu: i64, #[case] memory: i64) {
    let spec: PodSpec = serde_json::from_value(spec).expect("a spec");
    let expected = Resources {
        cpu,
        memory,
        ..Resources::default()
    };
    assert_eq!(of_pod(&spec), expected);
}

fn affinity(kind: &str, key: &str, label: &str) -> Value {
    json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": key, "labelSelector": { "matchLabels": { "app": label } } },
    ]}}})
}

/// Three nodes in two zones.
fn zones() -> Cluster {
    cluster(&[
        node("a1", &json!({ "zone": "a" }), &nothing()),
        node("a2", &json!({ "zone": "a" }), &nothing()),
        node("b1", &json!({ "zone": "b" }), &nothing()),
    ])
}

#[test]
fn anti_affinity_separates_pods_by_host() {
    let mut cluster = zones();
    let spec = affinity("podAntiAffinity", "kubernetes.io/hostname", "web");
    let mut hosts = Vec::new();
    for index in 0..3 {
        let web = pod(&format!("w{index}"), &json!({ "app": "web" }), &spec);
        hosts.push(put(&mut cluster, &web).expect("a host is left").node);
    }
    hosts.sort();
    assert_eq!(hosts, ["a1", "a2", "b1"]);
    let web = pod("w3", &json!({ "app": "web" }), &spec);
    let unfit = put(&mut cluster, &web).expect_err("none is left");
    assert_eq!(
        unfit.to_string(),
        "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. \
         preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
    );
}

#[test]
fn anti_affinity_is_symmetric() {
    let mut cluster = zones();
    let shy = pod(
        "shy",
        &nothing(),
        &affinity("podAntiAffinity", "zone", "loud"),
    );
    let zone = put(&mut cluster, &shy).expect("anywhere").node[..1].to_owned();
    let loud = pod("loud", &json!({ "app": "loud" }), &nothing());
    let there = put(&mut cluster, &loud).expect("the other zone").node;
    assert_ne!(there[..1], zone);
    let only = json!({ "nodeSelector": { "zone": zone } });
    let stubborn = pod("stubborn", &json!({ "app": "loud" }), &only);
    let unfit = put(&mut cluster, &stubborn).expect_err("not there");
    assert!(
        unfit
            .to_string()
            .contains("node(s) didn't satisfy existing pods anti-affinity rules"),
        "{unfit}"
    );
}

#[test]
fn affinity_follows_the_first_pod() {
    let mut cluster = zones();
    let spec = affinity("podAffinity", "zone", "db");
    let first = pod("db0", &json!({ "app": "db" }), &spec);
    let zone = put(&mut cluster, &first).expect("it means itself").node[..1].to_owned();
    for index in 1..5 {
        let next = pod(&format!("db{index}"), &json!({ "app": "db" }), &spec);
        assert_eq!(put(&mut cluster, &next).expect("room").node[..1], zone);
    }
    let stranger = pod("s", &nothing(), &affinity("podAffinity", "zone", "nobody"));
    let unfit = put(&mut cluster, &stranger).expect_err("no matching pod");
    assert!(unfit.is_resolved_by(ChangeKind::PodCame));
    assert!(
        unfit
            .to_string()
            .contains("3 node(s) didn't match pod affinity rules"),
        "{unfit}"
    );
}

#[test]
fn topology_spread_respects_max_skew() {
    let mut cluster = zones();
    let spec = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }]});
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for index in 0..8 {
        let web = pod(&format!("w{index}"), &json!({ "app": "web" }), &spec);
        let zone = put(&mut cluster, &web).expect("room").node[..1].to_owned();
        *counts.entry(zone).or_default() += 1;
        let (a, b) = (counts.get("a"), counts.get("b"));
        let skew = a.copied().unwrap_or_default() - b.copied().unwrap_or_default();
        assert!(skew.abs() <= 1, "{counts:?}");
    }
    let stuck = json!({ "nodeSelector": { "zone": "b" }, "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }]});
    let unfit = put(&mut cluster, &pod("r", &nothing(), &stuck)).expect_err("no racks");
    assert!(
        unfit.to_string().contains("(missing required label)"),
        "{unfit}"
    );
}

#[test]
fn siblings_spread_and_preferences_count() {
    let mut cluster = zones();
    let preferred = json!({ "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 100, "preference": { "matchExpressions": [
                { "key": "zone", "operator": "In", "values": ["b"] } ] } } ] } } });
    let wishing = pod("wishing", &nothing(), &preferred);
    assert_eq!(put(&mut cluster, &wishing).expect("room").node, "b1");

    let soft = json!({ "spec": { "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] } });
    let mut cluster = super::cluster(&[
        node("soft", &nothing(), &soft),
        node("plain", &nothing(), &nothing()),
    ]);
    assert_eq!(
        put(&mut cluster, &pod("p", &nothing(), &nothing()))
            .expect("room")
            .node,
        "plain"
    );
}

#[test]
fn each_node_reports_its_first_reason() {
    let taint = json!({ "spec": { "taints": [{ "key": "k", "effect": "NoExecute" }] } });
    let full =
        json!({ "status": { "allocatable": { "cpu": "1", "memory": "1Gi", "pods": "10" } } });
    let mut cluster = cluster(&[
        node(
            "cordoned",
            &nothing(),
            &json!({ "spec": { "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] } }),
        ),
        node("tainted", &nothing(), &taint),
        node("other", &json!({ "arch": "arm" }), &nothing()),
        node("small", &json!({ "arch": "amd" }), &full),
        node("full", &json!({ "arch": "amd" }), &nothing()),
    ]);
    cluster.place(&pod("there", &nothing(), &asking("3", "1Gi")), "full");
    let mut spec = asking("2", "2Gi");
    spec["nodeSelector"] = json!({ "arch": "amd" });
    let unfit = decide(&mut cluster, &pod("p", &nothing(), &spec)).expect_err("nowhere");
    assert_eq!(
        unfit.to_string(),
        "0/5 nodes are available: 1 Insufficient memory, 1 node(s) didn't match Pod's node affinity/selector, \
         1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu. \
         preemption: 0/5 nodes are available: 1 No preemption victims found for incoming pod, \
         4 Preemption is not helpful for scheduling."
    );
}

#[test]
fn named_node_is_the_only_candidate() {
    let mut cluster = zones();
    let named = |name: &str| {
        json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [name] }] },
        ]}}}})
    };
    let there = pod("d1", &nothing(), &named("a2"));
    assert_eq!(put(&mut cluster, &there).expect("room").node, "a2");
    let unfit = decide(&mut cluster, &pod("d2", &nothing(), &named("gone"))).expect_err("gone");
    assert!(
        unfit.to_string().starts_with(
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."
        ),
        "{unfit}"
    );
}

#[test]
fn missing_nodes_are_reported() {
    let unfit = decide(&mut Cluster::default(), &pod("p", &nothing(), &nothing())).expect_err("no");
    assert_eq!(unfit, UnschedulableReason::NoNodes);
    assert_eq!(unfit.to_string(), "no nodes available to schedule pods");
}

fn ranked(name: &str, priority: i32, cpu: &str) -> Arc<PodInfo> {
    let mut spec = asking(cpu, "1Mi");
    spec["priority"] = json!(priority);
    pod(name, &nothing(), &spec)
}

#[test]
fn preemption_picks_the_fewest_and_least_important_victims() {
    let mut cluster = zones();
    for (name, priority, cpu, node) in [
        ("a", 5, "3", "a1"),
        ("b", 1, "2", "a2"),
        ("c", 2, "2", "a2"),
        ("d", 9, "1", "b1"),
        ("e", 9, "3", "b1"),
    ] {
        cluster.place(&ranked(name, priority, cpu), node);
    }
    let victims = |cluster: &mut Cluster, pod: &PodInfo| {
        preempt_pods(cluster, pod).map(|found| {
            let names = found.victims.iter().map(|pod| pod.uid.clone());
            (found.node, names.collect::<Vec<_>>())
        })
    };
    let two = victims(&mut cluster, &ranked("p", 7, "2"));
    assert_eq!(two, Some(("a2".to_owned(), vec!["b".to_owned()])));
    let four = victims(&mut cluster, &ranked("p", 7, "4"));
    let both = vec!["b".to_owned(), "c".to_owned()];
    assert_eq!(
        four.map(|(node, mut who)| {
            who.sort();
            (node, who)
        }),
        Some(("a2".to_owned(), both))
    );
    assert_eq!(
        victims(&mut cluster, &ranked("p", 1, "4")),
        None,
        "equals stay"
    );
    assert_eq!(
        victims(&mut cluster, &ranked("p", 7, "5")),
        None,
        "it would not help"
    );
    let mut spec = asking("2", "1Mi");
    spec["priority"] = json!(7);
    spec["preemptionPolicy"] = json!("Never");
    assert_eq!(
        victims(&mut cluster, &pod("p", &nothing(), &spec)),
        None,
        "it does not want to"
    );
    let still: usize = cluster.nodes().map(|node| node.pods.len()).sum();
    assert_eq!(still, 5, "deciding preempts no pod");
}

fn claim(class: Option<&str>, more: &Value) -> Arc<PersistentVolumeClaim> {
    let mut claim = json!({
        "metadata": { "name": "data", "namespace": "ns", "uid": "c" },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                  "resources": { "requests": { "storage": "2Gi" } } },
    });
    for part in ["metadata", "spec"] {
        super::extend(&mut claim[part], &more[part]);
    }
    Arc::new(serde_json::from_value(claim).expect("a claim"))
}

fn volume(name: &str, size: &str, host: &str) -> Arc<PersistentVolume> {
    let volume = json!({
        "metadata": { "name": name },
        "spec": { "capacity": { "storage": size }, "accessModes": ["ReadWriteOnce"],
                  "storageClassName": "late",
                  "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                      { "key": "kubernetes.io/hostname", "operator": "In", "values": [host] }]}]}}},
    });
    Arc::new(serde_json::from_value(volume).expect("a volume"))
}

fn class(name: &str, provisioner: &str, mode: &str) -> Arc<StorageClass> {
    let class = json!({ "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": mode });
    Arc::new(serde_json::from_value(class).expect("a class"))
}

fn with_volumes(
    claims: &[Arc<PersistentVolumeClaim>],
    volumes: &[Arc<PersistentVolume>],
) -> Cluster {
    let mut cluster = zones();
    let all = &mut cluster.volumes;
    for class in [
        class(
            "late",
            "kubernetes.io/no-provisioner",
            "WaitForFirstConsumer",
        ),
        class("made", "example.com/disk", "WaitForFirstConsumer"),
        class("soon", "example.com/disk", "Immediate"),
    ] {
        all.classes
            .insert(class.metadata.name.clone().unwrap_or_default(), class);
    }
    for claim in claims {
        all.claims
            .insert(Key::of(&claim.metadata), Arc::clone(claim));
    }
    for volume in volumes {
        let name = volume.metadata.name.clone().unwrap_or_default();
        all.existing.insert(name, Arc::clone(volume));
    }
    cluster
}

fn using() -> Value {
    json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] })
}

#[rstest]
#[case::missing(None, "persistentvolumeclaim \"data\" not found")]
#[case::immediate(Some(claim(Some("soon"), &nothing())), "pod has unbound immediate PersistentVolumeClaims")]
#[case::without_class(Some(claim(None, &nothing())), "pod has unbound immediate PersistentVolumeClaims")]
#[case::going(Some(claim(Some("late"), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))), "persistentvolumeclaim \"data\" is being deleted")]
#[case::no_volume(Some(claim(Some("late"), &nothing())), "3 node(s) didn't find available persistent volumes to bind")]
#[case::volume_gone(Some(claim(Some("late"), &json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "x"}}))), "3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")]
fn pods_wait_for_their_claims(
    #[case] claim: Option<Arc<PersistentVolumeClaim>>,
    #[case] why: &str,
) {
    let claims: Vec<_> = claim.into_iter().collect();
    let mut cluster = with_volumes(&claims, &[]);
    let unfit = decide(&mut cluster, &pod("p", &nothing(), &using())).expect_err("it waits");
    assert!(
        unfit
            .to_string()
            .contains(&format!("0/3 nodes are available: {why}.")),
        "{unfit}"
    );
    assert!(unfit.is_resolved_by(ChangeKind::Volume));
}

#[test]
fn claim_gets_the_smallest_sufficient_volume() {
    let volumes = [
        volume("tiny", "1Gi", "a1"),
        volume("huge", "9Gi", "a2"),
        volume("right", "2Gi", "a2"),
    ];
    let mut cluster = with_volumes(&[claim(Some("late"), &nothing())], &volumes);
    let found = decide(&mut cluster, &pod("p", &nothing(), &using())).expect("a2");
    assert_eq!(found.node, "a2");
    assert_eq!(found.supplies[0].source, Source::Existing("right".into()));
    cluster.volumes.promised.insert("right".into());
    let found = decide(&mut cluster, &pod("q", &nothing(), &using())).expect("still a2");
    assert_eq!(found.supplies[0].source, Source::Existing("huge".into()));

    // A volume reserved for the claim by an earlier, interrupted scheduler goes first.
    cluster.volumes.promised.clear();
    let mut given = PersistentVolume::clone(&volumes[1]);
    let reference = json!({ "namespace": "ns", "name": "data", "uid": "c" });
    given.spec.get_or_insert_default().claim_ref = serde_json::from_value(reference).ok();
    cluster
        .volumes
        .existing
        .insert("huge".into(), Arc::new(given));
    let found = decide(&mut cluster, &pod("r", &nothing(), &using())).expect("still a2");
    assert_eq!(found.supplies[0].source, Source::Existing("huge".into()));
}

#[test]
fn provisioning_follows_the_selected_node() {
    let chosen = |node: &str| {
        let more = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": node } } });
        claim(Some("made"), &more)
    };
    let mut cluster = with_volumes(&[chosen("b1")], &[]);
    let found = decide(&mut cluster, &pod("p", &nothing(), &using())).expect("b1");
    assert_eq!(
        (found.node.as_str(), &found.supplies[0].source),
        ("b1", &Source::Provisioned)
    );
    let mut cluster = with_volumes(&[chosen("gone")], &[]);
    decide(&mut cluster, &pod("p", &nothing(), &using())).expect("anywhere: that node is gone");
}

#[test]
fn bound_volume_restricts_nodes() {
    let bound = json!({ "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } }, "spec": { "volumeName": "disk" } });
    let mut cluster = with_volumes(
        &[claim(Some("late"), &bound)],
        &[volume("disk", "2Gi", "b1")],
    );
    let found = decide(&mut cluster, &pod("p", &nothing(), &using())).expect("b1");
    assert_eq!((found.node.as_str(), found.supplies.len()), ("b1", 0));
    let elsewhere = json!({ "nodeSelector": { "zone": "a" }, "volumes": using()["volumes"] });
    let unfit = decide(&mut cluster, &pod("q", &nothing(), &elsewhere)).expect_err("not in a");
    assert!(
        unfit
            .to_string()
            .contains("2 node(s) didn't match PersistentVolume's node affinity"),
        "{unfit}"
    );
}

fn unfit(reason: Reason) -> UnschedulableReason {
    UnschedulableReason::Nodes {
        nodes: 1,
        reasons: [(reason, 1)].into(),
        hopeless: 0,
    }
}

#[test]
fn queue_is_ordered_by_priority_then_arrival() {
    let mut waiting = Waiting::default();
    for (name, priority) in [("a", 0), ("b", 10), ("c", 0), ("d", 10)] {
        waiting.add(pod(name, &nothing(), &json!({ "priority": priority })));
    }
    let mut order = Vec::new();
    while let Some(pod) = waiting.pop() {
        order.push(pod.key.name.clone());
    }
    assert_eq!(order, ["b", "d", "a", "c"]);
}

#[rstest]
#[case(Reason::Taint, &[ChangeKind::Node])]
#[case(Reason::TooManyPods, &[ChangeKind::Node, ChangeKind::PodGone])]
#[case(Reason::Together, &[ChangeKind::Node, ChangeKind::PodCame])]
#[case(Reason::NoVolume, &[ChangeKind::Node, ChangeKind::Volume])]
fn unschedulable_pod_is_requeued_by_relevant_changes(
    #[case] reason: Reason,
    #[case] hopes: &[ChangeKind],
) {
    for change in [
        ChangeKind::Node,
        ChangeKind::PodGone,
        ChangeKind::PodCame,
        ChangeKind::Volume,
    ] {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        let pod = pod("p", &nothing(), &nothing());
        waiting.add(Arc::clone(&pod));
        waiting.pop();
        waiting.unschedulable(&pod.key, unfit(reason.clone()), now);
        let later = now + Duration::from_secs(2);
        waiting.changed(change, later);
        assert_eq!(
            waiting.pop().is_some(),
            hopes.contains(&change),
            "{change:?}"
        );
    }
}

#[test]
fn retries_back_off_and_never_end() {
    let now = Instant::now();
    let mut waiting = Waiting::default();
    let pod = pod("p", &nothing(), &nothing());
    waiting.add(Arc::clone(&pod));
    waiting.pop();
    waiting.unschedulable(&pod.key, unfit(Reason::Taint), now);
    waiting.changed(ChangeKind::Node, now);
    assert!(waiting.pop().is_none(), "not at once");
    assert_eq!(waiting.flush(now), Some(now + Duration::from_secs(1)));
    waiting.flush(now + Duration::from_secs(1));
    assert!(waiting.pop().is_some(), "a second later");
    waiting.unschedulable(&pod.key, unfit(Reason::Taint), now);
    waiting.flush(now + Duration::from_mins(5));
    assert!(
        waiting.pop().is_some(),
        "after five minutes whatever happens"
    );
    waiting.failed(&pod.key, now);
    waiting.remove(&pod.key);
    waiting.flush(now + Duration::from_mins(15));
    assert!(waiting.pop().is_none(), "it is gone");
}
