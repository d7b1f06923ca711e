//! Versions from environment variables, and values that are rejected.

use std::collections::BTreeMap;

use super::*;

fn read(set: &[(&str, &str)], operands: &[&str]) -> Result<Versions, VersionsError> {
    let set: BTreeMap<&str, &str> = set.iter().copied().collect();
    Versions::read(|name| set.get(name).map(|it| (*it).to_owned()), operands)
}

#[test]
fn versions_are_sorted_by_name() {
    let versions = read(
        &[
            ("RELEASE_VERSION", "4.18.0"),
            ("OPERATOR_IMAGE", "quay.io/a@sha256:1"),
            ("KUBE_APISERVER_IMAGE", "quay.io/b@sha256:2"),
            ("KUBE_APISERVER_VERSION", "1.31.0"),
        ],
        &["kube-apiserver"],
    );
    assert_eq!(
        versions.unwrap().to_string(),
        "[{kube-apiserver 1.31.0} {kube-apiserver-image quay.io/b@sha256:2} {operator 4.18.0} {operator-image quay.io/a@sha256:1}]"
    );
}

#[test]
fn operator_without_images_reports_version_only() {
    let versions = read(
        &[("RELEASE_VERSION", "4.18.0"), ("OPERATOR_IMAGE", "")],
        &[],
    );
    assert_eq!(versions.unwrap().to_string(), "[{operator 4.18.0}]");
}

#[test]
fn missing_variable_is_named() {
    assert_eq!(read(&[], &[]), Err(VersionsError::NoVersion));
    let error = read(&[("RELEASE_VERSION", "4.18.0")], &["router"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ROUTER_IMAGE is not set: it is the image that is reported as \"router-image\""
    );
    assert!(matches!(
        Versions::default().with("operator", ""),
        Err(VersionsError::Empty { .. })
    ));
}

#[test]
fn unreplaced_placeholder_is_rejected() {
    let image =
        "placeholder.url.oc.will.replace.this.org/placeholdernamespace:was-not-built-properly";
    for (version, image) in [
        ("4.18.0", image),
        ("0.0.1-snapshot", "quay.io/a@sha256:1"),
        ("0.0.1-snapshot-kubernetes", "quay.io/a@sha256:1"),
    ] {
        let read = read(
            &[("RELEASE_VERSION", version), ("OPERATOR_IMAGE", image)],
            &[],
        );
        assert!(
            matches!(read, Err(VersionsError::Placeholder { .. })),
            "{version} {image}: {read:?}"
        );
    }
}

#[test]
fn first_of_duplicate_versions_counts() {
    let entry = |name: &str, version: &str| OperandVersion {
        name: name.to_owned(),
        version: version.to_owned(),
    };
    let status = ClusterOperatorStatus {
        versions: vec![
            entry("theirs", "1"),
            entry("operator", "4.17.0"),
            entry("operator", "4.18.0"),
        ],
        ..ClusterOperatorStatus::default()
    };
    let versions = Versions::default().with("operator", "4.18.0").unwrap();
    assert!(!versions.are_in(&status));
    let after = versions.over(&status.versions);
    assert_eq!(after, [entry("operator", "4.18.0"), entry("theirs", "1")]);
}
