//! Registries that misbehave, and tenants that try what is not theirs.

use std::time::Duration;

use base64::Engine as _;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::{Asked, HostileServer, Misdeed, PASSWORD, USERNAME};

use crate::images::Images;
use crate::stage::{PATIENCE, Stage, gates, pod, why};

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

fn manifests(server: &HostileServer) -> usize {
    let asked = server.asked();
    let reads = asked.iter().filter(|it| it.path.contains("/manifests/"));
    reads.count()
}

/// A registry that never answers keeps nobody waiting for longer than the policy says, and those who come
/// later not at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_registry_keeps_no_pod_for_long() -> anyhow::Result<()> {
    let dead = HostileServer::start(|_: &Asked| Misdeed::closed()).await?;
    let silent = HostileServer::start(|_: &Asked| Misdeed::silent()).await?;
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
        stage.told(name, "ImageNotInspected").await?;
        stage.lands(name).await?;
    }
    // Whoever knows better than nothing says so.
    let fallback = json!({ "timeouts": { "gateSeconds": 1 }, "fallbackArchitecture": "arm64" });
    stage.policy("default", fallback).await?;
    testkit::wait_until("the fallback counts", PATIENCE, async || {
        let name = format!("fallback-{}", manifests(&dead));
        let image = format!("{}/app:1", dead.host());
        stage.pod(&name, &image, json!({})).await?;
        Ok(stage.lands(&name).await?.starts_with("arm-").then_some(()))
    })
    .await?;
    stage.end().await;
    Ok(())
}

/// Two processes look at images: each is told once, and leaves the registry alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_wants_to_be_left_alone_is() -> anyhow::Result<()> {
    let busy =
        HostileServer::start(|_: &Asked| Misdeed::answer(429, "").with("Retry-After", "3600"))
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
    let told = stage.told("web-0", "ImageNotInspected").await?;
    assert!(told.contains("too many requests"), "{told}");
    // Those that were under way when the first answer came do not count.
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
async fn a_thousand_pods_at_once_ask_a_registry_once() -> anyhow::Result<()> {
    let slow = HostileServer::start(|_: &Asked| {
        Misdeed::slow(index(), 64, Duration::from_millis(100)).with("Content-Type", INDEX)
    })
    .await?;
    let stage = Stage::idle(&[&slow.host()]).await?;
    stage.start_check().await?;
    let image = format!("{}/app:1", slow.host());
    let asks = (0..1000).map(|n| {
        let pod = pod(&format!("web-{n}"), &image, &json!({}));
        let stage = &stage;
        // Some of them in earnest.
        async move { stage.make(&pod, n % 50 != 0).await }
    });
    let answers: Vec<_> = stream::iter(asks).buffer_unordered(256).collect().await;
    for answer in answers {
        let answer = answer?;
        assert_eq!(answer.code, 201, "{}", answer.object);
    }
    assert_eq!(manifests(&slow), 1);
    // Those at the gate ask together, too.
    stage.work().await?;
    for n in (0..1000).step_by(50) {
        assert!(stage.lands(&format!("web-{n}")).await?.starts_with("arm-"));
    }
    assert_eq!(manifests(&slow), 2, "one for each process");
    stage.end().await;
    Ok(())
}

/// What was read with the secret of one tenant is not told to another.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_see_what_is_theirs() -> anyhow::Result<()> {
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
            let told = stage.told(&name, "ImageNotInspected").await?;
            assert!(told.contains("access denied"), "{told}");
            assert!(
                !told.contains(PASSWORD) && !told.contains("guessed"),
                "{told}"
            );
            let affinity = goes.spec.and_then(|spec| spec.affinity);
            assert_eq!(affinity, None, "{name}");
        }
    }
    // The secret of a name in another namespace is another secret.
    let other = stage.cluster.namespace("other").await?;
    stage.account(&other).await?;
    let pods: Api<Pod> = Api::namespaced(stage.client(), &other);
    let theirs: Pod = serde_json::from_value(pod("theirs", &arm, &with("right")))?;
    pods.create(&PostParams::default(), &theirs).await?;
    let goes = testkit::until(&pods, "theirs", "goes", PATIENCE, |pod| {
        gates(pod).is_empty()
    })
    .await?;
    assert!(
        why(&goes).starts_with("ImageNotInspected: "),
        "{}",
        why(&goes)
    );
    // An account may have it for all of its pods.
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

/// Whoever names an image names a registry, which must not lead us where only we can go, nor fill us up.
#[tokio::test(flavor = "multi_thread")]
async fn registries_lead_nowhere_and_have_limits() -> anyhow::Result<()> {
    let leading = HostileServer::start(|_: &Asked| {
        let realm = "Bearer realm=\"http://169.254.169.254/latest\",service=\"x\"";
        Misdeed::answer(401, "").with("Www-Authenticate", realm)
    })
    .await?;
    let endless = HostileServer::start(|_: &Asked| {
        Misdeed::endless(vec![b' '; 1 << 16]).with("Content-Type", INDEX)
    })
    .await?;
    let stage = Stage::new(&[&leading.host(), &endless.host()]).await?;
    for (name, server, said) in [
        ("leading", &leading, "link-local address"),
        ("endless", &endless, "bytes that are accepted"),
    ] {
        let image = format!("{}/app:1", server.host());
        stage.pod(name, &image, json!({})).await?;
        let told = stage.told(name, "ImageNotInspected").await?;
        assert!(told.contains(said), "{told}");
        stage.lands(name).await?;
    }
    stage.end().await;
    Ok(())
}
