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
use crate::target::Invalid;

const OWN: &str = "medley-release";

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn pull(letter: char) -> String {
    format!("quay.io/r@sha256:{}", letter.to_string().repeat(64))
}

/// A release of `dns`, which reports nothing but its version, and machine-config, which reports its image.
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

fn loaded(image: &str, version: &str, letter: char, multi: bool) -> Loaded {
    let payload = Payload::read("test", &files(version, letter, multi)).unwrap();
    Loaded::new(image, &payload, &Selection::default())
}

fn kept(image: &str, version: &str, multi: bool, minute: i64) -> Kept {
    let payload = Payload::read("test", &files(version, 'a', multi)).unwrap();
    Kept {
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

/// A cluster, as it changes from one look to the next.
struct World {
    policy: ReleasePolicy,
    version: ClusterVersion,
    operators: BTreeMap<String, ClusterOperator>,
    pools: Vec<MachineConfigPool>,
    payloads: Vec<Loaded>,
    kept: Vec<Kept>,
}

impl World {
    /// At the release `single`, which Medley keeps or looks at.
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

    /// What the other one says.
    fn says(&mut self, status: Value) {
        self.version.status = Some(serde_json::from_value(status).unwrap());
    }

    fn asks(&mut self, update: Value) {
        self.version.spec.desired_update = Some(serde_json::from_value(update).unwrap());
    }

    /// Looks, and remembers what was said.
    fn look(&mut self, minute: i64) -> Decision {
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
        let missing = Trouble {
            kind: TroubleKind::Missing,
            message: format!("nobody keeps {image}"),
        };
        let decision = decide(&Facts {
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

/// The seed's story, kept by Medley: installed single, migrated to multi, complete only when the one that
/// reports its image has.
#[test]
fn a_cluster_that_medley_keeps_becomes_multi_arch() {
    let mut world = World::new("Own");
    let installed = world.look(0);
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
    // Nobody asks for Multi: the next version is what there is, once it is known what runs.
    let installed = world.look(1);
    let status = installed.version.as_ref().unwrap();
    let updates = status.available_updates.as_ref().unwrap();
    assert_eq!(
        updates.iter().map(|it| &it.image).collect::<Vec<_>>(),
        ["next"]
    );
    // The same look again says the same.
    assert_eq!(world.look(2).version, installed.version);

    world.asks(json!({ "architecture": "Multi", "version": "4.18.0" }));
    let begun = world.look(10);
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

    let waiting = world.look(30);
    assert_eq!(history(&waiting)[0], "Partial multi 10..-");
    assert_eq!(reasons(&waiting), Vec::<&str>::new());
    world.set(operator("machine-config", Some('b')));
    let done = world.look(31);
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
    // Who is multi already is not asked twice.
    assert_eq!(history(&world.look(40)).len(), 2);
}

#[test]
fn an_operator_that_goes_back_is_an_error_and_no_new_release() {
    let mut world = World::new("Own");
    world.look(0);
    world.set(operator("machine-config", Some('z')));
    let wrong = world.look(5);
    assert_eq!(history(&wrong), ["Completed single 0..0"]);
    assert_eq!(
        claimed(&wrong, "Progressing"),
        "False ClusterOperatorUpdating: Error while reconciling 4.18.0: machine-config has an unknown error: ClusterOperatorUpdating"
    );
    assert!(verdict(&wrong, "Complete").starts_with("False ClusterOperatorUpdating"));
    assert!(wrong.tally.failing);
}

/// Corner case 9: another release is asked for before the one before has arrived.
#[test]
fn a_release_that_is_given_up_ends() {
    let mut world = World::new("Own");
    world.look(0);
    world.asks(json!({ "image": "multi" }));
    world.look(10);
    world.asks(json!({ "image": "single" }));
    let back = world.look(20);
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
fn what_cannot_be_had_does_not_disturb_what_there_is() {
    let mut world = World::new("Own");
    world.look(0);
    world.asks(json!({ "image": "nowhere", "version": "4.19.0" }));
    let refused = world.look(1);
    assert_eq!(history(&refused), ["Completed single 0..0"]);
    assert_eq!(
        claimed(&refused, "ReleaseAccepted"),
        "False RetrievePayload: Retrieving payload failed version=\"4.19.0\" image=\"nowhere\" failure=nobody keeps nowhere"
    );
    assert_eq!(
        claimed(&refused, "Progressing"),
        "False : Cluster version is 4.18.0"
    );
    assert_eq!(
        verdict(&refused, "PayloadReady"),
        "False PayloadMissing: nobody keeps nowhere"
    );
    assert_eq!(reasons(&refused), ["PayloadMissing"]);
    // It still is what it was.
    assert!(verdict(&refused, "Complete").starts_with("True Arrived"));

    world.asks(json!({ "image": "next", "version": "4.18.7" }));
    assert_eq!(
        claimed(&world.look(2), "ReleaseAccepted"),
        "False VerifyPayloadVersion: Verifying payload failed version=\"4.18.7\" image=\"next\" failure=release image version 4.18.1 does not match the expected upstream version 4.18.7"
    );
}

#[rstest]
#[case(json!({}), "spec.desiredUpdate: Invalid value: {}: must specify architecture, version, or image")]
#[case(json!({ "version": "4.18.9" }), "spec.desiredUpdate.version: Invalid value: \"4.18.9\": when image is empty the update must be an available update")]
#[case(json!({ "architecture": "Multi", "version": "4.18.0", "image": "multi" }), "spec.desiredUpdate: Invalid value: {\"architecture\":\"Multi\",\"version\":\"4.18.0\",\"image\":\"multi\"}: cannot set both Architecture and Image")]
#[case(json!({ "architecture": "Multi" }), "spec.desiredUpdate: Invalid value: {\"architecture\":\"Multi\"}: Version must be set if Architecture is set")]
fn what_makes_no_sense_is_said(#[case] asked: Value, #[case] expected: &str) {
    let mut world = World::new("Own");
    world.look(0);
    world.asks(asked);
    let invalid = world.look(1);
    let said = claimed(&invalid, "Invalid");
    assert_eq!(
        said,
        format!("True InvalidClusterVersion: The cluster version is invalid: {expected}")
    );
    assert_eq!(
        claimed(&invalid, "Progressing"),
        "False InvalidClusterVersion: Stopped at 4.18.0: the cluster version is invalid"
    );
    assert_eq!(history(&invalid).len(), 1);
    world.version.spec.desired_update = None;
    assert_eq!(claimed(&world.look(2), "Invalid"), "-");
}

/// A request for a release that nobody knows does nothing, and it can be seen why.
#[test]
fn a_multi_release_that_nobody_keeps_is_waited_for() {
    let mut world = World::new("Own");
    world.kept.retain(|it| it.image != "multi");
    world.look(0);
    world.asks(json!({ "architecture": "Multi", "version": "4.18.0" }));
    let waiting = world.look(1);
    assert_eq!(history(&waiting), ["Completed single 0..0"]);
    assert_eq!(
        claimed(&waiting, "RetrievedUpdates"),
        "False VersionNotFound: currently reconciling cluster version 4.18.0 not found in the \"stable-4.18\" channel"
    );
    world.kept.push(kept("multi", "4.18.0", true, 5));
    assert_eq!(history(&world.look(6))[0], "Partial multi 6..-");
}

#[test]
fn overrides_and_operators_speak_against_updates() {
    let mut world = World::new("Own");
    let mut dns = operator("dns", None);
    let status = dns.1.status.as_mut().unwrap();
    status.conditions.push(api::openshift::Condition {
        kind: "Upgradeable".to_owned(),
        status: "False".to_owned(),
        message: "old".to_owned(),
        ..Default::default()
    });
    world.set(dns);
    assert_eq!(
        claimed(&world.look(0), "Upgradeable"),
        "False ClusterOperatorsNotUpgradeable: Cluster operator dns should not be upgraded between minor versions: old"
    );
    world.version.spec.overrides = serde_json::from_value(json!([
        { "kind": "Deployment", "group": "apps", "namespace": "a", "name": "b", "unmanaged": true },
    ]))
    .unwrap();
    assert!(
        claimed(&world.look(1), "Upgradeable")
            .starts_with("False MultipleReasons: Cluster should not")
    );
}

#[test]
fn pools_hold_completion_up_only_if_they_are_to() {
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
    let mut world = World::new("Own");
    world.look(0);
    world.pools = vec![pool(1, false)];
    world.policy.spec.worker_pools = api::release::Gate::Require;
    world.asks(json!({ "image": "multi" }));
    world.set(operator("machine-config", Some('b')));
    let waiting = world.look(10);
    assert_eq!(history(&waiting)[0], "Partial multi 10..-");
    assert_eq!(
        claimed(&waiting, "Progressing"),
        "True MachineConfigPoolUpdating: Working towards 4.18.0: 2 of 2 done (100% complete), waiting on machine config pool worker"
    );
    assert_eq!(claimed(&waiting, "Failing"), "False : ");
    assert_eq!(
        verdict(&waiting, "Complete"),
        "False MachineConfigPoolUpdating: machine config pool worker is updating; worker: 1 of 3 machines are updated"
    );
    world.pools = vec![pool(1, true)];
    assert!(verdict(&world.look(11), "Complete").ends_with("and the pool is paused"));
    world.pools = vec![pool(3, false)];
    assert_eq!(history(&world.look(12))[0], "Completed multi 10..12");
    // Afterwards pools do what they like.
    world.pools = vec![pool(1, false)];
    assert!(verdict(&world.look(13), "Complete").starts_with("True Arrived"));
    // And nobody who does not ask for it waits.
    let mut world = World::new("Own");
    world.pools = vec![pool(1, false)];
    assert!(verdict(&world.look(0), "Complete").starts_with("True Arrived"));
}

/// Two must not write the same thing.
#[test]
fn medley_steps_back_where_somebody_else_keeps_it() {
    let mut world = World::new("Own");
    world.says(cvo("multi", "Completed", "False"));
    let entry = |manager: &str, fields: Value| json!({ "manager": manager, "operation": "Update", "subresource": "status", "fieldsV1": { "f:status": fields } });
    let managed = |entries: Vec<Value>| Some(serde_json::from_value(json!(entries)).unwrap());
    world.version.metadata.managed_fields = managed(vec![entry(
        "cluster-version-operator",
        json!({ "f:history": {} }),
    )]);
    let refused = world.look(21);
    assert_eq!(refused.version, None);
    let said = verdict(&refused, "KeepsClusterVersion");
    assert!(
        said.starts_with("False ForeignOwner: ") && said.contains("cluster-version-operator"),
        "{said}"
    );
    assert!(refused.tally.not_owned);
    assert_eq!(reasons(&refused), ["ClaimedEarly", "ForeignOwner"]);
    // Who tells of updates, writes the spec, or is Medley is not in the way.
    world.version.metadata.managed_fields = managed(vec![
        entry(OWN, json!({ "f:history": {}, "f:conditions": {} })),
        entry("updates", json!({ "f:availableUpdates": {} })),
        json!({ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }),
    ]);
    let mine = world.look(22);
    assert!(mine.version.is_some());
    assert!(owners(&world.version, OWN).of_updates);
}

#[test]
fn a_cluster_without_openshift_has_nothing_to_judge() {
    let world = World::new("Observe");
    let trouble = Trouble {
        kind: TroubleKind::Missing,
        message: String::new(),
    };
    let mut policy = world.policy.clone();
    policy.status = Some(ReleasePolicyStatus {
        history: vec![api::release::OperatorHistory {
            operator: "dns".to_owned(),
            took_seconds: vec![5],
        }],
        ..ReleasePolicyStatus::default()
    });
    for (installed, reason) in [(false, "KindsNotInstalled"), (true, "NoClusterVersion")] {
        let decision = decide(&Facts {
            policy: &policy,
            version: None,
            installed,
            aim: &Aim::default(),
            wanted: Err(&trouble),
            current: None,
            kept: &[],
            operators: &world.operators,
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
fn the_first_release_is_the_one_that_was_there_first() {
    let mut world = World::new("Own");
    world.version.status = None;
    let first = |world: &World| {
        owned(&world.version, None, &world.kept, false)
            .wanted
            .unwrap()
            .image
    };
    world.kept = vec![
        kept("multi", "4.18.0", true, 0),
        kept("single", "4.18.0", false, 0),
    ];
    assert_eq!(first(&world), "single");
    world.kept = vec![
        kept("multi", "4.18.0", true, 0),
        kept("single", "4.18.0", false, 5),
    ];
    assert_eq!(first(&world), "multi");
    world.asks(json!({ "image": "other" }));
    assert_eq!(first(&world), "other");
    assert_eq!(observed(&world.version).wanted.unwrap().image, "other");
    assert_eq!(Invalid::Ambiguous.field(), "spec.desiredUpdate.version");
}
