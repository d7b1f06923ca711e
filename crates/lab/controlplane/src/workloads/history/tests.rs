use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use rstest::rstest;
use serde_json::{from_value, json};

use super::decide::{self, Plan};

fn template(image: &str) -> PodTemplateSpec {
    from_value(json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "image": image }] },
    }))
    .unwrap()
}

fn revision(name: &str, number: i64, image: &str) -> Arc<ControllerRevision> {
    Arc::new(ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(decide::data(&template(image)))),
        revision: number,
    })
}

#[rstest]
#[case::nothing_yet(&[], "a", Plan::Create(1))]
#[case::the_newest(&[("x", 1, "a"), ("y", 2, "b")], "b", Plan::Keep(revision("y", 2, "b")))]
#[case::something_new(&[("x", 1, "a"), ("y", 5, "b")], "c", Plan::Create(6))]
#[case::a_rollback(&[("x", 1, "a"), ("y", 2, "b")], "a", Plan::Renumber(revision("x", 1, "a"), 3))]
#[case::the_latest_of_equals(
    &[("x", 1, "a"), ("y", 2, "a"), ("z", 3, "b")], "a", Plan::Renumber(revision("y", 2, "a"), 4)
)]
fn finds_the_revision_of_a_template(
    #[case] history: &[(&str, i64, &str)],
    #[case] wanted: &str,
    #[case] expected: Plan,
) {
    let history: Vec<_> = history
        .iter()
        .map(|(name, number, image)| revision(name, *number, image))
        .collect();
    assert_eq!(decide::plan(&history, &template(wanted)), expected);
}

#[test]
fn sorts_by_number_then_name() {
    let mut history = vec![
        revision("b", 2, ""),
        revision("c", 1, ""),
        revision("a", 2, ""),
    ];
    decide::sort(&mut history);
    let names: Vec<_> = history
        .iter()
        .filter_map(|one| one.metadata.name.clone())
        .collect();
    assert_eq!(names, ["c", "a", "b"]);
}

#[rstest]
#[case::within_the_limit(2, &[], &["a"])]
#[case::beyond_it(1, &["a"], &["b"])]
#[case::keep_none(0, &["a", "c"], &["b"])]
#[case::keep_all(-1, &[], &[])]
fn drops_the_oldest_idle_revisions(
    #[case] limit: i32,
    #[case] expected: &[&str],
    #[case] live: &[&str],
) {
    let history = [
        revision("a", 1, "a"),
        revision("b", 2, "b"),
        revision("c", 3, "c"),
    ];
    let live: HashSet<String> = live.iter().map(|&name| name.to_owned()).collect();
    let dropped: Vec<_> = decide::surplus(&history, &live, limit)
        .into_iter()
        .filter_map(|one| one.metadata.name.clone())
        .collect();
    assert_eq!(dropped, expected);
}

#[test]
fn hash_depends_on_the_collision_count() {
    let data = decide::data(&template("a"));
    let first = decide::hash(&data, Some(0));
    assert_eq!(first, decide::hash(&data, Some(0)));
    assert_ne!(first, decide::hash(&data, Some(1)));
    assert_ne!(first, decide::hash(&decide::data(&template("b")), Some(0)));
    assert!(
        first
            .bytes()
            .all(|letter| b"bcdfghjklmnpqrstvwxz2456789".contains(&letter))
    );
}

#[test]
fn revision_restores_its_template() {
    assert_eq!(
        decide::template(&revision("x", 1, "a")),
        Some(template("a"))
    );
}
