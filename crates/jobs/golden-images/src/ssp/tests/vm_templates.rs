//! VM templates.

use serde_json::json;

use super::fixture::{SspFixture, template, vm_template};
use crate::action::{Kind, named};

fn fixture() -> SspFixture {
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]);
    fixture.bundle = vec![
        vm_template("fedora", "fedora", "amd64"),
        vm_template("fedora-arm64", "fedora", "arm64"),
        vm_template("fedora-s390x", "fedora", "s390x"),
    ];
    fixture
}

fn value(fixture: &SspFixture, name: &str) -> String {
    let key = (Kind::Template, named("openshift", name));
    let value = &fixture.objects[&key]["parameters"][1]["value"];
    value.as_str().unwrap().to_owned()
}

#[test]
fn every_architecture_has_its_templates() {
    let mut fixture = fixture();
    fixture.settle();
    assert_eq!(fixture.names(Kind::Template), ["fedora", "fedora-arm64"]);
    assert_eq!(value(&fixture, "fedora"), "fedora-amd64");
    assert_eq!(value(&fixture, "fedora-arm64"), "fedora-arm64");
    // The DataSources that they refer to exist, with or without an import.
    assert_eq!(
        fixture.names(Kind::DataSource),
        ["fedora", "fedora-amd64", "fedora-arm64"]
    );
}

#[test]
fn one_architecture_when_switched_off() {
    let mut fixture = fixture();
    fixture.settle();
    fixture.switch(false);
    fixture.settle();
    assert_eq!(fixture.names(Kind::Template), ["fedora"]);
    assert_eq!(value(&fixture, "fedora"), "fedora");
    assert_eq!(fixture.names(Kind::DataSource), ["fedora"]);
}

/// The control plane runs no VMs, so unlike upstream there are no templates for it.
#[test]
fn control_plane_gets_no_templates() {
    let mut fixture = fixture();
    fixture
        .ssp
        .spec
        .cluster
        .as_mut()
        .unwrap()
        .control_plane_architectures = vec!["s390x".to_owned()];
    fixture.settle();
    assert_eq!(fixture.names(Kind::Template), ["fedora", "fedora-arm64"]);
}

#[test]
fn templates_of_removed_architecture_are_deleted_after_grace() {
    let mut fixture = fixture();
    fixture.settle();
    fixture.workload(&["amd64"]);
    fixture.settle();
    assert_eq!(fixture.names(Kind::Template).len(), 2);
    fixture.now += 3600;
    fixture.settle();
    assert_eq!(fixture.names(Kind::Template), ["fedora"]);
    assert_eq!(fixture.names(Kind::DataSource), ["fedora", "fedora-amd64"]);
}

#[test]
fn unbundled_templates_are_deprecated() {
    let mut fixture = fixture();
    fixture.settle();
    fixture.bundle[0] = vm_template("fedora-v2", "fedora", "amd64");
    fixture.settle();
    let key = (Kind::Template, named("openshift", "fedora"));
    let meta = &fixture.objects[&key]["metadata"];
    assert_eq!(
        meta["labels"],
        json!({
            "template.kubevirt.io/architecture": "amd64",
            "template.kubevirt.io/deprecated": "true",
        })
    );
    assert_eq!(
        meta["annotations"]["template.kubevirt.io/deprecated"],
        "true"
    );
}

#[test]
fn templates_of_upstream_stay_without_a_bundle() {
    let mut fixture = fixture();
    fixture.settle();
    fixture.bundle.clear();
    let key = (Kind::Template, named("openshift", "fedora"));
    let before = fixture.objects[&key].clone();
    fixture.settle();
    assert_eq!(fixture.objects[&key], before);
    // Their architecture is gone: upstream would delete them, too.
    fixture.workload(&["amd64"]);
    fixture.settle();
    fixture.now += 3600;
    fixture.settle();
    assert_eq!(fixture.names(Kind::Template), ["fedora"]);
}

#[test]
fn template_drift_is_corrected_and_foreign_labels_stay() {
    let mut fixture = fixture();
    fixture.settle();
    let key = (Kind::Template, named("openshift", "fedora"));
    let object = fixture.objects.get_mut(&key).unwrap();
    object["metadata"]["labels"]["theirs"] = json!("x");
    object["parameters"][1]["value"] = json!("edited");
    fixture.settle();
    assert_eq!(value(&fixture, "fedora"), "fedora-amd64");
    let key = (Kind::Template, named("openshift", "fedora"));
    assert_eq!(fixture.objects[&key]["metadata"]["labels"]["theirs"], "x");
}

/// An SSP without `spec.cluster` uses the architecture of the binary.
#[test]
fn own_architecture_is_used_without_cluster_info() {
    let mut fixture = fixture().templates(&[template("c", "fedora", None)]);
    fixture.ssp.spec.cluster = None;
    fixture.switch(false);
    fixture.settle();
    assert_eq!(fixture.names(Kind::Template), ["fedora"]);
}
