//! Scenarios over time: nodes join and leave, the switch changes, templates change.

use serde_json::{Value, json};

use super::fixture::{HOME, SspFixture, template, vm_template};
use crate::action::Kind;
use crate::list::UnsupportedArchitectures;
use crate::ssp::{PostponedUntil, Problem};

fn fedora(list: &str) -> Value {
    template("fedora-image-cron", "fedora", Some(list))
}

fn pointer(name: &str) -> Value {
    json!({ "dataSource": { "namespace": HOME, "name": name } })
}

fn volume(name: &str) -> Value {
    json!({ "pvc": { "namespace": HOME, "name": name } })
}

/// A cluster before multi-architecture images: one DataImportCron, one import.
fn before() -> SspFixture {
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[template(
        "fedora-image-cron",
        "fedora",
        None,
    )]);
    fixture.switch(false);
    fixture.settle();
    fixture.import("fedora-image-cron");
    fixture.settle();
    assert!(fixture.is_ready("fedora"));
    fixture
}

/// Applies decisions one by one, and checks that a name stays ready throughout.
fn settle_ready(fixture: &mut SspFixture, name: &str) {
    for _ in 0..10 {
        let decision = fixture.decide();
        if decision.actions.is_empty() {
            return;
        }
        fixture.apply(&decision);
        assert!(fixture.is_ready(name), "after {:#?}", decision.actions);
    }
    panic!("does not converge");
}

#[test]
fn switching_on_keeps_the_name_ready() {
    let mut fixture = before();
    fixture.switch(true);
    fixture = fixture.templates(&[fedora("amd64,arm64")]);
    settle_ready(&mut fixture, "fedora");
    assert_eq!(
        fixture.names(Kind::DataImportCron),
        [
            "fedora-image-cron",
            "fedora-image-cron-amd64",
            "fedora-image-cron-arm64"
        ],
        "the old one stays until the new one is ready"
    );
    let waiting = fixture.decide().waiting;
    assert_eq!(
        waiting[0].until,
        PostponedUntil::Ready("fedora-amd64".to_owned())
    );
    fixture.import("fedora-image-cron-arm64");
    settle_ready(&mut fixture, "fedora");
    assert_eq!(fixture.source("fedora"), &volume("fedora-0123456789ab"));
    fixture.import("fedora-image-cron-amd64");
    settle_ready(&mut fixture, "fedora");
    assert_eq!(fixture.source("fedora"), &pointer("fedora-amd64"));
    assert_eq!(
        fixture.names(Kind::DataImportCron),
        ["fedora-image-cron-amd64", "fedora-image-cron-arm64"]
    );
    assert_eq!(
        fixture.names(Kind::Claim),
        ["fedora-amd64-0123456789ab", "fedora-arm64-0123456789ab"],
        "the old import is gone"
    );
}

#[test]
fn switching_off_keeps_the_name_ready_and_cleans_up() {
    let mut fixture = before();
    fixture.switch(true);
    fixture = fixture.templates(&[fedora("amd64,arm64")]);
    fixture.settle();
    fixture.import("fedora-image-cron-amd64");
    fixture.import("fedora-image-cron-arm64");
    fixture.settle();
    // What an older HCO writes: no annotation, no `spec.cluster`.
    fixture = fixture.templates(&[template("fedora-image-cron", "fedora", None)]);
    fixture.ssp.spec.cluster = None;
    fixture.switch(false);
    settle_ready(&mut fixture, "fedora");
    assert_eq!(
        fixture.names(Kind::DataImportCron),
        ["fedora-image-cron", "fedora-image-cron-amd64"],
        "arm64 is not needed; amd64 still is"
    );
    fixture.import("fedora-image-cron");
    settle_ready(&mut fixture, "fedora");
    assert_eq!(fixture.names(Kind::DataImportCron), ["fedora-image-cron"]);
    assert_eq!(fixture.names(Kind::DataSource), ["fedora"]);
    assert_eq!(fixture.names(Kind::Claim), ["fedora-0123456789ab"]);
}

/// A manually created DataSource, with either kind of source.
#[rstest::rstest]
#[case(Kind::Claim, "pvc")]
#[case(Kind::Snapshot, "snapshot")]
fn manual_source_becomes_the_default(#[case] kind: Kind, #[case] part: &str) {
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]);
    fixture.put(kind, "my-golden-disk", &json!({}));
    let source = json!({ part: { "namespace": HOME, "name": "my-golden-disk" } });
    fixture.put_source("fedora", &source);
    fixture = fixture.templates(&[fedora("amd64,arm64")]);
    settle_ready(&mut fixture, "fedora");
    assert_eq!(fixture.source("fedora"), &pointer("fedora-amd64"));
    assert_eq!(fixture.source("fedora-amd64"), &source);
    assert_eq!(
        fixture.names(Kind::DataImportCron),
        ["fedora-image-cron-arm64"],
        "nothing is imported over it"
    );
    // Switched off, the name gets its former source back.
    fixture.switch(false);
    settle_ready(&mut fixture, "fedora");
    assert_eq!(fixture.source("fedora"), &source);
    assert_eq!(fixture.names(Kind::DataImportCron), Vec::<&str>::new());
    assert_eq!(fixture.names(Kind::DataSource), ["fedora"]);
    // Switched on again, and then the template is removed: the source is returned to its owner.
    fixture.switch(true);
    settle_ready(&mut fixture, "fedora");
    fixture = fixture.templates(&[]);
    settle_ready(&mut fixture, "fedora");
    assert_eq!(fixture.source("fedora"), &source);
    assert_eq!(fixture.names(Kind::DataSource), ["fedora"]);
    let annotations = &fixture.get(Kind::DataSource, "fedora")["metadata"]["annotations"];
    assert_eq!(annotations, &json!({}));
}

#[test]
fn manual_claim_of_the_name_is_kept() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    fixture.put(Kind::Claim, "fedora", &json!({}));
    fixture.settle();
    assert_eq!(fixture.source("fedora-amd64"), &volume("fedora"));
    assert_eq!(
        fixture.names(Kind::DataImportCron),
        ["fedora-image-cron-arm64"]
    );
    // The label opts in to imports.
    let key = (Kind::DataSource, crate::action::named(HOME, "fedora-amd64"));
    fixture.objects.get_mut(&key).unwrap()["metadata"]["labels"]["cdi.kubevirt.io/dataImportCron"] =
        json!("");
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataImportCron).len(), 2);
}

#[test]
fn images_of_removed_architecture_stay_for_grace_period() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    fixture.settle();
    fixture.import("fedora-image-cron-amd64");
    fixture.import("fedora-image-cron-arm64");
    fixture.settle();
    fixture.workload(&["amd64"]);
    fixture = fixture.templates(&[fedora("amd64")]);
    let decision = fixture.settle();
    assert!(fixture.is_ready("fedora-arm64"));
    assert_eq!(decision.look_again.unwrap().as_second(), 1_000_000 + 3600);
    // A node joins in time: nothing was deleted.
    fixture.now += 3000;
    fixture.workload(&["amd64", "arm64"]);
    fixture = fixture.templates(&[fedora("amd64,arm64")]);
    let decision = fixture.settle();
    assert_eq!((decision.waiting, decision.look_again), (vec![], None));
    let cron = fixture.get(Kind::DataImportCron, "fedora-image-cron-arm64");
    assert_eq!(
        cron["metadata"]["annotations"].get("medley.dev/unwanted-since"),
        None
    );
    // No node joins: the objects are deleted.
    fixture.workload(&["amd64"]);
    fixture = fixture.templates(&[fedora("amd64")]);
    fixture.settle();
    fixture.now += 3600;
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataSource), ["fedora", "fedora-amd64"]);
    assert_eq!(
        fixture.names(Kind::DataImportCron),
        ["fedora-image-cron-amd64"]
    );
    assert_eq!(fixture.names(Kind::Claim), ["fedora-amd64-0123456789ab"]);
}

/// All workload nodes are gone and HCO omits the template: nothing is deleted before the grace
/// period.
#[test]
fn grace_period_applies_when_all_nodes_are_gone() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    fixture.settle();
    fixture.import("fedora-image-cron-amd64");
    fixture.import("fedora-image-cron-arm64");
    fixture.settle();
    fixture.workload(&[]);
    fixture = fixture.templates(&[]);
    settle_ready(&mut fixture, "fedora");
    fixture.now += 3600;
    fixture.settle();
    assert_eq!(fixture.objects.len(), 0, "{:?}", fixture.objects.keys());
}

#[test]
fn dropped_architecture_is_deleted_at_once() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    fixture.settle();
    fixture.import("fedora-image-cron-amd64");
    fixture.import("fedora-image-cron-arm64");
    fixture = fixture.templates(&[fedora("arm64")]);
    settle_ready(&mut fixture, "fedora");
    assert_eq!(fixture.source("fedora"), &pointer("fedora-arm64"));
    assert_eq!(
        fixture.names(Kind::DataImportCron),
        ["fedora-image-cron-arm64"]
    );
    assert_eq!(fixture.names(Kind::DataSource), ["fedora", "fedora-arm64"]);
}

#[test]
fn changed_template_replaces_cron_and_keeps_import() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    fixture.settle();
    fixture.import("fedora-image-cron-amd64");
    let mut changed = fedora("amd64,arm64");
    changed["spec"]["schedule"] = json!("5 5 * * *");
    fixture = fixture.templates(&[changed]);
    settle_ready(&mut fixture, "fedora");
    let cron = fixture.get(Kind::DataImportCron, "fedora-image-cron-amd64");
    assert_eq!(cron["spec"]["schedule"], "5 5 * * *");
    assert_eq!(fixture.names(Kind::Claim), ["fedora-amd64-0123456789ab"]);
}

#[test]
fn template_without_architectures_has_one_cron() {
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[
        template("custom", "mine", None),
        template("blank", "other", Some(" ")),
    ]);
    fixture.settle();
    assert_eq!(fixture.names(Kind::DataImportCron), ["blank", "custom"]);
    let cron = fixture.get(Kind::DataImportCron, "custom");
    assert_eq!(cron["spec"]["managedDataSource"], "mine");
    assert_eq!(cron["metadata"].get("labels"), None);
    let registry = &cron["spec"]["template"]["spec"]["source"]["registry"];
    assert_eq!(registry.get("platform"), None);
    // With the annotation added, the old DataImportCron is deleted when the new one has imported.
    fixture.import("custom");
    fixture = fixture.templates(&[template("custom", "mine", Some("arm64"))]);
    settle_ready(&mut fixture, "mine");
    fixture.import("custom-arm64");
    settle_ready(&mut fixture, "mine");
    assert_eq!(fixture.names(Kind::DataImportCron), ["custom-arm64"]);
}

/// VM templates refer to it by architecture: the single import counts as the default one.
#[test]
fn bundled_template_without_architectures_is_the_default() {
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[template(
        "fedora-image-cron",
        "fedora",
        None,
    )]);
    fixture.bundle = vec![
        vm_template("f", "fedora", "amd64"),
        vm_template("f-arm64", "fedora", "arm64"),
    ];
    fixture.settle();
    let cron = fixture.get(Kind::DataImportCron, "fedora-image-cron");
    assert_eq!(cron["spec"]["managedDataSource"], "fedora-amd64");
    assert_eq!(fixture.source("fedora"), &pointer("fedora-amd64"));
    assert_eq!(fixture.source("fedora-arm64"), &volume("fedora-arm64"));
}

#[test]
fn foreign_cron_is_not_changed() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64")]);
    let stranger = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
        "metadata": { "name": "fedora-image-cron-amd64", "namespace": HOME },
        "spec": { "managedDataSource": "x", "schedule": "", "template": { "spec": {} } },
    });
    let key = crate::action::named(HOME, "fedora-image-cron-amd64");
    let place = (Kind::DataImportCron, key.clone());
    fixture.objects.insert(place.clone(), stranger.clone());
    let decision = fixture.settle();
    assert_eq!(decision.problems, [Problem::NotOurs(key)]);
    assert_eq!(fixture.objects[&place], stranger);
}

#[test]
fn second_template_of_data_source_is_ignored() {
    let fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[
        template("b", "fedora", Some("amd64")),
        template("a", "fedora", Some("arm64,vax")),
        template("", "x", None),
        json!({ "metadata": { "name": "c" } }),
    ]);
    let decision = fixture.decide();
    assert_eq!(
        decision.problems,
        [
            Problem::NoName,
            Problem::UnknownArchitectures(UnsupportedArchitectures {
                template: "a".to_owned(),
                architectures: vec!["vax".to_owned()],
            }),
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
fn pointer_is_in_namespace_of_template() {
    let mut mine = fedora("amd64,arm64");
    mine["metadata"]["namespace"] = json!("mine");
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[mine]);
    fixture.settle();
    let key = (Kind::DataSource, crate::action::named("mine", "fedora"));
    assert_eq!(
        fixture.objects[&key]["spec"]["source"]["dataSource"]["namespace"],
        "mine"
    );
}

#[test]
fn an_image_that_lacks_the_default_architecture_falls_back() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    fixture.settle();
    let key = crate::action::named(HOME, "fedora-image-cron-amd64");
    let cron = fixture
        .objects
        .get_mut(&(Kind::DataImportCron, key))
        .unwrap();
    cron["status"] = json!({ "conditions": [
        { "type": "UpToDate", "status": "False", "reason": "ArchitectureNotFound" },
    ] });
    fixture.import("fedora-image-cron-arm64");
    let decision = fixture.settle();
    assert_eq!(fixture.source("fedora"), &pointer("fedora-arm64"));
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
fn policy_moves_the_pointer() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    fixture.settle();
    fixture.import("fedora-image-cron-amd64");
    fixture.import("fedora-image-cron-arm64");
    fixture.policy(json!({ "images": [{ "name": "fedora", "defaultArchitecture": "arm64" }] }));
    settle_ready(&mut fixture, "fedora");
    assert_eq!(fixture.source("fedora"), &pointer("fedora-arm64"));
    let annotations = &fixture.get(Kind::DataSource, "fedora")["metadata"]["annotations"];
    assert_eq!(
        annotations["medley.dev/default-architecture-reason"],
        "arm64 (ImagePolicy)"
    );
}

#[test]
fn long_names_are_shortened_consistently() {
    let long = "d".repeat(60);
    let mut fixture = SspFixture::new(&["amd64"], &["amd64", "s390x"]).templates(&[template(
        &"c".repeat(60),
        &long,
        Some("amd64,s390x"),
    )]);
    fixture.settle();
    for name in fixture.names(Kind::DataImportCron) {
        assert!(name.len() <= 63);
        let cron = fixture.get(Kind::DataImportCron, name);
        let managed = cron["spec"]["managedDataSource"].as_str().unwrap();
        assert!(fixture.names(Kind::DataSource).contains(&managed));
        let cron = serde_json::from_value(cron.clone()).unwrap();
        assert_eq!(crate::cdi::admission::review(None, &cron), []);
    }
}

#[test]
fn paused_ssp_is_skipped_and_deleted_ssp_is_cleaned_up() {
    let mut fixture =
        SspFixture::new(&["amd64"], &["amd64", "arm64"]).templates(&[fedora("amd64,arm64")]);
    fixture.bundle = vec![vm_template("f", "fedora", "amd64")];
    let pause = [("kubevirt.io/operator.paused".to_owned(), "true".to_owned())];
    fixture.ssp.metadata.annotations = Some(pause.into());
    assert!(fixture.decide().paused);
    assert_eq!(fixture.decide().actions, []);
    fixture.ssp.metadata.annotations = None;
    fixture.settle();
    fixture.import("fedora-image-cron-amd64");
    fixture.ssp.metadata.annotations =
        Some([("kubevirt.io/operator.paused".to_owned(), "true".to_owned())].into());
    fixture.ssp.metadata.deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
    );
    let first = fixture.decide();
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
    fixture.apply(&first);
    fixture.settle();
    assert_eq!(fixture.objects.len(), 0, "{:?}", fixture.objects.keys());
}
