use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::overview::Variant;

fn image(name: &str, architectures: &[&str]) -> Image {
    Image {
        namespace: GOLDEN_NAMESPACE.to_owned(),
        name: name.to_owned(),
        pointer: None,
        architectures: architectures
            .iter()
            .map(|it| Variant {
                architecture: (*it).to_owned(),
                data_source: format!("{name}-{it}"),
                ..Variant::default()
            })
            .collect(),
    }
}

fn nodes(architectures: &[&str]) -> BTreeMap<String, usize> {
    architectures
        .iter()
        .map(|it| ((*it).to_owned(), 2))
        .collect()
}

fn cron(name: &str, architecture: Option<&str>) -> DataImportCron {
    let labels = architecture.map(|it| json!({ "template.kubevirt.io/architecture": it }));
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": GOLDEN_NAMESPACE, "labels": labels },
        "spec": {
            "schedule": "0 0 * * *", "managedDataSource": "fedora",
            "template": { "spec": {} },
        },
    }))
    .unwrap()
}

fn ssp(on: Option<bool>, architectures: Option<&str>) -> SSP {
    let annotations = architectures.map(|it| json!({ ARCHITECTURES: it }));
    serde_json::from_value::<Value>(json!({
        "metadata": { "name": "ssp", "namespace": "kubevirt" },
        "spec": {
            "enableMultipleArchitectures": on,
            "commonTemplates": { "dataImportCronTemplates": [{
                "metadata": { "name": "fedora-image-cron", "annotations": annotations },
                "spec": {
                    "schedule": "0 0 * * *", "managedDataSource": "fedora",
                    "template": { "spec": {} },
                },
            }] },
        },
    }))
    .and_then(serde_json::from_value)
    .unwrap()
}

#[rstest]
#[case::complete(&["amd64", "arm64"], &["amd64", "arm64"], &[])]
#[case::one_is_missing(&["amd64"], &["amd64", "arm64"], &["arm64"])]
#[case::more_than_nodes(&["amd64", "s390x"], &["amd64"], &[])]
#[case::unspecified_in_a_cluster_of_one(&[""], &["amd64"], &[])]
#[case::unspecified_in_a_mixed_cluster(&[""], &["amd64", "arm64"], &["amd64", "arm64"])]
fn node_architectures_without_a_disk_are_found(
    #[case] architectures: &[&str],
    #[case] of_nodes: &[&str],
    #[case] missing: &[&str],
) {
    let coverage = decide(&CoverageInputs {
        images: &[image("fedora", architectures)],
        nodes: &nodes(of_nodes),
        switch: None,
        ssp: None,
        crons: &[],
    });
    let found: Vec<&str> = coverage
        .gaps
        .iter()
        .map(|it| it.architecture.as_str())
        .collect();
    assert_eq!(found, missing);
    assert_eq!(coverage.conditions()[0].status, missing.is_empty());
}

#[rstest]
#[case::both_on(Some(true), Some(true), &["fedora-image-cron-amd64", "fedora-image-cron-arm64"], &[])]
#[case::both_off(Some(false), Some(false), &["fedora-image-cron"], &[])]
#[case::unset_is_off(Some(false), None, &["fedora-image-cron"], &[])]
#[case::without_hyperconverged(None, Some(false), &["fedora-image-cron"], &[])]
#[case::ssp_does_not_follow(
    Some(true), Some(false), &["fedora-image-cron"],
    &["the HyperConverged has multi-architecture images on, the SSP off: the operator of the HyperConverged has not updated it"]
)]
#[case::crons_do_not_follow(
    Some(true), Some(true), &["fedora-image-cron-amd64"],
    &["multi-architecture images are on, but template fedora-image-cron has no DataImportCron kubevirt-os-images/fedora-image-cron-arm64 for arm64"]
)]
#[case::crons_are_left_over(
    Some(false), Some(false), &["fedora-image-cron", "fedora-image-cron-arm64"],
    &["multi-architecture images are off, but DataImportCron kubevirt-os-images/fedora-image-cron-arm64 for arm64 is there"]
)]
fn objects_follow_the_switch(
    #[case] switch: Option<bool>,
    #[case] on: Option<bool>,
    #[case] crons: &[&str],
    #[case] expected: &[&str],
) {
    let crons: Vec<DataImportCron> = crons
        .iter()
        .map(|name| cron(name, name.strip_prefix("fedora-image-cron-")))
        .collect();
    let coverage = decide(&CoverageInputs {
        images: &[],
        // The image also has s390x, but no node does.
        nodes: &nodes(&["amd64", "arm64"]),
        switch,
        ssp: Some(&ssp(on, Some("amd64,arm64,s390x"))),
        crons: &crons,
    });
    let found: Vec<String> = coverage.drift.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
    assert_eq!(coverage.conditions()[1].status, expected.is_empty());
}

#[test]
fn data_source_that_a_user_manages_needs_no_cron() {
    let coverage = decide(&CoverageInputs {
        images: &[image("fedora", &["arm64"])],
        nodes: &nodes(&["arm64"]),
        switch: None,
        ssp: Some(&ssp(Some(true), Some("arm64"))),
        crons: &[],
    });
    assert_eq!(coverage, Coverage::default());
}

#[test]
fn long_lists_are_cut() {
    let images: Vec<Image> = (0..10).map(|it| image(&format!("i{it}"), &[])).collect();
    let coverage = decide(&CoverageInputs {
        images: &images,
        nodes: &nodes(&["amd64"]),
        switch: None,
        ssp: None,
        crons: &[],
    });
    assert_eq!(coverage.gaps.len(), 10);
    let [covered, _] = coverage.conditions();
    assert!(
        covered.message.ends_with("; and 2 more"),
        "{}",
        covered.message
    );
}
