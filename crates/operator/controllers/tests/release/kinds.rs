//! A cluster that is not OpenShift, and becomes one.

use crate::stage::{OPERATORS, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_picked_up_when_they_come() -> anyhow::Result<()> {
    let stage = Stage::bare().await?;
    stage.work().await?;
    // Nothing is made where there is nothing to judge.
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
