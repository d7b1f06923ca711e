//! Registries that misbehave, and tenants that try to use resources of others.

use std::time::Duration;

use ::placement::LeaseTiming;
use base64::Engine as _;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::{Asked, FaultyServer, PASSWORD, ScriptedResponse, USERNAME};

use crate::images::Images;
use crate::stage::{Stage, WAIT_TIMEOUT, gates, pod, why};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// An index of one image for arm64.
fn index() -> String {
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": format!("sha256:{}", "a".repeat(64)), "size": 2,
        "platform": { "os": "linux", "architecture": "arm64" },
    }] })
    .to_string()
}

fn manifests(server: &FaultyServer) -> usize {
    let asked = server.asked();
    let reads = asked.iter().filter(|it| it.path.contains("/manifests/"));
    reads.count()
}

/// A registry that never answers delays pods no longer than the gate timeout, and later pods not at all.
#[tokio::test(flavor = "multi_thread")]
async fn dead_registry_delays_pods_by_gate_timeout_only() -> anyhow::Result<()> {
    let dead = FaultyServer::start(|_: &Asked| ScriptedResponse::closed()).await?;
    let silent = FaultyServer::start(|_: &Asked| ScriptedResponse::silent()).await?;
    let stage = Stage::new(&[&dead.host(), &silent.host()]).await?;
    stage
        .policy("default", json!({ "timeouts": { "gateSeconds": 2 } }))
        .await?;
    for (name, server) in [("dead", &dead), ("silent", &silent)] {
        let image = format!("{}/app:1", server.host());
        stage.pod(name, &image, json!({})).await?;
        let goes = stage
            .until(name, "goes", |pod| gates(pod).is_empty())
            .await?;
        assert!(
            why(&goes).starts_with("ImageNotInspected: "),
            "{}",
            why(&goes)
        );
        stage.wait_for_event(name, "ImageNotInspected").await?;
        stage.lands(name).await?;
    }
    // The fallback architecture of the policy applies without inspection.
    let fallback = json!({ "timeouts": { "gateSeconds": 1 }, "fallbackArchitecture": "arm64" });
    stage.policy("default", fallback).await?;
    testkit::wait_until("the fallback counts", WAIT_TIMEOUT, async || {
        let name = format!("fallback-{}", manifests(&dead));
        let image = format!("{}/app:1", dead.host());
        stage.pod(&name, &image, json!({})).await?;
        Ok(stage.lands(&name).await?.starts_with("arm-").then_some(()))
    })
    .await?;
    stage.end().await;
    Ok(())
}

/// Webhook and controller inspect images: each sees the rate limit once, and backs off.
#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_registry_is_not_polled() -> anyhow::Result<()> {
    let busy = FaultyServer::start(|_: &Asked| {
        ScriptedResponse::answer(429, "").with("Retry-After", "3600")
    })
    .await?;
    let stage = Stage::new(&[&busy.host()]).await?;
    stage
        .policy("default", json!({ "timeouts": { "gateSeconds": 3 } }))
        .await?;
    for n in 0..8 {
        let image = format!("{}/app:{n}", busy.host());
        stage.pod(&format!("web-{n}"), &image, json!({})).await?;
    }
    for n in 0..8 {
        stage.lands(&format!("web-{n}")).await?;
    }
    let message = stage.wait_for_event("web-0", "ImageNotInspected").await?;
    assert!(message.contains("too many requests"), "{message}");
    // Requests in flight at the first response do not count.
    assert!(manifests(&busy) <= 2 * 8, "{}", manifests(&busy));
    let before = manifests(&busy);
    stage
        .pod("late", &format!("{}/late:1", busy.host()), json!({}))
        .await?;
    stage.lands("late").await?;
    assert_eq!(manifests(&busy), before);
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_pods_share_one_registry_request() -> anyhow::Result<()> {
    let slow = FaultyServer::start(|_: &Asked| {
        ScriptedResponse::slow(index(), 64, Duration::from_millis(100)).with("Content-Type", INDEX)
    })
    .await?;
    // A controller that was stopped, whose Lease outlasts the test: pods are gated, and nothing releases them yet.
    let lease = LeaseTiming {
        duration: Duration::from_mins(10),
        renew: Duration::from_millis(200),
    };
    let stage = Stage::idle_with(&[&slow.host()], lease).await?;
    stage.work().await?;
    stage.start_webhook().await?;
    stage.rest().await;
    let image = format!("{}/app:1", slow.host());
    let asks = (0..1000).map(|n| {
        let pod = pod(&format!("web-{n}"), &image, &json!({}));
        let stage = &stage;
        // Some of them are not dry runs.
        async move { stage.make(&pod, n % 50 != 0).await }
    });
    let answers: Vec<_> = stream::iter(asks).buffer_unordered(256).collect().await;
    for answer in answers {
        let answer = answer?;
        assert_eq!(answer.code, 201, "{}", answer.object);
    }
    assert_eq!(manifests(&slow), 1);
    // Gated pods share one request, too.
    stage.work().await?;
    for n in (0..1000).step_by(50) {
        assert!(stage.lands(&format!("web-{n}")).await?.starts_with("arm-"));
    }
    assert_eq!(manifests(&slow), 2, "one for each process");
    stage.end().await;
    Ok(())
}

/// Results obtained with the secret of one tenant are not used for another.
#[tokio::test(flavor = "multi_thread")]
async fn inspection_results_are_not_shared_between_tenants() -> anyhow::Result<()> {
    let images = Images::private().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    let secret = |name: &str, password: &str| {
        let auth =
            base64::engine::general_purpose::STANDARD.encode(format!("{USERNAME}:{password}"));
        let auths = json!({ "auths": { images.registry.host(): { "auth": auth } } });
        json!({
            "metadata": { "name": name }, "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": auths.to_string() },
        })
    };
    stage.create::<Secret>(secret("right", PASSWORD)).await?;
    stage.create::<Secret>(secret("wrong", "guessed")).await?;
    let with = |secret: &str| json!({ "imagePullSecrets": [{ "name": secret }] });
    let arm = images.name("arm");
    for round in ["first", "second"] {
        let name = format!("right-{round}");
        stage.pod(&name, &arm, with("right")).await?;
        assert!(stage.lands(&name).await?.starts_with("arm-"));
        for (who, more) in [("nobody", json!({})), ("wrong", with("wrong"))] {
            let name = format!("{who}-{round}");
            stage.pod(&name, &arm, more).await?;
            let goes = stage
                .until(&name, "goes", |pod| gates(pod).is_empty())
                .await?;
            assert!(
                why(&goes).starts_with("ImageNotInspected: "),
                "{}",
                why(&goes)
            );
            let message = stage.wait_for_event(&name, "ImageNotInspected").await?;
            assert!(message.contains("access denied"), "{message}");
            assert!(
                !message.contains(PASSWORD) && !message.contains("guessed"),
                "{message}"
            );
            let affinity = goes.spec.and_then(|spec| spec.affinity);
            assert_eq!(affinity, None, "{name}");
        }
    }
    // A secret of the same name in another namespace is another secret.
    let other = stage.cluster.namespace("other").await?;
    stage.account(&other).await?;
    let pods: Api<Pod> = Api::namespaced(stage.client(), &other);
    let theirs: Pod = serde_json::from_value(pod("theirs", &arm, &with("right")))?;
    pods.create(&PostParams::default(), &theirs).await?;
    let goes = testkit::until(&pods, "theirs", "goes", WAIT_TIMEOUT, |pod| {
        gates(pod).is_empty()
    })
    .await?;
    assert!(
        why(&goes).starts_with("ImageNotInspected: "),
        "{}",
        why(&goes)
    );
    // A service account can provide it for all of its pods.
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = stage.all();
    let account: Value =
        json!({ "metadata": { "name": "puller" }, "imagePullSecrets": [{ "name": "right" }] });
    accounts
        .create(&PostParams::default(), &serde_json::from_value(account)?)
        .await?;
    stage
        .pod(
            "by-account",
            &arm,
            json!({ "serviceAccountName": "puller" }),
        )
        .await?;
    assert!(stage.lands("by-account").await?.starts_with("arm-"));
    stage.end().await;
    Ok(())
}

/// An image names a registry: it must not lead the operator to internal addresses, nor exhaust its memory.
#[tokio::test(flavor = "multi_thread")]
async fn registry_redirects_and_sizes_are_limited() -> anyhow::Result<()> {
    let leading = FaultyServer::start(|_: &Asked| {
        let realm = "Bearer realm=\"http://169.254.169.254/latest\",service=\"x\"";
        ScriptedResponse::answer(401, "").with("Www-Authenticate", realm)
    })
    .await?;
    let endless = FaultyServer::start(|_: &Asked| {
        ScriptedResponse::endless(vec![b' '; 1 << 16]).with("Content-Type", INDEX)
    })
    .await?;
    let stage = Stage::new(&[&leading.host(), &endless.host()]).await?;
    for (name, server, expected) in [
        ("leading", &leading, "link-local address"),
        ("endless", &endless, "bytes that are accepted"),
    ] {
        let image = format!("{}/app:1", server.host());
        stage.pod(name, &image, json!({})).await?;
        let message = stage.wait_for_event(name, "ImageNotInspected").await?;
        assert!(message.contains(expected), "{message}");
        stage.lands(name).await?;
    }
    stage.end().await;
    Ok(())
}
