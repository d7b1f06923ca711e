use api::ssp::OWNER;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const CRON: &str = "fedora-image-cron";

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn spec(schedule: &str, retention: &str) -> Value {
    json!({
        "managedDataSource": "fedora", "schedule": schedule, "retentionPolicy": retention,
        "template": { "spec": { "source": { "registry": { "url": "docker://quay.io/containerdisks/fedora:41" } } } },
    })
}

fn cron(name: &str, schedule: &str, annotations: &Value) -> DataImportCron {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "images", "annotations": annotations,
            "labels": { "template.kubevirt.io/architecture": "arm64" },
        },
        "spec": spec(schedule, "None"),
    }))
    .unwrap()
}

fn template(name: &str, schedule: &str, annotations: &Value) -> DataImportCronTemplate {
    serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": annotations }, "spec": spec(schedule, "None"),
    }))
    .unwrap()
}

/// A template in the status of a HyperConverged.
fn known(name: &str, is_built_in: bool) -> TemplateWithStatus {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "images",
            "annotations": { ARCHITECTURES: "amd64", "cdi.kubevirt.io/storage.bind.immediate.requested": "true" },
        },
        "spec": spec("0 */12 * * *", "None"),
        "status": { "commonTemplate": is_built_in, "originalSupportedArchitectures": "amd64,arm64" },
    }))
    .unwrap()
}

fn with(cron: &DataImportCron, changes: &BTreeMap<&str, Option<String>>) -> DataImportCron {
    let mut cron = cron.clone();
    let all = cron.metadata.annotations.get_or_insert_default();
    for (key, value) in changes {
        match value {
            Some(value) => all.insert((*key).to_owned(), value.clone()),
            None => all.remove(*key),
        };
    }
    cron
}

#[test]
fn pin_of_a_cron_is_undone() {
    for annotations in [
        json!({ "a": "b" }),
        json!({ annotations::DESIRED_DIGEST: digest('o') }),
    ] {
        let own = cron(CRON, "", &annotations);
        let once = with(&own, &pin_cron(&own, &digest('a')).unwrap());
        // Pinned twice, without an unpin in between.
        let twice = with(&once, &pin_cron(&once, &digest('b')).unwrap());
        assert_eq!(pinned(&once), Some(digest('a').as_str()));
        assert_eq!(pinned(&twice), Some(digest('b').as_str()));
        let desired = annotation(&twice.metadata, annotations::DESIRED_DIGEST);
        assert_eq!(desired, Some(digest('b').as_str()));
        assert_eq!(twice.spec, own.spec);
        let undone = with(&twice, &unpin_cron(&twice));
        assert_eq!(undone, own);
        assert_eq!(pinned(&undone), None);
    }
}

#[test]
fn cron_that_cdi_would_not_keep_is_refused() {
    let scheduled = cron(CRON, "0 */12 * * *", &json!({}));
    let refused = pin_cron(&scheduled, &digest('a')).unwrap_err().to_string();
    for part in [
        "schedule \"0 */12 * * *\"",
        "overwrites the pin",
        "empty schedule",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    let mut stream = cron(CRON, "", &json!({}));
    let source = json!({ "registry": { "imageStream": "fedora" } });
    stream.spec.template.spec.source = serde_json::from_value(source).unwrap();
    let refused = pin_cron(&stream, &digest('a')).unwrap_err();
    assert_eq!(refused, Refusal::NoRegistry(CRON.to_owned()));
}

#[rstest]
#[case::own("fedora-image-cron", Some("fedora-image-cron"))]
#[case::of_an_architecture("fedora-image-cron-arm64", Some("fedora-image-cron"))]
#[case::of_another("fedora-image-cron-amd64", None)]
#[case::unknown("debian-image-cron-arm64", None)]
fn template_of_a_cron_is_found_by_name(#[case] name: &str, #[case] expected: Option<&str>) {
    let annotations = json!({ OWNER: "kubevirt/ssp", OWNER_TYPE: SSP_TYPE });
    let own = cron(name, "", &annotations);
    assert!(is_of_ssp(&own));
    let found = template_of(&own, ["centos-image-cron", CRON].into_iter());
    assert_eq!(found.as_deref(), expected);
}

#[rstest]
#[case::scheduled("0 */12 * * *", json!({ ARCHITECTURES: "amd64" }), true)]
#[case::not_scheduled("", json!({ annotations::DESIRED_DIGEST: "sha256:o" }), false)]
fn pin_of_a_template_is_undone(
    #[case] schedule: &str,
    #[case] annotations: Value,
    #[case] recreates: bool,
) {
    let other = template("other", "0 0 * * *", &json!({}));
    let before = vec![other.clone(), template(CRON, schedule, &annotations)];
    let once = pin_template(&before, CRON, &digest('a')).unwrap();
    assert_eq!(
        (once.recreates, once.deletes_volumes),
        (recreates, recreates)
    );
    let twice = pin_template(&once.templates, CRON, &digest('b')).unwrap();
    assert!(!twice.recreates, "the schedule is empty already");
    let [kept, pinned] = <[_; 2]>::try_from(twice.templates.clone()).unwrap();
    assert_eq!(kept, other);
    assert_eq!(pinned.spec.as_ref().unwrap().schedule, "");
    let expected = digest('b');
    assert_eq!(pinned.annotation(PINNED), Some(expected.as_str()));
    assert_eq!(
        pinned.annotation(annotations::DESIRED_DIGEST),
        Some(expected.as_str())
    );
    let undone = unpin_template(&twice.templates, CRON).unwrap();
    assert_eq!(undone.recreates, recreates);
    // Where the DataImportCron stays, its annotations have to be emptied: the SSP operator removes none.
    let mut templates = undone.templates;
    let left = templates[1].metadata.annotations.get_or_insert_default();
    for key in [PINNED, BEFORE_PIN] {
        let value = left.remove(key);
        assert_eq!(value.as_deref(), (!recreates).then_some(""));
    }
    assert_eq!(templates, before);
    assert_eq!(pin_template(&before, "unknown", &digest('a')), None);
    assert_eq!(unpin_template(&before, CRON), None);
}

/// HCO gives an override of a built-in template its schedule, so a copy with another name is pinned.
#[test]
fn built_in_template_is_replaced_by_a_copy_and_restored() {
    let status = [known(CRON, true), known("other", false)];
    let overridden = template(CRON, "", &json!({ "mine": "yes" }));
    let other = template("other", "0 0 * * *", &json!({}));
    for own in [vec![other.clone()], vec![other.clone(), overridden]] {
        let edit = pin_hyperconverged(&own, &status, CRON, &digest('a'))
            .unwrap()
            .unwrap();
        assert!(edit.recreates && edit.deletes_volumes);
        let [kept, disabled, copy] = <[_; 3]>::try_from(edit.templates.clone()).unwrap();
        assert_eq!(kept, other);
        assert_eq!((disabled.name(), disabled.spec.is_none()), (CRON, true));
        assert_eq!(disabled.annotation(ENABLE), Some("false"));
        assert_eq!(copy.name(), "fedora-image-cron-pinned");
        assert_eq!(copy.metadata.namespace.as_deref(), Some("images"));
        // Those of the image, and not only those of the cluster.
        assert_eq!(copy.annotation(ARCHITECTURES), Some("amd64,arm64"));
        assert_eq!(copy.annotation(PINNED), Some(digest('a').as_str()));
        let spec = copy.spec.as_ref().unwrap();
        assert_eq!(
            (spec.schedule.as_str(), spec.managed_data_source.as_str()),
            ("", "fedora")
        );

        // The next status has the copy as a template of the user.
        let status = [known("fedora-image-cron-pinned", false)];
        let name = copy.name();
        let again = pin_hyperconverged(&edit.templates, &status, name, &digest('b'));
        let again = again.unwrap().unwrap();
        assert!(!again.recreates);
        let undone = unpin_template(&again.templates, name).unwrap();
        assert!(undone.recreates);
        assert_eq!(undone.templates, own);
    }
    let none = pin_hyperconverged(&[], &status, "unknown", &digest('a'));
    assert_eq!(none, Ok(None));
    let long = "x".repeat(51);
    let refused = pin_hyperconverged(&[], &[known(&long, true)], &long, &digest('a'));
    assert_eq!(refused, Err(Refusal::LongName(long)));
}
