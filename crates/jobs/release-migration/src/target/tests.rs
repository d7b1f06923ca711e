use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn version(asked: Option<Value>, available: &Value) -> ClusterVersion {
    let mut spec = json!({});
    if let Some(asked) = asked {
        spec["desiredUpdate"] = asked;
    }
    serde_json::from_value(json!({
        "metadata": { "name": "version" },
        "spec": spec,
        "status": {
            "desired": { "version": "4.18.0", "image": "single" },
            "availableUpdates": available,
        },
    }))
    .unwrap()
}

fn told(found: Result<Target, Invalid>) -> String {
    match found {
        Ok(Target::Stay) => "stay".to_owned(),
        Ok(Target::Go(release)) => format!("go to {} {}", release.version, release.image)
            .trim()
            .to_owned(),
        Ok(Target::Unknown(why)) => why.to_string(),
        Err(error) => error.to_string(),
    }
}

/// The eight combinations of what can be asked, and what is there.
#[rstest]
#[case(json!({}), "must specify architecture, version, or image")]
#[case(json!({ "image": "other" }), "go to  other")]
#[case(json!({ "image": "single" }), "stay")]
#[case(json!({ "version": "4.18.1" }), "go to 4.18.1 next")]
#[case(json!({ "version": "4.18.0" }), "stay")]
#[case(json!({ "version": "4.18.9" }), "when image is empty the update must be an available update")]
#[case(json!({ "version": "4.18.2" }), "there are multiple possible payloads for this version, specify the exact image")]
#[case(json!({ "version": "4.18.1", "image": "other" }), "go to 4.18.1 other")]
#[case(json!({ "architecture": "Multi" }), "Version must be set if Architecture is set")]
#[case(json!({ "architecture": "Multi", "image": "other" }), "cannot set both Architecture and Image")]
#[case(json!({ "architecture": "Multi", "version": "4.18.0", "image": "other" }), "cannot set both Architecture and Image")]
#[case(json!({ "architecture": "Multi", "version": "4.18.0" }), "go to 4.18.0 multi")]
// Only the current version can be had for several architectures.
#[case(json!({ "architecture": "Multi", "version": "4.18.1" }), "go to 4.18.0 multi")]
fn what_is_asked_of_a_cluster_for_one_architecture(#[case] asked: Value, #[case] expected: &str) {
    let available = json!([
        { "version": "4.18.0", "image": "multi" }, { "version": "4.18.1", "image": "next" },
        { "version": "4.18.2", "image": "a" }, { "version": "4.18.2", "image": "b" },
    ]);
    let version = version(Some(asked), &available);
    assert_eq!(
        told(target(&version, &Architecture::Single(None))),
        expected
    );
}

#[test]
fn nothing_is_asked() {
    let version = version(None, &json!([]));
    assert_eq!(told(target(&version, &Architecture::Multi)), "stay");
}

#[test]
fn who_is_multi_already_only_changes_versions() {
    let ask = |wanted: &str| {
        let asked = json!({ "architecture": "Multi", "version": wanted });
        let available = json!([
            { "version": "4.18.0", "image": "other" }, { "version": "4.18.1", "image": "next" },
        ]);
        told(target(
            &version(Some(asked), &available),
            &Architecture::Multi,
        ))
    };
    assert_eq!(ask("4.18.0"), "stay");
    assert_eq!(ask("4.18.1"), "go to 4.18.1 next");
}

/// A request that does nothing, and is silent upstream.
#[rstest]
#[case(json!(null))]
#[case(json!([]))]
#[case(json!([{ "version": "4.18.1", "image": "next" }]))]
fn a_release_that_nobody_knows_is_waited_for(#[case] available: Value) {
    let asked = json!({ "architecture": "Multi", "version": "4.18.0" });
    let found = target(
        &version(Some(asked), &available),
        &Architecture::Single(None),
    );
    assert!(
        told(found).starts_with("there is no available update to 4.18.0 for several architectures")
    );
}
