use super::*;
use crate::payload::Payload;
use crate::replace::PLACEHOLDER;

fn files(pairs: &[(&str, &str)]) -> Files {
    pairs
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

fn folder(name: &str, pairs: &[(&str, &str)]) -> OperatorFolder {
    OperatorFolder {
        name: name.to_owned(),
        files: files(pairs),
    }
}

fn images() -> ImageStream {
    read_references(
        r"{kind: ImageStream, apiVersion: image.openshift.io/v1, metadata: {name: input}, status: {x: 1},
        spec: {tags: [
          {name: mco, from: {kind: DockerImage, name: 'q/r@sha256:bb'}},
          {name: cli, from: {kind: DockerImage, name: 'q/r@sha256:aa'}, annotations: {io.openshift.build.versions: 'kubectl=1.31.0'}},
          {name: unused, from: {kind: DockerImage, name: 'q/r@sha256:cc'}}]}}",
    )
    .unwrap()
}

fn options() -> Options {
    Options {
        version: "4.18.0-ec.3".to_owned(),
        multi: true,
        allow_missing: false,
    }
}

fn local(tags: &[&str]) -> String {
    let tags: Vec<String> = tags
        .iter()
        .map(|tag| {
            format!("{{name: {tag}, from: {{kind: DockerImage, name: '{PLACEHOLDER}:{tag}'}}}}")
        })
        .collect();
    format!(
        "{{kind: ImageStream, apiVersion: image.openshift.io/v1, spec: {{tags: [{}]}}}}",
        tags.join(", ")
    )
}

const OPERATOR: &str = "apiVersion: config.openshift.io/v1
kind: ClusterOperator
metadata: {name: machine-config}
status:
  versions:
  - {name: operator, version: 0.0.1-snapshot}
  - name: operator-image
    version: placeholder.url.oc.will.replace.this.org/placeholdernamespace:mco
";
const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: mco, namespace: n}
spec:
  template: # kept
    spec:
      containers:
      - image: placeholder.url.oc.will.replace.this.org/placeholdernamespace:mco
        args: [\"--operator-image=placeholder.url.oc.will.replace.this.org/placeholdernamespace:mco\", \"--payload-version=0.0.1-snapshot\"]
        env: [{name: KUBECTL, value: 0.0.1-snapshot-kubectl}]
";

/// The seed: the manifest and the flag by which the operator receives the image change together.
#[test]
fn manifest_and_flag_get_the_same_image() {
    let mco = folder(
        "machine-config-operator",
        &[
            (REFERENCES, &local(&["mco", "cli"])),
            ("0000_80_machine-config_06_clusteroperator.yaml", OPERATOR),
            ("deployment.yaml", DEPLOYMENT),
            ("OWNERS", "somebody"),
        ],
    );
    let built = build(&[mco], &images(), &options()).unwrap();
    assert_eq!(built.images, ["cli", "mco"]);
    assert_eq!(built.manifests, 2);
    let names: Vec<_> = built.files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "0000_50_machine-config-operator_deployment.yaml",
            "0000_80_machine-config_06_clusteroperator.yaml",
            REFERENCES,
            METADATA,
        ]
    );
    let deployment = &built.files[names[0]];
    assert!(deployment.contains("\"--operator-image=q/r@sha256:bb\""));
    assert!(deployment.contains("- image: q/r@sha256:bb\n"));
    assert!(deployment.contains("--payload-version=4.18.0-ec.3\""));
    assert!(deployment.contains("value: 1.31.0}") && deployment.contains("# kept"));
    assert_eq!(
        built.warnings,
        [
            "operator \"machine-config-operator\": OWNERS is left out: manifests end with .yaml, .yml or .json"
        ]
    );
    let payload = Payload::read("out", &built.files).unwrap();
    assert!(payload.metadata.is_multi());
    let operator = &payload.operators()[0].expected;
    assert_eq!(operator.version("operator-image"), Some("q/r@sha256:bb"));
    assert_eq!(operator.version("operator"), Some("4.18.0-ec.3"));
    assert_eq!(payload.images.image("unused"), None);
    assert!(payload.images.rest.is_empty(), "the status is of elsewhere");
}

#[test]
fn duplicate_file_names_are_numbered() {
    let object = "{apiVersion: v1, kind: ConfigMap}";
    let one = folder("a", &[("0000_10_x_1.yaml", object), ("cm.yaml", object)]);
    let two = folder("b", &[("0000_10_x_1.yaml", object)]);
    let three = folder("a", &[("0000_10_x_1.yaml", object), ("cm.yaml", object)]);
    let built = build(&[one, two, three], &images(), &options()).unwrap();
    let names: Vec<_> = built.files.keys().take(5).map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "0000_10_x_1.yaml",
            "0000_10_x_1_2.yaml",
            "0000_10_x_1_3.yaml",
            "0000_50_a_cm.yaml",
            "0000_50_a_cm_2.yaml",
        ]
    );
}

#[test]
fn build_errors_name_their_source() {
    let refused = |pairs: &[(&str, &str)]| {
        let error = build(&[folder("op", pairs)], &images(), &options());
        error.unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[(REFERENCES, &local(&["etcd"]))]),
        "operator \"op\" contained an invalid image-references file: no input image tag named \"etcd\""
    );
    assert_eq!(
        refused(&[(REFERENCES, "kind: Other")]),
        "operator \"op\" contained an invalid image-references file: unrecognized image-references in release payload"
    );
    assert_eq!(
        refused(&[("a.yaml", "kind: A\nv: 0.0.1-snapshot-oc\n")]),
        "operator \"op\": file a.yaml: unknown version reference \"oc\""
    );
    assert_eq!(
        refused(&[("a.yaml", "kind: A\n")]),
        "operator \"op\": parsing a.yaml: document 1 is no object with apiVersion and kind"
    );
    let other = Options {
        version: "latest".to_owned(),
        ..Options::default()
    };
    let error = build(&[], &images(), &other).unwrap_err().to_string();
    assert!(
        error.starts_with("building release \"latest\": "),
        "{error}"
    );
}

/// Without `image-references` only versions are replaced, as the operator names no images.
#[test]
fn without_references_only_versions_are_replaced() {
    let plain = folder("op", &[("0000_80_machine-config_co.yaml", OPERATOR)]);
    let built = build(&[plain], &images(), &options()).unwrap();
    let text = &built.files["0000_80_machine-config_co.yaml"];
    assert!(text.contains(&format!("{PLACEHOLDER}:mco")) && text.contains("4.18.0-ec.3"));
}

#[test]
fn missing_images_may_be_allowed() {
    let op = folder(
        "op",
        &[
            (REFERENCES, &local(&["etcd"])),
            ("0000_10_etcd_co.yaml", OPERATOR),
        ],
    );
    let options = Options {
        allow_missing: true,
        ..options()
    };
    let built = build(&[op], &images(), &options).unwrap();
    assert_eq!(
        built.warnings,
        ["operator \"op\": no input image tag named \"etcd\"; its placeholder stays"]
    );
}
