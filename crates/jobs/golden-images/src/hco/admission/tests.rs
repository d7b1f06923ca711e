use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn with(field: Option<bool>, gate: Option<bool>) -> Images {
    Images {
        field,
        gates: gate
            .map(|on| Gate {
                name: GateName::Current,
                on,
            })
            .into_iter()
            .collect(),
        ..Images::default()
    }
}

fn accepted(old: Option<&Images>, new: &Images) -> Changes {
    match review(old, new) {
        HcoAdmission::Accepted(changes) => *changes,
        HcoAdmission::Denied(denial) => panic!("{denial}"),
    }
}

const ON: Option<bool> = Some(true);
const OFF: Option<bool> = Some(false);

/// Field and gate before, field and gate after: the new value of the field, and whether the gate is
/// removed.
#[rstest]
#[case::created_with_neither(None, (None, None), Some((None, false)))]
#[case::created_with_the_gate(None, (None, ON), Some((ON, false)))]
#[case::created_with_the_gate_off(None, (None, OFF), Some((OFF, false)))]
#[case::created_alike(None, (ON, ON), Some((None, false)))]
#[case::created_in_contradiction(None, (ON, OFF), None)]
#[case::the_gate_changes(Some((OFF, None)), (OFF, ON), Some((ON, false)))]
#[case::the_gate_goes(Some((ON, ON)), (OFF, None), Some((None, false)))]
#[case::both_change(Some((None, None)), (ON, OFF), None)]
#[case::the_field_changes(Some((OFF, OFF)), (ON, OFF), Some((None, true)))]
#[case::the_field_was_never_set(Some((None, ON)), (None, ON), Some((ON, false)))]
#[case::nothing_changes(Some((ON, ON)), (ON, ON), Some((None, false)))]
fn feature_gate_migrates_to_field(
    #[case] old: Option<(Option<bool>, Option<bool>)>,
    #[case] new: (Option<bool>, Option<bool>),
    #[case] expected: Option<(Option<bool>, bool)>,
) {
    let old = old.map(|(field, gate)| with(field, gate));
    let verdict = review(old.as_ref(), &with(new.0, new.1));
    match (verdict, expected) {
        (HcoAdmission::Denied(denial), None) => assert_eq!(denial, Denial::Contradiction),
        (HcoAdmission::Accepted(changes), Some((field, remove))) => {
            assert_eq!((changes.field, changes.remove_gates), (field, remove));
            if field.is_some() {
                assert_eq!(
                    changes.warnings,
                    [
                        "feature gate enableMultiArchBootImageImport is deprecated; please use the spec.workloadSources.enableMultiArchBootImageImport field instead"
                    ]
                );
            }
        }
        (verdict, _) => panic!("{verdict:?}"),
    }
}

/// `v1beta1` has only the gate.
#[test]
fn v1beta1_has_no_field() {
    let images = Images {
        version: Version::V1Beta1,
        ..with(None, ON)
    };
    assert_eq!(accepted(None, &images), Changes::default());
}

#[test]
fn proposed_name_is_accepted_with_warning() {
    let images = Images {
        gates: vec![Gate {
            name: GateName::Proposed,
            on: true,
        }],
        ..Images::default()
    };
    let changes = accepted(None, &images);
    assert_eq!(changes.field, ON);
    assert!(changes.warnings[0].starts_with("enableMultiArchCommonBootImageImport was renamed"));
    let images = Images {
        proposed_field: ON,
        ..Images::default()
    };
    assert_eq!(accepted(None, &images).warnings.len(), 1);
}

fn templates(templates: Value) -> Images {
    Images {
        templates: serde_json::from_value(templates).unwrap(),
        ..Images::default()
    }
}

#[rstest]
#[case(json!([{ "metadata": { "name": "a", "annotations": { ENABLE: "yes" } }, "spec": {} }]), "invalid annotation in the a dataImportCronTemplate")]
#[case(json!([{ "metadata": { "name": "a", "annotations": { ENABLE: "" } }, "spec": {} }]), "invalid annotation in the a dataImportCronTemplate")]
#[case(json!([{ "metadata": { "name": "a" } }]), "dataImportCronTemplate \"a\" has no spec")]
#[case(json!([{ "metadata": {}, "spec": {} }]), "missing name")]
#[case(json!([{ "metadata": { "name": "a" }, "spec": {} }, { "metadata": { "name": "a" }, "spec": {} }]), "a dataImportCronTemplate is already defined")]
fn invalid_templates_are_denied(#[case] given: Value, #[case] expected: &str) {
    match review(None, &templates(given)) {
        HcoAdmission::Denied(denial) => {
            assert!(denial.to_string().starts_with(expected), "{denial}");
        }
        HcoAdmission::Accepted(_) => panic!("accepted"),
    }
}

#[test]
fn template_defaults_are_set() {
    let images = templates(json!([
        { "metadata": { "name": "off", "annotations": { ENABLE: "FALSE" } } },
        { "metadata": { "name": "on" }, "spec": { "managedDataSource": "d", "importsToKeep": 3 } },
    ]));
    let changes = accepted(None, &images);
    let completed = changes.templates.unwrap();
    assert_eq!(completed[0].annotation(IMMEDIATE_BIND), Some("true"));
    assert_eq!(completed[0].spec, None);
    let spec = completed[1].spec.as_ref().unwrap();
    assert_eq!(spec.retention_policy.as_deref(), Some("None"));
    assert_eq!(spec.imports_to_keep, Some(3));
    let again = Images {
        templates: completed,
        ..Images::default()
    };
    assert_eq!(accepted(Some(&again), &again).templates, None);
}

#[test]
fn lists_that_upstream_misreads_cause_warnings() {
    let list = |text| {
        let images = templates(
            json!([{ "metadata": { "name": "a", "annotations": { ARCHITECTURES: text } }, "spec": {} }]),
        );
        accepted(None, &images).warnings
    };
    assert_eq!(list("amd64,arm64"), Vec::<String>::new());
    assert_eq!(
        list("amd64, vax"),
        [
            "dataImportCronTemplate a: ssp.kubevirt.io/dict.architectures lists unsupported architectures vax; they are ignored; amd64, arm64 and s390x are supported",
            "dataImportCronTemplate a: ssp.kubevirt.io/dict.architectures is \"amd64, vax\"; it is parsed as \"amd64\"",
        ]
    );
}
