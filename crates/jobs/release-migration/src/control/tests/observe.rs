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
    cluster.set_status(cvo("multi", "Partial", "True"));
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
