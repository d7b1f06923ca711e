//! The examples of the proposal, from a HyperConverged to the resulting objects.

use api::cdi::labels;
use golden_images::action::label;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::stage::{HOME, IMAGES, Stage, architecture, template};

/// The template in the proposal.
fn printed() -> Value {
    let mut template = template("centos-stream9", Some("arm64,amd64,s390x"));
    let registry = &mut template["spec"]["template"]["spec"]["source"]["registry"];
    registry["url"] = json!("docker://quay.io/containerdisks/centos-stream:9");
    template
}

#[tokio::test(flavor = "multi_thread")]
async fn template_becomes_image_per_architecture() -> anyhow::Result<()> {
    let nodes = ["amd64", "amd64", "arm64", "s390x"];
    let stage = Stage::new(&nodes, &IMAGES).await?;
    stage.ask_for(&[printed()]).await?;
    let ssp = stage
        .ssp("it has the template", |ssp| {
            ssp.spec.common_templates.data_import_cron_templates.len() == 1
        })
        .await?;
    assert_eq!(
        json!(ssp.spec.cluster),
        json!({
            "workloadArchitectures": ["amd64", "arm64", "s390x"],
            "controlPlaneArchitectures": ["amd64"],
        })
    );
    assert_eq!(ssp.spec.enable_multiple_architectures, Some(true));
    stage
        .has_crons(&[
            "centos-stream9-image-cron-amd64",
            "centos-stream9-image-cron-arm64",
            "centos-stream9-image-cron-s390x",
        ])
        .await?;
    for name in ["amd64", "arm64", "s390x"] {
        let cron = stage
            .crons()
            .get(&format!("centos-stream9-image-cron-{name}"))
            .await?;
        assert_eq!(
            json!(cron.labels()),
            json!({
                "template.kubevirt.io/architecture": name,
                "cdi.kubevirt.io/storage.import.datasource-name": "centos-stream9",
            })
        );
        let own = cron.annotations();
        assert_eq!(
            own.get("cdi.kubevirt.io/storage.bind.immediate.requested")
                .map(String::as_str),
            Some("true")
        );
        assert_eq!(own.get("ssp.kubevirt.io/dict.architectures"), None);
        let mut expected = printed()["spec"].clone();
        expected["managedDataSource"] = json!(format!("centos-stream9-{name}"));
        let registry = &mut expected["template"]["spec"]["source"]["registry"];
        registry["platform"] = json!({ "architecture": name });
        assert_eq!(json!(cron.spec), expected);
    }
    for name in ["arm64", "s390x"] {
        stage
            .import(&format!("centos-stream9-image-cron-{name}"))
            .await?;
    }
    let volume = stage.import("centos-stream9-image-cron-amd64").await?;
    let pointer = stage.stands_for("centos-stream9", &volume).await?;
    assert_eq!(
        json!(pointer.spec),
        json!({ "source": { "dataSource": { "name": "centos-stream9-amd64", "namespace": HOME } } })
    );
    assert_eq!(architecture(&pointer.metadata), None, "a pointer has none");
    stage
        .has_sources(&[
            "centos-stream9",
            "centos-stream9-amd64",
            "centos-stream9-arm64",
            "centos-stream9-s390x",
        ])
        .await?;
    let arm64 = stage.sources().get("centos-stream9-arm64").await?;
    assert_eq!(architecture(&arm64.metadata), Some("arm64"));
    assert_eq!(
        label(&arm64.metadata, labels::DATA_SOURCE_NAME),
        Some("centos-stream9")
    );
    stage.end().await;
    Ok(())
}

/// "If the pre-prepared `DataImportCronTemplate` object is annotated with `amd64,arm64`, and the
/// cluster worker nodes are both `amd64` and `s390x`".
#[tokio::test(flavor = "multi_thread")]
async fn built_in_templates_lose_architectures_without_nodes() -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "s390x"], &IMAGES).await?;
    let templates = [
        template("centos-stream9", Some("amd64,arm64")),
        template("raspbian", Some("arm64")),
        template("old", None),
    ];
    stage.build_in(&templates, &[]).await?;
    stage
        .ask(json!({ "enableMultiArchBootImageImport": true }))
        .await?;
    let ssp = stage
        .ssp("it has two templates", |ssp| {
            ssp.spec.common_templates.data_import_cron_templates.len() == 2
        })
        .await?;
    let lists: Vec<_> = ssp
        .spec
        .common_templates
        .data_import_cron_templates
        .iter()
        .map(|it| {
            (
                it.name(),
                it.annotation("ssp.kubevirt.io/dict.architectures"),
            )
        })
        .collect();
    assert_eq!(
        lists,
        [
            ("centos-stream9-image-cron", Some("amd64")),
            ("old-image-cron", None)
        ]
    );
    stage
        .has_crons(&["centos-stream9-image-cron-amd64", "old-image-cron"])
        .await?;
    let seen = stage.seen().await?;
    assert_eq!(
        seen["nodeInfo"],
        json!({
            "workloadsArchitectures": ["amd64", "s390x"],
            "controlPlaneArchitectures": ["amd64"],
            "defaultWorkloadArchitecture": "amd64",
        })
    );
    let all = seen["dataImportCronTemplates"].as_array().cloned();
    let all = all.unwrap_or_default();
    let raspbian = all
        .iter()
        .find(|it| it["metadata"]["name"] == "raspbian-image-cron");
    let status = raspbian.map(|it| it["status"].clone()).unwrap_or_default();
    assert_eq!(status["originalSupportedArchitectures"], "arm64");
    assert_eq!(status["conditions"][0]["type"], "Deployed");
    assert_eq!(status["conditions"][0]["status"], "False");
    assert_eq!(
        status["conditions"][0]["reason"],
        "UnsupportedArchitectures"
    );
    // The random schedule of built-in images stays.
    let schedule = seen["dataImportSchedule"].clone();
    stage.work(&IMAGES).await?;
    stage.build_in(&templates[..1], &[]).await?;
    stage
        .has_crons(&["centos-stream9-image-cron-amd64"])
        .await?;
    let cron = stage.crons().get("centos-stream9-image-cron-amd64").await?;
    assert_eq!(json!(cron.spec.schedule), schedule);
    stage.end().await;
    Ok(())
}
