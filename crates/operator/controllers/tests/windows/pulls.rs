//! How nodes handle images for other platforms, with the messages of real ones.

use kube::api::PostParams;
use serde_json::json;

use crate::stage::{Stage, waiting_reason};

/// Binds a pod to a node, bypassing the scheduler.
fn on(node: &str) -> serde_json::Value {
    json!({ "nodeName": node })
}

#[tokio::test(flavor = "multi_thread")]
async fn image_for_another_platform_is_not_pulled() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.run("wrong", "arm64-only", on("amd-1")).await?;
    let message = stage.wait_for_event("wrong", "Failed").await?;
    let why = [
        "failed to pull and unpack image",
        "no match for platform in manifest sha256:",
    ];
    let explained = why.iter().all(|part| message.contains(part));
    assert!(explained || message == "Error: ErrImagePull", "{message}");
    let pod = stage
        .until("wrong", "it is pulled again later", |pod| {
            waiting_reason(pod) == "ImagePullBackOff"
        })
        .await?;
    let message = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    let message = message.as_str().unwrap_or_default();
    assert!(
        message.contains("no match for platform in manifest"),
        "{message}"
    );
    stage.run("right", "arm64-only", on("arm-1")).await?;
    assert_eq!(stage.runs_on("right").await?, "arm-1");
    // An index with several platforms includes the right one.
    for node in ["amd-1", "arm-1"] {
        stage
            .run(&format!("any-{node}"), "everywhere", on(node))
            .await?;
        stage.runs_on(&format!("any-{node}")).await?;
    }
    // Linux on Windows, and vice versa.
    stage.run("linux", "everywhere", on("win2022-1")).await?;
    stage.run("windows", "windows", on("amd-1")).await?;
    for name in ["linux", "windows"] {
        stage
            .until(name, "it is refused", |pod| {
                ["ErrImagePull", "ImagePullBackOff"].contains(&waiting_reason(pod))
            })
            .await?;
    }
    stage.end().await;
    Ok(())
}

/// A runtime compares the entries of an index with its node, but not a single image.
#[tokio::test(flavor = "multi_thread")]
async fn single_image_for_another_platform_is_pulled_and_fails() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.run("wrong", "amd64-only", on("arm-1")).await?;
    let pod = stage
        .until("wrong", "it dies again and again", |pod| {
            waiting_reason(pod) == "CrashLoopBackOff"
        })
        .await?;
    let end = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(end["message"], "exec /app: exec format error");
    stage.run("right", "amd64-only", on("amd-1")).await?;
    stage.runs_on("right").await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_image_fails_and_unknown_platform_runs() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    stage.run("typo", "no-such", on("amd-1")).await?;
    let pod = stage
        .until("typo", "it is refused", |pod| {
            waiting_reason(pod) == "ImagePullBackOff"
        })
        .await?;
    let message = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    let message = message.as_str().unwrap_or_default();
    assert!(message.contains("failed to resolve reference"), "{message}");
    stage
        .make(json!({
            "metadata": { "name": "elsewhere" },
            "spec": {
                "nodeName": "amd-1",
                "containers": [{ "name": "app", "image": "registry.example/app:1" }],
            },
        }))
        .await?;
    stage.runs_on("elsewhere").await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_handler_starts_no_pod() -> anyhow::Result<()> {
    let stage = Stage::mixed().await?;
    let kata = json!({ "metadata": { "name": "kata" }, "handler": "kata-qemu" });
    let kata = serde_json::from_value(kata)?;
    stage
        .classes()
        .create(&PostParams::default(), &kata)
        .await?;
    let mut spec = on("amd-1");
    spec["runtimeClassName"] = json!("kata");
    stage.run("boxed", "everywhere", spec).await?;
    // A kubelet that has not seen the class yet reports that first, and retries.
    stage
        .wait_for_message(
            "boxed",
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \"kata-qemu\" is configured",
        )
        .await?;
    let pod = stage.pods().get("boxed").await?;
    let phase = pod.status.and_then(|status| status.phase);
    assert_eq!(phase.as_deref(), Some("Pending"));
    stage.end().await;
    Ok(())
}
