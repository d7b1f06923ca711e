mod completion;

use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use kube_core::ResourceExt as _;
use serde_json::{Value, json};

use super::*;
use crate::evidence::PodImage;
use crate::payload::{Manifest, Payload};

const NAMES: [&str; 33] = [
    "authentication",
    "baremetal",
    "cloud-controller-manager",
    "cloud-credential",
    "cluster-autoscaler",
    "config-operator",
    "console",
    "control-plane-machine-set",
    "csi-snapshot-controller",
    "dns",
    "etcd",
    "image-registry",
    "ingress",
    "insights",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-storage-version-migrator",
    "machine-api",
    "machine-approver",
    "machine-config",
    "marketplace",
    "monitoring",
    "network",
    "node-tuning",
    "openshift-apiserver",
    "openshift-controller-manager",
    "openshift-samples",
    "operator-lifecycle-manager",
    "operator-lifecycle-manager-catalog",
    "operator-lifecycle-manager-packageserver",
    "service-ca",
    "storage",
];
/// Operators that report their images.
const ADOPTERS: [&str; 4] = ["dns", "etcd", "machine-config", "network"];
const VERSION: &str = "4.18.0-ec.3";

fn image(letter: char) -> String {
    format!("quay.io/release@sha256:{}", letter.to_string().repeat(64))
}

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

/// An operator of the release: its reported image, and the start of its update.
fn operator(name: &str, image: Option<&str>, progressing: Option<i64>) -> ClusterOperator {
    let mut versions = vec![json!({ "name": "operator", "version": VERSION })];
    if let Some(image) = image {
        versions.push(json!({ "name": "operator-image", "version": image }));
    }
    let (status, since, reason, message) = match progressing {
        Some(since) => (
            "True",
            at(since),
            "Rolling",
            format!("Working towards {VERSION}"),
        ),
        None => ("False", at(-9000), "AsExpected", String::new()),
    };
    let long_ago = at(-9000).to_string();
    let annotations =
        json!({ "include.release.openshift.io/self-managed-high-availability": "true" });
    serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": {},
        "status": { "versions": versions, "conditions": [
            { "type": "Available", "status": "True", "lastTransitionTime": long_ago },
            { "type": "Degraded", "status": "False", "lastTransitionTime": long_ago },
            { "type": "Progressing", "status": status, "reason": reason, "message": message,
              "lastTransitionTime": since.to_string() },
        ] },
    }))
    .unwrap()
}

fn plan() -> Plan {
    let manifests = NAMES.iter().map(|name| {
        let level = if *name == "machine-config" { 80 } else { 50 };
        let wanted = ADOPTERS.contains(name).then(|| image('b'));
        let expected = operator(name, wanted.as_deref(), None);
        let mut object = serde_json::to_value(expected).unwrap();
        object["apiVersion"] = json!("config.openshift.io/v1");
        object["kind"] = json!("ClusterOperator");
        Manifest {
            file: format!("0000_{level}_{name}_co.yaml"),
            object,
        }
    });
    Plan::new(&Payload {
        manifests: manifests.collect(),
        ..Payload::default()
    })
}

fn pool(name: &str) -> MachineConfigPool {
    let role = format!("node-role.kubernetes.io/{name}");
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "configuration": { "name": format!("rendered-{name}-new") },
            "nodeSelector": { "matchLabels": { role: "" } },
        },
    }))
    .unwrap()
}

/// A node: `done`, `draining`, `rebooting` or `waiting`.
fn node(name: &str, pool: &str, state: &str) -> Node {
    let new = format!("rendered-{pool}-new");
    let old = format!("rendered-{pool}-old");
    let (current, desired) = match state {
        "done" => (&new, &new),
        "waiting" => (&old, &old),
        _ => (&old, &new),
    };
    let drained = if state == "draining" {
        "uncordon-1"
    } else {
        "drain-2"
    };
    let role = format!("node-role.kubernetes.io/{pool}");
    let ready = if state == "rebooting" {
        "False"
    } else {
        "True"
    };
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "labels": { role: "" },
            "annotations": {
                "machineconfiguration.openshift.io/currentConfig": current,
                "machineconfiguration.openshift.io/desiredConfig": desired,
                "machineconfiguration.openshift.io/state": "Working",
                "machineconfiguration.openshift.io/desiredDrain": "drain-2",
                "machineconfiguration.openshift.io/lastAppliedDrain": drained,
            },
        },
        "spec": { "unschedulable": current != desired },
        "status": {
            "conditions": [{ "type": "Ready", "status": ready }],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
                "operatingSystem": "linux", "osImage": "", "systemUUID": "",
            },
        },
    }))
    .unwrap()
}

/// A cluster at some point of its migration.
struct Stage {
    version: ClusterVersion,
    operators: Vec<ClusterOperator>,
    nodes: Vec<Node>,
    evidence: Vec<Evidence>,
    now: Timestamp,
}

impl Stage {
    /// `arrived` have the new image, and `progressing` have been updating since then.
    fn new(
        now: i64,
        arrived: &[&str],
        progressing: &[(&str, i64)],
        nodes: [&str; 6],
        completed: Option<i64>,
    ) -> Self {
        let mut newest = json!({
            "state": "Partial", "version": VERSION, "image": image('b'),
            "startedTime": at(0).to_string(), "completionTime": null,
        });
        let mut status = "True";
        if let Some(when) = completed {
            newest["state"] = json!("Completed");
            newest["completionTime"] = json!(at(when).to_string());
            status = "False";
        }
        let version = json!({
            "metadata": { "name": "version" },
            "spec": { "desiredUpdate": { "architecture": "Multi", "version": VERSION } },
            "status": {
                "desired": { "version": VERSION, "image": image('b') },
                "history": [newest, {
                    "state": "Completed", "version": VERSION, "image": image('a'),
                    "startedTime": at(-9000).to_string(), "completionTime": at(-8000).to_string(),
                }],
                "conditions": [
                    { "type": "Progressing", "status": status },
                    { "type": "Failing", "status": "False" },
                ],
            },
        });
        let operators = NAMES.iter().map(|name| {
            let reported = ADOPTERS
                .contains(name)
                .then(|| image(if arrived.contains(name) { 'b' } else { 'a' }));
            let since = progressing.iter().find(|(it, _)| it == name);
            operator(name, reported.as_deref(), since.map(|(_, since)| *since))
        });
        let named = nodes.iter().enumerate().map(|(place, state)| {
            let (pool, number) = if place < 3 {
                ("master", place)
            } else {
                ("worker", place - 3)
            };
            node(&format!("{pool}-{number}"), pool, state)
        });
        Self {
            version: serde_json::from_value(version).unwrap(),
            operators: operators.collect(),
            nodes: named.collect(),
            evidence: Vec::new(),
            now: at(now),
        }
    }

    fn report(&self, plan: Option<&Plan>) -> Report {
        self.report_with(plan, &["master", "worker"].map(pool))
    }

    fn report_with(&self, plan: Option<&Plan>, pools: &[MachineConfigPool]) -> Report {
        let names = ["master", "worker"];
        let configurations = names.iter().flat_map(|pool| {
            ["old", "new"].map(|it| (format!("rendered-{pool}-{it}"), VERSION.to_owned()))
        });
        Report::of(&Cluster {
            version: &self.version,
            operators: &self.operators,
            pools,
            nodes: &self.nodes.iter().collect::<Vec<_>>(),
            configurations: &configurations.collect(),
            plan,
            machine_config_image: None,
            evidence: &self.evidence,
            known: &KnownPayloads::of(&self.version),
            past: &UpdateDurations::default(),
            now: self.now,
        })
    }
}

const WAITING: [&str; 6] = ["waiting"; 6];

fn stages() -> [Stage; 5] {
    let all = &ADOPTERS;
    [
        Stage::new(60, &[], &[("etcd", 30), ("network", 45)], WAITING, None),
        Stage::new(300, &["etcd", "network"], &[("dns", 280)], WAITING, None),
        Stage::new(
            1200,
            &["dns", "etcd", "network"],
            &[("machine-config", 480)],
            [
                "done",
                "draining",
                "waiting",
                "done",
                "rebooting",
                "waiting",
            ],
            None,
        ),
        Stage::new(
            2700,
            all,
            &[],
            ["done", "done", "done", "done", "draining", "waiting"],
            Some(2640),
        ),
        Stage::new(4200, all, &[], ["done"; 6], Some(2640)),
    ]
}

/// Compares with a golden file; `RELEASE_GOLDEN=write` writes it instead.
#[track_caller]
fn golden(name: &str, found: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/golden");
    let file = folder.join(name);
    if std::env::var_os("RELEASE_GOLDEN").is_some_and(|it| it == "write") {
        std::fs::write(&file, found).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn five_stages_of_a_migration() {
    let plan = plan();
    for (number, moment) in stages().iter().enumerate() {
        let report = moment.report(Some(&plan));
        let details = Details {
            operators: number == 0,
            ..Details::default()
        };
        let number = number + 1;
        golden(
            &format!("status-{number}.txt"),
            &report.text(details, moment.now),
        );
        let json = serde_json::to_value(&report).unwrap();
        golden(&format!("status-{number}.json"), &format!("{json:#}\n"));
    }
}

#[test]
fn workers_count_for_completion_only_if_requested() {
    let plan = plan();
    let complete = stages().map(|moment| {
        let report = moment.report(Some(&plan));
        (report.is_complete(false), report.is_complete(true))
    });
    let (no, yes) = ((false, false), (true, true));
    assert_eq!(complete, [no, no, no, (true, false), yes]);
}

/// Upstream's estimate without the release: only versions count.
#[test]
fn without_the_release_only_versions_count() {
    let [first, ..] = stages();
    let report = first.report(None);
    assert_eq!(report.control_plane.completion.updated, 33);
    let text = report.text(Details::default(), first.now);
    assert!(text.contains("Completion:      100% (33 operators updated, 0 updating, 0 waiting)"));
    // But machine-config is compared with the image in its Deployment.
    let known = KnownPayloads::of(&first.version);
    let report = Report::of(&Cluster {
        version: &first.version,
        operators: &first.operators,
        pools: &[],
        nodes: &[],
        configurations: &BTreeMap::new(),
        plan: None,
        machine_config_image: Some(&image('b')),
        evidence: &[],
        known: &known,
        past: &UpdateDurations::default(),
        now: first.now,
    });
    let completion = report.control_plane.completion;
    assert_eq!((completion.percent, completion.updated), (97, 32));
    let text = report.text(Details::default(), first.now);
    assert!(
        text.contains("(Est. Time Remaining: N/A for Multi-Architecture Migration)"),
        "{text}"
    );
}

#[test]
fn early_completion_claim_is_detected() {
    let plan = plan();
    let mut moment = Stage::new(2700, &ADOPTERS, &[], ["done"; 6], Some(2640));
    assert_eq!(
        moment
            .report(Some(&plan))
            .text(Details::default(), moment.now),
        "The cluster is not updating.\n"
    );
    moment.evidence = vec![Evidence {
        operator: "ingress".to_owned(),
        arrival: Arrival::Rolling,
        containers: 2,
        foreign: 0,
        stale: vec![PodImage {
            namespace: "openshift-ingress".to_owned(),
            pod: "router-1".to_owned(),
            container: "router".to_owned(),
            image: image('a'),
            is_ready: true,
        }],
        unready: Vec::new(),
    }];
    moment.evidence[0].arrival = Arrival::Starting;
    let calm = moment.report(Some(&plan));
    assert_eq!(calm.control_plane.assessment, Assessment::Completed);
    moment.evidence[0].arrival = Arrival::Rolling;
    let report = moment.report(Some(&plan));
    assert_eq!(report.control_plane.assessment, Assessment::Early);
    assert!(!report.is_complete(false));
    let text = report.text(Details::default(), moment.now);
    let part = "1m      Warning   Completion   ClusterVersion claims completion, but these operators have not arrived: ingress\n";
    assert!(text.contains(part), "{text}");
    assert!(
        text.contains("Assessment:      Completed early\n"),
        "{text}"
    );
}

#[test]
fn problems_are_insights() {
    let plan = plan();
    let [_, _, mut moment, ..] = stages();
    let change = |name: &str, kind: &str, status: &str, since: i64, moment: &mut Stage| {
        let operator = moment.operators.iter_mut().find(|it| it.name_any() == name);
        let conditions = &mut operator.unwrap().status.as_mut().unwrap().conditions;
        let condition = conditions.iter_mut().find(|it| it.kind == kind).unwrap();
        condition.status = status.to_owned();
        condition.reason = "Broken".to_owned();
        let since = at(since);
        condition.last_transition_time =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since));
    };
    change("console", "Available", "False", 1200 - 240, &mut moment);
    change("dns", "Available", "False", 1200 - 300, &mut moment);
    change("etcd", "Degraded", "True", 1200 - 2400, &mut moment);
    change("ingress", "Degraded", "True", 1200 - 2399, &mut moment);
    let health = moment.report(Some(&plan)).health;
    let messages: Vec<String> = health
        .iter()
        .map(|it| format!("{} {}", it.level, it.message))
        .collect();
    assert_eq!(
        messages,
        [
            "Error Cluster Operator etcd is degraded (Broken)",
            "Warning Cluster Operator dns is unavailable (Broken)",
            "Warning Cluster Operator ingress is degraded (Broken)",
            "Info 4 of 33 operators report images; completion is only exact for these",
        ]
    );
    let plane = moment.report(Some(&plan)).control_plane;
    assert_eq!(
        (
            plane.health.healthy,
            plane.health.unavailable,
            plane.health.degraded
        ),
        (29, 2, 2)
    );
}

/// As in `oc adm upgrade status`: a node that is not being updated, and is not ready, delays the update.
#[test]
fn unavailable_node_is_an_insight() {
    let plan = plan();
    let [_, _, mut moment, ..] = stages();
    // The others are being updated, or done.
    let conditions = json!([{ "type": "Ready", "status": "False" }]);
    for node in &mut moment.nodes {
        let status = node.status.as_mut().unwrap();
        status.conditions = serde_json::from_value(conditions.clone()).unwrap();
    }
    moment.nodes.truncate(3);
    let health = moment.report(Some(&plan)).health;
    let found: Vec<String> = health
        .iter()
        .filter(|it| it.impact == "Update Speed")
        .map(|it| format!("{} {}", it.level, it.message))
        .collect();
    assert_eq!(
        found,
        [
            "Warning Node master-0 is unavailable",
            "Warning Node master-2 is unavailable",
        ]
    );
}

#[test]
fn pool_without_nodes_is_empty() {
    let plan = plan();
    let [_, _, mut moment, ..] = stages();
    moment.nodes.truncate(3);
    let text = moment
        .report(Some(&plan))
        .text(Details::default(), moment.now);
    assert!(
        !text.contains("Worker"),
        "a compact cluster has no workers: {text}"
    );
    moment.nodes.push(node("infra-0", "infra", "waiting"));
    let pools = ["infra", "master", "worker"].map(pool);
    let text = moment
        .report_with(Some(&plan), &pools)
        .text(Details::default(), moment.now);
    assert!(
        text.contains("\nworker        Empty                     0 Total\n"),
        "{text}"
    );
}

/// Corner case 3 for waiting users: the update never completes.
#[test]
fn operator_that_never_matches_is_an_insight() {
    let plan = plan();
    let [_, mut moment, ..] = stages();
    let mirrored = image('b').replace("quay.io", "mirror.example");
    let place = NAMES.iter().position(|it| *it == "dns").unwrap();
    moment.operators[place] = operator("dns", Some(&mirrored), None);
    let report = moment.report(Some(&plan));
    let insight = &report.health[0];
    assert_eq!(
        (insight.level, insight.impact),
        (Level::Error, "Update Stalled")
    );
    assert!(
        insight
            .message
            .contains("(mirror.example/release instead of quay.io/release)")
    );
}

#[test]
fn assessment_follows_conditions() {
    let plan = plan();
    for (status, expected) in [
        ("False", Assessment::Progressing),
        ("Unknown", Assessment::Slow),
        ("True", Assessment::Stalled),
    ] {
        let [_, mut moment, ..] = stages();
        let conditions = &mut moment.version.status.as_mut().unwrap().conditions;
        conditions[1].status = status.to_owned();
        let report = moment.report(Some(&plan));
        assert_eq!(report.control_plane.assessment, expected);
    }
}

#[test]
fn long_node_lists_are_truncated() {
    let plan = plan();
    let [_, _, mut moment, ..] = stages();
    let more = (10..30).map(|number| node(&format!("worker-{number}"), "worker", "waiting"));
    moment.nodes.extend(more);
    let report = moment.report(Some(&plan));
    let text = report.text(Details::default(), moment.now);
    assert!(
        text.contains("...\nOmitted additional 13 Total, 1 Completed, 13 Available, 0 Progressing, 12 Outdated, 0 Draining, 0 Excluded, and 0 Degraded nodes.\nPass along --details=nodes to see all information.\n"),
        "{text}"
    );
    let all = Details {
        nodes: true,
        ..Details::default()
    };
    assert!(!report.text(all, moment.now).contains("Omitted"));
}

#[test]
fn paused_and_degraded_nodes_are_distinguished() {
    let plan = plan();
    let [_, _, moment, ..] = stages();
    let mut worker = pool("worker");
    worker.spec.paused = true;
    let mut broken = node("worker-9", "worker", "waiting");
    let annotations = broken.metadata.annotations.as_mut().unwrap();
    annotations.insert(
        "machineconfiguration.openshift.io/state".to_owned(),
        "Degraded".to_owned(),
    );
    annotations.insert(
        "machineconfiguration.openshift.io/reason".to_owned(),
        "disk full".to_owned(),
    );
    for (nodes, assessment, message) in [
        (
            vec![node("worker-1", "worker", "waiting")],
            PoolAssessment::Excluded,
            "Outdated nodes in a paused pool 'worker' will not be updated",
        ),
        (
            vec![broken],
            PoolAssessment::Degraded,
            "Node worker-9 is degraded",
        ),
    ] {
        let report = Report::of(&Cluster {
            version: &moment.version,
            operators: &moment.operators,
            pools: &[worker.clone()],
            nodes: &nodes.iter().collect::<Vec<_>>(),
            configurations: &BTreeMap::new(),
            plan: Some(&plan),
            machine_config_image: None,
            evidence: &[],
            known: &KnownPayloads::of(&moment.version),
            past: &UpdateDurations::default(),
            now: moment.now,
        });
        assert_eq!(report.workers[0].assessment, assessment);
        assert!(report.health.iter().any(|it| it.message == message));
    }
}

#[test]
fn target_text_names_the_change() {
    let [first, ..] = stages();
    let named = |history: Value| {
        let mut version = first.version.clone();
        version.spec.desired_update = None;
        version.status.as_mut().unwrap().history = serde_json::from_value(history).unwrap();
        let moment = Stage {
            version,
            operators: Vec::new(),
            nodes: Vec::new(),
            evidence: Vec::new(),
            now: first.now,
        };
        moment.report(None).control_plane.target.text
    };
    let entry = |state: &str, version: &str, image: &str| json!({ "state": state, "version": version, "image": image });
    let now = entry("Partial", VERSION, &image('b'));
    assert_eq!(named(json!([now])), "4.18.0-ec.3 (a new install)");
    assert_eq!(
        named(json!([now, entry("Completed", "4.17.1", "x")])),
        "4.18.0-ec.3 (from 4.17.1)"
    );
    assert_eq!(
        named(json!([now, entry("Partial", "4.17.1", "x")])),
        "4.18.0-ec.3 (from incomplete 4.17.1)"
    );
    let mirrored = image('b').replace("quay.io", "mirror.example");
    assert_eq!(
        named(json!([now, entry("Completed", VERSION, &mirrored)])),
        "4.18.0-ec.3 (the same images from another place)"
    );
    assert_eq!(
        named(json!([now, entry("Completed", VERSION, &image('a'))])),
        "4.18.0-ec.3 (the same version from another image)"
    );
}

#[test]
fn windows_nodes_are_in_no_pool() {
    let [.., mut last] = stages();
    assert!(last.report(None).is_complete(true));
    let mut windows = node("windows", "worker", "waiting");
    let labels = windows.metadata.labels.get_or_insert_default();
    labels.insert("kubernetes.io/os".to_owned(), "windows".to_owned());
    last.nodes.push(windows);
    assert!(
        last.report(None).is_complete(true),
        "it is not updated by a pool"
    );
}
