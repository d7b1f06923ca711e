//! Both releases are valid payloads and differ only in images.

use release_migration::evaluate::Plan;
use release_migration::lint::{Severity, lint};
use release_migration::payload::{Payload, Selection};

use super::*;

fn offer() -> Offer {
    Offer::new("quay.io").unwrap()
}

fn read(made: &BuiltRelease) -> Payload {
    Payload::read(made.word, &made.files).unwrap()
}

#[test]
fn both_releases_are_valid_payloads() {
    let offer = offer();
    for made in [&offer.single, &offer.multi] {
        let errors: Vec<String> = lint(&made.files)
            .into_iter()
            .filter(|it| it.severity == Severity::Error)
            .map(|it| format!("{it:?}"))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", made.word);
        let payload = read(made);
        assert!(payload.warnings.is_empty(), "{:?}", payload.warnings);
        assert_eq!(payload.metadata.version, VERSION);
        let selected = payload.selected(&Selection::default());
        assert_eq!(selected.operators().len(), OPERATORS.len());
    }
    assert!(!read(&offer.single).metadata.is_multi());
    assert!(read(&offer.multi).metadata.is_multi());
}

#[test]
fn releases_differ_in_images_only() {
    let offer = offer();
    let (single, multi) = (read(&offer.single), read(&offer.multi));
    assert_ne!(offer.single.image, offer.multi.image);
    let files = |payload: &Payload| -> Vec<String> {
        let manifests = payload.manifests.iter();
        manifests.map(|it| it.file.clone()).collect()
    };
    assert_eq!(files(&single), files(&multi));
    for (one, other) in single.images.images().zip(multi.images.images()) {
        assert_eq!(one.0, other.0);
        assert_eq!(one.1 == other.1, one.0 == ALWAYS_SEVERAL, "{}", one.0);
    }
}

#[test]
fn machine_config_operator_is_updated_last() {
    let offer = offer();
    let plan = Plan::new(&read(&offer.multi));
    let names: Vec<&str> = plan.operators().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names.last(), Some(&"machine-config"));
    let reports = |it: &&release_migration::payload::Operator| {
        it.expected.version("operator-image").is_some()
    };
    let adopting = plan.operators().iter().filter(reports).count();
    assert_eq!((adopting, names.len()), (10, 13));
    let expected = &plan
        .operators()
        .iter()
        .find(|it| it.name == "kube-apiserver");
    let expected = &expected.unwrap().expected;
    assert_eq!(expected.version("kube-apiserver"), Some("1.31.3"));
    let image = expected.version("kube-apiserver-image").unwrap();
    assert!(image.starts_with("quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:"));
}

#[test]
fn single_architecture_images_are_recognized() {
    let offer = offer();
    let operator = "machine-config-operator";
    let limits_of = |made: &BuiltRelease| limits(operator, &made.pull(operator)).unwrap();
    assert_eq!(limits_of(&offer.single), Some(&["amd64"][..]));
    assert_eq!(limits_of(&offer.multi), None);
    assert_eq!(limits(operator, "example.com/else:1").unwrap(), None);
}
