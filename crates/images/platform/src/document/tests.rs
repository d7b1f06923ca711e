use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const HASH: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

fn descriptor(media_type: &str) -> Value {
    json!({ "mediaType": media_type, "digest": HASH, "size": 7 })
}

fn index(media_type: &str) -> Value {
    let mut entry = descriptor(OCI_MANIFEST);
    entry["platform"] = json!({ "os": "linux", "architecture": "arm64", "variant": "v8" });
    json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": [entry] })
}

fn manifest(media_type: &str, config: &str) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": descriptor(config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip")],
    })
}

fn without(mut value: Value, key: &str) -> Value {
    value.as_object_mut().unwrap().remove(key);
    value
}

fn with(mut value: Value, key: &str, inner: Value) -> Value {
    value[key] = inner;
    value
}

fn reading(value: &Value, sent: Option<&str>) -> Result<Document, DocumentError> {
    read(value.to_string().as_bytes(), sent)
}

#[rstest]
// As it should be.
#[case(index(OCI_INDEX), Some(OCI_INDEX), true)]
#[case(index(DOCKER_LIST), Some(DOCKER_LIST), true)]
#[case(manifest(OCI_MANIFEST, OCI_CONFIG), Some(OCI_MANIFEST), false)]
#[case(manifest(DOCKER_MANIFEST, DOCKER_CONFIG), Some(DOCKER_MANIFEST), false)]
// One of the two is enough, and so is the shape.
#[case(index(OCI_INDEX), None, true)]
#[case(index(DOCKER_LIST), Some("application/json; charset=utf-8"), true)]
#[case(without(index(OCI_INDEX), "mediaType"), Some(OCI_INDEX), true)]
#[case(without(index(OCI_INDEX), "mediaType"), Some("text/plain"), true)]
#[case(with(index(OCI_INDEX), "mediaType", json!("x/y")), None, true)]
#[case(with(index(OCI_INDEX), "mediaType", Value::Null), None, true)]
#[case(without(manifest(OCI_MANIFEST, OCI_CONFIG), "mediaType"), None, false)]
#[case(
    without(manifest(OCI_MANIFEST, OCI_CONFIG), "schemaVersion"),
    None,
    false
)]
#[case(with(index(OCI_INDEX), "manifests", json!([])), None, true)]
#[case(with(index(OCI_INDEX), "manifests", Value::Null), None, true)]
#[case(with(index(OCI_INDEX), "extra", json!({ "deep": [{}] })), None, true)]
fn known_by_type_or_shape(
    #[case] value: Value,
    #[case] sent: Option<&str>,
    #[case] is_index: bool,
) {
    let document = reading(&value, sent).unwrap();
    assert_eq!(matches!(document, Document::Index(_)), is_index);
}

#[rstest]
#[case(json!({ "schemaVersion": 1, "fsLayers": [], "architecture": "amd64" }), None, "Docker's schema 1 is not supported")]
#[case(json!({ "fsLayers": [], "history": [] }), None, "Docker's schema 1 is not supported")]
#[case(json!({}), Some("application/vnd.docker.distribution.manifest.v1+prettyjws"), "Docker's schema 1 is not supported")]
#[case(with(index(OCI_INDEX), "schemaVersion", json!(3)), None, "schemaVersion is 3, only 2")]
#[case(
    index(OCI_INDEX),
    Some(DOCKER_LIST),
    "was sent as application/vnd.docker.distribution.manifest.list.v2+json, but says"
)]
#[case(index(OCI_INDEX), Some(OCI_MANIFEST), "but says that it is")]
#[case(
    manifest(DOCKER_MANIFEST, DOCKER_CONFIG),
    Some(OCI_MANIFEST),
    "but says that it is"
)]
#[case(with(index(OCI_INDEX), "layers", json!([])), None, "reading index: it has \"layers\"")]
#[case(with(index(OCI_INDEX), "config", json!({})), None, "reading index: it has \"config\"")]
#[case(with(index(OCI_INDEX), "fsLayers", json!([])), None, "reading index: it has \"fsLayers\"")]
#[case(with(without(index(""), "mediaType"), "layers", json!([])), None, "reading index: it has \"layers\"")]
#[case(with(manifest(OCI_MANIFEST, OCI_CONFIG), "manifests", json!([])), None, "reading manifest: it has \"manifests\"")]
#[case(json!({ "schemaVersion": 2 }), None, "neither a media type nor")]
#[case(json!({}), Some(OCI_CONFIG), "is neither an index nor a manifest")]
#[case(json!({}), Some("application/vnd.oci.artifact.manifest.v1+json"), "is neither an index nor a manifest")]
#[case(json!({}), Some(OCI_MANIFEST), "missing field `config`")]
#[case(json!([]), Some(OCI_MANIFEST), "reading manifest: ")]
#[case(with(index(OCI_INDEX), "manifests", json!([{}])), None, "missing field `digest`")]
#[case(with(index(OCI_INDEX), "manifests", json!([{ "digest": "md5:1", "size": 1 }])), None, "algorithm \"md5\" is not supported")]
#[case(with(index(OCI_INDEX), "manifests", json!([{ "digest": HASH, "size": -1 }])), None, "reading index: invalid value")]
#[case(with(index(OCI_INDEX), "manifests", json!({})), None, "a list of at most 4096 elements")]
#[case(with(index(OCI_INDEX), "annotations", json!([])), None, "a map of at most 4096 texts")]
fn refused(#[case] value: Value, #[case] sent: Option<&str>, #[case] why: &str) {
    let error = reading(&value, sent).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn numbers_and_sizes_have_limits() {
    let entries = |count: usize| {
        with(
            index(OCI_INDEX),
            "manifests",
            json!(vec![descriptor(OCI_MANIFEST); count]),
        )
    };
    assert!(reading(&entries(MAX_ENTRIES), None).is_ok());
    assert!(reading(&entries(MAX_ENTRIES + 1), None).is_err());
    let layers = |count: usize| {
        with(
            manifest(OCI_MANIFEST, OCI_CONFIG),
            "layers",
            json!(vec![descriptor("x"); count]),
        )
    };
    assert!(reading(&layers(MAX_LAYERS), None).is_ok());
    assert!(reading(&layers(MAX_LAYERS + 1), None).is_err());
    let labels = |count: usize| {
        let labels: BTreeMap<String, String> =
            (0..count).map(|n| (n.to_string(), String::new())).collect();
        with(index(OCI_INDEX), "annotations", json!(labels))
    };
    assert!(reading(&labels(MAX_LABELS), None).is_ok());
    assert!(reading(&labels(MAX_LABELS + 1), None).is_err());
    let large = |size: usize| vec![b' '; size];
    assert!(matches!(
        read(&large(MAX_MANIFEST), None),
        Err(DocumentError::Json { .. })
    ));
    let error = read(&large(MAX_MANIFEST + 1), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "reading manifest: it has 4194305 bytes, the maximum is 4194304"
    );
    let error = read_config(&large(MAX_CONFIG + 1)).unwrap_err();
    assert!(matches!(
        error,
        DocumentError::TooLarge { what: "config", .. }
    ));
}

#[test]
fn depth_is_harmless() {
    let deep = "[".repeat(1_000_000);
    assert!(read(deep.as_bytes(), None).is_err());
    let inner = format!("{deep}{}", "]".repeat(1_000_000));
    let index = format!("{{\"manifests\":[],\"x\":{inner}}}");
    assert!(matches!(
        read(index.as_bytes(), None),
        Ok(Document::Index(_))
    ));
    let config = format!("{{\"os\":\"linux\",\"history\":{inner}}}");
    assert_eq!(read_config(config.as_bytes()).unwrap().platform.os, "linux");
}

#[test]
fn errors_are_short_and_on_one_line() {
    let long = json!({ "schemaVersion": "\n".repeat(100_000) });
    let error = reading(&long, None).unwrap_err().to_string();
    assert!(error.len() < 400 && !error.contains('\n'), "{error}");
}

#[rstest]
#[case(json!({}), None)]
#[case(json!({ "platform": { "os": "linux", "architecture": "amd64" } }), None)]
#[case(json!({ "platform": null, "annotations": null, "artifactType": null }), None)]
#[case(json!({ "mediaType": OCI_INDEX }), None)]
#[case(json!({ "mediaType": "" }), None)]
#[case(json!({ "artifactType": OCI_CONFIG }), None)]
#[case(json!({ "annotations": { "vnd.docker.reference.type": "attestation-manifest" } }), Some(NoImage::Attestation))]
#[case(json!({ "annotations": { "vnd.docker.reference.digest": HASH } }), Some(NoImage::Attestation))]
#[case(json!({ "platform": { "os": "unknown", "architecture": "unknown" } }), Some(NoImage::UnknownPlatform))]
#[case(json!({ "artifactType": "application/spdx+json" }), Some(NoImage::Artifact))]
#[case(json!({ "mediaType": "application/vnd.future+json" }), Some(NoImage::MediaType))]
#[case(json!({ "mediaType": OCI_CONFIG }), Some(NoImage::MediaType))]
fn entries_that_are_no_images(#[case] fields: Value, #[case] expected: Option<NoImage>) {
    let mut value = descriptor(OCI_MANIFEST);
    for (key, inner) in fields.as_object().unwrap() {
        value[key] = inner.clone();
    }
    let entry: Descriptor = serde_json::from_value(value).unwrap();
    assert_eq!(entry.no_image(), expected);
}

#[rstest]
#[case(OCI_CONFIG, None)]
#[case(DOCKER_CONFIG, None)]
#[case("application/octet-stream", None)]
#[case(
    "application/vnd.oci.empty.v1+json",
    Some("application/vnd.oci.empty.v1+json")
)]
#[case(
    "application/vnd.cncf.helm.config.v1+json",
    Some("application/vnd.cncf.helm.config.v1+json")
)]
fn manifests_that_are_no_images(#[case] config: &str, #[case] expected: Option<&str>) {
    let Document::Manifest(mut found) = reading(&manifest(OCI_MANIFEST, config), None).unwrap()
    else {
        panic!("not a manifest");
    };
    assert_eq!(found.artifact(), expected);
    "application/x".clone_into(&mut found.artifact_type);
    assert_eq!(found.artifact(), Some("application/x"));
}

#[test]
fn configs_give_the_platform_of_an_image() {
    let config = json!({
        "architecture": "s390x", "os": "linux", "variant": null, "os.features": ["a"],
        "config": { "Labels": { "shasum": "1", "none": null }, "Env": ["A=b"], "Cmd": ["x"] },
        "rootfs": { "type": "layers", "diff_ids": [HASH] },
        "history": [{ "created_by": "x" }],
    });
    let found = read_config(config.to_string().as_bytes()).unwrap();
    assert_eq!(found.platform.to_string(), "linux(+a)/s390x");
    assert_eq!(found.labels.get("shasum").map(String::as_str), Some("1"));
    assert_eq!(found.env, ["A=b"]);
    let Document::Manifest(manifest) = reading(&manifest(OCI_MANIFEST, OCI_CONFIG), None).unwrap()
    else {
        panic!("not a manifest");
    };
    assert_eq!(manifest.layers_of(&found).unwrap().count(), 1);
    assert_eq!(manifest.size(), Some(7));
    let error = manifest.layers_of(&ImageConfig::default()).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("0 rootfs.diff_ids, but the manifest has 1 layers")
    );
}

#[rstest]
#[case("{}", true)]
#[case(r#"{"config":null,"rootfs":null,"os.features":null}"#, true)]
#[case(
    r#"{"config":{"Labels":null,"Env":null},"rootfs":{"diff_ids":null}}"#,
    true
)]
#[case(r#"{"rootfs":{"diff_ids":["x"]}}"#, false)]
#[case(r#"{"os":"a","os":"b"}"#, false)]
#[case("[]", false)]
#[case("", false)]
fn odd_configs(#[case] text: &str, #[case] empty: bool) {
    let found = read_config(text.as_bytes());
    assert_eq!(found.ok(), empty.then(ImageConfig::default));
}

#[test]
fn huge_layer_sizes_do_not_overflow() {
    let mut layer = descriptor("x");
    layer["size"] = json!(u64::MAX);
    let value = with(
        manifest(OCI_MANIFEST, OCI_CONFIG),
        "layers",
        json!([layer, layer]),
    );
    let Document::Manifest(manifest) = reading(&value, None).unwrap() else {
        panic!("not a manifest");
    };
    assert_eq!(manifest.size(), None);
}

/// JSON that is nearly right: known keys with odd values.
fn nearly() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(2)),
        Just(json!(HASH)),
        Just(json!(OCI_INDEX)),
        Just(json!(OCI_MANIFEST)),
        any::<i64>().prop_map(|n| json!(n)),
        ".{0,8}".prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let key = prop_oneof![
            Just("schemaVersion"),
            Just("mediaType"),
            Just("manifests"),
            Just("config"),
            Just("layers"),
            Just("digest"),
            Just("size"),
            Just("platform"),
            Just("annotations"),
            Just("os"),
            Just("architecture"),
            Just("rootfs"),
            Just("diff_ids"),
            Just("Labels"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..7).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>(), sent in prop::option::of(".{0,20}")) {
        let _ = (read(&bytes, sent.as_deref()), read_config(&bytes));
    }

    #[test]
    fn nearly_valid_documents_are_parsed_or_rejected(value in nearly(), sent in prop::option::of(prop_oneof![Just(OCI_INDEX), Just(OCI_MANIFEST)])) {
        let bytes = value.to_string();
        let _ = read_config(bytes.as_bytes());
        if let Ok(document) = read(bytes.as_bytes(), sent) {
            // What was read is written as something that is read as the same.
            let again = match &document {
                Document::Index(index) => serde_json::to_vec(index).unwrap(),
                Document::Manifest(manifest) => serde_json::to_vec(manifest).unwrap(),
            };
            prop_assert_eq!(read(&again, None), Ok(document));
        }
    }

    #[test]
    fn a_damaged_document_is_read_or_refused(at in any::<prop::sample::Index>(), byte: u8, which: bool) {
        let value = if which { index(OCI_INDEX) } else { manifest(OCI_MANIFEST, OCI_CONFIG) };
        let mut bytes = value.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read(&bytes, None);
        bytes.truncate(at);
        prop_assert!(read(&bytes, None).is_err());
    }
}
