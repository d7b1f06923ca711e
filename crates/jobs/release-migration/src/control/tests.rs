mod observe;

use std::collections::BTreeMap;

use api::openshift::{ClusterOperator, ClusterVersion, MachineConfigPool};
use api::release::{ReleasePolicy, ReleasePolicyStatus};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use observe::cvo;

use super::*;
use crate::payload::{Files, Payload, Selection};
use crate::target::InvalidUpdate;

const OWN: &str = "medley-release";

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn pull(letter: char) -> String {
    format!("quay.io/r@sha256:{}", letter.to_string().repeat(64))
}

/// A release of `dns`, which reports only its version, and machine-config, which reports its image.
fn files(version: &str, letter: char, multi: bool) -> Files {
    let mut metadata =
        json!({ "kind": "cincinnati-metadata-v0", "version": version, "previous": ["4.18.0"] });
    if multi {
        metadata["metadata"] = json!({ "release.openshift.io/architecture": "multi" });
    }
    let stream = json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": { "name": version },
        "spec": { "tags": [{ "name": "mco", "from": { "kind": "DockerImage", "name": pull(letter) } }] },
    });
    let operator = |name: &str, image: Option<String>| {
        let mut versions = vec![json!({ "name": "operator", "version": version })];
        versions.extend(image.map(|it| json!({ "name": "operator-image", "version": it })));
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
            "metadata": { "name": name, "annotations": {
                "include.release.openshift.io/self-managed-high-availability": "true",
            } },
            "status": { "versions": versions },
        })
        .to_string()
    };
    Files::from(
        [
            ("release-metadata", metadata.to_string()),
            ("image-references", stream.to_string()),
            ("0000_70_dns_co.yaml", operator("dns", None)),
            (
                "0000_80_machine-config_co.yaml",
                operator("machine-config", Some(pull(letter))),
            ),
        ]
        .map(|(name, text)| (name.to_owned(), text)),
    )
}

fn loaded(image: &str, version: &str, letter: char, multi: bool) -> LoadedRelease {
    let payload = Payload::read("test", &files(version, letter, multi)).unwrap();
    LoadedRelease::new(image, &payload, &Selection::default())
}

fn kept(image: &str, version: &str, multi: bool, minute: i64) -> StoredRelease {
    let payload = Payload::read("test", &files(version, 'a', multi)).unwrap();
    StoredRelease {
        image: image.to_owned(),
        metadata: payload.metadata,
        since: Some(at(minute)),
    }
}

fn operator(name: &str, image: Option<char>) -> (String, ClusterOperator) {
    let mut versions = vec![json!({ "name": "operator", "version": "4.18.0" })];
    versions.extend(image.map(|it| json!({ "name": "operator-image", "version": pull(it) })));
    let it = json!({
        "metadata": { "name": name }, "spec": {},
        "status": { "versions": versions, "conditions": [
            { "type": "Available", "status": "True" }, { "type": "Degraded", "status": "False" },
        ] },
    });
    (name.to_owned(), serde_json::from_value(it).unwrap())
}

/// A cluster with its state across reconciles.
struct ClusterFixture {
    policy: ReleasePolicy,
    version: ClusterVersion,
    operators: BTreeMap<String, ClusterOperator>,
    pools: Vec<MachineConfigPool>,
    payloads: Vec<LoadedRelease>,
    kept: Vec<StoredRelease>,
}

impl ClusterFixture {
    /// At the release `single`, which Medley maintains or observes.
    fn new(mode: &str) -> Self {
        let policy =
            json!({ "metadata": { "name": "default", "generation": 3 }, "spec": { "mode": mode } });
        let version = json!({
            "metadata": { "name": "version", "generation": 7 },
            "spec": { "clusterID": "x", "channel": "stable-4.18" },
        });
        Self {
            policy: serde_json::from_value(policy).unwrap(),
            version: serde_json::from_value(version).unwrap(),
            operators: [operator("dns", None), operator("machine-config", Some('a'))].into(),
            pools: Vec::new(),
            payloads: vec![
                loaded("single", "4.18.0", 'a', false),
                loaded("multi", "4.18.0", 'b', true),
                loaded("next", "4.18.1", 'c', false),
            ],
            kept: vec![
                kept("single", "4.18.0", false, 0),
                kept("multi", "4.18.0", true, 0),
                kept("next", "4.18.1", false, 0),
            ],
        }
    }

    /// Sets the status that the cluster-version operator writes.
    fn set_status(&mut self, status: Value) {
        self.version.status = Some(serde_json::from_value(status).unwrap());
    }

    fn request(&mut self, update: Value) {
        self.version.spec.desired_update = Some(serde_json::from_value(update).unwrap());
    }

    /// Reconciles, and stores the resulting statuses.
    fn reconcile(&mut self, minute: i64) -> Decision {
        let owners = owners(&self.version, OWN);
        let find = |image: &str| self.payloads.iter().find(|it| it.image == image);
        let desired = self
            .version
            .status
            .as_ref()
            .map(|it| it.desired.image.clone());
        let current = desired.as_deref().and_then(find);
        let aim = if keeps(&self.policy, &owners) {
            owned(&self.version, current, &self.kept, owners.of_updates)
        } else {
            observed(&self.version)
        };
        let image = aim
            .wanted
            .as_ref()
            .map(|it| it.image.clone())
            .unwrap_or_default();
        let missing = PayloadFailure {
            kind: PayloadFailureKind::Missing,
            message: format!("{image} is not stored"),
        };
        let decision = decide(&ReleaseInputs {
            policy: &self.policy,
            version: Some(&self.version),
            installed: true,
            aim: &aim,
            wanted: find(&image).ok_or(&missing),
            current,
            kept: &self.kept,
            operators: &self.operators,
            pools: &self.pools,
            owners: &owners,
            forbidden: None,
            architecture: "amd64",
            now: at(minute),
        });
        self.policy.status = Some(decision.status.clone());
        if let Some(status) = &decision.version {
            self.version.status = Some(status.clone());
        }
        decision
    }

    fn set(&mut self, (name, operator): (String, ClusterOperator)) {
        self.operators.insert(name, operator);
    }
}

/// `status reason: message` of a condition of the policy.
fn verdict(decision: &Decision, kind: &str) -> String {
    let it = decision
        .status
        .conditions
        .iter()
        .find(|it| it.type_ == kind)
        .unwrap();
    format!("{} {}: {}", it.status, it.reason, it.message)
}

/// `status reason: message` of a condition of the ClusterVersion.
fn claimed(decision: &Decision, kind: &str) -> String {
    let status = decision.version.as_ref().unwrap();
    let found = api::openshift::Condition::find(&status.conditions, kind);
    found.map_or_else(
        || "-".to_owned(),
        |it| format!("{} {}: {}", it.status, it.reason, it.message),
    )
}

fn history(decision: &Decision) -> Vec<String> {
    let status = decision.version.as_ref().unwrap();
    let minute = |it: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        it.as_ref()
            .map_or_else(|| "-".to_owned(), |it| (it.0.as_second() / 60).to_string())
    };
    let entries = status.history.iter();
    entries
        .map(|it| {
            format!(
                "{} {} {}..{}",
                it.state,
                it.image,
                minute(&it.started_time),
                minute(&it.completion_time)
            )
        })
        .collect()
}

fn reasons(decision: &Decision) -> Vec<&str> {
    decision
        .notices
        .iter()
        .map(|it| it.reason.as_str())
        .collect()
}

/// The seed's story with Medley as the maintainer: installed single, migrated to multi, complete only when the operator
/// that reports its image has done so.
#[test]
fn maintained_cluster_migrates_to_multi_arch() {
    let mut cluster = ClusterFixture::new("Own");
    let installed = cluster.reconcile(0);
    assert_eq!(history(&installed), ["Completed single 0..0"]);
    assert_eq!(
        claimed(&installed, "Progressing"),
        "False : Cluster version is 4.18.0"
    );
    assert_eq!(
        claimed(&installed, "Available"),
        "True : Done applying 4.18.0"
    );
    assert_eq!(claimed(&installed, "Failing"), "False : ");
    assert_eq!(claimed(&installed, "Upgradeable"), "-");
    assert_eq!(claimed(&installed, "RetrievedUpdates"), "True : ");
    assert_eq!(
        claimed(&installed, "ReleaseAccepted"),
        "True PayloadLoaded: Payload loaded version=\"4.18.0\" image=\"single\" architecture=\"amd64\""
    );
    let status = installed.version.as_ref().unwrap();
    assert_eq!(status.observed_generation, 7);
    assert_eq!(status.desired.architecture, "");
    let single = status.rest["versionHash"].clone();
    // Multi is not requested: the next version is available, once the current one is known.
    let installed = cluster.reconcile(1);
    let status = installed.version.as_ref().unwrap();
    let updates = status.available_updates.as_ref().unwrap();
    assert_eq!(
        updates.iter().map(|it| &it.image).collect::<Vec<_>>(),
        ["next"]
    );
    // A second reconcile yields the same.
    assert_eq!(cluster.reconcile(2).version, installed.version);

    cluster.request(json!({ "architecture": "Multi", "version": "4.18.0" }));
    let begun = cluster.reconcile(10);
    assert_eq!(
        history(&begun),
        ["Partial multi 10..-", "Completed single 0..0"]
    );
    assert_eq!(
        claimed(&begun, "Progressing"),
        "True ClusterOperatorUpdating: Working towards 4.18.0: 1 of 2 done (50% complete), waiting on machine-config"
    );
    assert_eq!(claimed(&begun, "Available"), "True : Done applying 4.18.0");
    let status = begun.version.as_ref().unwrap();
    assert_eq!(
        (
            status.desired.architecture.as_str(),
            status.desired.image.as_str()
        ),
        ("Multi", "multi")
    );
    assert_ne!(status.rest["versionHash"], single);
    assert_eq!(reasons(&begun), ["ReleaseStarted"]);
    let target = begun.status.target.as_ref().unwrap();
    assert_eq!(target.change.as_deref(), Some("SingleToMulti"));
    let row = &begun.status.operators[1];
    assert_eq!(
        (row.name.as_str(), row.state.as_str()),
        ("machine-config", "Updating")
    );
    assert_eq!(row.waiting_since.as_ref().unwrap().0, at(10));
    assert_eq!(begun.next, Some(at(50) + SignedDuration::from_secs(1)));

    let waiting = cluster.reconcile(30);
    assert_eq!(history(&waiting)[0], "Partial multi 10..-");
    assert_eq!(reasons(&waiting), Vec::<&str>::new());
    cluster.set(operator("machine-config", Some('b')));
    let done = cluster.reconcile(31);
    assert_eq!(history(&done)[0], "Completed multi 10..31");
    assert_eq!(
        claimed(&done, "Progressing"),
        "False : Cluster version is 4.18.0"
    );
    assert_eq!(reasons(&done), ["OperatorArrived", "ReleaseComplete"]);
    assert_eq!(
        done.notices[0].message,
        "machine-config has arrived after 21m"
    );
    assert_eq!(done.status.history[0].operator, "machine-config");
    assert_eq!(done.status.history[0].took_seconds, [21 * 60]);
    assert_eq!(
        verdict(&done, "Complete"),
        "True Arrived: all 2 operators have arrived at 4.18.0; 1 of 2 operators report images; completion is only exact for these"
    );
    // A cluster that is multi already is not migrated again.
    assert_eq!(history(&cluster.reconcile(40)).len(), 2);
}

#[test]
fn regressed_operator_is_an_error_and_no_new_release() {
    let mut cluster = ClusterFixture::new("Own");
    cluster.reconcile(0);
    cluster.set(operator("machine-config", Some('z')));
    let wrong = cluster.reconcile(5);
    assert_eq!(history(&wrong), ["Completed single 0..0"]);
    assert_eq!(
        claimed(&wrong, "Progressing"),
        "False ClusterOperatorUpdating: Error while reconciling 4.18.0: machine-config has an unknown error: ClusterOperatorUpdating"
    );
    assert!(verdict(&wrong, "Complete").starts_with("False ClusterOperatorUpdating"));
    assert!(wrong.tally.failing);
}

/// Corner case 9: another release is requested before the previous one is complete.
#[test]
fn abandoned_release_ends() {
    let mut cluster = ClusterFixture::new("Own");
    cluster.reconcile(0);
    cluster.request(json!({ "image": "multi" }));
    cluster.reconcile(10);
    cluster.request(json!({ "image": "single" }));
    let back = cluster.reconcile(20);
    assert_eq!(
        history(&back),
        [
            "Completed single 20..20",
            "Partial multi 10..20",
            "Completed single 0..0"
        ]
    );
    let target = back.status.target.as_ref().unwrap();
    assert_eq!(target.change.as_deref(), Some("Back"));
}

#[test]
fn unloadable_release_does_not_affect_the_current_one() {
    let mut cluster = ClusterFixture::new("Own");
    cluster.reconcile(0);
    cluster.request(json!({ "image": "nowhere", "version": "4.19.0" }));
    let refused = cluster.reconcile(1);
    assert_eq!(history(&refused), ["Completed single 0..0"]);
    assert_eq!(
        claimed(&refused, "ReleaseAccepted"),
        "False RetrievePayload: Retrieving payload failed version=\"4.19.0\" image=\"nowhere\" failure=nowhere is not stored"
    );
    assert_eq!(
        claimed(&refused, "Progressing"),
        "False : Cluster version is 4.18.0"
    );
    assert_eq!(
        verdict(&refused, "PayloadReady"),
        "False PayloadMissing: nowhere is not stored"
    );
    assert_eq!(reasons(&refused), ["PayloadMissing"]);
    // The current release stays complete.
    assert!(verdict(&refused, "Complete").starts_with("True Arrived"));

    cluster.request(json!({ "image": "next", "version": "4.18.7" }));
    assert_eq!(
        claimed(&cluster.reconcile(2), "ReleaseAccepted"),
        "False VerifyPayloadVersion: Verifying payload failed version=\"4.18.7\" image=\"next\" failure=release image version 4.18.1 does not match the expected upstream version 4.18.7"
    );
}

#[rstest]
#[case(json!({}), "spec.desiredUpdate: Invalid value: {}: must specify architecture, version, or image")]
#[case(json!({ "version": "4.18.9" }), "spec.desiredUpdate.version: Invalid value: \"4.18.9\": when image is empty the update must be an available update")]
#[case(json!({ "architecture": "Multi", "version": "4.18.0", "image": "multi" }), "spec.desiredUpdate: Invalid value: {\"architecture\":\"Multi\",\"version\":\"4.18.0\",\"image\":\"multi\"}: cannot set both Architecture and Image")]
#[case(json!({ "architecture": "Multi" }), "spec.desiredUpdate: Invalid value: {\"architecture\":\"Multi\"}: Version must be set if Architecture is set")]
fn invalid_request_is_reported(#[case] update: Value, #[case] expected: &str) {
    let mut cluster = ClusterFixture::new("Own");
    cluster.reconcile(0);
    cluster.request(update);
    let invalid = cluster.reconcile(1);
    let text = claimed(&invalid, "Invalid");
    assert_eq!(
        text,
        format!("True InvalidClusterVersion: The cluster version is invalid: {expected}")
    );
    assert_eq!(
        claimed(&invalid, "Progressing"),
        "False InvalidClusterVersion: Stopped at 4.18.0: the cluster version is invalid"
    );
    assert_eq!(history(&invalid).len(), 1);
    cluster.version.spec.desired_update = None;
    assert_eq!(claimed(&cluster.reconcile(2), "Invalid"), "-");
}

/// A request for an unknown release has no effect, and the status states why.
#[test]
fn missing_multi_release_is_waited_for() {
    let mut cluster = ClusterFixture::new("Own");
    cluster.kept.retain(|it| it.image != "multi");
    cluster.reconcile(0);
    cluster.request(json!({ "architecture": "Multi", "version": "4.18.0" }));
    let waiting = cluster.reconcile(1);
    assert_eq!(history(&waiting), ["Completed single 0..0"]);
    assert_eq!(
        claimed(&waiting, "RetrievedUpdates"),
        "False VersionNotFound: currently reconciling cluster version 4.18.0 not found in the \"stable-4.18\" channel"
    );
    cluster.kept.push(kept("multi", "4.18.0", true, 5));
    assert_eq!(history(&cluster.reconcile(6))[0], "Partial multi 6..-");
}

#[test]
fn overrides_and_operators_block_minor_updates() {
    let mut cluster = ClusterFixture::new("Own");
    let mut dns = operator("dns", None);
    let status = dns.1.status.as_mut().unwrap();
    status.conditions.push(api::openshift::Condition {
        kind: "Upgradeable".to_owned(),
        status: "False".to_owned(),
        message: "old".to_owned(),
        ..Default::default()
    });
    cluster.set(dns);
    assert_eq!(
        claimed(&cluster.reconcile(0), "Upgradeable"),
        "False ClusterOperatorsNotUpgradeable: Cluster operator dns should not be upgraded between minor versions: old"
    );
    cluster.version.spec.overrides = serde_json::from_value(json!([
        { "kind": "Deployment", "group": "apps", "namespace": "a", "name": "b", "unmanaged": true },
    ]))
    .unwrap();
    assert!(
        claimed(&cluster.reconcile(1), "Upgradeable")
            .starts_with("False MultipleReasons: Cluster should not")
    );
}

#[test]
fn pools_block_completion_only_if_requested() {
    let pool = |updated: i32, paused: bool| -> MachineConfigPool {
        serde_json::from_value(json!({
            "metadata": { "name": "worker" },
            "spec": { "configuration": { "name": "rendered-b" }, "paused": paused },
            "status": {
                "configuration": { "name": if updated == 3 { "rendered-b" } else { "rendered-a" } },
                "machineCount": 3, "updatedMachineCount": updated, "readyMachineCount": updated,
            },
        }))
        .unwrap()
    };
    let mut cluster = ClusterFixture::new("Own");
    cluster.reconcile(0);
    cluster.pools = vec![pool(1, false)];
    cluster.policy.spec.worker_pools = api::release::Gate::Require;
    cluster.request(json!({ "image": "multi" }));
    cluster.set(operator("machine-config", Some('b')));
    let waiting = cluster.reconcile(10);
    assert_eq!(history(&waiting)[0], "Partial multi 10..-");
    assert_eq!(
        claimed(&waiting, "Progressing"),
        "True MachineConfigPoolUpdating: Working towards 4.18.0: 2 of 2 done (100% complete), waiting on machine config pool worker"
    );
    assert_eq!(claimed(&waiting, "Failing"), "False : ");
    assert_eq!(
        verdict(&waiting, "Complete"),
        "False MachineConfigPoolUpdating: machine config pool worker is updating; worker: 1 of 3 nodes are updated"
    );
    cluster.pools = vec![pool(1, true)];
    assert!(verdict(&cluster.reconcile(11), "Complete").ends_with("and the pool is paused"));
    cluster.pools = vec![pool(3, false)];
    assert_eq!(history(&cluster.reconcile(12))[0], "Completed multi 10..12");
    // After completion, pools do not count.
    cluster.pools = vec![pool(1, false)];
    assert!(verdict(&cluster.reconcile(13), "Complete").starts_with("True Arrived"));
    // Without the policy setting, pools are not waited for.
    let mut cluster = ClusterFixture::new("Own");
    cluster.pools = vec![pool(1, false)];
    assert!(verdict(&cluster.reconcile(0), "Complete").starts_with("True Arrived"));
}

/// Two managers must not write the same status.
#[test]
fn medley_does_not_write_beside_another_manager() {
    let mut cluster = ClusterFixture::new("Own");
    cluster.set_status(cvo("multi", "Completed", "False"));
    let entry = |manager: &str, fields: Value| json!({ "manager": manager, "operation": "Update", "subresource": "status", "fieldsV1": { "f:status": fields } });
    let managed = |entries: Vec<Value>| Some(serde_json::from_value(json!(entries)).unwrap());
    cluster.version.metadata.managed_fields = managed(vec![entry(
        "cluster-version-operator",
        json!({ "f:history": {} }),
    )]);
    let refused = cluster.reconcile(21);
    assert_eq!(refused.version, None);
    let text = verdict(&refused, "KeepsClusterVersion");
    assert!(
        text.starts_with("False ForeignOwner: ") && text.contains("cluster-version-operator"),
        "{text}"
    );
    assert!(refused.tally.not_owned);
    assert_eq!(reasons(&refused), ["ClaimedEarly", "ForeignOwner"]);
    // Managers of available updates or of the spec, and Medley itself, do not conflict.
    cluster.version.metadata.managed_fields = managed(vec![
        entry(OWN, json!({ "f:history": {}, "f:conditions": {} })),
        entry("updates", json!({ "f:availableUpdates": {} })),
        json!({ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }),
    ]);
    let mine = cluster.reconcile(22);
    assert!(mine.version.is_some());
    assert!(owners(&cluster.version, OWN).of_updates);
}

#[test]
fn cluster_without_openshift_has_no_release() {
    let cluster = ClusterFixture::new("Observe");
    let trouble = PayloadFailure {
        kind: PayloadFailureKind::Missing,
        message: String::new(),
    };
    let mut policy = cluster.policy.clone();
    policy.status = Some(ReleasePolicyStatus {
        history: vec![api::release::OperatorHistory {
            operator: "dns".to_owned(),
            took_seconds: vec![5],
        }],
        ..ReleasePolicyStatus::default()
    });
    for (installed, reason) in [(false, "KindsNotInstalled"), (true, "NoClusterVersion")] {
        let decision = decide(&ReleaseInputs {
            policy: &policy,
            version: None,
            installed,
            aim: &ReleaseTarget::default(),
            wanted: Err(&trouble),
            current: None,
            kept: &[],
            operators: &cluster.operators,
            pools: &[],
            owners: &Owners::default(),
            forbidden: None,
            architecture: "amd64",
            now: at(0),
        });
        assert!(verdict(&decision, "Complete").starts_with(&format!("Unknown {reason}: ")));
        assert_eq!(decision.status.history.len(), 1, "what was learnt is kept");
        assert_eq!(decision.version, None);
    }
}

#[test]
fn first_release_is_the_oldest_stored() {
    let mut cluster = ClusterFixture::new("Own");
    cluster.version.status = None;
    let first = |cluster: &ClusterFixture| {
        owned(&cluster.version, None, &cluster.kept, false)
            .wanted
            .unwrap()
            .image
    };
    cluster.kept = vec![
        kept("multi", "4.18.0", true, 0),
        kept("single", "4.18.0", false, 0),
    ];
    assert_eq!(first(&cluster), "single");
    cluster.kept = vec![
        kept("multi", "4.18.0", true, 0),
        kept("single", "4.18.0", false, 5),
    ];
    assert_eq!(first(&cluster), "multi");
    cluster.request(json!({ "image": "other" }));
    assert_eq!(first(&cluster), "other");
    assert_eq!(observed(&cluster.version).wanted.unwrap().image, "other");
    assert_eq!(
        InvalidUpdate::Ambiguous.field(),
        "spec.desiredUpdate.version"
    );
}
