//! Higher density end to end: fields of an object that another operator owns.

use std::sync::Arc;

use api::advisor::{Operation, Phase};
use fleet::operators::{HyperConvergedVersion, Installed, hyperconverged, names};
use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::stage::{DENSITY, Stage, item};

const SWAP_CONFIG: &str = "90-worker-kubelet-swap";

/// A cluster with a HyperConverged in this version's layout, and two workers.
async fn stage(version: HyperConvergedVersion) -> anyhow::Result<Arc<Stage>> {
    let stage = Stage::with(Installed {
        hyperconverged: Some(version),
        ..Installed::demo()
    })
    .await?;
    for name in ["worker-0", "worker-1"] {
        stage.worker(name).await?;
    }
    stage.others().await;
    stage.operator("v0.1.30").await?;
    Ok(stage)
}

/// The virtualization settings of the HyperConverged.
async fn virtualization(stage: &Stage, version: HyperConvergedVersion) -> anyhow::Result<Value> {
    let objects: Api<DynamicObject> = Api::namespaced_with(
        stage.cluster.client(),
        names::VIRTUALIZATION_NAMESPACE,
        &hyperconverged(version),
    );
    let spec = objects.get(names::HYPERCONVERGED).await?.data["spec"].clone();
    Ok(match version {
        HyperConvergedVersion::V1 => spec["virtualization"].clone(),
        HyperConvergedVersion::V1Beta1 => spec,
    })
}

/// B7 and B15, on an API server: options changed one after the other all take effect.
#[tokio::test(flavor = "multi_thread")]
async fn density_options_can_be_changed() -> anyhow::Result<()> {
    for version in [HyperConvergedVersion::V1Beta1, HyperConvergedVersion::V1] {
        let stage = stage(version).await?;
        let before = virtualization(&stage, version).await?;
        // The percentage was defaulted when the user created the object: no manager chose it, so no consent is needed.
        stage.edit(DENSITY, json!({ "action": "Apply" })).await?;
        stage.reaches(DENSITY, Phase::Completed).await?;
        assert!(stage.has_machine_config(SWAP_CONFIG).await?);
        let made = virtualization(&stage, version).await?;
        assert_eq!(
            made["higherWorkloadDensity"],
            json!({ "memoryOvercommitPercentage": 150 })
        );
        assert_eq!(made["ksmConfiguration"], json!({ "nodeLabelSelector": {} }));

        let some = json!({ "matchLabels": { "ksm": "on" } });
        let options =
            json!({ "virtHigherDensity": { "ksmConfiguration": { "nodeLabelSelector": some } } });
        stage.edit(DENSITY, json!({ "options": options })).await?;
        stage.reaches(DENSITY, Phase::Completed).await?;
        let made = virtualization(&stage, version).await?;
        assert_eq!(
            made["ksmConfiguration"],
            json!({ "nodeLabelSelector": some })
        );

        let off = json!({ "virtHigherDensity": {
            "enableSwap": false, "memoryToRequestRatio": 110,
            "ksmConfiguration": { "enabled": false, "nodeLabelSelector": null },
        } });
        stage
            .edit(DENSITY, json!({ "action": "DryRun", "options": off }))
            .await?;
        let status = stage.reaches(DENSITY, Phase::ReviewRequired).await?;
        assert_eq!(
            item(&status, "remove-enable-kubelet-swap").operation,
            Operation::Delete
        );
        stage.edit(DENSITY, json!({ "action": "Apply" })).await?;
        let status = stage.reaches(DENSITY, Phase::Completed).await?;
        assert_eq!(status.revision, Some(3));
        assert!(!stage.has_machine_config(SWAP_CONFIG).await?);
        let mut left = virtualization(&stage, version).await?;
        assert_eq!(
            left["higherWorkloadDensity"]["memoryOvercommitPercentage"],
            110
        );
        left["higherWorkloadDensity"] = before["higherWorkloadDensity"].clone();
        assert_eq!(left, before, "nothing else is changed");
    }
    Ok(())
}
