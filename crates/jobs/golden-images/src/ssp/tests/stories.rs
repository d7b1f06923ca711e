//! What happens over time: nodes come and go, the switch is turned, templates change.

use serde_json::{Value, json};

use super::world::{HOME, World, machine, template};
use crate::action::Kind;
use crate::ssp::{Problem, Until};

fn fedora(list: &str) -> Value {
    template("fedora-image-cron", "fedora", Some(list))
}

fn pointer(name: &str) -> Value {
    json!({ "dataSource": { "namespace": HOME, "name": name } })
}

fn volume(name: &str) -> Value {
    json!({ "pvc": { "namespace": HOME, "name": name } })
}

/// A cluster from before: one cron, one import.
fn before() -> World {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[template(
        "fedora-image-cron",
        "fedora",
        None,
    )]);
    world.switch(false);
    world.settle();
    world.import("fedora-image-cron");
    world.settle();
    assert!(world.is_ready("fedora"));
    world
}

/// Carries out turn by turn, and sees that a name can be used all the time.
fn settle_usable(world: &mut World, name: &str) {
    for _ in 0..10 {
        let decision = world.decide();
        if decision.actions.is_empty() {
            return;
        }
        world.carry_out(&decision);
        assert!(world.is_ready(name), "after {:#?}", decision.actions);
    }
    panic!("no end");
}

#[test]
fn switching_on_never_breaks_the_old_name() {
    let mut world = before();
    world.switch(true);
    world = world.templates(&[fedora("amd64,arm64")]);
    settle_usable(&mut world, "fedora");
    assert_eq!(
        world.names(Kind::DataImportCron),
        [
            "fedora-image-cron",
            "fedora-image-cron-amd64",
            "fedora-image-cron-arm64"
        ],
        "the old one stays until there is another"
    );
    let waiting = world.decide().waiting;
    assert_eq!(waiting[0].until, Until::Ready("fedora-amd64".to_owned()));
    world.import("fedora-image-cron-arm64");
    settle_usable(&mut world, "fedora");
    assert_eq!(world.source("fedora"), &volume("fedora-0123456789ab"));
    world.import("fedora-image-cron-amd64");
    settle_usable(&mut world, "fedora");
    assert_eq!(world.source("fedora"), &pointer("fedora-amd64"));
    assert_eq!(
        world.names(Kind::DataImportCron),
        ["fedora-image-cron-amd64", "fedora-image-cron-arm64"]
    );
    assert_eq!(
        world.names(Kind::Claim),
        ["fedora-amd64-0123456789ab", "fedora-arm64-0123456789ab"],
        "the old import is gone"
    );
}

#[test]
fn switching_off_never_breaks_the_name_and_leaves_nothing() {
    let mut world = before();
    world.switch(true);
    world = world.templates(&[fedora("amd64,arm64")]);
    world.settle();
    world.import("fedora-image-cron-amd64");
    world.import("fedora-image-cron-arm64");
    world.settle();
    // What an older HCO writes: no annotation, no cluster.
    world = world.templates(&[template("fedora-image-cron", "fedora", None)]);
    world.ssp.spec.cluster = None;
    world.switch(false);
    settle_usable(&mut world, "fedora");
    assert_eq!(
        world.names(Kind::DataImportCron),
        ["fedora-image-cron", "fedora-image-cron-amd64"],
        "arm64 is not needed; amd64 still is"
    );
    world.import("fedora-image-cron");
    settle_usable(&mut world, "fedora");
    assert_eq!(world.names(Kind::DataImportCron), ["fedora-image-cron"]);
    assert_eq!(world.names(Kind::DataSource), ["fedora"]);
    assert_eq!(world.names(Kind::Claim), ["fedora-0123456789ab"]);
}

/// A DataSource that somebody made by hand, of both kinds.
#[rstest::rstest]
#[case(Kind::Claim, "pvc")]
#[case(Kind::Snapshot, "snapshot")]
fn what_was_made_by_hand_is_the_default(#[case] kind: Kind, #[case] part: &str) {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]);
    world.put(kind, "my-golden-disk", &json!({}));
    let source = json!({ part: { "namespace": HOME, "name": "my-golden-disk" } });
    world.put_source("fedora", &source);
    world = world.templates(&[fedora("amd64,arm64")]);
    settle_usable(&mut world, "fedora");
    assert_eq!(world.source("fedora"), &pointer("fedora-amd64"));
    assert_eq!(world.source("fedora-amd64"), &source);
    assert_eq!(
        world.names(Kind::DataImportCron),
        ["fedora-image-cron-arm64"],
        "nothing is imported over it"
    );
    // Off again: the name gets back what it stood for.
    world.switch(false);
    settle_usable(&mut world, "fedora");
    assert_eq!(world.source("fedora"), &source);
    assert_eq!(world.names(Kind::DataImportCron), Vec::<&str>::new());
    assert_eq!(world.names(Kind::DataSource), ["fedora"]);
    // On once more, and then the template goes: it belongs to who made it.
    world.switch(true);
    settle_usable(&mut world, "fedora");
    world = world.templates(&[]);
    settle_usable(&mut world, "fedora");
    assert_eq!(world.source("fedora"), &source);
    assert_eq!(world.names(Kind::DataSource), ["fedora"]);
    let annotations = &world.get(Kind::DataSource, "fedora")["metadata"]["annotations"];
    assert_eq!(annotations, &json!({}));
}

#[test]
fn a_volume_of_the_name_is_enough() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    world.put(Kind::Claim, "fedora", &json!({}));
    world.settle();
    assert_eq!(world.source("fedora-amd64"), &volume("fedora"));
    assert_eq!(
        world.names(Kind::DataImportCron),
        ["fedora-image-cron-arm64"]
    );
    // The label is how anybody asks for imports.
    let key = (Kind::DataSource, crate::action::named(HOME, "fedora-amd64"));
    world.objects.get_mut(&key).unwrap()["metadata"]["labels"]["cdi.kubevirt.io/dataImportCron"] =
        json!("");
    world.settle();
    assert_eq!(world.names(Kind::DataImportCron).len(), 2);
}

#[test]
fn images_of_an_architecture_that_left_stay_for_a_while() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    world.settle();
    world.import("fedora-image-cron-amd64");
    world.import("fedora-image-cron-arm64");
    world.settle();
    world.workload(&["amd64"]);
    world = world.templates(&[fedora("amd64")]);
    let decision = world.settle();
    assert!(world.is_ready("fedora-arm64"));
    assert_eq!(decision.look_again.unwrap().as_second(), 1_000_000 + 3600);
    // It comes back: nothing happened.
    world.now += 3000;
    world.workload(&["amd64", "arm64"]);
    world = world.templates(&[fedora("amd64,arm64")]);
    let decision = world.settle();
    assert_eq!((decision.waiting, decision.look_again), (vec![], None));
    let cron = world.get(Kind::DataImportCron, "fedora-image-cron-arm64");
    assert_eq!(
        cron["metadata"]["annotations"].get("medley.dev/unwanted-since"),
        None
    );
    // It goes for good.
    world.workload(&["amd64"]);
    world = world.templates(&[fedora("amd64")]);
    world.settle();
    world.now += 3600;
    world.settle();
    assert_eq!(world.names(Kind::DataSource), ["fedora", "fedora-amd64"]);
    assert_eq!(
        world.names(Kind::DataImportCron),
        ["fedora-image-cron-amd64"]
    );
    assert_eq!(world.names(Kind::Claim), ["fedora-amd64-0123456789ab"]);
}

/// All nodes that run machines are gone, HCO leaves out the template, and nothing is lost yet.
#[test]
fn nothing_is_lost_at_once_when_all_nodes_are_gone() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    world.settle();
    world.import("fedora-image-cron-amd64");
    world.import("fedora-image-cron-arm64");
    world.settle();
    world.workload(&[]);
    world = world.templates(&[]);
    settle_usable(&mut world, "fedora");
    world.now += 3600;
    world.settle();
    assert_eq!(world.objects.len(), 0, "{:?}", world.objects.keys());
}

#[test]
fn an_architecture_that_a_template_drops_goes_at_once() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    world.settle();
    world.import("fedora-image-cron-amd64");
    world.import("fedora-image-cron-arm64");
    world = world.templates(&[fedora("arm64")]);
    settle_usable(&mut world, "fedora");
    assert_eq!(world.source("fedora"), &pointer("fedora-arm64"));
    assert_eq!(
        world.names(Kind::DataImportCron),
        ["fedora-image-cron-arm64"]
    );
    assert_eq!(world.names(Kind::DataSource), ["fedora", "fedora-arm64"]);
}

#[test]
fn a_changed_template_makes_its_cron_anew_and_keeps_the_import() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    world.settle();
    world.import("fedora-image-cron-amd64");
    let mut changed = fedora("amd64,arm64");
    changed["spec"]["schedule"] = json!("5 5 * * *");
    world = world.templates(&[changed]);
    settle_usable(&mut world, "fedora");
    let cron = world.get(Kind::DataImportCron, "fedora-image-cron-amd64");
    assert_eq!(cron["spec"]["schedule"], "5 5 * * *");
    assert_eq!(world.names(Kind::Claim), ["fedora-amd64-0123456789ab"]);
}

#[test]
fn a_template_without_architectures_is_as_before() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[
        template("custom", "mine", None),
        template("blank", "other", Some(" ")),
    ]);
    world.settle();
    assert_eq!(world.names(Kind::DataImportCron), ["blank", "custom"]);
    let cron = world.get(Kind::DataImportCron, "custom");
    assert_eq!(cron["spec"]["managedDataSource"], "mine");
    assert_eq!(cron["metadata"].get("labels"), None);
    let registry = &cron["spec"]["template"]["spec"]["source"]["registry"];
    assert_eq!(registry.get("platform"), None);
    // Somebody adds architectures: the old one goes when there is another.
    world.import("custom");
    world = world.templates(&[template("custom", "mine", Some("arm64"))]);
    settle_usable(&mut world, "mine");
    world.import("custom-arm64");
    settle_usable(&mut world, "mine");
    assert_eq!(world.names(Kind::DataImportCron), ["custom-arm64"]);
}

/// Templates of machines look for it by architecture: the one import is that of the default.
#[test]
fn a_template_from_before_that_machines_look_for_is_the_default() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[template(
        "fedora-image-cron",
        "fedora",
        None,
    )]);
    world.bundle = vec![
        machine("f", "fedora", "amd64"),
        machine("f-arm64", "fedora", "arm64"),
    ];
    world.settle();
    let cron = world.get(Kind::DataImportCron, "fedora-image-cron");
    assert_eq!(cron["spec"]["managedDataSource"], "fedora-amd64");
    assert_eq!(world.source("fedora"), &pointer("fedora-amd64"));
    assert_eq!(world.source("fedora-arm64"), &volume("fedora-arm64"));
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64")]);
    let stranger = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
        "metadata": { "name": "fedora-image-cron-amd64", "namespace": HOME },
        "spec": { "managedDataSource": "x", "schedule": "", "template": { "spec": {} } },
    });
    let key = crate::action::named(HOME, "fedora-image-cron-amd64");
    let place = (Kind::DataImportCron, key.clone());
    world.objects.insert(place.clone(), stranger.clone());
    let decision = world.settle();
    assert_eq!(decision.problems, [Problem::NotOurs(key)]);
    assert_eq!(world.objects[&place], stranger);
}

#[test]
fn one_data_source_has_one_template() {
    let world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[
        template("b", "fedora", Some("amd64")),
        template("a", "fedora", Some("arm64,vax")),
        template("", "x", None),
        json!({ "metadata": { "name": "c" } }),
    ]);
    let decision = world.decide();
    assert_eq!(
        decision.problems,
        [
            Problem::NoName,
            Problem::UnknownArchitectures {
                template: "a".to_owned(),
                architectures: vec!["vax".to_owned()],
            },
            Problem::SameDataSource {
                kept: "a".to_owned(),
                ignored: "b".to_owned(),
                data_source: "fedora".to_owned(),
            },
            Problem::NoDataSource("c".to_owned()),
        ]
    );
}

#[test]
fn the_pointer_is_where_its_template_is() {
    let mut mine = fedora("amd64,arm64");
    mine["metadata"]["namespace"] = json!("mine");
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[mine]);
    world.settle();
    let key = (Kind::DataSource, crate::action::named("mine", "fedora"));
    assert_eq!(
        world.objects[&key]["spec"]["source"]["dataSource"]["namespace"],
        "mine"
    );
}

#[test]
fn an_image_that_lacks_the_default_architecture_falls_back() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    world.settle();
    let key = crate::action::named(HOME, "fedora-image-cron-amd64");
    let cron = world.objects.get_mut(&(Kind::DataImportCron, key)).unwrap();
    cron["status"] = json!({ "conditions": [
        { "type": "UpToDate", "status": "False", "reason": "ArchitectureNotFound" },
    ] });
    world.import("fedora-image-cron-arm64");
    let decision = world.settle();
    assert_eq!(world.source("fedora"), &pointer("fedora-arm64"));
    let image = &decision.images[0];
    assert_eq!(image.default_architecture.as_deref(), Some("arm64"));
    let states: Vec<_> = image
        .architectures
        .iter()
        .map(|it| (it.architecture.as_str(), it.state.as_str()))
        .collect();
    assert_eq!(states, [("amd64", "Failed"), ("arm64", "Ready")]);
}

#[test]
fn a_policy_moves_the_name() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    world.settle();
    world.import("fedora-image-cron-amd64");
    world.import("fedora-image-cron-arm64");
    world.policy(json!({ "images": [{ "name": "fedora", "defaultArchitecture": "arm64" }] }));
    settle_usable(&mut world, "fedora");
    assert_eq!(world.source("fedora"), &pointer("fedora-arm64"));
    let annotations = &world.get(Kind::DataSource, "fedora")["metadata"]["annotations"];
    assert_eq!(
        annotations["medley.dev/default-architecture-reason"],
        "arm64 (ImagePolicy)"
    );
}

#[test]
fn long_names_are_cut_alike_everywhere() {
    let long = "d".repeat(60);
    let mut world = World::new(&["amd64"], &["amd64", "s390x"]).templates(&[template(
        &"c".repeat(60),
        &long,
        Some("amd64,s390x"),
    )]);
    world.settle();
    for name in world.names(Kind::DataImportCron) {
        assert!(name.len() <= 63);
        let cron = world.get(Kind::DataImportCron, name);
        let managed = cron["spec"]["managedDataSource"].as_str().unwrap();
        assert!(world.names(Kind::DataSource).contains(&managed));
        let cron = serde_json::from_value(cron.clone()).unwrap();
        assert_eq!(crate::cdi::admission::review(None, &cron), []);
    }
}

#[test]
fn a_paused_ssp_does_nothing_and_a_deleted_one_leaves_nothing() {
    let mut world = World::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    world.bundle = vec![machine("f", "fedora", "amd64")];
    let pause = [("kubevirt.io/operator.paused".to_owned(), "true".to_owned())];
    world.ssp.metadata.annotations = Some(pause.into());
    assert!(world.decide().paused);
    assert_eq!(world.decide().actions, []);
    world.ssp.metadata.annotations = None;
    world.settle();
    world.import("fedora-image-cron-amd64");
    world.ssp.metadata.annotations =
        Some([("kubevirt.io/operator.paused".to_owned(), "true".to_owned())].into());
    world.ssp.metadata.deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
    );
    let first = world.decide();
    assert!(
        first.actions.iter().all(|action| matches!(
            action,
            crate::action::Action::Delete {
                kind: Kind::DataImportCron,
                ..
            }
        )),
        "crons first"
    );
    world.carry_out(&first);
    world.settle();
    assert_eq!(world.objects.len(), 0, "{:?}", world.objects.keys());
}
