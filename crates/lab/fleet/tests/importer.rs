//! CRDs of boot images on an API server, and the resulting storage profiles and import
//! configuration.

use std::time::Duration;

use fleet::operators::{
    self, HyperConvergedVersion, Installed, hyperconverged, importer, install, names, ssp,
    template, virtual_machine,
};
use fleet::storage;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use runtime::{Error, Manager};
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Creates an object and returns the stored one.
async fn make(
    cluster: &TestCluster,
    kind: &ApiResource,
    namespace: Option<&str>,
    mut object: Value,
) -> Result<Value, String> {
    object["apiVersion"] = json!(kind.api_version);
    object["kind"] = json!(kind.kind);
    let object: DynamicObject = serde_json::from_value(object).map_err(|e| e.to_string())?;
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client(), namespace, kind),
        None => Api::all_with(cluster.client(), kind),
    };
    api.create(&PostParams::default(), &object)
        .await
        .map(|made| json!(made))
        .map_err(|error| Error::api("create")(error).to_string())
}

fn cron_spec() -> Value {
    json!({
        "schedule": "17 5/12 * * *",
        "garbageCollect": "Outdated",
        "importsToKeep": 1,
        "retentionPolicy": "None",
        "managedDataSource": "fedora-arm64",
        "template": {
            "metadata": { "annotations": { "a": "b" } },
            "spec": {
                "source": { "registry": {
                    "url": "docker://quay.io/containerdisks/fedora:latest",
                    "platform": { "architecture": "arm64" },
                } },
                "storage": { "resources": { "requests": { "storage": "5Gi" } } },
            },
        },
    })
}

#[tokio::test]
async fn boot_image_objects_are_stored_unchanged() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    install(&cluster.client(), &Installed::demo()).await?;
    let images = Some(names::BOOT_IMAGE_NAMESPACE);
    let place = json!({ "name": "fedora-arm64-0123456789ab", "namespace": "kubevirt-os-images" });
    let condition = json!({
        "type": "UpToDate", "status": "True", "reason": "UpToDate",
        "message": "Latest import is up to date",
        "lastTransitionTime": "2026-11-01T00:00:00Z", "lastHeartbeatTime": "2026-11-01T00:00:00Z",
    });
    let templates = json!([
        { "metadata": { "name": "fedora-image-cron", "annotations": { "x": "y" } }, "spec": cron_spec() },
        { "metadata": { "name": "off", "annotations": { "dataimportcrontemplate.kubevirt.io/enable": "false" } } },
    ]);
    let cases = [
        (
            importer("DataImportCron"),
            images,
            json!({
                "metadata": { "name": "fedora-image-cron-arm64" },
                "spec": cron_spec(),
                // There is no status subresource: it is written with the object.
                "status": {
                    "currentImports": [{ "DataVolumeName": place["name"], "Digest": "sha256:01" }],
                    "lastImportedPVC": place,
                    "lastExecutionTimestamp": "2026-11-01T00:00:00Z",
                    "sourceFormat": "snapshot",
                    "conditions": [condition],
                },
            }),
        ),
        (
            importer("DataSource"),
            images,
            json!({
                "metadata": { "name": "fedora" },
                "spec": { "source": { "dataSource": { "name": "fedora-arm64", "namespace": "kubevirt-os-images" } } },
                "status": { "source": { "snapshot": place }, "conditions": [condition] },
            }),
        ),
        (
            importer("DataVolume"),
            images,
            json!({
                "metadata": { "name": "fedora-arm64-0123456789ab" },
                "spec": cron_spec()["template"]["spec"],
            }),
        ),
        (
            importer("StorageProfile"),
            None,
            json!({
                "metadata": { "name": "mine" },
                "spec": {
                    "dataImportCronSourceFormat": "pvc",
                    "claimPropertySets": [{ "accessModes": ["ReadWriteOnce"], "volumeMode": "Block" }],
                },
            }),
        ),
        (
            ssp(),
            Some(names::VIRTUALIZATION_NAMESPACE),
            json!({
                "metadata": { "name": "ssp-kubevirt-hyperconverged" },
                "spec": {
                    "enableMultipleArchitectures": true,
                    "cluster": {
                        "workloadArchitectures": ["amd64", "arm64"], "controlPlaneArchitectures": ["amd64"],
                    },
                    "commonTemplates": { "namespace": "openshift", "dataImportCronTemplates": templates },
                },
            }),
        ),
        (
            template(),
            Some(names::TEMPLATE_NAMESPACE),
            json!({
                "metadata": { "name": "fedora-server-small-arm64" },
                "objects": [{
                    "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                    "metadata": { "name": "${NAME}" }, "spec": { "template": { "spec": { "anything": ["at all"] } } },
                }],
                "parameters": [{ "name": "DATA_SOURCE_NAME", "value": "fedora-arm64" }],
            }),
        ),
        (
            virtual_machine(),
            images,
            json!({
                "metadata": { "name": "vm" },
                "spec": {
                    "runStrategy": "Halted",
                    "dataVolumeTemplates": [{
                        "metadata": { "name": "root" },
                        "spec": { "sourceRef": { "kind": "DataSource", "name": "fedora" }, "storage": {} },
                    }],
                    "template": { "spec": { "architecture": "arm64", "domain": { "devices": {} } } },
                },
            }),
        ),
    ];
    for (kind, namespace, object) in cases {
        let made = make(&cluster, &kind, namespace, object.clone()).await;
        let made = made.map_err(anyhow::Error::msg)?;
        for (field, value) in object.as_object().into_iter().flatten() {
            if field != "metadata" {
                assert_eq!(made[field], *value, "{}", kind.kind);
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn incomplete_objects_are_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    install(&cluster.client(), &Installed::demo()).await?;
    let images = Some(names::BOOT_IMAGE_NAMESPACE);
    let mut no_schedule = cron_spec();
    no_schedule["schedule"] = json!(null);
    for (kind, namespace, spec, why) in [
        (importer("DataImportCron"), images, no_schedule, "schedule"),
        (importer("DataSource"), images, json!({}), "source"),
        (
            importer("DataVolume"),
            images,
            json!({ "contentType": "cat" }),
            "contentType",
        ),
        (
            importer("StorageProfile"),
            None,
            json!({ "claimPropertySets": [{ "accessModes": ["Sometimes"], "volumeMode": "Block" }] }),
            "Illegal AccessMode",
        ),
        (
            ssp(),
            Some(names::VIRTUALIZATION_NAMESPACE),
            json!({ "commonTemplates": { "namespace": "Not A Name" } }),
            "namespace",
        ),
        (
            virtual_machine(),
            images,
            json!({ "runStrategy": "Sometimes", "template": {} }),
            "runStrategy",
        ),
    ] {
        let object = json!({ "metadata": { "name": "wrong" }, "spec": spec });
        let made = make(&cluster, &kind, namespace, object).await;
        let error = made.err().unwrap_or_default();
        assert!(error.contains(why), "{}: {error}", kind.kind);
    }
    Ok(())
}

#[tokio::test]
async fn hyperconverged_accepts_all_names_of_the_switch() -> anyhow::Result<()> {
    for (version, spec) in [
        (
            HyperConvergedVersion::V1,
            json!({
                "workloadSources": {
                    "enableCommonBootImageImport": false,
                    "enableMultiArchBootImageImport": true,
                    "commonBootImageNamespace": "elsewhere",
                    "dataImportCronTemplates": [{ "metadata": { "name": "mine" }, "spec": cron_spec() }],
                },
                "featureGates": [{ "name": "enableMultiArchBootImageImport", "state": "Enabled" }],
                "deployment": { "nodePlacements": { "workload": { "nodeSelector": { "a": "b" } } } },
            }),
        ),
        (
            HyperConvergedVersion::V1Beta1,
            json!({
                "enableCommonBootImageImport": false,
                "commonBootImageNamespace": "elsewhere",
                "dataImportCronTemplates": [{ "metadata": { "name": "mine" }, "spec": cron_spec() }],
                "featureGates": {
                    "enableMultiArchBootImageImport": true,
                    "enableMultiArchCommonBootImageImport": true,
                },
                "workloads": { "nodePlacement": { "nodeSelector": { "a": "b" } } },
            }),
        ),
    ] {
        let cluster = TestCluster::start().await?;
        let installed = Installed {
            hyperconverged: Some(version),
            ..Installed::default()
        };
        install(&cluster.client(), &installed).await?;
        let api: Api<DynamicObject> = Api::namespaced_with(
            cluster.client(),
            names::VIRTUALIZATION_NAMESPACE,
            &hyperconverged(version),
        );
        let params = PatchParams::default();
        let patch = Patch::Merge(json!({ "spec": spec }));
        let object = api.patch(names::HYPERCONVERGED, &params, &patch).await?;
        for (field, value) in spec.as_object().into_iter().flatten() {
            assert_eq!(object.data["spec"][field], *value, "{version:?}");
        }
        let status = json!({
            "nodeInfo": {
                "controlPlaneArchitectures": ["amd64"],
                "workloadsArchitectures": ["amd64", "arm64"],
                "defaultWorkloadArchitecture": "amd64",
            },
            "dataImportSchedule": "17 5/12 * * *",
            "dataImportCronTemplates": [{
                "metadata": { "name": "mine" },
                "spec": cron_spec(),
                "status": { "commonTemplate": true, "originalSupportedArchitectures": "vax" },
            }],
        });
        let patch = Patch::Merge(json!({ "status": status }));
        let object = api
            .patch_status(names::HYPERCONVERGED, &params, &patch)
            .await?;
        assert_eq!(object.data["status"], status, "{version:?}");
    }
    Ok(())
}

#[tokio::test]
async fn every_storage_class_gets_a_profile() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    let options = storage::Options {
        client: client.clone(),
        speed: 100.0,
        classes: true,
    };
    storage::start(&manager, options).await?;
    install(&client, &Installed::demo()).await?;
    operators::start(&manager, client.clone(), 100.0).await;
    let profiles: Api<DynamicObject> = Api::all_with(client.clone(), &importer("StorageProfile"));
    let advised = async |name: &str, format: &str| {
        wait_until(
            &format!("{name} is kept as {format}"),
            WAIT_TIMEOUT,
            || async {
                let profile = profiles.get_opt(name).await?;
                let status = profile.map(|it| it.data["status"].clone());
                Ok(status.filter(|it| it["dataImportCronSourceFormat"] == format))
            },
        )
        .await
    };
    let fast = advised("fast", "snapshot").await?;
    assert_eq!(fast["snapshotClass"], "fast");
    assert_eq!(fast["provisioner"], storage::DRIVER);
    let local = advised("local", "pvc").await?;
    assert_eq!(local["claimPropertySets"][0]["volumeMode"], "Filesystem");

    // The user overrides the recommendation, and removes the override.
    let params = PatchParams::default();
    for (wanted, format) in [(json!("pvc"), "pvc"), (json!(null), "snapshot")] {
        let patch = json!({ "spec": { "dataImportCronSourceFormat": wanted } });
        profiles
            .patch("fast", &params, &Patch::Merge(patch))
            .await?;
        advised("fast", format).await?;
    }

    // A deleted profile is created again, and is deleted with its class.
    let gone = DeleteParams::default();
    profiles.delete("fast", &gone).await?;
    advised("fast", "snapshot").await?;
    let classes: Api<StorageClass> = Api::all(client.clone());
    classes.delete("local", &gone).await?;
    wait_until("the profile of local is gone", WAIT_TIMEOUT, || async {
        let there = profiles.get_opt("local").await?;
        Ok(there.is_none().then_some(()))
    })
    .await
}

#[tokio::test]
async fn import_settings_reach_the_cdi_config() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    install(&client, &Installed::demo()).await?;
    let manager = Manager::new(client.clone());
    operators::start(&manager, client.clone(), 100.0).await;
    let importers: Api<DynamicObject> = Api::all_with(client.clone(), &importer("CDI"));
    let configs: Api<DynamicObject> = Api::all_with(client.clone(), &importer("CDIConfig"));
    let params = PatchParams::default();
    let until = async |spec: Value, overhead: &str| {
        wait_until("the settings are there", WAIT_TIMEOUT, || async {
            let config = configs.get(names::IMPORTER_CONFIG).await?;
            let found = config.data.pointer("/status/filesystemOverhead/global");
            let same = config.data["spec"] == spec && found == Some(&json!(overhead));
            Ok(same.then_some(()))
        })
        .await
    };
    let wanted = json!({
        "insecureRegistries": ["127.0.0.1:5000"], "filesystemOverhead": { "global": "0.1" },
    });
    let patch = Patch::Merge(json!({ "spec": { "config": wanted } }));
    importers.patch(names::IMPORTER, &params, &patch).await?;
    until(wanted, "0.1").await?;
    // Removed settings are removed from the CDIConfig.
    let patch = Patch::Merge(json!({ "spec": { "config": null } }));
    importers.patch(names::IMPORTER, &params, &patch).await?;
    until(json!({}), "0.06").await?;
    wait_until("the importer is deployed", WAIT_TIMEOUT, || async {
        let object = importers.get(names::IMPORTER).await?;
        Ok((object.data["status"]["phase"] == "Deployed").then_some(()))
    })
    .await
}
