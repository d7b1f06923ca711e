use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::cdi::poll::Web;

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn volume(source: Value) -> DataVolume {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": {
            "name": "v", "namespace": "n",
            "labels": { "template.kubevirt.io/architecture": "s390x" },
        },
        "spec": { "source": source },
    }))
    .unwrap()
}

#[test]
fn a_file_is_for_the_architecture_of_its_label() {
    let found = Origin::of(&volume(json!({ "http": {
        "url": "https://example.com/a.qcow2", "checksum": "sha256:1", "secretRef": "s",
        "certConfigMap": "c", "extraHeaders": ["A: b"], "secretExtraHeaders": ["t"],
    } })));
    let expected = Origin {
        question: PollQuery {
            namespace: "n".to_owned(),
            url: "https://example.com/a.qcow2".to_owned(),
            secret: Some("s".to_owned()),
            certificates: Some("c".to_owned()),
            web: Some(Web {
                checksum: Some("sha256:1".to_owned()),
                headers: vec!["A: b".to_owned()],
                secret_headers: vec!["t".to_owned()],
            }),
        },
        architecture: Some("s390x".to_owned()),
        by_node: None,
    };
    assert_eq!(found, Some(expected));
}

#[rstest]
#[case(json!({ "url": "docker://x", "platform": { "architecture": "arm64" } }), Some("arm64"))]
#[case(json!({ "url": "docker://x", "platform": { "architecture": "" } }), None)]
#[case(json!({ "url": "docker://x" }), None)]
fn an_image_is_chosen_by_its_platform(#[case] registry: Value, #[case] architecture: Option<&str>) {
    let found = Origin::of(&volume(json!({ "registry": registry }))).unwrap();
    assert_eq!(found.architecture.as_deref(), architecture);
    assert_eq!(
        (&*found.question.url, found.question.web),
        ("docker://x", None)
    );
}

#[rstest]
#[case(json!({ "blank": {} }))]
#[case(json!({ "upload": {} }))]
#[case(json!({ "http": { "url": "" } }))]
#[case(json!({ "registry": { "imageStream": "x", "pullMethod": "node" } }))]
fn other_sources_need_no_importer(#[case] source: Value) {
    assert_eq!(Origin::of(&volume(source)), None);
}
