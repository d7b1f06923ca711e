//! A cluster without the OpenShift CRDs, which are installed later.

use crate::stage::{OPERATORS, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn openshift_crds_installed_later_are_picked_up() -> anyhow::Result<()> {
    let stage = Stage::bare().await?;
    stage.work().await?;
    // No policy is created where there is no release.
    assert!(
        stage
            .api("ReleasePolicy")
            .get_opt("default")
            .await?
            .is_none()
    );
    stage.policy(serde_json::json!({})).await?;
    stage
        .verdict("Complete", "Unknown KindsNotInstalled")
        .await?;
    assert!(!stage.metrics().contains("medley_release_complete{"));

    stage.install_openshift().await?;
    stage
        .verdict("Complete", "Unknown NoClusterVersion")
        .await?;
    stage.keep("single", 'a', false).await?;
    for name in OPERATORS {
        stage.operator(name, 'a').await?;
    }
    stage.cvo("single", true).await?;
    stage.verdict("Complete", "True Arrived").await?;
    stage.rest().await;
    Ok(())
}
