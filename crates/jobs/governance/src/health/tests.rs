//! When a change has taken effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::advisor::TargetRef;
use kube_core::DynamicObject;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::snapshot::{GroupKind, Kind};

const MCO: &str = "machineconfiguration.openshift.io";
const PSI: &str = "99-worker-psi";

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn target(api_version: &str, kind: &str, name: &str) -> TargetRef {
    TargetRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    }
}

fn psi_target() -> TargetRef {
    target("machineconfiguration.openshift.io/v1", "MachineConfig", PSI)
}

fn psi() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": PSI, "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": { "kernelArguments": ["psi=1"] },
    })
}

fn snapshot(objects: &[Value]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for kind in ["MachineConfigPool", "MachineConfig"] {
        let objects = objects
            .iter()
            .filter(|object| object["kind"] == kind)
            .map(|value| {
                let name = value["metadata"]["name"].as_str().unwrap().to_owned();
                ((String::new(), name), Arc::new(object(value.clone())))
            })
            .collect::<BTreeMap<_, _>>();
        let kind_of = Kind {
            version: "v1".to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            definition: None,
            objects,
        };
        snapshot.insert(GroupKind { group: MCO, kind }, kind_of);
    }
    snapshot
}

/// A pool that runs our MachineConfig on all of its three nodes, with some fields changed.
fn pool(name: &str, changes: &[(&str, Value)]) -> Value {
    let configuration =
        json!({ "name": "rendered-new", "source": [{ "name": "00-worker" }, { "name": PSI }] });
    let mut pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": { "name": name, "generation": 4 },
        "spec": {
            "paused": false,
            "machineConfigSelector": {
                "matchExpressions": [{ "key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", name] }],
            },
            "configuration": configuration,
        },
        "status": {
            "observedGeneration": 4, "configuration": configuration,
            "machineCount": 3, "updatedMachineCount": 3, "readyMachineCount": 3, "degradedMachineCount": 0,
            "conditions": [
                { "type": "Updated", "status": "True" },
                { "type": "Updating", "status": "False" },
                { "type": "NodeDegraded", "status": "False" },
                { "type": "RenderDegraded", "status": "False" },
                { "type": "Degraded", "status": "False" },
            ],
        },
    });
    for (path, value) in changes {
        *pool.pointer_mut(path).unwrap() = value.clone();
    }
    pool
}

fn rollout(pools: &[Value]) -> Health {
    health(&psi_target(), Some(&object(psi())), &snapshot(pools))
}

/// The health as `ok`, `waiting` or `failed` with its message.
fn shown(health: &Health) -> String {
    match health {
        Health::Healthy(message) => format!("ok: {message}"),
        Health::Waiting { message, .. } => format!("waiting: {message}"),
        Health::Unseen { why, .. } => format!("unseen: {why}"),
        Health::Failed(message) => format!("failed: {message}"),
    }
}

const UPDATED: &str = "/status/conditions/0/status";
const UPDATING: &str = "/status/conditions/1/status";
const NODE_DEGRADED: &str = "/status/conditions/2";
const RENDER_DEGRADED: &str = "/status/conditions/3";

/// B2: up to date with the previous configuration is not done. B14: a pool without nodes is.
#[rstest]
#[case::done(&[], "ok: MachineConfigPool 'worker' is ready (all 3 nodes updated)")]
#[case::no_machines(
    &[("/status/machineCount", json!(0)), ("/status/updatedMachineCount", json!(0)), ("/status/readyMachineCount", json!(0))],
    "ok: MachineConfigPool 'worker' is ready (all 0 nodes updated)"
)]
#[case::paused_after_it_was_done(
    &[("/spec/paused", json!(true))],
    "ok: MachineConfigPool 'worker' is ready (all 3 nodes updated)"
)]
#[case::no_status(&[("/status", json!(null))], "waiting: MachineConfigPool 'worker' has no status yet")]
#[case::up_to_date_with_what_was_before(
    &[("/spec/configuration", json!({ "name": "rendered-old", "source": [{ "name": "00-worker" }] })),
      ("/status/configuration", json!({ "name": "rendered-old", "source": [{ "name": "00-worker" }] }))],
    "waiting: Waiting for MachineConfigPool 'worker' to render '99-worker-psi'"
)]
#[case::nothing_rendered_ever(
    &[("/spec/configuration", json!({}))],
    "waiting: Waiting for MachineConfigPool 'worker' to render '99-worker-psi'"
)]
#[case::rendered_and_not_yet_seen(
    &[("/status/observedGeneration", json!(3)), ("/status/configuration/name", json!("rendered-old"))],
    "waiting: Waiting for MachineConfigPool 'worker' to take up generation 4"
)]
#[case::rendered_and_stale(
    &[("/status/configuration/name", json!("rendered-old"))],
    "waiting: Waiting for MachineConfigPool 'worker' to stabilize (3/3 nodes updated)"
)]
#[case::updating(
    &[(UPDATED, json!("False")), (UPDATING, json!("True")), ("/status/machineCount", json!(10)),
      ("/status/updatedMachineCount", json!(2)), ("/status/readyMachineCount", json!(1))],
    "waiting: MachineConfigPool 'worker' is updating (Updated: 2/10, Ready: 1/10)"
)]
#[case::processing(
    &[(UPDATED, json!("False")), ("/status/machineCount", json!(10)), ("/status/updatedMachineCount", json!(2))],
    "waiting: MachineConfigPool 'worker' is processing changes (Updated: 2/10, Ready: 3/10)"
)]
#[case::stabilizing(
    &[("/status/machineCount", json!(10)), ("/status/updatedMachineCount", json!(2))],
    "waiting: Waiting for MachineConfigPool 'worker' to stabilize (2/10 nodes updated)"
)]
#[case::not_all_ready(
    &[("/status/readyMachineCount", json!(2))],
    "waiting: Waiting for MachineConfigPool 'worker' to stabilize (3/3 nodes updated)"
)]
#[case::paused(
    &[("/spec/paused", json!(true)), (UPDATED, json!("False"))],
    "waiting: MachineConfigPool 'worker' is paused: it will not update until it is resumed"
)]
#[case::degraded(
    &[("/status/degradedMachineCount", json!(1)),
      (NODE_DEGRADED, json!({ "type": "NodeDegraded", "status": "True", "reason": "1 nodes are reporting degraded", "message": "disk full" }))],
    "waiting: MachineConfigPool 'worker' is degraded (1 degraded machines): 1 nodes are reporting degraded: disk full"
)]
#[case::cannot_render(
    &[(RENDER_DEGRADED, json!({ "type": "RenderDegraded", "status": "True", "reason": "", "message": "parsing Ignition config failed" }))],
    "failed: MachineConfigPool 'worker' cannot render its configuration: parsing Ignition config failed"
)]
fn machine_config_is_healthy_once_every_node_runs_it(
    #[case] changes: &[(&str, Value)],
    #[case] expected: &str,
) {
    assert_eq!(shown(&rollout(&[pool("worker", changes)])), expected);
}

#[test]
fn progress_is_counted() {
    let slow = pool(
        "worker",
        &[
            (UPDATED, json!("False")),
            (UPDATING, json!("True")),
            ("/status/machineCount", json!(10)),
            ("/status/updatedMachineCount", json!(2)),
        ],
    );
    let Health::Waiting {
        message, progress, ..
    } = rollout(&[slow])
    else {
        panic!("it is not done");
    };
    assert!(message.contains("2/10"), "{message}");
    assert_eq!(progress, Some((2, 10)));
}

/// After completion, a fault is unhealthy and progress is not.
#[rstest]
#[case::degraded(&[("/status/degradedMachineCount", json!(1))], true)]
#[case::updating(&[(UPDATED, json!("False")), (UPDATING, json!("True")), ("/status/updatedMachineCount", json!(1))], false)]
#[case::paused(&[("/spec/paused", json!(true)), (UPDATED, json!("False"))], false)]
fn faults_and_progress_differ(#[case] changes: &[(&str, Value)], #[case] expected: bool) {
    let verdict = rollout(&[pool("worker", changes)]);
    assert!(
        matches!(verdict, Health::Waiting { fault, .. } if fault == expected),
        "{verdict:?}"
    );
}

/// The pool reports `Updating` while a node that has the configuration is not ready.
#[test]
fn unavailable_nodes_of_a_finished_rollout_are_a_fault() {
    let changes = [(UPDATED, json!("False")), (UPDATING, json!("True"))];
    let mut lost = pool("worker", &changes);
    lost["status"]["unavailableMachineCount"] = json!(1);
    let verdict = rollout(std::slice::from_ref(&lost));
    let message = "MachineConfigPool 'worker' has 1 unavailable of 3 nodes";
    assert!(
        matches!(&verdict, Health::Waiting { message: it, fault: true, .. } if it == message),
        "{verdict:?}"
    );
    // While it rolls out, an unavailable node is one that restarts.
    lost["status"]["configuration"]["name"] = json!("rendered-old");
    let verdict = rollout(&[lost]);
    assert!(
        matches!(&verdict, Health::Waiting { fault: false, .. }),
        "{verdict:?}"
    );
}

#[test]
fn custom_pools_are_waited_for() {
    let infra = pool(
        "infra",
        &[(UPDATED, json!("False")), (UPDATING, json!("True"))],
    );
    // Selects role=master only, so it is not affected.
    let master = pool(
        "master",
        &[
            (
                "/spec/machineConfigSelector",
                json!({ "matchLabels": { "machineconfiguration.openshift.io/role": "master" } }),
            ),
            (UPDATED, json!("False")),
        ],
    );
    assert_eq!(
        shown(&rollout(&[pool("worker", &[]), infra, master])),
        "waiting: MachineConfigPool 'infra' is updating (Updated: 3/3, Ready: 3/3); \
         MachineConfigPool 'worker' is ready (all 3 nodes updated)"
    );
}

#[test]
fn pool_that_cannot_render_decides() {
    let broken = json!({ "type": "RenderDegraded", "status": "True", "message": "bad" });
    let verdict = rollout(&[
        pool("infra", &[(UPDATED, json!("False"))]),
        pool("worker", &[(RENDER_DEGRADED, broken)]),
    ]);
    assert!(
        matches!(verdict, Health::Failed(message) if message.starts_with("MachineConfigPool 'worker' cannot render"))
    );
}

#[test]
fn machine_config_without_a_pool_waits() {
    let expected = "waiting: MachineConfigPool 'worker' not found";
    assert_eq!(shown(&rollout(&[])), expected);
    let kind_missing = health(&psi_target(), Some(&object(psi())), &Snapshot::default());
    assert_eq!(shown(&kind_missing), expected);
}

/// B2: the pool is up to date with the previous content of a MachineConfig.
#[rstest]
#[case::argument(
    json!({ "kernelArguments": ["psi=1"] }),
    json!({ "kernelArguments": ["quiet"] }),
    Some("kernel argument psi=1 is missing")
)]
#[case::argument_taken_away(
    json!({ "kernelArguments": [] }),
    json!({ "kernelArguments": ["quiet", "psi=1"] }),
    Some("kernel argument psi=1 is left over")
)]
#[case::file(
    ignition(&[("/a", "data:,new")], &[]), ignition(&[("/a", "data:,old"), ("/b", "")], &[]),
    Some("file /a is missing")
)]
#[case::new_file(ignition(&[("/a", "data:,1")], &[]), ignition(&[("/b", "")], &[]), Some("file /a is missing"))]
#[case::file_taken_away(ignition(&[], &[]), ignition(&[("/a", ""), ("/b", "")], &[]), Some("file /a is left over"))]
#[case::unit(
    ignition(&[], &[("u.service", "new")]), ignition(&[("/b", "")], &[("u.service", "old")]),
    Some("unit u.service is missing")
)]
#[case::unit_taken_away(
    ignition(&[], &[]), ignition(&[("/b", "")], &[("u.service", "old")]),
    Some("unit u.service is left over")
)]
#[case::everything(
    json!({ "kernelArguments": ["psi=1"], "config": ignition(&[("/a", "data:,1")], &[("u", "x")])["config"] }),
    json!({
        "kernelArguments": ["quiet", "psi=1"],
        "config": ignition(&[("/b", ""), ("/a", "data:,1")], &[("u", "x")])["config"],
    }),
    None
)]
fn changed_machine_config_is_not_up_to_date(
    #[case] is: Value,
    #[case] rendered: Value,
    #[case] expected: Option<&str>,
) {
    let mut ours = psi();
    ours["spec"] = is;
    let named = |name: &str, spec: Value| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": name }, "spec": spec,
        })
    };
    let mut base = ignition(&[("/b", "")], &[]);
    base["kernelArguments"] = json!(["quiet"]);
    let objects = [
        pool("worker", &[]),
        named("00-worker", base),
        named("rendered-new", rendered),
        ours.clone(),
    ];
    let verdict = health(&psi_target(), Some(&object(ours)), &snapshot(&objects));
    let expected = expected.map_or_else(
        || "ok: MachineConfigPool 'worker' is ready (all 3 nodes updated)".to_owned(),
        |what| format!("waiting: Waiting for MachineConfigPool 'worker' to render '99-worker-psi' anew ({what})"),
    );
    assert_eq!(shown(&verdict), expected);
}

/// Files by path and source, and units by name and contents.
fn ignition(files: &[(&str, &str)], units: &[(&str, &str)]) -> Value {
    let files: Vec<_> = files
        .iter()
        .map(
            |(path, source)| json!({ "path": path, "mode": 420, "contents": { "source": source } }),
        )
        .collect();
    let units: Vec<_> = units
        .iter()
        .map(|(name, contents)| json!({ "name": name, "enabled": true, "contents": contents }))
        .collect();
    json!({ "config": {
        "ignition": { "version": "3.2.0" },
        "storage": { "files": files }, "systemd": { "units": units },
    } })
}

/// A source deleted since is no reason to wait: the pool reports on that itself.
#[test]
fn deleted_sources_are_ignored() {
    let rendered = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "rendered-new" },
        "spec": { "kernelArguments": ["quiet", "psi=1"] },
    });
    let verdict = rollout(&[pool("worker", &[]), rendered]);
    assert!(matches!(verdict, Health::Healthy(_)), "{verdict:?}");
}

#[rstest]
#[case::not_yet_deleted(&[psi()], "waiting: Waiting for MachineConfig 99-worker-psi to be deleted")]
#[case::no_pools(&[], "ok: Deleted successfully")]
#[case::still_rendered(&[pool("worker", &[])], "waiting: Waiting for MachineConfigPool 'worker' to render without '99-worker-psi'")]
#[case::rolling_back(
    &[pool("worker", &[("/spec/configuration/source", json!([])), (UPDATED, json!("False")), (UPDATING, json!("True")), ("/status/updatedMachineCount", json!(1))])],
    "waiting: MachineConfigPool 'worker' is updating (Updated: 1/3, Ready: 3/3)"
)]
#[case::rolled_back(
    &[pool("worker", &[("/spec/configuration/source", json!([]))])],
    "ok: MachineConfigPool 'worker' is ready (all 3 nodes updated)"
)]
fn deleted_machine_config_is_done_once_no_node_runs_it(
    #[case] objects: &[Value],
    #[case] expected: &str,
) {
    let verdict = gone(&psi_target(), Some(&psi()), &snapshot(objects));
    assert_eq!(shown(&verdict), expected);
}

fn status(api_version: &str, kind: &str, status: &Value) -> String {
    let live = object(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": "it", "generation": 3 }, "spec": {}, "status": status,
    }));
    shown(&health(
        &target(api_version, kind, "it"),
        Some(&live),
        &Snapshot::default(),
    ))
}

#[rstest]
#[case(json!(null), "unseen: the HyperConverged operator reports no status")]
#[case(json!({ "observedGeneration": 3 }), "unseen: the HyperConverged operator reports no status")]
#[case(json!({ "observedGeneration": 3, "conditions": [{ "type": "Available", "status": "True" }] }), "ok: Applied successfully")]
#[case(
    json!({ "conditions": [{ "type": "Available", "status": "True" }] }),
    "unseen: the HyperConverged operator does not report which generation it has processed"
)]
#[case(
    json!({ "observedGeneration": 3, "conditions": [{ "type": "Available", "status": "False", "reason": "VirtHandler" }] }),
    "waiting: HyperConverged is not available: VirtHandler"
)]
#[case(json!({ "conditions": [{ "type": "Degraded", "status": "True", "message": "no" }, { "type": "Progressing", "status": "True" }] }), "waiting: HyperConverged is degraded: no")]
#[case(json!({ "conditions": [{ "type": "Progressing", "status": "True", "reason": "Reconciling" }] }), "waiting: HyperConverged is progressing: Reconciling")]
#[case(json!({ "observedGeneration": 1 }), "waiting: Waiting for the HyperConverged operator to take up generation 3")]
fn hyper_converged_is_waited_for(#[case] is: Value, #[case] expected: &str) {
    for version in ["hco.kubevirt.io/v1", "hco.kubevirt.io/v1beta1"] {
        assert_eq!(status(version, "HyperConverged", &is), expected);
    }
}

#[rstest]
#[case(json!(null), "unseen: the NodeHealthCheck operator reports no status")]
#[case(json!({ "phase": "Enabled" }), "ok: Applied successfully")]
#[case(json!({ "phase": "Paused" }), "ok: Applied successfully")]
#[case(json!({ "phase": "Remediating" }), "ok: Applied successfully")]
#[case(
    json!({ "phase": "Disabled", "conditions": [{ "type": "Disabled", "status": "True", "reason": "RemediationTemplateNotFound", "message": "no template" }] }),
    "waiting: NodeHealthCheck is disabled: RemediationTemplateNotFound: no template"
)]
fn node_health_check_has_to_be_enabled(#[case] is: Value, #[case] expected: &str) {
    assert_eq!(
        status("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", &is),
        expected
    );
}

#[test]
fn other_kinds_have_no_operator_that_reports() {
    assert_eq!(
        status("v1", "ConfigMap", &json!(null)),
        "unseen: no operator reports on a ConfigMap"
    );
    // A kind of the same name in another group.
    let degraded = json!({ "conditions": [{ "type": "Degraded", "status": "True" }] });
    assert_eq!(
        status("example.com/v1", "HyperConverged", &degraded),
        "unseen: no operator reports on a HyperConverged"
    );
    let map = target("v1", "ConfigMap", "it");
    assert_eq!(
        shown(&health(&map, None, &Snapshot::default())),
        "waiting: ConfigMap it not found"
    );
    assert_eq!(
        shown(&gone(&map, None, &Snapshot::default())),
        "ok: Deleted successfully"
    );
}

proptest! {
    /// Healthy requires the complete proof, whatever else the pool reports.
    #[test]
    fn no_pool_is_healthy_without_the_whole_proof(
        (updated, updating, degraded) in (any::<bool>(), any::<bool>(), any::<bool>()),
        (rendered, switched, observed) in (any::<bool>(), any::<bool>(), any::<bool>()),
        counts in (0_i64..3, 0_i64..3, 0_i64..3),
    ) {
        let status_of = |holds: bool| json!(if holds { "True" } else { "False" });
        let source = if rendered { json!([{ "name": PSI }]) } else { json!([]) };
        let verdict = rollout(&[pool("worker", &[
            (UPDATED, status_of(updated)),
            (UPDATING, status_of(updating)),
            ("/status/conditions/4/status", status_of(degraded)),
            ("/spec/configuration/source", source),
            ("/status/configuration/name", json!(if switched { "rendered-new" } else { "rendered-old" })),
            ("/status/observedGeneration", json!(if observed { 4 } else { 3 })),
            ("/status/machineCount", json!(counts.0)),
            ("/status/updatedMachineCount", json!(counts.1)),
            ("/status/readyMachineCount", json!(counts.2)),
        ])]);
        let proven = updated && !updating && !degraded && rendered && switched && observed
            && counts.0 == counts.1 && counts.0 == counts.2;
        prop_assert_eq!(matches!(verdict, Health::Healthy(_)), proven, "{:?}", verdict);
    }
}
