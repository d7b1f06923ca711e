use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::payload::Manifest;

const NEW: &str = "quay.io/r@sha256:bb";
const OLD: &str = "quay.io/r@sha256:aa";

fn operator(name: &str, versions: &[(&str, &str)], conditions: &[(&str, &str)]) -> ClusterOperator {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(name, version)| json!({ "name": name, "version": version }))
        .collect();
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status)| json!({ "type": kind, "status": status }))
        .collect();
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {},
        "status": { "versions": versions, "conditions": conditions },
    }))
    .unwrap()
}

const WELL: &[(&str, &str)] = &[("Available", "True"), ("Degraded", "False")];
const BOTH: &[(&str, &str)] = &[("operator", "4.18.0"), ("operator-image", NEW)];

/// Reference 2.4, one line for every rule and for the corner cases about one operator: the expected versions, the
/// reported ones, the conditions, and the verdict while updating.
#[rstest]
// 1. A manifest without versions, whatever the operator reports.
#[case(&[], BOTH, WELL, "ClusterOperatorNoVersions Fail Cluster operator a does not declare expected versions")]
#[case(&[], BOTH, &[], "ClusterOperatorNoVersions Fail Cluster operator a does not declare expected versions")]
// 3., 6. Versions; the whole pull specification counts.
#[case(BOTH, BOTH, WELL, "")]
#[case(BOTH, &[("operator", "4.18.0"), ("operator-image", OLD)], WELL, "ClusterOperatorUpdating None Cluster operator a is updating versions")]
#[case(BOTH, &[("operator", "4.17.0"), ("operator-image", NEW)], WELL, "ClusterOperatorUpdating None Cluster operator a is updating versions")]
#[case(&[("operator", "4.18.0")], &[("operator", "4.18.0"), ("x", "y")], WELL, "")]
// 4. Availability goes before everything else.
#[case(BOTH, &[], &[], "ClusterOperatorNotAvailable Fail Cluster operator a is not available")]
#[case(BOTH, BOTH, &[("Available", "False"), ("Degraded", "True")], "ClusterOperatorNotAvailable Fail Cluster operator a is not available")]
#[case(BOTH, BOTH, &[("Available", "Unknown"), ("Degraded", "False")], "ClusterOperatorNotAvailable Fail Cluster operator a is not available")]
// 5. Degraded goes before versions.
#[case(BOTH, &[], &[("Available", "True"), ("Degraded", "True")], "ClusterOperatorDegraded FailAfterInterval Cluster operator a is degraded")]
#[case(BOTH, BOTH, &[("Available", "True")], "ClusterOperatorDegraded FailAfterInterval Cluster operator a is degraded")]
// 7. Progressing is not checked.
#[case(BOTH, BOTH, &[("Available", "True"), ("Degraded", "False"), ("Progressing", "True")], "")]
// Corner case 1: an operator that does not report images yet; and a release that wants none.
#[case(BOTH, &[("operator", "4.18.0")], WELL, "ClusterOperatorUpdating None Cluster operator a is updating versions")]
#[case(&[("operator", "4.18.0")], BOTH, WELL, "")]
// Corner case 2: the same image in both releases.
#[case(&[("operator-image", OLD)], &[("operator-image", OLD)], WELL, "")]
// Corner case 3: by tag, or from a mirror.
#[case(BOTH, &[("operator", "4.18.0"), ("operator-image", "quay.io/r:4.18.0")], WELL, "ClusterOperatorUpdating None Cluster operator a is updating versions")]
#[case(BOTH, &[("operator", "4.18.0"), ("operator-image", "mirror/r@sha256:bb")], WELL, "ClusterOperatorUpdating None Cluster operator a is updating versions")]
// Corner case 4: the operator was not built as part of a release.
#[case(BOTH, &[("operator", "4.18.0"), ("operator-image", "placeholder.url.oc.will.replace.this.org/placeholdernamespace:was-not-built-properly")], WELL, "ClusterOperatorUpdating None Cluster operator a is updating versions")]
// Corner case 5: the first of several counts, empty is missing, and an expected empty value matches a missing one.
#[case(&[("operator", "1")], &[("operator", "1"), ("operator", "2")], WELL, "")]
#[case(&[("operator", "2")], &[("operator", "1"), ("operator", "2")], WELL, "ClusterOperatorUpdating None Cluster operator a is updating versions")]
#[case(&[("operator", "1")], &[("operator", "")], WELL, "ClusterOperatorUpdating None Cluster operator a is updating versions")]
#[case(&[("operator", "")], &[], WELL, "")]
// Corner case 6: right versions, but no Available condition.
#[case(BOTH, BOTH, &[("Degraded", "False")], "ClusterOperatorNotAvailable Fail Cluster operator a is not available")]
// Corner case 7: Degraded is Unknown.
#[case(BOTH, BOTH, &[("Available", "True"), ("Degraded", "Unknown")], "ClusterOperatorDegraded FailAfterInterval Cluster operator a is degraded")]
fn operator_is_checked_by_the_reference_rules(
    #[case] wanted: &[(&str, &str)],
    #[case] reported: &[(&str, &str)],
    #[case] conditions: &[(&str, &str)],
    #[case] expected: &str,
) {
    let wanted = operator("a", wanted, &[]);
    let actual = operator("a", reported, conditions);
    for phase in [Phase::Updating, Phase::Reconciling] {
        let found = check(&wanted, Some(&actual), phase, 1, 1);
        let found = found.map(|it| format!("{} {:?} {it}", it.word(), it.effect()));
        assert_eq!(found.unwrap_or_default(), expected, "{phase:?}");
    }
}

/// During an installation, versions are not required and degraded is only reported.
#[test]
fn installation_requires_less() {
    let wanted = operator("a", BOTH, &[]);
    let install =
        |actual: &ClusterOperator| check(&wanted, Some(actual), Phase::Initializing, 1, 1);
    assert_eq!(install(&operator("a", &[], WELL)), None);
    let degraded = operator("a", BOTH, &[("Available", "True"), ("Degraded", "True")]);
    let failure = install(&degraded).unwrap();
    assert_eq!(failure.effect(), Effect::Report);
    assert_eq!(failure.word(), "ClusterOperatorDegraded");
    let unavailable = operator("a", BOTH, &[]);
    assert_eq!(install(&unavailable).unwrap().effect(), Effect::Fail);
}

#[test]
fn missing_operator_is_reported_with_its_number() {
    let failure = check(&operator("dns", BOTH, &[]), None, Phase::Updating, 71, 890).unwrap();
    assert_eq!(
        failure.to_string(),
        "Could not update clusteroperator \"dns\" (71 of 890): resource may have been deleted"
    );
}

#[test]
fn undone_versions_are_sorted() {
    let wanted = [("operator", "2"), ("b-image", NEW), ("a-image", NEW)];
    let actual = operator("a", &[("operator", "1"), ("b-image", OLD)], WELL);
    let undone = undone(&operator("a", &wanted, &[]), Some(&actual));
    let texts: Vec<String> = undone.iter().map(ToString::to_string).collect();
    let image = format!("b-image from {OLD} to {NEW}");
    let missing = format!("a-image to {NEW}");
    assert_eq!(texts, [missing, image, "operator from 1 to 2".to_owned()]);
}

fn payload(files: &[&str]) -> Payload {
    let manifests = files.iter().map(|file| {
        let name = file.strip_suffix("_co.yaml");
        let name = name.and_then(|it| it.split('_').nth(2));
        let object = match name {
            Some(name) => json!({
                "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
                "metadata": { "name": name },
                "status": { "versions": [{ "name": "operator", "version": "2" }] },
            }),
            None => json!({ "apiVersion": "v1", "kind": "ConfigMap" }),
        };
        Manifest {
            file: (*file).to_owned(),
            object,
        }
    });
    Payload {
        manifests: manifests.collect(),
        ..Payload::default()
    }
}

const FILES: &[&str] = &[
    "0000_10_a_1.yaml",
    "0000_10_a_co.yaml",
    "0000_10_b_1.yaml",
    "0000_10_b_2.yaml",
    "0000_10_b_co.yaml",
    "0000_50_c_1.yaml",
    "0000_50_c_co.yaml",
    "0000_80_machine-config_1.yaml",
    "0000_80_machine-config_co.yaml",
    "0000_90_z_1.yaml",
];

fn cluster(versions: &[(&str, &str)]) -> BTreeMap<String, ClusterOperator> {
    let made = versions.iter().map(|(name, version)| {
        let it = operator(name, &[("operator", version)], WELL);
        ((*name).to_owned(), it)
    });
    made.collect()
}

fn summary(evaluation: &Evaluation) -> (usize, usize, String, Vec<&str>) {
    let reached = evaluation.operators.iter().filter(|it| it.reached);
    (
        evaluation.done,
        evaluation.total,
        evaluation
            .failure
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        reached.map(|it| it.name.as_str()).collect(),
    )
}

#[test]
fn unreached_operators_are_not_failures() {
    let plan = Plan::new(&payload(FILES));
    let update = |versions: &[(&str, &str)]| plan.evaluate(&cluster(versions), Phase::Updating);

    let start = [("a", "1"), ("b", "1"), ("c", "1"), ("machine-config", "1")];
    let first = "Cluster operators a, b are updating versions".to_owned();
    assert_eq!(summary(&update(&start)), (3, 10, first, vec!["a", "b"]));

    let second = [("a", "2"), ("b", "1"), ("c", "1"), ("machine-config", "1")];
    let blamed = "Cluster operator b is updating versions".to_owned();
    assert_eq!(summary(&update(&second)), (4, 10, blamed, vec!["a", "b"]));

    let last = [("a", "2"), ("b", "2"), ("c", "2"), ("machine-config", "1")];
    let blamed = "Cluster operator machine-config is updating versions".to_owned();
    let all = vec!["a", "b", "c", "machine-config"];
    assert_eq!(summary(&update(&last)), (8, 10, blamed, all.clone()));

    let done = [("a", "2"), ("b", "2"), ("c", "2"), ("machine-config", "2")];
    assert_eq!(summary(&update(&done)), (10, 10, String::new(), all));
    assert!(update(&done).is_complete());
}

#[test]
fn only_updates_are_ordered() {
    let plan = Plan::new(&payload(FILES));
    let actual = cluster(&[("a", "1"), ("b", "1"), ("c", "2")]);
    let kept = plan.evaluate(&actual, Phase::Reconciling);
    assert_eq!((kept.done, kept.total), (7, 10));
    assert_eq!(kept.failure.unwrap().word(), "MultipleErrors");
    // Versions are not required during an installation, but operators have to exist.
    let installed = plan.evaluate(&actual, Phase::Initializing);
    assert_eq!((installed.done, installed.total), (9, 10));
    let word = installed.failure.unwrap().word();
    assert_eq!(word, "UpdatePayloadResourceNotFound");
}

/// Corner case 11: operators that do not report images are done as soon as their version is right.
#[test]
fn operator_without_image_is_done_at_once() {
    let plan = Plan::new(&payload(&["0000_10_a_co.yaml"]));
    let evaluation = plan.evaluate(&cluster(&[("a", "2")]), Phase::Updating);
    assert!(evaluation.is_complete());
}

proptest! {
    /// An operator that is done never makes the result worse, and only when all are done is the release complete.
    #[test]
    fn updated_operator_never_worsens_the_result(arrived in prop::collection::vec(any::<bool>(), 4), next in 0usize..4) {
        let plan = Plan::new(&payload(FILES));
        let names = ["a", "b", "c", "machine-config"];
        let at = |arrived: &[bool]| {
            let versions: Vec<_> = names
                .iter()
                .zip(arrived)
                .map(|(name, there)| (*name, if *there { "2" } else { "1" }))
                .collect();
            plan.evaluate(&cluster(&versions), Phase::Updating)
        };
        let before = at(&arrived);
        prop_assert_eq!(before.is_complete(), arrived.iter().all(|it| *it));
        prop_assert_eq!(before.is_complete(), before.done == before.total);
        let mut later = arrived.clone();
        later[next] = true;
        let after = at(&later);
        prop_assert!(after.done >= before.done);
        for (one, other) in before.operators.iter().zip(&after.operators) {
            prop_assert!(!one.reached || other.reached);
        }
    }
}
