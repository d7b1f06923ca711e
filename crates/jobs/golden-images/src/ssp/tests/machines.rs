//! Templates of virtual machines.

use serde_json::json;

use super::world::{World, machine, template};
use crate::action::{Kind, named};

fn world() -> World {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]);
    world.bundle = vec![
        machine("fedora", "fedora", "amd64"),
        machine("fedora-arm64", "fedora", "arm64"),
        machine("fedora-s390x", "fedora", "s390x"),
    ];
    world
}

fn value(world: &World, name: &str) -> String {
    let key = (Kind::Template, named("openshift", name));
    let value = &world.objects[&key]["parameters"][1]["value"];
    value.as_str().unwrap().to_owned()
}

#[test]
fn every_architecture_has_its_templates() {
    let mut world = world();
    world.settle();
    assert_eq!(world.names(Kind::Template), ["fedora", "fedora-arm64"]);
    assert_eq!(value(&world, "fedora"), "fedora-amd64");
    assert_eq!(value(&world, "fedora-arm64"), "fedora-arm64");
    // What they look for is there, with or without an image.
    assert_eq!(
        world.names(Kind::DataSource),
        ["fedora", "fedora-amd64", "fedora-arm64"]
    );
}

#[test]
fn switched_off_there_is_one_architecture() {
    let mut world = world();
    world.settle();
    world.switch(false);
    world.settle();
    assert_eq!(world.names(Kind::Template), ["fedora"]);
    assert_eq!(value(&world, "fedora"), "fedora");
    assert_eq!(world.names(Kind::DataSource), ["fedora"]);
}

/// The control plane runs no machines: no templates for it, unlike upstream.
#[test]
fn only_workloads_count() {
    let mut world = world();
    world
        .ssp
        .spec
        .cluster
        .as_mut()
        .unwrap()
        .control_plane_architectures = vec!["s390x".to_owned()];
    world.settle();
    assert_eq!(world.names(Kind::Template), ["fedora", "fedora-arm64"]);
}

#[test]
fn templates_of_an_architecture_that_left_go_after_a_while() {
    let mut world = world();
    world.settle();
    world.workload(&["amd64"]);
    world.settle();
    assert_eq!(world.names(Kind::Template).len(), 2);
    world.now += 3600;
    world.settle();
    assert_eq!(world.names(Kind::Template), ["fedora"]);
    assert_eq!(world.names(Kind::DataSource), ["fedora", "fedora-amd64"]);
}

#[test]
fn templates_of_an_earlier_version_are_not_found_any_more() {
    let mut world = world();
    world.settle();
    world.bundle[0] = machine("fedora-v2", "fedora", "amd64");
    world.settle();
    let key = (Kind::Template, named("openshift", "fedora"));
    let meta = &world.objects[&key]["metadata"];
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
fn what_others_wrote_on_a_template_stays_and_what_is_ours_is_put_right() {
    let mut world = world();
    world.settle();
    let key = (Kind::Template, named("openshift", "fedora"));
    let object = world.objects.get_mut(&key).unwrap();
    object["metadata"]["labels"]["theirs"] = json!("x");
    object["parameters"][1]["value"] = json!("edited");
    world.settle();
    assert_eq!(value(&world, "fedora"), "fedora-amd64");
    let key = (Kind::Template, named("openshift", "fedora"));
    assert_eq!(world.objects[&key]["metadata"]["labels"]["theirs"], "x");
}

/// An SSP that knows no nodes takes the program's own architecture.
#[test]
fn without_nodes_there_is_still_one_architecture() {
    let mut world = world().templates(&[template("c", "fedora", None)]);
    world.ssp.spec.cluster = None;
    world.switch(false);
    world.settle();
    assert_eq!(world.names(Kind::Template), ["fedora"]);
}
