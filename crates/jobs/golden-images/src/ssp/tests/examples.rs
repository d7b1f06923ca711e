//! The examples of the proposal, verbatim.

use serde_json::{Value, json};

use super::fixture::{HOME, SspFixture};
use crate::action::{Kind, named};
use crate::test_values::yaml;

const SSP: &str = r#"
apiVersion: ssp.kubevirt.io/v1beta3
kind: SSP
metadata:
  name: ssp
  namespace: kubevirt
spec:
  enableMultipleArchitectures: true
  cluster:
    workloadArchitectures:
      - "amd64"
      - "arm64"
      - "s390x"
    controlPlaneArchitectures:
      - "amd64"
  commonTemplates:
    dataImportCronTemplates:
      - metadata:
          annotations:
            cdi.kubevirt.io/storage.bind.immediate.requested: "true"
            ssp.kubevirt.io/dict.architectures: "arm64,amd64,s390x"
          name: centos-stream9-image-cron
        spec:
          garbageCollect: Outdated
          managedDataSource: centos-stream9
          schedule: "0 */12 * * *"
          template:
            spec:
              source:
                registry:
                  url: docker://quay.io/containerdisks/centos-stream:9
              storage:
                resources:
                  requests:
                    storage: 10Gi
"#;

const CRON: &str = r#"
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataImportCron
metadata:
  annotations:
    cdi.kubevirt.io/storage.bind.immediate.requested: "true"
  labels:
    template.kubevirt.io/architecture: "amd64"
    cdi.kubevirt.io/storage.import.datasource-name: "centos-stream9"
  name: centos-stream9-image-cron-amd64
spec:
  garbageCollect: Outdated
  managedDataSource: centos-stream9-amd64
  schedule: 0 */12 * * *
  template:
    spec:
      source:
        registry:
          url: docker://quay.io/containerdisks/centos-stream:9
          platform:
            architecture: "amd64"
      storage:
        resources:
          requests:
            storage: 10Gi
"#;

const POINTER: &str = "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataSource
metadata:
  name: centos-stream9
  namespace: kubevirt-os-images
spec:
  source:
    dataSource:
      name: centos-stream9-amd64
      namespace: kubevirt-os-images
";

fn fixture() -> SspFixture {
    let mut fixture = SspFixture::new(&[], &[]);
    fixture.ssp = serde_json::from_value(yaml(SSP)).unwrap();
    fixture.settle();
    fixture
}

/// Removes namespace and ownership, which the proposal does not print.
fn as_printed(object: &Value) -> Value {
    let mut object = object.clone();
    let meta = object["metadata"].as_object_mut().unwrap();
    meta.remove("namespace");
    let annotations = meta["annotations"].as_object_mut().unwrap();
    assert_eq!(
        annotations.remove("operator-sdk/primary-resource"),
        Some(json!("kubevirt/ssp"))
    );
    assert_eq!(
        annotations.remove("operator-sdk/primary-resource-type"),
        Some(json!("SSP.ssp.kubevirt.io"))
    );
    object
}

#[test]
fn one_cron_per_architecture() {
    let fixture = fixture();
    assert_eq!(
        fixture.names(Kind::DataImportCron),
        [
            "centos-stream9-image-cron-amd64",
            "centos-stream9-image-cron-arm64",
            "centos-stream9-image-cron-s390x",
        ]
    );
    let printed = yaml(CRON);
    let made = fixture.get(Kind::DataImportCron, "centos-stream9-image-cron-amd64");
    assert_eq!(as_printed(made), printed);
    // "similar, differing only in their names, the platform and the label" (and the DataSource).
    for architecture in ["arm64", "s390x"] {
        let name = format!("centos-stream9-image-cron-{architecture}");
        let mut expected = printed.clone();
        expected["metadata"]["name"] = json!(name);
        expected["metadata"]["labels"]["template.kubevirt.io/architecture"] = json!(architecture);
        expected["spec"]["managedDataSource"] = json!(format!("centos-stream9-{architecture}"));
        expected["spec"]["template"]["spec"]["source"]["registry"]["platform"]["architecture"] =
            json!(architecture);
        assert_eq!(
            as_printed(fixture.get(Kind::DataImportCron, &name)),
            expected
        );
    }
}

#[test]
fn the_name_without_architecture_is_a_pointer() {
    let fixture = fixture();
    let printed = yaml(POINTER);
    let made = fixture.get(Kind::DataSource, "centos-stream9");
    assert_eq!(made["spec"], printed["spec"]);
    assert_eq!(made["apiVersion"], printed["apiVersion"]);
    assert_eq!(made["kind"], printed["kind"]);
    assert_eq!(made["metadata"]["name"], printed["metadata"]["name"]);
    assert_eq!(
        made["metadata"]["namespace"],
        printed["metadata"]["namespace"]
    );
    assert_eq!(
        made["metadata"].get("labels"),
        None,
        "no architecture label, and none that would delete it with an import"
    );
}

#[test]
fn data_sources_have_the_labels_of_their_crons() {
    let fixture = fixture();
    assert_eq!(
        fixture.names(Kind::DataSource),
        [
            "centos-stream9",
            "centos-stream9-amd64",
            "centos-stream9-arm64",
            "centos-stream9-s390x",
        ]
    );
    let key = (Kind::DataSource, named(HOME, "centos-stream9-arm64"));
    assert_eq!(
        fixture.objects[&key]["metadata"]["labels"],
        json!({
            "template.kubevirt.io/architecture": "arm64",
            "cdi.kubevirt.io/storage.import.datasource-name": "centos-stream9",
            "cdi.kubevirt.io/dataImportCron": "centos-stream9-image-cron-arm64",
        })
    );
}
