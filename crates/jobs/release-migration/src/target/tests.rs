use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn version(request: Option<Value>, available: &Value) -> ClusterVersion {
    let mut spec = json!({});
    if let Some(request) = request {
        spec["desiredUpdate"] = request;
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

fn describe(found: Result<Target, InvalidUpdate>) -> String {
    match found {
        Ok(Target::Stay) => "stay".to_owned(),
        Ok(Target::Go(release)) => format!("go to {} {}", release.version, release.image)
            .trim()
            .to_owned(),
        Ok(Target::Unknown(why)) => why.to_string(),
        Err(error) => error.to_string(),
    }
}

/// The eight combinations of requested fields and available updates.
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
// Only the current version is possible for several architectures.
#[case(json!({ "architecture": "Multi", "version": "4.18.1" }), "go to 4.18.0 multi")]
fn requests_to_a_single_architecture_cluster(#[case] request: Value, #[case] expected: &str) {
    let available = json!([
        { "version": "4.18.0", "image": "multi" }, { "version": "4.18.1", "image": "next" },
        { "version": "4.18.2", "image": "a" }, { "version": "4.18.2", "image": "b" },
    ]);
    let version = version(Some(request), &available);
    assert_eq!(
        describe(target(&version, &Architecture::Single(None))),
        expected
    );
}

#[test]
fn no_request_stays() {
    let version = version(None, &json!([]));
    assert_eq!(describe(target(&version, &Architecture::Multi)), "stay");
}

#[test]
fn multi_cluster_only_changes_versions() {
    let ask = |wanted: &str| {
        let request = json!({ "architecture": "Multi", "version": wanted });
        let available = json!([
            { "version": "4.18.0", "image": "other" }, { "version": "4.18.1", "image": "next" },
        ]);
        describe(target(
            &version(Some(request), &available),
            &Architecture::Multi,
        ))
    };
    assert_eq!(ask("4.18.0"), "stay");
    assert_eq!(ask("4.18.1"), "go to 4.18.1 next");
}

/// A request without effect, which upstream does not report.
#[rstest]
#[case(json!(null))]
#[case(json!([]))]
#[case(json!([{ "version": "4.18.1", "image": "next" }]))]
fn unknown_release_is_waited_for(#[case] available: Value) {
    let request = json!({ "architecture": "Multi", "version": "4.18.0" });
    let found = target(
        &version(Some(request), &available),
        &Architecture::Single(None),
    );
    assert!(
        describe(found)
            .starts_with("there is no available update to 4.18.0 for several architectures")
    );
}
