//! The published hashes, and the inputs of a digest.

use api::advisor::{Impact, ItemState, Takeover};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::from_str;

use super::*;
use crate::test_values::{any_object, any_value};

fn target(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> TargetRef {
    TargetRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
    }
}

fn paths(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn machine_config(name: &str) -> TargetRef {
    target(
        "machineconfiguration.openshift.io/v1",
        "MachineConfig",
        None,
        name,
    )
}

/// Both targets of load-aware rebalancing, with this spec of the descheduler.
fn load_aware(spec: Option<Value>, managed: &[&str]) -> String {
    let descheduler = target(
        "operator.openshift.io/v1",
        "KubeDescheduler",
        Some("openshift-kube-descheduler-operator"),
        "cluster",
    );
    let psi = spec.is_some().then(
        || json!({"metadata": {"labels": {"x": "y"}}, "spec": {"kernelArguments": ["psi=1"]}}),
    );
    let live = spec.map(|spec| json!({"metadata": {"name": "cluster"}, "spec": spec}));
    snapshot_hash([
        (
            &machine_config("99-worker-psi-karg"),
            paths(&["spec.kernelArguments"]).as_slice(),
            psi.as_ref(),
        ),
        (&descheduler, paths(managed).as_slice(), live.as_ref()),
    ])
    .unwrap()
}

const BEFORE_STATE: &[&str] = &[
    "spec.deschedulingIntervalSeconds",
    "spec.mode",
    "spec.profiles",
    "spec.profileCustomizations",
    "spec.evictionLimits",
];
const WITH_STATE: &[&str] = &[
    "spec.managementState",
    "spec.deschedulingIntervalSeconds",
    "spec.mode",
    "spec.profiles",
    "spec.profileCustomizations",
    "spec.evictionLimits",
];

fn descheduler(interval: u32, soft_tainter: bool, node: u32, total: u32) -> Value {
    json!({
        "deschedulingIntervalSeconds": interval,
        "mode": "Automatic",
        "logLevel": "Normal",
        "profiles": ["AffinityAndTaints", "KubeVirtRelieveAndMigrate"],
        "profileCustomizations": {
            "devDeviationThresholds": "AsymmetricLow",
            "devEnableEvictionsInBackground": true,
            "devEnableSoftTainter": soft_tainter,
        },
        "evictionLimits": {"node": node, "total": total},
    })
}

#[rstest]
#[case::missing(
    None,
    BEFORE_STATE,
    "8046b8bc3127298de872e1ee226b6464d73a52449bc71d34910bc97914434037"
)]
#[case::applied(
    Some(descheduler(60, true, 2, 5)),
    BEFORE_STATE,
    "2cd3af7d3f280c5c3fe075a1c8ae6e4e7c0fc6053d4cd28ca5ccc77337006eb9"
)]
#[case::edited(
    Some(descheduler(180, false, 2, 5)),
    BEFORE_STATE,
    "abb75beb40eda416c3977d298c46d57bd9cdbc9eda245f2f4a91107973c8c092"
)]
#[case::other_limits(
    Some(descheduler(60, true, 4, 10)),
    BEFORE_STATE,
    "4f0dbe9837eacbf99ad4aeab7189d8b5552f64287164112e311507178f3fdcbc"
)]
fn published_hashes_are_reproduced(
    #[case] spec: Option<Value>,
    #[case] managed: &[&str],
    #[case] expected: &str,
) {
    assert_eq!(load_aware(spec, managed), format!("sha256:{expected}"));
}

#[test]
fn management_state_is_hashed_where_managed() {
    let mut spec = descheduler(60, true, 2, 5);
    spec["managementState"] = json!("Managed");
    spec["profiles"] = json!(["KubeVirtRelieveAndMigrate"]);
    assert_eq!(
        load_aware(Some(spec), WITH_STATE),
        "sha256:30e2285e063392f8116b7693f3b85dd00c05bd9584d898b308fb3535c5b35f13"
    );
}

#[test]
fn published_hash_of_higher_density_is_reproduced() {
    let hyperconverged = target(
        "hco.kubevirt.io/v1beta1",
        "HyperConverged",
        Some("openshift-cnv"),
        "kubevirt-hyperconverged",
    );
    let live = json!({"spec": {
        "higherWorkloadDensity": {"memoryOvercommitPercentage": 100}, "other": true,
    }});
    let hash = snapshot_hash([
        (
            &machine_config("90-worker-kubelet-swap"),
            paths(&["spec.config"]).as_slice(),
            None,
        ),
        (
            &hyperconverged,
            paths(&[
                "spec.higherWorkloadDensity.memoryOvercommitPercentage",
                "spec.ksmConfiguration",
            ])
            .as_slice(),
            Some(&live),
        ),
    ]);
    assert_eq!(
        hash.unwrap(),
        "sha256:3bfa730d47b28869339b5450c6134d213df022650d29d3f12dfa834be832fc2f"
    );
}

#[rstest]
#[case(target("v1", "ConfigMap", Some("ns"), "n"), "/v1/ConfigMap/ns/n")]
#[case(target("v1", "Node", None, "n"), "/v1/Node/n")]
#[case(target("v1", "Node", Some(""), "n"), "/v1/Node/n")]
#[case(
    target("apps/v1", "Deployment", Some("ns"), "n"),
    "apps/v1/Deployment/ns/n"
)]
fn targets_have_distinct_keys(#[case] target: TargetRef, #[case] expected: &str) {
    assert_eq!(key(&target), expected);
}

#[test]
fn strings_are_escaped_like_go() {
    let map = target("v1", "ConfigMap", Some("ns"), "n");
    let live = json!({"spec": {"a": "<&>\u{2028}é"}});
    let hash = snapshot_hash([(&map, [].as_slice(), Some(&live))]).unwrap();
    // Of {"/v1/ConfigMap/ns/n":{"spec":{"a":"\u003c\u0026\u003e\u2028é"}}}.
    assert_eq!(
        hash,
        "sha256:7189d0103d54805ef55cae84eff10f6dfd1733f1caab7dcb2344e1a59f80fe28"
    );
}

#[test]
fn duplicate_target_is_hashed_at_all_paths() {
    let one = target("v1", "Thing", None, "n");
    let hash = |a: u32, b: u32| {
        let live = json!({"spec": {"a": a, "b": b}});
        snapshot_hash([
            (&one, paths(&["spec.a"]).as_slice(), Some(&live)),
            (&one, paths(&["spec.b"]).as_slice(), Some(&live)),
        ])
        .unwrap()
    };
    assert_eq!(hash(1, 2), hash(1, 2));
    assert_ne!(hash(1, 2), hash(3, 2));
    assert_ne!(hash(1, 2), hash(1, 3));
}

#[test]
fn path_into_a_list_is_not_hashable() {
    let one = target("v1", "Thing", None, "n");
    let live = json!({"spec": {"a": [1]}});
    let error = snapshot_hash([(&one, paths(&["spec.a.0"]).as_slice(), Some(&live))]).unwrap_err();
    assert_eq!(error.list, "spec.a");
}

/// The digest of items under the same terms.
fn digest_of(items: &[Item]) -> String {
    plan_digest(&PlanTerms::default(), items)
}

fn item() -> Item {
    Item {
        name: "one".to_owned(),
        target_ref: target("v1", "Thing", Some("ns"), "n"),
        desired_state: Some(json!({"metadata": {"name": "n"}, "spec": {"a": 1, "b": {"c": true}}})),
        managed_fields: paths(&["spec.a", "spec.b"]),
        base: Some(BTreeMap::from([("spec.a".to_owned(), json!(0))])),
        ..Item::default()
    }
}

#[test]
fn digest_covers_item_content() {
    let original = digest_of(&[item()]);
    assert!(original.starts_with("sha256:") && original.len() == 71);
    let changed = |change: fn(&mut Item)| {
        let mut other = item();
        change(&mut other);
        digest_of(&[other])
    };
    for other in [
        changed(|item| item.name.push('x')),
        changed(|item| item.target_ref.namespace = None),
        changed(|item| item.operation = Operation::Delete),
        changed(|item| item.operation = Operation::Restore),
        changed(|item| item.desired_state = None),
        changed(|item| item.desired_state = Some(json!({"spec": {"a": 2, "b": {"c": true}}}))),
        changed(|item| item.managed_fields.truncate(1)),
        changed(|item| item.managed_fields.reverse()),
        changed(|item| item.depends_on = vec!["zero".to_owned()]),
        changed(|item| item.base = None),
        changed(|item| item.base = Some(BTreeMap::new())),
        changed(|item| item.base = Some(BTreeMap::from([("spec.a".to_owned(), json!(1))]))),
        changed(|item| item.impact_severity = Some(Impact::High)),
        changed(|item| item.target_uid = Some("u2".to_owned())),
        changed(|item| item.takeovers = vec![takeover("argocd", false)]),
        changed(|item| item.takeovers = vec![takeover("flux", false)]),
        changed(|item| item.takeovers = vec![takeover("flux", true)]),
        digest_of(&[]),
        digest_of(&[item(), item()]),
    ] {
        assert_ne!(other, original);
    }
    let by_manager = |manager, reclaimed| {
        let takeovers = vec![takeover(manager, reclaimed)];
        digest_of(&[Item {
            takeovers,
            ..item()
        }])
    };
    assert_ne!(by_manager("argocd", false), by_manager("flux", false));
    assert_ne!(by_manager("flux", true), by_manager("flux", false));
}

fn takeover(manager: &str, reclaimed: bool) -> Takeover {
    Takeover {
        path: "spec.a".to_owned(),
        manager: manager.to_owned(),
        reclaimed,
        ..Takeover::default()
    }
}

/// The terms of a plan are approved with it.
#[test]
fn digest_covers_the_terms_of_the_plan() {
    let original = digest_of(&[item()]);
    let under = |change: fn(&mut PlanTerms)| {
        let mut terms = PlanTerms::default();
        change(&mut terms);
        plan_digest(&terms, &[item()])
    };
    let window = || MaintenanceWindow {
        schedule: "0 2 * * 6".to_owned(),
        duration: "4h".to_owned(),
        time_zone: None,
    };
    let all = [
        under(|terms| terms.uid.push('x')),
        under(|terms| terms.revision = 2),
        under(|terms| terms.rollback_to = Some(1)),
        under(|terms| terms.failure_policy = FailurePolicy::Continue),
        under(|terms| terms.wait_timeout = Some("1h".to_owned())),
        under(|terms| terms.bypass_optimistic_lock = true),
        under(|terms| terms.approval_policy = Some(ApprovalPolicy::default())),
        plan_digest(
            &PlanTerms {
                maintenance_windows: vec![window()],
                ..PlanTerms::default()
            },
            &[item()],
        ),
        original,
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn digest_depends_on_item_order() {
    let mut second = item();
    second.name = "two".to_owned();
    assert_ne!(
        digest_of(&[item(), second.clone()]),
        digest_of(&[second, item()])
    );
}

#[test]
fn informational_fields_do_not_affect_the_digest() {
    let mut changed = item();
    changed.message = Some("words".to_owned());
    changed.state = ItemState::Failed;
    changed.diff = Some("+x".to_owned());
    changed.last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        jiff::Timestamp::UNIX_EPOCH,
    ));
    changed.unchanged = true;
    assert_eq!(digest_of(&[changed]), digest_of(&[item()]));
}

#[test]
fn only_the_hash_annotation_is_excluded_from_the_digest() {
    let with = |annotations: Value| {
        let mut item = item();
        let mut desired = item.desired_state.take().unwrap();
        desired["metadata"]["annotations"] = annotations;
        item.desired_state = Some(desired);
        digest_of(&[item])
    };
    let original = digest_of(&[item()]);
    assert_eq!(
        with(json!({names::APPLIED_PROFILE_HASH: "sha256:1"})),
        original
    );
    let governed = with(json!({names::GOVERNED_BY: "x"}));
    assert_ne!(governed, original);
    assert_eq!(
        with(json!({names::GOVERNED_BY: "x", names::APPLIED_PROFILE_HASH: "sha256:2"})),
        governed
    );
}

/// An object as text, with the keys of every map in the opposite order.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> = map
                .iter()
                .rev()
                .map(|(key, value)| format!("{}:{}", json!(key), reversed(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(reversed).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

proptest! {
    #[test]
    fn key_order_does_not_affect_the_digest(desired in any_object(), base in any_value()) {
        let plan = |desired: Value, base: Value| {
            let base = Some(BTreeMap::from([("spec".to_owned(), base)]));
            digest_of(&[Item { desired_state: Some(desired), base, ..item() }])
        };
        let turned = (from_str(&reversed(&desired)).unwrap(), from_str(&reversed(&base)).unwrap());
        prop_assert_eq!(plan(desired, base), plan(turned.0, turned.1));
    }

    #[test]
    fn digest_survives_a_round_trip(desired in any_object(), base in any_value()) {
        let base = Some(BTreeMap::from([("spec".to_owned(), base)]));
        let plan = [Item { desired_state: Some(desired), base, ..item() }];
        let read: Vec<Item> = from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        prop_assert_eq!(digest_of(&plan), digest_of(&read));
    }

    #[test]
    fn different_values_have_different_hashes(a in any_value(), b in any_value()) {
        let hash = |value: &Value| applied_hash(&BTreeMap::from([("spec".to_owned(), value.clone())]));
        prop_assert_eq!(hash(&a) == hash(&b), machinery::apply::values_equal(&a, &b));
    }
}
