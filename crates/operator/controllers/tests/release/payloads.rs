//! Sources of release manifests, and their errors.

use std::net::TcpListener;

use api::openshift::payloads;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use testkit::{Layout, Registry, has};

use crate::stage::{OPERATORS, Stage, condition_text, files, release};

/// Waits until the policy reports this about the payload; returns the whole message.
async fn payload(stage: &Stage, expected: &str) -> anyhow::Result<String> {
    let status = stage.verdict("PayloadReady", expected).await?;
    Ok(condition_text(&json!({ "status": status }), "PayloadReady"))
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_and_broken_payloads_are_reported() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.cvo("other", true).await?;
    stage.work().await?;
    let text = payload(&stage, "False PayloadMissing").await?;
    has(
        &text,
        &[payloads::NAMESPACE, payloads::LABEL, &release("other")],
    );
    stage.verdict("Complete", "Unknown PayloadNotReady").await?;
    stage.wait_for_event("PayloadMissing").await?;
    has(&stage.metrics(), &["medley_release_payload_ready{} 0.0"]);

    let mut broken = files('a', true, &OPERATORS);
    broken.insert("0000_50_x_1.yaml".to_owned(), "kind: 1\n  - x".to_owned());
    broken.remove("image-references");
    stage.keep_files("other", &broken).await?;
    let text = payload(&stage, "False PayloadBroken").await?;
    has(
        &text,
        &[
            "Error loading manifests from ConfigMap openshift-cluster-version/release-other: [",
            "there is no file image-references",
            "parsing 0000_50_x_1.yaml",
        ],
    );

    stage.keep("other", 'a', true).await?;
    payload(&stage, "True PayloadLoaded").await?;
    stage.verdict("Complete", "True Arrived").await?;

    let maps: Api<ConfigMap> = Api::namespaced(stage.client(), payloads::NAMESPACE);
    maps.delete("release-other", &DeleteParams::default())
        .await?;
    payload(&stage, "False PayloadMissing").await?;
    stage.rest().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn payload_sources_of_the_policy_are_used() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.cvo("other", true).await?;
    let all = files('a', true, &OPERATORS);
    let temporary = tempfile::tempdir()?;
    let folder = temporary.path().join("release");
    std::fs::create_dir(&folder)?;
    for (name, text) in &all {
        std::fs::write(folder.join(name), text)?;
    }
    // Below a folder that the administrator allows.
    let accepted = temporary.path().canonicalize()?;
    stage.folders.lock().push(accepted.clone());
    stage
        .policy(json!({ "payload": { "folder": folder } }))
        .await?;
    stage.work().await?;
    payload(&stage, "True PayloadLoaded").await?;

    // A ConfigMap in another namespace, which the administrator grants the operator by a Role there.
    stage.grant_config_map("default", "mine").await?;
    let reference = json!({ "configMap": { "namespace": "default", "name": "mine" } });
    stage.policy(json!({ "payload": reference })).await?;
    let text = payload(&stage, "False PayloadMissing").await?;
    has(
        &text,
        &["ConfigMap default/mine with the manifests of the release not found"],
    );
    let maps: Api<ConfigMap> = Api::namespaced(stage.client(), "default");
    let map = json!({ "metadata": { "name": "mine" }, "data": all });
    maps.create(&PostParams::default(), &serde_json::from_value(map)?)
        .await?;
    payload(&stage, "True PayloadLoaded").await?;

    // An image.
    let root = temporary.path().join("layer");
    std::fs::create_dir(&root)?;
    std::fs::rename(&folder, root.join("release-manifests"))?;
    let root = root.display().to_string();
    let tar = ["-C", &root, "-cf", "-", "release-manifests"];
    let layer = std::process::Command::new("tar").args(tar).output()?;
    let mut layout = Layout::new(&temporary.path().join("layout"))?;
    let image = layout.image("amd64", &[&layer.stdout], &json!({}))?;
    layout.name("release", &image)?;
    stage
        .policy(json!({ "payload": { "folder": accepted.join("nonexistent") } }))
        .await?;
    let text = payload(&stage, "False PayloadUnreadable").await?;
    has(&text, &["nonexistent: No such file"]);
    let registry = Registry::start().await?;
    registry.push(&layout.source("release"), "releases/ocp:1")?;
    stage.allowed.lock().push(registry.host().parse()?);
    stage.work().await?;
    let image = format!("{}/releases/ocp:1", registry.host());
    stage
        .policy(json!({ "payload": { "image": image } }))
        .await?;
    payload(&stage, "True PayloadLoaded").await?;

    // Manifests of another version.
    let other: std::collections::BTreeMap<String, String> = all
        .iter()
        .map(|(name, text)| (name.clone(), text.replace("4.18.0", "4.17.0")))
        .collect();
    let mut map = maps.get("mine").await?;
    map.data = Some(other);
    maps.replace("mine", &PostParams::default(), &map).await?;
    stage.policy(json!({ "payload": reference })).await?;
    let text = payload(&stage, "False PayloadMismatch").await?;
    has(
        &text,
        &["release image version 4.17.0 does not match the expected upstream version 4.18.0"],
    );
    stage.rest().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn config_map_without_a_role_is_reported_with_its_remedy() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.cvo("other", true).await?;
    stage.work().await?;
    // As before, but here a refusal is what is expected.
    stage.work_without_rights().await?;
    let reference = json!({ "configMap": { "namespace": "default", "name": "mine" } });
    stage.policy(json!({ "payload": reference })).await?;
    stage
        .payload_says("the operator may not read ConfigMap default/mine: grant its service account get, list and watch on it by a Role in namespace default")
        .await?;
    stage.rest().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_cannot_read_operator_files_or_addresses() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.cvo("other", true).await?;
    let temporary = tempfile::tempdir()?;
    let (mine, other) = (
        temporary.path().join("mine"),
        temporary.path().join("other"),
    );
    for folder in [&mine, &other] {
        std::fs::create_dir(folder)?;
    }
    for (name, text) in &files('a', true, &OPERATORS) {
        std::fs::write(other.join(name), text)?;
    }
    std::os::unix::fs::symlink(&other, mine.join("link"))?;
    stage.folders.lock().push(mine.clone());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    stage
        .policy(json!({ "payload": { "folder": other } }))
        .await?;
    stage.work().await?;
    for folder in [
        other.clone(),
        mine.join("link"),
        mine.join("../other"),
        mine.join("../nowhere"),
        "/var/run/secrets".into(),
    ] {
        stage
            .policy(json!({ "payload": { "folder": folder } }))
            .await?;
        let expected = format!("spec.payload.folder {} is not allowed", folder.display());
        stage.payload_says(&expected).await?;
    }
    for image in [
        "oci-archive:///etc/shadow".to_owned(),
        format!("oci:{}", other.display()),
    ] {
        stage
            .policy(json!({ "payload": { "image": image } }))
            .await?;
        let expected = format!("{image:?} is not an image reference");
        stage.payload_says(&expected).await?;
    }
    let image = format!("{address}/x:1");
    stage
        .policy(json!({ "payload": { "image": image } }))
        .await?;
    let text = stage.payload_says("is a loopback address").await?;
    has(&text, &[&image, "--allow-address 127.0.0.1:"]);
    stage.rest().await;
    assert!(
        listener.accept().is_err(),
        "the operator connected to {address}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_accepts_one_payload_source() -> anyhow::Result<()> {
    let stage = Stage::bare().await?;
    let both = json!({ "payload": { "folder": "/a", "image": "Desired" } });
    let refused = stage.policy(both).await;
    let text = refused.err().map(|it| it.to_string()).unwrap_or_default();
    has(&text, &["say one of configMap, folder and image"]);
    let status: Value = json!({ "mode": "Both" });
    let refused = stage.policy(status).await;
    has(
        &refused.err().map(|it| it.to_string()).unwrap_or_default(),
        &["spec.mode", "\"Observe\", \"Own\""],
    );
    Ok(())
}
