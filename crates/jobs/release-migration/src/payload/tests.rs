use std::collections::BTreeSet;

use api::openshift::ComponentOverride;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn files(pairs: &[(&str, &str)]) -> Files {
    pairs
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

const METADATA_TEXT: &str = r#"{"kind":"cincinnati-metadata-v0","version":"4.18.0","previous":["4.17.9"],
"metadata":{"url":"https://x","io.openshift.upgrades.graph.release.channels":"a, b","release.openshift.io/architecture":"multi"}}"#;

const REFERENCES_TEXT: &str = "kind: ImageStream
apiVersion: image.openshift.io/v1
metadata: {name: 4.18.0}
spec: {tags: [{name: cli, from: {kind: DockerImage, name: 'q/cli@sha256:aa'}}]}
";

const OPERATOR: &str = "# Remarks only.
---
apiVersion: config.openshift.io/v1
kind: ClusterOperator
metadata: {name: dns}
status: {versions: [{name: operator, version: 4.18.0}]}
--- # and another
apiVersion: apps/v1
kind: Deployment
metadata: {name: dns, namespace: openshift-dns}
---
";

#[test]
fn files_are_parsed() {
    let files = files(&[
        (METADATA, METADATA_TEXT),
        (REFERENCES, REFERENCES_TEXT),
        ("0000_70_dns_01.yaml", OPERATOR),
        (
            "0000_50_a_01.json",
            r#"{"apiVersion":"v1","kind":"Secret"}"#,
        ),
        ("README", "no manifest"),
    ]);
    let payload = Payload::read("/x", &files).unwrap();
    assert!(payload.metadata.is_multi());
    assert_eq!(payload.metadata.channels(), ["a", "b"]);
    assert_eq!(payload.warnings, Vec::<String>::new());
    let called: Vec<_> = payload.manifests.iter().map(Manifest::called).collect();
    let expected = [
        "secret \"0000_50_a_01.json\"",
        "clusteroperator \"dns\"",
        "deployment \"openshift-dns/dns\"",
    ];
    assert_eq!(called, expected);
    let operators = payload.operators();
    assert_eq!(operators.len(), 1);
    assert_eq!((operators[0].place, operators[0].name.as_str()), (1, "dns"));
    assert_eq!(operators[0].expected.version("operator"), Some("4.18.0"));
}

#[test]
fn all_problems_are_reported() {
    let error = Payload::read("/x", &Files::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Error loading manifests from /x: [there is no file release-metadata, there is no file image-references]"
    );
    let other = REFERENCES_TEXT.replace("4.18.0", "4.18.1");
    let only = files(&[(METADATA, METADATA_TEXT), (REFERENCES, &other)]);
    assert_eq!(
        Payload::read("/x", &only).unwrap_err().to_string(),
        "Error loading manifests from /x: version from image-references (4.18.1) differs from release-metadata (4.18.0)"
    );
    let wrong = files(&[
        (METADATA, METADATA_TEXT),
        (REFERENCES, "kind: ImageStream\napiVersion: v1\n"),
        (
            "a.yaml",
            "apiVersion: v1\nkind: Secret\n---\nkind: Secret\n",
        ),
        ("b.yaml", "a: [\n"),
        ("c.yml", "- 1\n"),
    ]);
    let problems = Payload::read("/x", &wrong).unwrap_err().problems;
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems[0],
        "unrecognized image-references in release payload"
    );
    assert_eq!(
        problems[1],
        "parsing a.yaml: document 2 is no object with apiVersion and kind"
    );
    assert!(
        problems[2].starts_with("parsing b.yaml: yaml:"),
        "{problems:?}"
    );
    assert_eq!(
        problems[3],
        "parsing c.yml: document 1 is no object with apiVersion and kind"
    );
}

#[rstest]
#[case(json!({ "kind": "x" }), "unrecognized Cincinnati metadata kind \"x\"")]
#[case(json!({}), "unrecognized Cincinnati metadata kind \"\"")]
#[case(json!({ "kind": "cincinnati-metadata-v0" }), "missing required Cincinnati metadata version")]
#[case(
    json!({ "kind": "cincinnati-metadata-v0", "version": "4.18" }),
    "invalid Cincinnati metadata version \"4.18\": unexpected end of input while parsing minor version number"
)]
fn metadata_is_checked(#[case] text: Value, #[case] expected: &str) {
    let error = Metadata::read(&text.to_string()).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn only_multi_is_an_architecture() {
    let read = |architecture: Value| {
        let text = json!({
            "kind": "cincinnati-metadata-v0", "version": "4.18.0",
            "metadata": { "release.openshift.io/architecture": architecture },
        });
        Metadata::read(&text.to_string()).unwrap()
    };
    let (metadata, warnings) = read(json!("amd64"));
    assert_eq!(metadata.architecture(), Architecture::Single(None));
    assert_eq!(
        warnings,
        ["unrecognized release.openshift.io/architecture value \"amd64\""]
    );
    assert_eq!(
        read(json!(3)).1,
        ["unrecognized release.openshift.io/architecture value 3"]
    );
    assert!(read(json!("multi")).1.is_empty());
    let made = serde_json::to_string(&Metadata::new("4.18.0", true)).unwrap();
    assert!(Metadata::read(&made).unwrap().0.is_multi());
}

fn manifest(annotations: &Value) -> Manifest {
    Manifest {
        file: "0000_50_a_b.yaml".to_owned(),
        object: json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "b", "namespace": "n", "annotations": annotations },
        }),
    }
}

/// For a cluster of profile `p`, excluded by `hosted`, with gate `On`, capability `Console`, version 4.
#[rstest]
#[case(json!({}), "include.release.openshift.io/p is not true")]
#[case(json!({ "exclude.release.openshift.io/hosted": "true" }), "exclude.release.openshift.io/hosted=true")]
#[case(json!({ "exclude.release.openshift.io/hosted": "false" }), "")]
#[case(json!({ "include.release.openshift.io/p": "yes" }), "include.release.openshift.io/p is not true")]
#[case(json!({ "release.openshift.io/feature-set": "Tech, Default" }), "")]
#[case(json!({ "release.openshift.io/feature-set": "Tech" }), "it is for the feature sets Tech")]
#[case(json!({ "release.openshift.io/feature-gate": "On,-Off" }), "")]
#[case(json!({ "release.openshift.io/feature-gate": "On,Off" }), "it requires the feature gates On,Off")]
#[case(json!({ "release.openshift.io/feature-gate": "-On" }), "it requires the feature gates -On")]
#[case(
    json!({ "release.openshift.io/feature-gate": "On", "release.openshift.io/feature-set": "Default" }),
    "it has both a feature-set and a feature-gate annotation"
)]
#[case(json!({ "release.openshift.io/major-version": "4,5" }), "")]
#[case(json!({ "release.openshift.io/major-version": "5" }), "it is for the major versions 5")]
#[case(json!({ "release.openshift.io/major-version": "-4" }), "it is for the major versions -4")]
#[case(json!({ "release.openshift.io/major-version": "-5" }), "")]
#[case(json!({ "capability.openshift.io/name": "Console" }), "")]
#[case(json!({ "capability.openshift.io/name": "Console+Ingress" }), "capability Ingress is disabled")]
fn manifests_are_selected_by_annotations(#[case] annotations: Value, #[case] expected: &str) {
    let selection = Selection {
        profile: "p".to_owned(),
        exclude: "hosted".to_owned(),
        feature_gates: BTreeSet::from(["On".to_owned()]),
        capabilities: Some(BTreeSet::from(["Console".to_owned()])),
        major: Some(4),
        ..Selection::default()
    };
    let mut all = annotations;
    if !expected.contains("is not true") {
        all["include.release.openshift.io/p"] = json!("true");
    }
    let found = selection.check(&manifest(&all));
    assert_eq!(
        found.map_or_else(|it| it.to_string(), |()| String::new()),
        expected
    );
}

/// Corner case 8: unmanaged objects do not count at all.
#[test]
fn unmanaged_objects_are_left_out() {
    let included = json!({ "include.release.openshift.io/self-managed-high-availability": "true" });
    let mut selection = Selection::default();
    assert_eq!(selection.check(&manifest(&included)), Ok(()));
    selection.overrides = vec![ComponentOverride {
        kind: "Deployment".to_owned(),
        group: "apps".to_owned(),
        namespace: "n".to_owned(),
        name: "b".to_owned(),
        unmanaged: true,
    }];
    let payload = Payload {
        manifests: vec![manifest(&included)],
        ..Payload::default()
    };
    assert_eq!(payload.selected(&selection).manifests, []);
    selection.overrides[0].unmanaged = false;
    assert_eq!(payload.selected(&selection).manifests.len(), 1);
}

#[test]
fn file_names_define_the_order() {
    let names = [
        "0000_10_a_1.yaml",
        "0000_10_b_1.yaml",
        "0000_10_b_2.yaml",
        "0000_50_a_1.yaml",
        "stray-1.yaml",
        "stray-2.yaml",
    ];
    let manifests: Vec<_> = names
        .iter()
        .map(|name| Manifest {
            file: (*name).to_owned(),
            object: Value::Null,
        })
        .collect();
    let steps: Vec<Vec<(String, Vec<usize>)>> = steps(&manifests)
        .into_iter()
        .map(|step| {
            let parts = step.parts.into_iter();
            parts.map(|part| (part.component, part.places)).collect()
        })
        .collect();
    let part = |name: &str, places: &[usize]| (name.to_owned(), places.to_vec());
    assert_eq!(
        steps,
        [
            vec![part("a", &[0]), part("b", &[1, 2])],
            vec![part("a", &[3])],
            vec![part("", &[4])],
            vec![part("", &[5])],
        ]
    );
    for name in [
        "0000_x_a_b",
        "0000_10__b",
        "0000_10_a",
        "10_a_b",
        "0000_1.5_a_b",
    ] {
        assert_eq!(FileName::read(name), None, "{name}");
    }
}

/// Reference values of 64-bit FNV-1.
#[test]
fn version_hash_covers_all_manifests() {
    let of = |values: &[u8]| {
        let manifests = values.iter().map(|value| Manifest {
            file: String::new(),
            object: json!(value),
        });
        let payload = Payload {
            manifests: manifests.collect(),
            ..Payload::default()
        };
        payload.version_hash()
    };
    assert_eq!(of(&[]), "y_Kc5IQiIyU=");
    assert_eq!(of(&[1]), "r2O9TIYBt-4=");
    assert_eq!(of(&[1, 2]), "CDKXB7TriVg=");
}
