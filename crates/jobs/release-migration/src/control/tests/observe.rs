//! Beside a cluster-version operator that maintains the ClusterVersion.

use super::*;

/// The status that the cluster-version operator writes.
pub(super) fn cvo(image: &str, state: &str, progressing: &str) -> Value {
    json!({
        "desired": { "version": "4.18.0", "image": image },
        "history": [
            { "state": state, "version": "4.18.0", "image": image, "startedTime": "1970-01-01T00:10:00Z",
              "completionTime": (state == "Completed").then_some("1970-01-01T00:20:00Z") },
            { "state": "Completed", "version": "4.18.0", "image": "single",
              "startedTime": "1970-01-01T00:00:00Z", "completionTime": "1970-01-01T00:05:00Z" },
        ],
        "conditions": [{ "type": "Progressing", "status": progressing }],
    })
}

/// The seed's problem: the cluster-version operator claims completion at once.
#[test]
fn early_claim_is_reported() {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set_status(cvo("multi", "Completed", "False"));
    let early = cluster.reconcile(21);
    assert_eq!(early.version, None);
    let wanted = pull('b');
    assert_eq!(
        verdict(&early, "Agrees"),
        format!(
            "False ClaimedEarly: the cluster version operator claims that 4.18.0 is complete, but it is not: machine-config has not reported operator-image {wanted}"
        )
    );
    assert_eq!(
        verdict(&early, "Complete"),
        format!(
            "False ClusterOperatorUpdating: Cluster operator machine-config is updating versions: machine-config has not reported operator-image {wanted}"
        )
    );
    assert!(early.tally.claimed_early && !early.tally.complete);
    assert_eq!(reasons(&early), ["ClaimedEarly"]);
    assert!(
        verdict(&early, "Progressing")
            .starts_with("True ClusterOperatorUpdating: Working towards 4.18.0: 1 of 2 done")
    );
    assert!(verdict(&early, "KeepsClusterVersion").starts_with("False Observing"));
    let target = early.status.target.as_ref().unwrap();
    assert_eq!(target.change.as_deref(), Some("SingleToMulti"));
    assert_eq!(target.started_time.as_ref().unwrap().0, at(10));
    assert_eq!(target.completion_time, None);

    assert_eq!(reasons(&cluster.reconcile(22)), Vec::<&str>::new());
    cluster.set(operator("machine-config", Some('b')));
    let done = cluster.reconcile(41);
    assert!(verdict(&done, "Agrees").starts_with("True Agrees"));
    let target = done.status.target.as_ref().unwrap();
    assert_eq!(target.completion_time.as_ref().unwrap().0, at(41));
    assert_eq!(done.status.history[0].took_seconds, [20 * 60]);
    assert_eq!(reasons(&done), ["OperatorArrived", "ReleaseComplete"]);
}

#[test]
fn initial_state_emits_no_events() {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set(operator("machine-config", Some('b')));
    cluster.set_status(cvo("multi", "Completed", "False"));
    let first = cluster.reconcile(90);
    assert_eq!(reasons(&first), Vec::<&str>::new());
    let target = first.status.target.as_ref().unwrap();
    assert_eq!(
        target.completion_time.as_ref().unwrap().0,
        at(20),
        "since the reported time"
    );
}

/// Reference 2.6: the cluster-version operator does not wake up for an image, and notices later.
#[test]
fn late_cluster_version_operator_is_reported() {
    let mut cluster = ClusterFixture::new("Observe");
    let mut updating = cvo("multi", "Partial", "True");
    updating["conditions"][0]["message"] =
        json!("Working towards 4.18.0: 1 of 2 done (50% complete), waiting on machine-config");
    cluster.set_status(updating);
    assert!(verdict(&cluster.reconcile(11), "Agrees").starts_with("True Agrees"));
    cluster.set(operator("machine-config", Some('b')));
    let ours = cluster.reconcile(12);
    assert!(verdict(&ours, "Agrees").starts_with("False NotNoticed"));
    cluster.set_status(cvo("multi", "Completed", "False"));
    assert!(verdict(&cluster.reconcile(14), "Agrees").starts_with("True Agrees"));
}

#[test]
fn without_files_the_verdict_is_unknown() {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set_status(cvo("elsewhere", "Completed", "False"));
    let lost = cluster.reconcile(30);
    assert_eq!(
        verdict(&lost, "PayloadReady"),
        "False PayloadMissing: elsewhere is not stored"
    );
    for kind in ["Complete", "Progressing", "Failing", "Agrees"] {
        assert!(
            verdict(&lost, kind).starts_with("Unknown PayloadNotReady"),
            "{kind}"
        );
    }
    assert!(!lost.tally.payload_ready && !lost.tally.failing);
}

/// A restarted process resumes from the stored status.
#[test]
fn waiting_survives_a_restart() {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set_status(cvo("multi", "Partial", "True"));
    cluster.reconcile(11);
    let slow = cluster.reconcile(102);
    assert_eq!(
        verdict(&slow, "Failing"),
        "Unknown SlowClusterOperator: waiting on machine-config over 90 minutes which is longer than expected"
    );
    assert_eq!(reasons(&slow), ["SlowClusterOperator"]);
    assert!(slow.tally.failing);
}

#[test]
fn hopeless_operators_are_counted() {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set_status(cvo("multi", "Partial", "True"));
    let (name, mut it) = operator("machine-config", None);
    it.status
        .as_mut()
        .unwrap()
        .versions
        .push(api::openshift::OperandVersion {
            name: "operator-image".to_owned(),
            version: pull('b').replace("quay.io", "mirror.example"),
        });
    cluster.set((name, it));
    let found = cluster.reconcile(11);
    assert_eq!(found.tally.hopeless, 1);
    assert_eq!(found.status.operators[1].undone[0].reason, "OtherPlace");
}

/// Adds a condition to the status of the cluster-version operator.
fn with_failing(mut status: Value, reason: &str, message: &str) -> Value {
    let failing =
        json!({ "type": "Failing", "status": "True", "reason": reason, "message": message });
    status["conditions"].as_array_mut().unwrap().push(failing);
    status
}

const BROKEN: &str = "Could not update deployment \"openshift-dns/dns\" (1 of 9)";

/// A manifest that is no ClusterOperator fails, and all operators report the release.
#[rstest]
#[case::during_the_update("Partial", "True")]
#[case::after_a_claimed_completion("Completed", "False")]
fn failing_manifest_of_another_kind_is_not_complete(
    #[case] state: &str,
    #[case] progressing: &str,
) {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set(operator("machine-config", Some('b')));
    let status = cvo("multi", state, progressing);
    cluster.set_status(with_failing(status.clone(), "UpdatePayloadFailed", BROKEN));
    let failing = cluster.reconcile(21);
    let message = format!(
        "ClusterVersionFailing: the cluster version operator reports a failure (UpdatePayloadFailed): {BROKEN}"
    );
    assert_eq!(verdict(&failing, "Complete"), format!("False {message}"));
    assert_eq!(verdict(&failing, "Failing"), format!("True {message}"));
    assert!(verdict(&failing, "Agrees").starts_with("True Agrees"));
    assert!(failing.tally.failing && !failing.tally.complete && !failing.tally.claimed_early);
    assert_eq!(reasons(&failing), ["ReleaseFailing"]);
    assert_eq!(reasons(&cluster.reconcile(22)), Vec::<&str>::new());

    cluster.set_status(cvo("multi", "Completed", "False"));
    let repaired = cluster.reconcile(23);
    assert!(verdict(&repaired, "Complete").starts_with("True Arrived"));
    assert!(verdict(&repaired, "Failing").starts_with("False AsExpected"));
}

#[test]
fn failure_after_completion_is_reported_until_it_is_repaired() {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set(operator("machine-config", Some('b')));
    let done = cvo("multi", "Completed", "False");
    cluster.set_status(done.clone());
    cluster.reconcile(21);
    cluster.set_status(with_failing(done, "UpdatePayloadFailed", BROKEN));
    let failing = cluster.reconcile(30);
    assert!(verdict(&failing, "Complete").starts_with("False ClusterVersionFailing"));
    assert!(
        verdict(&failing, "Progressing")
            .starts_with("False ClusterVersionFailing: Error while reconciling 4.18.0: ")
    );
    let target = failing.status.target.as_ref().unwrap();
    assert_eq!(target.completion_time.as_ref().unwrap().0, at(20));
}

/// The failure of an operator is evaluated from the operator: the condition is minutes late.
#[test]
fn late_report_of_an_operator_failure_is_ignored() {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set(operator("machine-config", Some('b')));
    let status = cvo("multi", "Completed", "False");
    let late = "Cluster operator dns is degraded";
    cluster.set_status(with_failing(status, "ClusterOperatorDegraded", late));
    let done = cluster.reconcile(21);
    assert!(verdict(&done, "Complete").starts_with("True Arrived"));
    assert!(verdict(&done, "Failing").starts_with("False AsExpected"));
}

/// Before the cluster-version operator has applied anything, operators that report no image have arrived already.
#[test]
fn manifests_that_are_not_applied_are_waited_for() {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.set(operator("machine-config", Some('b')));
    let mut updating = cvo("multi", "Partial", "True");
    updating["conditions"][0]["message"] = json!("Working towards 4.18.0: 0 of 3 done");
    cluster.set_status(updating);
    let waiting = cluster.reconcile(11);
    assert_eq!(
        verdict(&waiting, "Complete"),
        "False ManifestsUpdating: the cluster version operator has not reported that it has applied every manifest"
    );
    assert!(verdict(&waiting, "Progressing").starts_with("True ManifestsUpdating"));
    assert!(verdict(&waiting, "Failing").starts_with("False AsExpected"));
    assert!(verdict(&waiting, "Agrees").starts_with("True Agrees"));
    cluster.set_status(cvo("multi", "Completed", "False"));
    assert!(verdict(&cluster.reconcile(12), "Complete").starts_with("True Arrived"));
}

/// With workers required, a MachineConfig that is rolled out after the migration does not take its completion back.
#[rstest]
#[case::part_of_the_migration(15, "False MachineConfigPoolUpdating")]
#[case::another_machine_config(25, "True Arrived")]
fn rollout_after_completion_is_no_update(#[case] minute: i64, #[case] expected: &str) {
    let mut cluster = ClusterFixture::new("Observe");
    cluster.policy.spec.worker_pools = api::release::Gate::Require;
    cluster.set(operator("machine-config", Some('b')));
    cluster.set_status(cvo("multi", "Completed", "False"));
    let pool = json!({
        "metadata": { "name": "worker" },
        "spec": { "configuration": { "name": "new" } },
        "status": {
            "configuration": { "name": "old" }, "machineCount": 2, "updatedMachineCount": 1,
            "conditions": [
                { "type": "Updated", "status": "False", "lastTransitionTime": at(minute).to_string() },
            ],
        },
    });
    cluster.pools = vec![serde_json::from_value(pool).unwrap()];
    let found = cluster.reconcile(30);
    assert!(
        verdict(&found, "Complete").starts_with(expected),
        "{:?}",
        verdict(&found, "Complete")
    );
}
